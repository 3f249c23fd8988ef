"""Making the stand-ins that come with the package: half-precision weights in ``bundled/``, and
their card.

They replace the models that real corpora need downloaded;
:func:`~pacer.backbones.make_backbones.unpack` reads them.
"""

import shutil
from functools import partial
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import polars as pl
import torch
from safetensors.torch import load_file, save_file
from torch.nn.utils.rnn import pad_sequence
from transformers import AutoModelForCausalLM

from pacer.backbones.make_backbones import WEIGHTS
from pacer.backbones.observations import CHECKPOINT
from pacer.backbones.pointers import PROVENANCE, provenance
from pacer.backbones.tokenizer import read_tokenizer
from pacer.config import Backbone
from pacer.config.backbones import CARD, ROLES
from pacer.config.params import load_profile
from pacer.core.anchor import CLOSE_REPORT, OPEN_REPORT
from pacer.core.errors import run_cleanly
from pacer.core.instruction import instruction
from pacer.core.io import hash_file, write_json
from pacer.standins.data import Instruct, PhantomData
from pacer.standins.language import BOS, EOS, encode, prefix_slots
from pacer.standins.make import make_standins
from pacer.text.rules import extract_anchor

#: The world of the lists that the language model must follow, which no training uses, their number,
#: and the tokens written for each.
_LISTS_WORLD, _LISTS, _MOST_WRITTEN = 2_000_003, 300, 200


def main() -> None:
    """Train the models of the default profile again, replacing those in the package (``make
    stand-ins``). ``git diff`` of the card shows how their quality and first losses differ."""
    params = load_profile("configs/phantom.yaml")
    config = params.backbones.model_copy(
        update={role: Backbone(provider="standin") for role in ROLES}
    )
    instruct = partial(instruction, unknown_view=params.prompt.unknown_view)
    models = {}
    with TemporaryDirectory() as scratch:
        make_standins(config, pl.DataFrame(), pl.DataFrame(), instruct, Path(scratch))
        for role in ROLES:
            out = CARD.parent / role
            shutil.rmtree(out, ignore_errors=True)
            _halve(Path(scratch, role), out)
            training = provenance(Path(scratch, role))
            if role == "language":
                training["held_out_contradictions"] = contradictions(
                    Path(scratch, role), config.language_standin.slots, instruct
                )
            files = {file.name: hash_file(file) for file in sorted(out.iterdir())}
            data = training.pop("data")
            models[role] = {"training": training, "files": files}
            del training["provider"], training["seed"]
    settings = {"seed": config.seed, "train_on": config.train_on}
    settings |= {
        f"{role}_standin": getattr(config, f"{role}_standin").model_dump() for role in ROLES
    }
    write_json(CARD, {"data": data, "settings": settings, "models": models})


@torch.inference_mode()
def contradictions(folder: Path, slots: int, instruct: Instruct) -> dict[str, float]:
    """Return the share of greedily written reports that contradict the given commitment, by what
    the prefix holds: the sentences that state its findings (``agreeing``), noise (``uninformed``),
    or another report's (``contrary``).

    Args:
        folder: a language stand-in. slots, instruct: as in its training.
    """
    model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    tokenizer = read_tokenizer(folder).backend_tokenizer
    texts = PhantomData(_LISTS_WORLD).texts(_LISTS)
    own = [encode(tokenizer, text, instruct) for text in texts]
    heard = {
        "agreeing": [one.stated for one in own],
        "uninformed": [[] for _ in own],
        "contrary": [one.stated for one in own[1:] + own[:1]],
    }
    embedding, shares = model.get_input_embeddings(), {}
    for name, of_case in heard.items():
        inputs, rng = [], np.random.default_rng(0)
        for one, sentences in zip(own, of_case, strict=True):
            before = embedding(torch.tensor([BOS, *one.before]))
            slotted = prefix_slots(embedding.weight, sentences, slots, rng)
            after = [*one.after[True], BOS, *one.target[True][: one.commitment]]
            inputs.append(torch.cat([before, slotted, embedding(torch.tensor(after))]))
        mask = pad_sequence([torch.ones(len(one)) for one in inputs], True, 0.0, "left")
        padded = pad_sequence(inputs, True, 0.0, "left")
        limits = {"max_new_tokens": _MOST_WRITTEN, "pad_token_id": EOS, "eos_token_id": EOS}
        written = model.generate(
            inputs_embeds=padded, attention_mask=mask.long(), do_sample=False, **limits
        )
        wrong = []
        for text, tokens in zip(texts, written.tolist(), strict=True):
            report = tokenizer.decode(tokens).rpartition(OPEN_REPORT)[2].partition(CLOSE_REPORT)[0]
            wrong.append(bool(text.anchor.contradicted(extract_anchor(report))))
        shares[name] = round(fmean(wrong), 4)
    return shares


def _halve(folder: Path, out: Path) -> None:
    """Copy a trained model, converting its weights to half precision."""
    shutil.copytree(folder, out, ignore=shutil.ignore_patterns(PROVENANCE, WEIGHTS, CHECKPOINT))
    if (folder / CHECKPOINT).exists():
        weights = torch.load(folder / CHECKPOINT, weights_only=True)["model_state_dict"]
    else:
        weights = load_file(folder / WEIGHTS)
    halved = {
        name: (w.half() if w.is_floating_point() else w).contiguous() for name, w in weights.items()
    }
    save_file(halved, out / WEIGHTS, metadata={"format": "pt"})
    (out / WEIGHTS).chmod(0o644)  # safetensors creates files that only the owner can read


if __name__ == "__main__":
    run_cleanly(main)
