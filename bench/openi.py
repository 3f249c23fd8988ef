"""Open-I: what the reports of the study `openi` are worth, beside reports that need no model.

``python bench/openi.py keep|controls|scores``, after `pacer study run openi` (and `openi_longer`) in a tree whose
`params.yaml` is the profile `openi`. ``keep`` writes the reports of every finished run to ``bench/results/openi``, and
leaves those of other runs; ``controls`` adds, where they are missing, those of each finished Base and PACER (seed 42)
for another patient's radiographs, for the mean radiograph and without repetition penalty, and for each test record the
train record whose frontal radiograph is nearest to the encoder (cosine of the mean patch at the last depth; ties by
id); ``scores`` reads that folder and the corpus (`dvc repro corpus` with `corpus.target: findings`) and prints the
tables of ``docs/evidence.md``, part 3. No report of the corpus is kept.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch
from PIL import Image, ImageOps

from pacer.anchors.render import CLOSE_REPORT, OPEN_REPORT
from pacer.comparison.case_statistics import case_statistics, label_rows, resampled_units
from pacer.comparison.resampling import MEAN, Difference, Pair, differences, holm, sums_by_unit
from pacer.core.io import read_json
from pacer.core.progress import Ticker
from pacer.decoding.controls import CONTROLS
from pacer.decoding.extract import extract_report
from pacer.features.store import FeatureStore
from pacer.metrics.cases import Lists, Scored, case_table
from pacer.metrics.chexbert.observations import OBSERVATION_OF, OBSERVATIONS, POSITIVE, UNCERTAIN
from pacer.metrics.conventions import CONVENTIONS
from pacer.metrics.lines import joined
from pacer.metrics.meteor import Meteor
from pacer.metrics.nlg import language_scores
from pacer.metrics.pairing import Prediction, check_pairs
from pacer.metrics.polarity import polarity_agreement
from pacer.metrics.scoring import anchors_of
from pacer.radiographs.opening import open_image
from pacer.records.schemas import of_split, read_about, read_images, read_records
from pacer.reporting.figures import LIGHT, SERIES, drawing, legend_above, row_axis
from pacer.reporting.tables import p_value
from pacer.studies.plan import overridden
from pacer.studies.run import folders, results_folder
from pacer.studies.study import load_study

KEPT = Path("bench/results/openi")
RECORDS = Path("data/corpus/records.parquet")
BASE, PACER = "Base", "PACER (+ Calibrate)"
OTHER, AVERAGE = "another patient's radiographs", "the mean radiograph"
FIRST, PLAIN = "the first report", "no repetition penalty"
NEAREST, CONSTANT, OPACITY = "the nearest train report", "the most frequent train report", "an opacity for everybody"
ITSELF = "the reference itself, cleaned"
LONGER = ", four times the updates"
#: Studies by what their rows' names end in.
STUDIES = {"openi": "", "openi_longer": LONGER}
#: Rows that are also decoded otherwise.
CONTROLLED = (PACER, BASE, PACER + LONGER, BASE + LONGER)
#: Systems whose differences the plan asks for, the first minus the second.
ASKED = (
    ("Refine only", BASE),
    ("Commit only", BASE),
    ("Refine + Commit", BASE),
    ("Refine + Commit", "Refine only"),
    ("Refine + Commit", "Commit only"),
    (PACER, "Refine + Commit"),
    (PACER, BASE),
    (PACER + LONGER, BASE + LONGER),
    *((row + LONGER, row) for row in (PACER, BASE)),
    *((PACER, f"{PACER}, {control}") for control in (OTHER, AVERAGE)),
    (PACER, NEAREST),
    (PACER, CONSTANT),
)
#: Those that were added when the first reports had been seen.
ADDED = (
    (PACER, OPACITY),
    *((row, f"{row}, {control}") for row in (BASE, BASE + LONGER, PACER + LONGER) for control in (OTHER, AVERAGE)),
    *((row, f"{row}, {PLAIN}") for row in CONTROLLED),
    *((f"{row}, {FIRST}", row) for row in ("Commit only", "Refine + Commit", PACER, PACER + LONGER)),
    (f"Commit only, {FIRST}", BASE),
    (f"{PACER + LONGER}, {FIRST}", BASE + LONGER),
)
#: R2Gen's `--threshold` and `--max_seq_length` for IU X-Ray; the first id of a reference is its start.
RAREST, LONGEST = 3, 60
#: What papers report on IU X-Ray with both views.
PUBLISHED = {
    "R2Gen (Chen et al. 2020, arXiv 2010.16056)": (0.470, 0.304, 0.219, 0.165, 0.187, 0.371),
    "PPKED (Liu et al. 2021, arXiv 2106.06963)": (0.483, 0.315, 0.224, 0.168, 0.190, 0.376),
}
#: Side of the mean radiograph.
_SIDE = 256

#: Seed (None: without training) -> record -> report.
Reports = dict[int | None, dict[str, str]]


def finished() -> dict[tuple[str, int], Path]:
    """(row, seed) -> folder of the studies' runs."""
    found = {}
    for name, ending in STUDIES.items():
        study = load_study(Path("studies"), name)
        for at, seed, run in folders(study, results_folder(Path.cwd())):
            found[study.rows[at].name + ending, seed] = run
    return found


def fetch(run: Path, path: str, into: Path) -> Path:
    """An output of the experiment of a run."""
    experiment = read_json(run / "run.json")["experiment"]
    out = into / experiment / path
    out.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["dvc", "get", "--quiet", "--rev", experiment, "--out", str(out), ".", path], check=True)
    return out


def trained(run: Path, into: Path) -> tuple[Path, Path, Path, Path]:
    """Corpus, features, frozen models and the last checkpoint of a run, which builds on its parent's, beside it."""
    fetch(run, "models/parent", into)
    names = "data/corpus", "data/features", "models/backbones", "models/calibrate"
    corpus, features, frozen, calibrate = (fetch(run, name, into) for name in names)
    return corpus, features, frozen, calibrate


def kept(name: str, seed: int | None) -> Path:
    """File of a system's reports."""
    stem = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")
    return KEPT / f"{stem}{f'_{seed}' * (seed is not None)}.jsonl.gz"


def write(name: str, seed: int | None, rows: Iterable[Mapping[str, str]]) -> None:
    KEPT.mkdir(parents=True, exist_ok=True)
    lines = "".join(json.dumps({"system": name, "seed": seed, **row}) + "\n" for row in rows)
    kept(name, seed).write_bytes(gzip.compress(lines.encode(), mtime=0))


def predictions_in(folder: Path) -> list[dict[str, str]]:
    lines = [json.loads(line) for path in sorted(folder.glob("*.jsonl")) for line in path.read_bytes().splitlines()]
    return [{name: line[name] for name in ("record_id", "report", "generated")} for line in lines]


def keep() -> None:
    """Reports of every finished run."""
    with tempfile.TemporaryDirectory() as scratch:
        for (row, seed), run in finished().items():
            write(row, seed, predictions_in(fetch(run, "predictions", Path(scratch))))


def controls() -> None:
    """What needs the model or the encoder: other radiographs, another search, neighbours."""
    for (row, seed), run in finished().items():
        if row in CONTROLLED and seed == 42:
            controls_of(row, run)


def controls_of(row: str, run: Path) -> None:
    missing = [control for control in (OTHER, AVERAGE, PLAIN) if not kept(f"{row}, {control}", 42).exists()]
    if not missing and kept(NEAREST, None).exists():
        return
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        corpus, store, frozen, model = trained(run, folder)
        records, images = read_records(corpus / "records.parquet"), read_images(corpus / "images.parquet")
        test = of_split(records, "test")
        if not kept(NEAREST, None).exists():
            write(NEAREST, None, nearest(of_split(records, "train"), test, store))

        def decoded(control: str, changed: pl.DataFrame, *options: str, params: Path = run / "params.yaml") -> None:
            table, out = folder / "changed.parquet", folder / "decoded"
            changed.write_parquet(table)
            inputs = "--records", str(table), "--model", str(model), "--backbones", str(frozen)
            settings = "--params", str(params), "--out", str(out)
            subprocess.run(["pacer", "decode", *inputs, *settings, *options], check=True)
            write(f"{row}, {control}", 42, predictions_in(out))

        if OTHER in missing:
            decoded(OTHER, other_radiographs(test), "--features", str(store))
        if PLAIN in missing:
            plain = folder / "plain.yaml"
            plain.write_text(overridden((run / "params.yaml").read_text(), {"decode.repetition_penalty": 1.0}))
            decoded(PLAIN, test, "--features", str(store), params=plain)
        if AVERAGE in missing:
            averages = mean_radiographs(of_split(records, "train"), images, folder)
            averages.write_parquet(folder / "averages.parquet")
            anybody = test.with_columns(
                frontal=pl.lit("frontal"), lateral=pl.when(pl.col("lateral").is_not_null()).then(pl.lit("lateral"))
            )
            options = "--images", str(folder / "averages.parquet"), "--features", str(folder / "averages")
            decoded(AVERAGE, anybody, *options)


def other_radiographs(records: pl.DataFrame) -> pl.DataFrame:
    """The records with another patient's radiographs; all else that the model is given is their own."""
    exchanged = CONTROLS["another_patient"](records).select("record_id", "frontal", "lateral")
    own = records.drop("frontal", "lateral")
    return own.join(exchanged, on="record_id", maintain_order="left").select(records.columns)


def nearest(train: pl.DataFrame, test: pl.DataFrame, features: Path) -> list[dict[str, str]]:
    """For each test record the train record of its context with the nearest frontal radiograph."""
    store = FeatureStore(features)

    def directions(images: Sequence[str]) -> torch.Tensor:
        means = [store.depth_states([image])[0, -1].float().mean(0) for image in images]
        return torch.nn.functional.normalize(torch.stack(means), dim=-1)

    found = []
    for (context,), own in test.group_by("context", maintain_order=True):
        known = train.filter(context=context).sort("record_id")
        likeness = directions(own["frontal"].to_list()) @ directions(known["frontal"].to_list()).T
        chosen = [known["record_id"][place] for place in likeness.argmax(1).tolist()]
        found += [{"record_id": one, "train": other} for one, other in zip(own["record_id"], chosen, strict=True)]
    return found


def mean_radiographs(train: pl.DataFrame, images: pl.DataFrame, folder: Path) -> pl.DataFrame:
    """The mean frontal and the mean lateral radiograph of the train split, as a table of images."""
    paths, rows = dict(images.select("image_id", "path").iter_rows()), []
    for view in ("frontal", "lateral"):
        ids = train[view].drop_nulls().unique(maintain_order=True).to_list()
        total = np.zeros((_SIDE, _SIDE))
        with Ticker(f"mean {view} radiograph", len(ids)) as ticker:
            for image in ids:
                total += np.asarray(ImageOps.fit(open_image(paths[image]).convert("L"), (_SIDE, _SIDE)))
                ticker.advance()
        path = folder / f"{view}.png"
        Image.fromarray((total / len(ids)).round().astype(np.uint8)).save(path)
        rows.append((view, str(path), path.stat().st_size, _SIDE, _SIDE))
    return pl.DataFrame(rows, images.schema, orient="row")


def first_report(generated: str) -> str:
    """What would be read if the generation ended at its first ``</REPORT>``; the rule reads the last ``<REPORT>``."""
    return extract_report(generated.partition(CLOSE_REPORT)[0]).report


def systems(records: pl.DataFrame) -> dict[str, Reports]:
    """Name -> reports of the test records, by seed; prints how many generations hold a second ``<REPORT>``."""
    texts, found = dict(records.select("record_id", "report").iter_rows()), {}
    for path in sorted(KEPT.glob("*.jsonl.gz")):
        lines = [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
        name, seed = lines[0]["system"], lines[0]["seed"]
        reports = {line["record_id"]: line["report"] if "report" in line else texts[line["train"]] for line in lines}
        found.setdefault(name, {})[seed] = reports
        if again := sum(line.get("generated", "").count(OPEN_REPORT) > 1 for line in lines):
            print(f"{name}, seed {seed}: {again} of {len(lines)} generations hold a second {OPEN_REPORT}")
            first = {line["record_id"]: first_report(line["generated"]) for line in lines}
            found.setdefault(f"{name}, {FIRST}", {})[seed] = first
    train, test = of_split(records, "train"), of_split(records, "test")
    most = {
        context: Counter(sorted(train.filter(context=context)["report"])).most_common(1)[0][0]
        for context in test["context"].unique()
    }
    found[CONSTANT] = {None: {record: most[context] for record, context in test["record_id", "context"].iter_rows()}}
    found[OPACITY] = {None: dict.fromkeys(test["record_id"], "there is a lung opacity .")}
    found[ITSELF] = {None: dict(test.select("record_id", "report").iter_rows())}
    for name, by_seed in found.items():
        for seed, reports in by_seed.items():
            check_pairs(test["record_id"].to_list(), list(reports), str(RECORDS), f"{name}, seed {seed}")
    order = dict.fromkeys([*(name for pair in (*ASKED, *ADDED) for name in reversed(pair)), *found])
    return {name: found[name] for name in order if name in found}


def classes(read: Sequence[Lists]) -> np.ndarray:
    """CheXbert's classes of what the rules read, [n, 14]; "No Finding" is in none."""
    table = np.zeros((len(read), len(OBSERVATIONS)), dtype=int)
    for row, lists in enumerate(read):
        for polarity, number in (("positive", POSITIVE), ("uncertain", UNCERTAIN)):
            table[row, [OBSERVATIONS.index(OBSERVATION_OF[finding]) for finding in lists[polarity]]] = number
    return table


def as_r2gen(texts: Iterable[str], words: frozenset[str], longest: int) -> list[str]:
    """As R2Gen's tokeniser gives texts back: rare words unknown, the end cut off."""
    return [" ".join(word if word in words else "<unk>" for word in text.split()[:longest]) for text in texts]


def cases_of(
    test: pl.DataFrame,
    reports: Mapping[str, str],
    known: frozenset[str],
    meteor: Meteor,
    words: frozenset[str] | None = None,
) -> dict[str, pl.DataFrame]:
    """Context -> cases labelled by the rules; ``known``: texts of the train split; ``words``: those that R2Gen's
    tokeniser knows, where both sides are to go through it."""
    found = {}
    for (context,), rows in test.group_by("context", maintain_order=True):
        expected, written = rows["report"].to_list(), [joined(reports[record]) for record in rows["record_id"]]
        read = anchors_of(written)
        if words is not None:
            expected, written = as_r2gen(expected, words, LONGEST - 1), as_r2gen(written, words, LONGEST)
        made = [
            Prediction(record, text, None, False, None) for record, text in zip(rows["record_id"], written, strict=True)
        ]
        scored = Scored(rows.with_columns(report=pl.Series(expected)), made, {}, anchors_of(rows["report_raw"]), read)
        scored.reference_labels, scored.labels = classes(scored.anchors), classes(scored.read)
        scored.reference_wording = scored.wording = [()] * len(rows)
        scored.language = language_scores(scored.references, scored.hypotheses, meteor)
        table = case_table({context: scored}, None)
        copied = pl.Series("copied", [text in known for text in rows["report"]])
        found[context] = table.with_columns(copied)
    return found


Choice = Callable[[pl.DataFrame], pl.DataFrame]
EVERY = "All"
#: Which test reports are scored.
CHOICES: dict[str, Choice] = {EVERY: lambda table: table, "Not in train": lambda table: table.filter(~pl.col("copied"))}
COLUMNS = ("precision", "recall", "f1", "chance_f1", "positive_f1", "negative_f1", "bleu1", "bleu4", "rougeL", "meteor")
#: What papers quote on IU X-Ray, in the order of :data:`PUBLISHED`.
R2GEN = ("bleu1", "bleu2", "bleu3", "bleu4", "meteor", "rougeL")

#: System -> seed -> context -> cases.
Cases = dict[str, dict[int | None, dict[str, pl.DataFrame]]]


def difference(cases: Cases, first: str, second: str, chosen: Choice) -> dict[str, Difference]:
    """``first`` minus ``second``, means over contexts and over the seeds that both have; one without training meets
    every seed."""
    shared = cases[first].keys() & cases[second].keys()
    seeds = [(one, two) for one in cases[first] for two in cases[second] if one == two in shared or not shared]
    pairs = {}
    unit, codes, count = None, {}, 0
    for one, two in seeds:
        for context in cases[first][one]:
            sides = [chosen(cases[name][seed][context]) for name, seed in ((second, two), (first, one))]
            if unit is None:
                whole = pl.concat([chosen(table) for table in cases[first][one].values()])
                unit, places, count = resampled_units(whole)
                codes = dict(zip(whole["record_id"], places, strict=True))
            own = np.array([codes[record] for record in sides[0]["record_id"]])
            scores = [case_statistics(table, CONVENTIONS["llm-rg4"]) for table in sides]
            pairs[f"{context} {one} {two}"] = {
                name: Pair(*(sums_by_unit(side[name].rows, own, count) for side in scores), scores[0][name].score)
                for name in scores[0]
            }
    return differences(pairs)[MEAN]


def numbers(by_context: Mapping[str, pl.DataFrame], chosen: Choice) -> dict[str, float]:
    """Scores of one run, means over contexts; ``chance_f1``: expected F1 of these reports, dealt to other patients."""
    values: dict[str, list[float]] = {}
    for table in map(chosen, by_context.values()):
        found = case_statistics(table, CONVENTIONS["llm-rg4"])
        own = {name: float(one.score(one.rows.sum(axis=0))) for name, one in found.items()}
        _, written, there = label_rows(table, CONVENTIONS["llm-rg4"]).reshape(len(table), 3, -1).sum(axis=0)
        own["chance_f1"] = float(2 * (written * there / len(table)).sum() / (written.sum() + there.sum()))
        sides = (
            [
                {p: row[f"{side}_{p}"] for p in ("positive", "negative", "uncertain")}
                for row in table.iter_rows(named=True)
            ]
            for side in ("reference", "report")
        )
        agreed = polarity_agreement(*sides)
        own |= {f"{p}_f1": agreed[f"{p}_f1"] or 0.0 for p in ("positive", "negative")}
        for name, value in own.items():
            values.setdefault(name, []).append(value)
    return {name: float(np.mean(of_contexts)) for name, of_contexts in values.items()}


def share(value: float) -> str:
    return "–" if np.isnan(value) else f"{value:.3f}".removeprefix("0")


def table(cases: Cases, chosen: Choice, columns: Sequence[str]) -> None:
    """Scores of every run."""
    print(f"| System | seed | {' | '.join(columns)} |\n|:---|---:|{'---:|' * len(columns)}")
    for name, by_seed in cases.items():
        for seed, by_context in by_seed.items():
            own = numbers(by_context, chosen)
            print(f"| {name} | {seed or ''} | {' | '.join(share(own[column]) for column in columns)} |")


def label(first: str, second: str) -> str:
    """How the difference of two systems is called."""
    return f"{first} − {second.replace(f'{first}, ', 'with ')}"


def drawn(found: Mapping[str, Mapping[tuple[str, str], Mapping[str, Difference]]]) -> str:
    """SVG: each planned difference in F1 and BLEU-4 with its interval; ``found``: which test reports -> systems ->
    score. F1 is of all reports: those that stand in train affirm nothing, so without them whoever affirms more gains.
    """
    pairs = [pair for pair in found[EVERY] if pair in ASKED]

    def draw(panels: Any) -> None:
        for axes, (score, title) in zip(panels, (("f1", "F1 by the rules"), ("bleu4", "BLEU-4")), strict=True):
            axes.axvline(0, color=LIGHT["--muted"], linewidth=1)
            for (which, by_pair), colour, shift in zip(found.items(), SERIES, (-0.15, 0.15), strict=False):
                if score == "f1" and which != EVERY:
                    continue
                for place, one in enumerate(by_pair[pair][score] for pair in pairs):
                    axes.hlines(place + shift, one.low, one.high, color=LIGHT[colour], linewidth=2, alpha=0.5)
                    named = {"label": which.lower()} if place == 0 else {}
                    axes.scatter(one.difference, place + shift, s=22, color=LIGHT[colour], zorder=4, **named)
            row_axis(axes, [label(*pair) for pair in pairs])
            axes.set_xlabel(f"difference in {title}")
        legend_above(panels[1], 2)

    return drawing(9.0, 0.9 + 0.4 * len(pairs), draw, columns=2, sharey=True)


def scores(chart: Path | None) -> None:
    """The tables, and the picture of the differences."""
    if (target := read_about(RECORDS).get("target")) != "findings":
        raise SystemExit(f"{RECORDS} has corpus.target: {target}; the study's is findings")
    records = read_records(RECORDS)
    train, test = of_split(records, "train"), of_split(records, "test")
    known = frozenset(train["report"])
    counted = Counter(word for text in train.unique("study_id")["report"] for word in text.split())
    words = frozenset(word for word, count in counted.items() if count >= RAREST)
    every, both = systems(records), test.filter(context="mn")
    with Meteor() as meteor, Ticker("systems", len(every)) as ticker:
        cases, paired = {}, {}
        for name, by_seed in every.items():
            cases[name] = {seed: cases_of(test, own, known, meteor) for seed, own in by_seed.items()}
            paired[name] = {seed: cases_of(both, own, known, meteor, words) for seed, own in by_seed.items()}
            ticker.advance()
    found = {}
    for title, chosen in CHOICES.items():
        counts = (f"{len(chosen(table))} in {name}" for name, table in cases[CONSTANT][None].items())
        print(f"\n## {title}, of the test reports: {', '.join(counts)}\n")
        table(cases, chosen, COLUMNS)
        print("\n| Difference | seeds | F1 | p (Holm) | BLEU-4 | p (Holm) |\n|:---|---:|:---|---:|:---|---:|")
        found[title] = {
            pair: difference(cases, *pair, chosen) for pair in (*ASKED, *ADDED) if cases.keys() >= set(pair)
        }
        planned = [pair for pair in ASKED if pair in found[title]]
        corrected = {
            score: dict(zip(planned, holm([found[title][pair][score].p for pair in planned]), strict=True))
            for score in ("f1", "bleu4")
        }
        for pair, by_score in found[title].items():
            first, second = (cases[name].keys() for name in pair)
            cells = (
                f"{one.difference:+.3f} ({one.low:+.3f} to {one.high:+.3f}) | "
                f"{p_value(corrected[score][pair]) if pair in corrected[score] else 'added'}"
                for score, one in by_score.items()
                if score in corrected
            )
            print(f"| {label(*pair)} | {len(first & second) or max(len(first), len(second))} | {' | '.join(cells)} |")
    print(f"\n## R2Gen's protocol, both views, {len(both)} reports\n")
    table(paired, CHOICES[EVERY], R2GEN)
    for name, values in PUBLISHED.items():
        print(f"| {name}, as published | | {' | '.join(map(share, values))} |")
    if chart is not None:
        chart.write_text(drawn(found))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("keep", "controls", "scores"))
    parser.add_argument("--chart", type=Path, help="SVG file of the differences")
    options = parser.parse_args()
    {"keep": keep, "controls": controls, "scores": lambda: scores(options.chart)}[options.what]()


if __name__ == "__main__":
    main()
