"""The ordinary stages on models of the published shapes and file formats, random weights, on this machine's CPU.

    python bench/true_shapes.py WORK [--weights bfloat16|float16] [--stop-after STAGE] [--out FILE]

``WORK`` takes 40 GB: RAD-DINO (Dinov2 base, 518 pixels), CXR-BERT (its remote-code names), Vicuna-7B (two ``.bin``
shards and ``tokenizer.model``) and CheXbert's pickle, then a small generated corpus and what the stages of ``dvc.yaml``
make of it: two updates a phase, two decoded records. A second call goes on after the last stage that ended. The table
gives seconds and the peak resident memory of the largest process of each stage, pages of mapped files included.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import polars as pl
import sentencepiece
import torch
from measuring import hardware, table
from ruamel.yaml import YAML
from sentencepiece import sentencepiece_model_pb2
from transformers import (
    BertConfig,
    BertForMaskedLM,
    BertModel,
    BitImageProcessor,
    Dinov2Config,
    Dinov2Model,
    LlamaConfig,
    LlamaForCausalLM,
)

from pacer.metrics.chexbert.network import CheXbertNetwork
from pacer.metrics.chexbert.observations import CHECKPOINT

ROOT = Path(__file__).resolve().parents[1]
#: Bar of the resident memory, in gigabytes.
LIMIT = 22.0
DONE = "stages.json"


@dataclass(frozen=True)
class Shapes:
    """Sizes of the four models; the defaults are the published ones."""

    vision: Mapping[str, Any]
    text: Mapping[str, Any]
    language: Mapping[str, Any]
    queries: int = 128


PUBLISHED = Shapes(
    vision={"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "image_size": 518},
    text={"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "vocab_size": 30522},
    language={
        "hidden_size": 4096,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "intermediate_size": 11008,
        "vocab_size": 32000,
        "max_position_embeddings": 4096,
    },
)


def make_weights(shapes: Shapes, texts: list[str], dtype: torch.dtype, out: Path) -> None:
    """The four model directories as their authors released them; a model that is whole is not made again."""
    for name, make in (("rad-dino", _vision), ("cxr-bert", _text), ("chexbert", _chexbert), ("vicuna", _language)):
        if not (out / name).exists():
            print(f"making {name}", flush=True)
            temporary = out / f"{name}.partial"
            shutil.rmtree(temporary, ignore_errors=True)
            temporary.mkdir(parents=True)
            torch.manual_seed(0)
            make(shapes, texts, dtype, temporary)
            temporary.rename(out / name)


def _vision(shapes: Shapes, texts: list[str], dtype: torch.dtype, out: Path) -> None:
    config = Dinov2Config(patch_size=14, **shapes.vision)
    Dinov2Model(config).save_pretrained(out)
    size = shapes.vision["image_size"]
    BitImageProcessor(
        size={"shortest_edge": size},
        crop_size={"height": size, "width": size},
        image_mean=[0.5307] * 3,
        image_std=[0.2583] * 3,
    ).save_pretrained(out)


def _bert(shapes: Shapes, texts: list[str], out: Path) -> BertConfig:
    """Write a vocabulary of whole words, and unused pieces up to the published size."""
    words = sorted({word for text in texts for word in text.lower().split()})
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words]
    size = shapes.text["vocab_size"]
    pieces = pieces[:size] + [f"[unused{index}]" for index in range(size - len(pieces))]
    (out / "vocab.txt").write_text("\n".join(pieces) + "\n", encoding="utf-8")
    width = shapes.text["hidden_size"]
    return BertConfig(intermediate_size=4 * width, **shapes.text)


def _text(shapes: Shapes, texts: list[str], dtype: torch.dtype, out: Path) -> None:
    model = BertForMaskedLM(_bert(shapes, texts, out))
    torch.save(model.state_dict(), out / "pytorch_model.bin")
    remote = {
        "model_type": "cxr-bert",
        "architectures": ["CXRBertModel"],
        "auto_map": {
            "AutoConfig": "configuration_cxrbert.CXRBertConfig",
            "AutoModel": "modeling_cxrbert.CXRBertModel",
            "AutoTokenizer": ["configuration_cxrbert.CXRBertTokenizer", None],
        },
        "projection_size": 128,
    }
    _write(out / "config.json", model.config.to_dict() | remote)
    _write(out / "tokenizer_config.json", {"tokenizer_class": "CXRBertTokenizer", "do_lower_case": True})


def _chexbert(shapes: Shapes, texts: list[str], dtype: torch.dtype, out: Path) -> None:
    config = _bert(shapes, texts, out)
    network = CheXbertNetwork(BertModel(config))
    state = {f"module.{name}": value for name, value in network.state_dict().items()}
    torch.save({"epoch": 0, "model_state_dict": state}, out / CHECKPOINT)
    config.save_pretrained(out)


def _language(shapes: Shapes, texts: list[str], dtype: torch.dtype, out: Path) -> None:
    _sentencepiece(texts, shapes.language["vocab_size"], out)
    config = LlamaConfig(**shapes.language, architectures=["LlamaForCausalLM"], dtype=dtype, tie_word_embeddings=False)
    config.save_pretrained(out)
    with torch.device("meta"):
        tensors = LlamaForCausalLM(config).state_dict()
    names, half = list(tensors), len(tensors) // 2
    index = {}
    for number, part in enumerate((names[:half], names[half:]), start=1):
        file = f"pytorch_model-0000{number}-of-00002.bin"
        torch.save({name: _random(name, tensors[name].shape, dtype) for name in part}, out / file)
        index |= dict.fromkeys(part, file)
    _write(out / "pytorch_model.bin.index.json", {"metadata": {}, "weight_map": index})


def _random(name: str, shape: torch.Size, dtype: torch.dtype) -> torch.Tensor:
    return (
        torch.ones(shape, dtype=dtype)
        if name.endswith("norm.weight")
        else torch.empty(shape, dtype=dtype).normal_(0, 0.02)
    )


def _sentencepiece(texts: list[str], vocabulary: int, out: Path) -> None:
    """``tokenizer.model`` as Llama has it: byte fallback, blanks kept; pieces that no text reaches up to the size."""
    model = out / "tokenizer.model"
    with open(model, "wb") as file:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(texts),
            model_writer=file,
            vocab_size=min(vocabulary, 1000),
            model_type="bpe",
            byte_fallback=True,
            character_coverage=1.0,
            normalization_rule_name="identity",
            remove_extra_whitespaces=False,
            minloglevel=2,
        )
    content = sentencepiece_model_pb2.ModelProto()
    content.ParseFromString(model.read_bytes())
    for number in range(len(content.pieces), vocabulary):
        content.pieces.add(piece=f"▁unused▁{number}", score=-float(number), type=1)
    model.write_bytes(content.SerializeToString())
    _write(
        out / "tokenizer_config.json",
        {
            "tokenizer_class": "LlamaTokenizer",
            "add_bos_token": True,
            "add_eos_token": False,
            "bos_token": "<s>",
            "eos_token": "</s>",
            "unk_token": "<unk>",
            "legacy": True,
        },
    )


def _write(path: Path, content: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def parameters(work: Path, shapes: Shapes) -> dict[str, Any]:
    """The paper's profile on a small generated corpus and the models in ``work``."""
    params = YAML(typ="safe").load(ROOT / "configs" / "mimic_rg4.yaml")
    params["corpus"] |= {"source": "phantom", "format": "rg4", "root": None, "images": ".", "contexts": ["sn", "mw"]}
    params["corpus"]["annotations"] = dict.fromkeys(("sn", "sw", "mn", "mw"))
    params["corpus"]["phantom"] |= {"patients": 12, "val_fraction": 0.1, "test_fraction": 0.2}
    params["corpus"]["phantom"]["image_size"] = shapes.vision["image_size"]
    for role, name in (("vision", "rad-dino"), ("language", "vicuna"), ("text", "cxr-bert"), ("chexbert", "chexbert")):
        params["backbones"][role] = {"provider": "local", "path": str(work / "weights" / name)}
    params["features"] |= {"batch_size": 4, "shard_size": 16, "workers": 1}
    params["anchors"]["sample_per_context"] = 2
    params["anchors"]["llm"] |= {"provider": "none"}
    params["interface"]["num_queries"] = shapes.queries
    params["train"] |= {"precision": "bfloat16", "workers": 0, "log_interval": 1, "validation_records": 1}
    for phase in ("warmup", "parent", "calibrate"):
        params[phase] |= {"batch_size": 1, "accumulation": 1, "updates": 2, "warmup_updates": 1}
    params["parent"]["rho_updates"] = 1
    params["decode"] |= {"limit": 1, "batch_size": 2, "examples": 0, "routing_studies": 0, "controls": []}
    return params


def stages() -> Iterator[tuple[str, str]]:
    """Name and command of each stage up to the scores, in order."""
    for name, stage in YAML(typ="safe").load(ROOT / "dvc.yaml")["stages"].items():
        if name != "report":
            yield name, stage["cmd"]


def run(command: str, work: Path) -> tuple[float, float]:
    """Seconds and peak resident gigabytes of the largest process that the command starts.

    Raises:
        SystemExit: the command failed.
    """
    started = time.perf_counter()
    process = subprocess.Popen(command.split(), cwd=work)
    _, status, usage = os.wait4(process.pid, 0)  # Popen's own wait() leaves out what the process used
    process.returncode = os.waitstatus_to_exitcode(status)
    if status:
        sys.exit(f"{command} failed; mend it and call again")
    return time.perf_counter() - started, usage.ru_maxrss * 1024 / 1e9


def measure(work: Path, shapes: Shapes, dtype: torch.dtype) -> dict[str, list[float]]:
    """Every stage that has not ended before: name -> seconds, gigabytes."""
    work.mkdir(parents=True, exist_ok=True)
    if not (work / "stages").exists():
        (work / "stages").symlink_to(ROOT / "stages")
    YAML().dump(parameters(work, shapes), work / "params.yaml")
    record = work / DONE
    done = json.loads(record.read_text(encoding="utf-8")) if record.exists() else {}
    for name, command in stages():
        if name == "backbones":
            texts = pl.read_parquet(work / "data" / "corpus" / "records.parquet")["report"].to_list()
            # in a process of its own: what a process once held counts in the peak of those that it starts
            maker = get_context("spawn").Process(target=make_weights, args=(shapes, texts, dtype, work / "weights"))
            maker.start()
            maker.join()
            if maker.exitcode:
                sys.exit("the models could not be made")
        if name not in done:
            print(f"== {name}: {command}", flush=True)
            done[name] = run(command, work)
            _write(record, done)
    return done


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path, help="folder for weights and outputs, on a disk with 40 GB")
    parser.add_argument("--weights", choices=("bfloat16", "float16"), default="bfloat16", help="type in Vicuna's files")
    parser.add_argument("--out", type=Path, help="Markdown file for the table")
    arguments = parser.parse_args()
    done = measure(arguments.work.resolve(), PUBLISHED, getattr(torch, arguments.weights))
    rows = [[name, f"{seconds:,.0f}", f"{peak:.1f}"] for name, (seconds, peak) in done.items()]
    lines = [
        "# The stages at the published shapes",
        "",
        f"{date.today()}, {hardware(torch.device('cpu'))}, torch {torch.__version__}. "
        f"Vicuna's files hold {arguments.weights}. `python bench/true_shapes.py WORK --weights {arguments.weights}`",
        "",
        *table(["Stage", "seconds", "peak GB"], rows),
    ]
    highest = max(peak for _, peak in done.values())
    lines.append(f"Highest peak {highest:.1f} GB (bar: {LIMIT:g} GB): {'met' if highest <= LIMIT else '**missed**'}.")
    text = "\n".join(lines) + "\n"
    print(text)
    if arguments.out:
        arguments.out.write_text(text, encoding="utf-8")
    sys.exit(highest > LIMIT)


if __name__ == "__main__":
    main()
