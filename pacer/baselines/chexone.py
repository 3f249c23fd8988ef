"""CheXOne on the records of a corpus: an image-text model of Hugging Face's Qwen2.5-VL architecture, as published.

The paper's protocol (appendix "Additional Conventional-SN Baselines"): released weights, the prompt below, one beam, at
most 1,024 new tokens. What it writes is kept as it is; the findings are taken from the last ``\\boxed{}`` in scoring.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import polars as pl
import torch
from transformers import AutoModelForImageTextToText, AutoTokenizer, Qwen2VLImageProcessorPil

from pacer.core.errors import BackboneError, ConfigError, DataError
from pacer.core.io import hash_json, publish, read_json, scratch_directory, write_json, write_jsonl
from pacer.core.journal import Journal, read_journal
from pacer.core.progress import Ticker
from pacer.pretrained.pointers import fingerprint, from_files, load_frozen, resolve
from pacer.radiographs.opening import open_image

#: With the double braces of the paper and of the released model's own instructions.
PROMPT = (
    "Write an example findings section for the CXR. Please reason step by step, and put your final answer within "
    r"\boxed{{}}."
)
GENERATED, MANIFEST = "generated.jsonl", "manifest.json"
#: What a folder of its answers consists of.
OUTPUTS = (GENERATED, MANIFEST)
ARCHITECTURE = "qwen2_5_vl"


@dataclass(frozen=True)
class CheXOneSettings:
    """``max_pixels`` of an image after resizing (the model's authors advise 512 x 512; the paper does not say)."""

    prompt: str = PROMPT
    max_new_tokens: int = 1024
    max_pixels: int = 512 * 512
    batch_size: int = 4


class CheXOne:
    """The model with its tokenizer and image preparation.

    Args:
        directory: weights in Hugging Face format, or a pointer to them.

    Raises:
        BackboneError: it is another architecture.
    """

    def __init__(self, directory: Path, settings: CheXOneSettings, device: torch.device):
        target = resolve(directory)
        found = read_json(target / "config.json").get("model_type")
        if found != ARCHITECTURE:
            raise BackboneError(f"{directory} is a model of type {found}; CheXOne is of type {ARCHITECTURE}")
        self.settings, self.device = settings, device
        half = device.type == "cuda" and torch.cuda.is_bf16_supported()
        self.model: Any = load_frozen(
            AutoModelForImageTextToText, target, dtype=torch.bfloat16 if half else torch.float32
        )
        self.model.to(device).eval()
        generation = self.model.generation_config  # greedy: what belongs to sampling has no meaning
        generation.do_sample, generation.temperature, generation.top_p, generation.top_k = False, None, None, None
        self.tokenizer: Any = from_files(AutoTokenizer, target, padding_side="left")
        self.images: Any = from_files(Qwen2VLImageProcessorPil, target)
        self.images.size = {**dict(self.images.size), "longest_edge": settings.max_pixels}

    def inputs(self, paths: Sequence[Path]) -> dict[str, torch.Tensor]:
        """What the model is given for these images: the chat with the prompt, padded on the left, and the patches."""
        chat = [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": self.settings.prompt}]}]
        text = self.tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
        prepared = self.images(images=[open_image(path).convert("RGB") for path in paths], return_tensors="pt")
        mark = self.tokenizer.convert_ids_to_tokens(self.model.config.image_token_id)
        if text.count(mark) != 1:
            raise BackboneError(f"the model's chat template has {text.count(mark)} places for one image, expected 1")
        merged = prepared["image_grid_thw"].prod(1) // self.images.merge_size**2
        texts = [text.replace(mark, mark * int(count)) for count in merged]
        tokens = self.tokenizer(texts, add_special_tokens=False, padding=True, return_tensors="pt")
        return {
            "input_ids": tokens["input_ids"],
            "attention_mask": tokens["attention_mask"],
            **prepared,
            # positions in the image are two-dimensional; without this they would count on like text
            "mm_token_type_ids": (tokens["input_ids"] == self.model.config.image_token_id).int(),
        }

    @torch.no_grad()
    def __call__(self, paths: Sequence[Path]) -> Iterator[tuple[str, int, bool]]:
        """For each image the text, its number of tokens, and whether it came to its end."""
        given = {name: tensor.to(self.device) for name, tensor in self.inputs(paths).items()}
        ends = self.model.generation_config.eos_token_id
        ends = {ends} if isinstance(ends, int) else set(ends or [self.tokenizer.eos_token_id])
        found = self.model.generate(
            **given,
            num_beams=1,
            max_new_tokens=self.settings.max_new_tokens,
            eos_token_id=sorted(ends),
            pad_token_id=self.tokenizer.pad_token_id,
        )
        for row in found[:, given["input_ids"].shape[1] :].tolist():
            stop = next((place for place, token in enumerate(row) if token in ends), None)
            own = row if stop is None else row[: stop + 1]
            yield str(self.tokenizer.decode(own, skip_special_tokens=True)), len(own), stop is not None


def run_chexone(
    records: pl.DataFrame,
    images: pl.DataFrame,
    model: Path,
    out: Path,
    settings: CheXOneSettings = CheXOneSettings(),
    *,
    split: str = "test",
    context: str = "sn",
    limit: int | None = None,
) -> dict[str, Any]:
    """Answers to the frontal images of a split's records of one context, as ``out/generated.jsonl`` (record_id,
    generated, tokens, ended) beside ``manifest.json``, which is returned. A stopped run continues.

    Args:
        records, images: as of ``records.parquet`` and ``images.parquet``.

    Raises:
        DataError: there is no such record, or an image is not in ``images`` or cannot be read.
    """
    if settings.max_new_tokens < 1 or settings.batch_size < 1:
        raise ConfigError("max_new_tokens and batch_size must be at least 1")
    cases = records.filter((pl.col("split") == split) & (pl.col("context") == context))
    cases = cases if limit is None else cases.head(limit)
    if cases.is_empty():
        raise DataError(f"no record of context {context} is in split {split}")
    paths = dict(images.select("image_id", "path").iter_rows())
    unknown = cases.filter(~pl.col("frontal").is_in(list(paths)))
    if len(unknown):
        raise DataError(f"record {unknown['record_id'][0]}: its frontal image is not in the table of images")
    todo = [(record, Path(paths[image])) for record, image in cases.select("record_id", "frontal").iter_rows()]
    manifest = {"model": fingerprint(model), "settings": asdict(settings), "beams": 1}
    manifest |= {"split": split, "context": context, "records": len(todo)}
    sizes = images.filter(pl.col("image_id").is_in(cases["frontal"].to_list())).select("image_id", "bytes").to_dicts()
    with scratch_directory(out, hash_json([manifest, cases["record_id"].to_list(), sizes])) as directory:
        final, part = directory / "out", directory / "part.jsonl"
        answers = {line["record_id"]: line for _, line in read_journal(part)}
        left = [item for item in todo if item[0] not in answers]
        chexone = CheXOne(model, settings, torch.device("cuda" if torch.cuda.is_available() else "cpu"))
        with Ticker("chexone", len(todo), done=len(answers)) as ticker, Journal(part) as journal:
            for first in range(0, len(left), settings.batch_size):
                batch = left[first : first + settings.batch_size]
                results = chexone([path for _, path in batch])
                for (record, _), (text, tokens, ended) in zip(batch, results, strict=True):
                    answers[record] = {"record_id": record, "generated": text, "tokens": tokens, "ended": ended}
                    journal.append(answers[record], durable=True)
                    ticker.advance()
        write_jsonl(final / GENERATED, [answers[record] for record, _ in todo])
        manifest["not_ended"] = sum(not answer["ended"] for answer in answers.values())
        write_json(final / MANIFEST, manifest)
        publish(final, out)
    return manifest
