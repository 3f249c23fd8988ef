"""A rival for Calibrate that needs no training: no comparison with a previous report where none is
given.

    pacer use phantom; pacer study run adaptation python bench/suppress.py WORK        the scores go
    to data/external/suppressed, a row of the study

In contexts without a previous report the frozen parent of "mw, frozen" decodes with the comparison
phrases of the rules (`pacer/data/wording.yaml`) as forbidden continuations, as they occur in the
train reports (compare SDLS, arXiv:2602.23676). The other contexts are those of the parent. Printed
for each seed, beside the frozen parent and Calibrate: the share of reports that refer to a previous
examination without one, F1 and BLEU-4; and Calibrate − ban, with 95 % intervals over patients.
"""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import polars as pl
from measuring import options_of, table
from openi import restored
from transformers import GenerationConfig, PreTrainedTokenizerBase

from pacer.config import load_params
from pacer.core.contexts import CONTEXTS, availability
from pacer.core.io import write_json
from pacer.data.schemas import of_split, read_records
from pacer.data.wording import find_wording
from pacer.decoding import generate
from pacer.decoding.beam import Generate
from pacer.decoding.run import decode_records, trained_generator
from pacer.metrics.cases import MEAN
from pacer.metrics.score import score_decoded
from pacer.metrics.signature import ScoreInputs
from pacer.metrics.statistics.comparison import compare_repeats
from pacer.model.assemble import load_tokenizer

STUDY, FROZEN, CALIBRATED = "adaptation", "mw, frozen", "mw, g(h,z,e)"
ROWS = {FROZEN: "frozen", CALIBRATED: "calibrated"}
OUT = Path("data/external/suppressed")
#: What a run of the study leaves that decoding and scoring need.
NEEDED = ("data/corpus", "data/features", "data/anchors", "data/labels", "models", "predictions")
SCORES = ("unfounded_prior_wording_rate", "f1", "bleu4")


def forbidden(records: pl.DataFrame, tokenizer: PreTrainedTokenizerBase) -> list[list[int]]:
    """Return the tokens of every comparison phrase in the train reports, at the start of a text and
    within it."""
    reports = of_split(records, "train")["report"]
    phrases = {report[start:end] for report in reports for start, end, _ in find_wording(report)}
    within = [
        tokenizer(f"a {phrase}", add_special_tokens=False)["input_ids"]
        for phrase in sorted(phrases)
    ]
    start = len(tokenizer("a", add_special_tokens=False)["input_ids"])
    return [ids[start:] for ids in within]


def suppressed(folder: Path) -> Path:
    """Decode the test records without a previous report under the ban, and return the folder of all
    predictions."""
    out = folder / "suppressed"
    if out.exists():
        return out
    records = read_records(folder / "data/corpus/records.parquet")
    banned = forbidden(records, load_tokenizer(folder / "models/backbones"))

    class Suppressing(Generate):
        """``generate`` that writes no banned sequence of tokens."""

        def __init__(self, *arguments):
            super().__init__(*arguments)
            self.language.generation_config = GenerationConfig(bad_words_ids=banned)

    without = [context for context in CONTEXTS if not availability(context)[1]]
    settings = {"engine": "generate", "controls": [], "examples": 0, "limit": None}
    decode = load_params(Path("params.yaml")).decode.model_copy(update=settings)
    parent, backbones = folder / "models/parent", folder / "models/backbones"
    engines: dict[str, Any] = generate.ENGINES
    engines["generate"] = Suppressing
    part = records.filter(pl.col("context").is_in(without))
    decode_records(
        parent,
        backbones,
        part,
        folder / "data/features",
        decode,
        folder / "decoding",
        trained_generator,
    )
    for context in CONTEXTS:
        source = folder / ("decoding" if context in without else "predictions") / f"{context}.jsonl"
        (folder / "decoding" / f"{context}.jsonl").write_bytes(source.read_bytes())
    return (folder / "decoding").rename(out)


def scored(folder: Path, predictions: Path, out: Path) -> dict[str, dict[str, float | None]]:
    """Score predictions of a run, and return :data:`SCORES` by context."""
    data = folder / "data"
    labels, anchors = data / "labels/references.parquet", data / "anchors/anchors.parquet"
    inputs = ScoreInputs(folder / "models/backbones/chexbert", labels, anchors, None)
    settings = load_params(Path("params.yaml")).score
    scores = score_decoded(
        data / "corpus/records.parquet", predictions, out, inputs, settings
    ).scores
    return {
        context: {key: scores[context].get(key) for key in SCORES} for context in (*CONTEXTS, MEAN)
    }


def main() -> None:
    found: dict[str, dict] = {}
    sides: dict[str, dict[str, Path]] = {FROZEN: {}, CALIBRATED: {}}
    for row, replicate, folder in restored(
        STUDY, ROWS, NEEDED, options_of(__doc__, ("work", {"type": Path})).work
    ):
        found[f"{row}, seed {replicate}"] = scored(
            folder, folder / "predictions", folder / "scores"
        )
        sides[row][replicate] = folder / "scores" if row == CALIBRATED else OUT / replicate
        if row == FROZEN:
            found[f"mw, suppressed, seed {replicate}"] = scored(
                folder, suppressed(folder), OUT / replicate
            )
    if not found:
        raise SystemExit(f"the study {STUDY} has no finished run; `pacer study run {STUDY}` first")
    banned, calibrated = (sides[row] for row in ROWS)
    pairs = [(banned[seed], calibrated[seed]) for seed in sorted(banned) if seed in calibrated]
    tested = compare_repeats(pairs) if pairs else {}
    gains = {key: asdict(tested[key]) for key in SCORES if key in tested}
    write_json(Path("bench/results/suppress.json"), found | {"calibrated - suppressed": gains})
    for key, one in gains.items():
        print(
            f"{key}: {one['difference']:+.3f} ({one['low']:+.3f} to {one['high']:+.3f}), p "
            f"{one['p']:.4f}"
        )
    shown = [(context, key) for context in ("sn", "mn", MEAN) for key in SCORES]
    cells = [
        [
            name,
            *(
                "–" if (score := of[context][key]) is None else f"{score:.3f}"
                for context, key in shown
            ),
        ]
        for name, of in sorted(found.items())
    ]
    print(*table(["", *map(" ".join, shown)], cells), sep="\n")


if __name__ == "__main__":
    main()
