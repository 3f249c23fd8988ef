"""What memorising and what looking can win on the phantom, held against the latent truth.

    python bench/phantom_controls.py --out controls.md
    python bench/phantom_controls.py --no-probes

Prints Markdown. First, without any model: how much of the test reports and of their truth can be had by copying. Then
the vision stand-in is trained as the `backbones` stage trains it, and a logistic regression reads each finding from
its patch states (mean and maximum over the patches): from the frontal view, the lateral view, both, and from three
depths. A probe that finds what no view shows would mean that truth leaks into the picture by another way.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from transformers import Dinov2Model

from pacer.backbones.standins.data import PhantomData
from pacer.backbones.standins.vision import MEAN, STD, make_vision_standin
from pacer.corpus.text.cleaning import clean_report
from pacer.params import load_params
from pacer.phantom.language import contexts_of, report_of, sample_texts
from pacer.phantom.render import render_frontal, render_lateral, visible_findings
from pacer.phantom.tokenizer import phantom_tokenizer
from pacer.phantom.world import LATERAL_CAPABLE, PhantomStudy, make_world
from pacer.records.findings import FINDINGS

DEPTHS = (4, 8, 12)
THUMBNAIL = 28
TEXTS = 10_000
#: Fewer cases than this give no figure of their own.
FEWEST = 5

Lines = list[str]


def table(header: list[str], rows: list[list[str]]) -> Lines:
    """A Markdown table and a blank line; the first column to the left."""
    rule = "|---|" + "---:|" * (len(header) - 1)
    return ["| " + " | ".join(header) + " |", rule, *("| " + " | ".join(row) + " |" for row in rows), ""]


def truth_of(studies: list[PhantomStudy]) -> np.ndarray:
    """Findings present, bool [n, 13]."""
    return np.array([[name in study.findings for name in FINDINGS] for study in studies])


def micro_f1(found: np.ndarray, truth: np.ndarray) -> float:
    """F1 over all studies and findings."""
    return float(2 * (found & truth).sum() / max(found.sum() + truth.sum(), 1))


def best_constant(truth: np.ndarray) -> np.ndarray:
    """The set of findings, bool [13], that scores highest when it is said of every study."""
    order = np.argsort(-truth.mean(axis=0))
    choices = [np.isin(np.arange(truth.shape[1]), order[:count]) for count in range(1, truth.shape[1] + 1)]
    return max(choices, key=lambda choice: micro_f1(np.tile(choice, (len(truth), 1)), truth))


def thumbnails(studies: list[PhantomStudy], size: int) -> np.ndarray:
    """Frontal radiographs averaged down to 28 x 28, float32 [n, 784]."""
    cell = size // THUMBNAIL
    shape = (THUMBNAIL, cell, THUMBNAIL, cell)
    return np.stack([render_frontal(s, size).reshape(shape).mean(axis=(1, 3)).ravel() for s in studies]).astype("f4")


def copying(train: list[PhantomStudy], test: list[PhantomStudy], size: int) -> Lines:
    """Truth micro-F1 of three ways to answer without understanding the picture."""
    known, wanted = truth_of(train), truth_of(test)
    constant = np.tile(best_constant(known), (len(test), 1))
    shown, asked = thumbnails(train, size), thumbnails(test, size)
    distance = np.square(shown).sum(1)[None] - 2 * asked @ shown.T
    followed = [study for study in test if study.prior]
    previous = truth_of([study.prior for study in followed if study.prior])
    rows = [
        ["the best constant set of findings", micro_f1(constant, wanted)],
        [
            f"the truth of the nearest train image, {THUMBNAIL} x {THUMBNAIL} pixels",
            micro_f1(known[distance.argmin(axis=1)], wanted),
        ],
        ["the findings of the previous study, where there is one", micro_f1(previous, truth_of(followed))],
    ]
    return table(["Answer", "truth micro-F1"], [[name, f"{value:.3f}"] for name, value in rows])


def wording(train: list[PhantomStudy], test: list[PhantomStudy], seed: int, vocabulary: int) -> Lines:
    """How often reports and sentences repeat."""
    known = {clean_report(report_of(s, c).text) for s in train for c in contexts_of(s)}
    asked = [clean_report(report_of(s, c).text) for s in test for c in contexts_of(s)]
    texts = [clean_report(report.text) for report in sample_texts(seed, TEXTS)]
    sentences = [sentence for text in texts for sentence in text.removesuffix(" .").split(" . ")]
    words = {word.strip(".,") for text in texts for word in text.split()} - {""}
    tokenizer = phantom_tokenizer(vocabulary)
    lengths = np.array([len(tokenizer.encode(text).ids) for text in texts])
    rows = [
        ["test reports that occur word for word in train", f"{np.mean([text in known for text in asked]):.1%}"],
        [f"distinct reports among {TEXTS:,}", f"{len(set(texts)) / len(texts):.1%}"],
        [f"distinct sentences in {TEXTS:,} reports", f"{len(set(sentences)):,} of {len(sentences):,}"],
        ["distinct words", f"{len(words)}"],
        ["tokens of a report, mean", f"{lengths.mean():.1f}"],
        ["reports beyond 98 tokens", f"{(lengths > 98).mean():.2%}"],
    ]
    return table(["Wording", "measured"], rows)


@torch.no_grad()
def pooled_states(model: Dinov2Model, images: np.ndarray) -> dict[int, np.ndarray]:
    """Mean and maximum of the patch states at each depth, float32 [n, 2 * width]; the last depth is the endpoint."""
    parts: dict[int, list[np.ndarray]] = {depth: [] for depth in DEPTHS}
    for batch in np.array_split(images, max(1, len(images) // 64)):
        pixels = ((torch.from_numpy(batch).float() / 255 - MEAN) / STD).unsqueeze(1).expand(-1, 3, -1, -1)
        outputs = model(pixel_values=pixels, output_hidden_states=True)
        for depth in DEPTHS:
            states = outputs.last_hidden_state if depth == DEPTHS[-1] else outputs.hidden_states[depth]
            patches = states[:, 1:]
            parts[depth].append(torch.cat([patches.mean(1), patches.amax(1)], dim=1).numpy())
    return {depth: np.concatenate(part) for depth, part in parts.items()}


def probe(features: np.ndarray, labels: np.ndarray, train: np.ndarray) -> np.ndarray:
    """Decision values of one logistic regression per finding, fitted on the ``train`` rows; [n, 13]."""
    values = np.zeros(labels.shape)
    for column in range(labels.shape[1]):
        model = make_pipeline(StandardScaler(), LogisticRegression(C=0.03, max_iter=300, class_weight="balanced"))
        model.fit(features[train], labels[train, column])
        values[:, column] = model.decision_function(features)
    return values


def auroc(values: np.ndarray, positive: np.ndarray, negative: np.ndarray) -> float:
    """Area under the ROC curve of the cases in ``positive`` or ``negative``; nan with fewer than five of either."""
    if min(positive.sum(), negative.sum()) < FEWEST:
        return float("nan")
    used = positive | negative
    return float(roc_auc_score(positive[used], values[used]))


def number(value: float) -> str:
    """A figure of the table; a dash where there is none."""
    return "–" if np.isnan(value) else f"{value:.3f}"


def by_finding(title: str, columns: dict[str, np.ndarray]) -> Lines:
    """A table with a row per finding and the mean."""
    rows = [[name, *(number(column[i]) for column in columns.values())] for i, name in enumerate(FINDINGS)]
    rows.append(["**mean**", *(f"**{number(float(np.nanmean(column)))}**" for column in columns.values())])
    return [f"{title}:", "", *table(["Finding", *columns], rows)]


def vision_standin(folder: Path | None) -> tuple[Dinov2Model, str]:
    """The encoder of ``folder``, or one trained as the `backbones` stage does; and a line about it."""
    if folder is not None:
        return Dinov2Model.from_pretrained(folder).eval(), f"Vision stand-in of `{folder}`."
    backbones = load_params().backbones
    config, seed = backbones.vision_standin, backbones.seed
    images = PhantomData(seed).images(config.images, config.image_size, config.image_size // config.patch_size)
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as made:
        known = make_vision_standin(config, images, seed, Path(made))
        model = Dinov2Model.from_pretrained(made).eval()
        seconds = time.monotonic() - started
    text = f"Vision stand-in: {config.images} images, {config.steps} steps, {seconds:.0f} s, AUROC of its own"
    return model, f"{text} head on held-out images {known['held_out_auroc']:.3f}."


def probes(seed: int, patients: int, folder: Path | None) -> Lines:
    """AUROC of every finding by view and by depth."""
    model, origin = vision_standin(folder)
    size, started = model.config.image_size, time.monotonic()
    # more test patients than in the default profile: lateral-only cases are rare
    world = make_world(seed, patients, 2.4, 0.6, test_fraction=0.4)
    studies = [study for patient in world for study in patient.studies]
    train = np.array([study.split == "train" for study in studies])
    paired = np.array([study.has_lateral for study in studies])
    frontal = pooled_states(model, np.stack([render_frontal(s, size) for s in studies]))
    both_studies = [study for study in studies if study.has_lateral]
    lateral = pooled_states(model, np.stack([render_lateral(s, size) for s in both_studies]))[DEPTHS[-1]]

    present = truth_of(studies)
    seen = np.array([[name in visible_findings(s, "frontal") for name in FINDINGS] for s in studies])
    findings, test = range(len(FINDINGS)), ~train
    depth_values = {depth: probe(frontal[depth], seen, train) for depth in DEPTHS}
    depths = {
        f"block {depth}": np.array([auroc(values[test, f], seen[test, f], ~present[test, f]) for f in findings])
        for depth, values in depth_values.items()
    }
    views = {"frontal": frontal[DEPTHS[-1]][paired], "lateral": lateral}
    views["both"] = np.concatenate([views["frontal"], views["lateral"]], axis=1)
    truth, hidden, fitted = present[paired], (present & ~seen)[paired], train[paired]
    view_values = {name: probe(states, truth, fitted) for name, states in views.items()}
    tested = ~fitted
    by_view = {
        name: np.array([auroc(values[tested, f], truth[tested, f], ~truth[tested, f]) for f in findings])
        for name, values in view_values.items()
    }
    capable = [f for f in findings if FINDINGS[f] in LATERAL_CAPABLE]
    rows = []
    for f in capable:
        cases = hidden[tested, f]
        values = [auroc(v[tested, f], cases, ~truth[tested, f]) for v in view_values.values()]
        rows.append([FINDINGS[f], str(int(cases.sum())), *map(number, values)])
    means = [
        float(np.nanmean([float(row[column]) if row[column] != "–" else np.nan for row in rows]))
        for column in (2, 3, 4)
    ]
    rows.append(["**mean**", str(sum(int(row[1]) for row in rows)), *(f"**{number(value)}**" for value in means)])
    counts = f"{int(train.sum())} studies to fit, {int(test.sum())} to score"
    return [
        f"{origin} Probes: {counts}; {time.monotonic() - started:.0f} s.",
        "",
        *by_finding("AUROC on the frontal view by depth (findings that the frontal view shows)", depths),
        *by_finding("AUROC by view, last block (studies with both views, all findings)", by_view),
        "AUROC of the lateral-only cases against studies without the finding:",
        "",
        *table(["Finding", "cases", *view_values], rows),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=7, help="seed of the world (the default profile's is 7)")
    parser.add_argument("--patients", type=int, default=1200, help="patients of the probes' world")
    parser.add_argument("--probes", action=argparse.BooleanOptionalAction, default=True, help="train and probe")
    parser.add_argument("--vision", type=Path, help="a stand-in that is there, such as models/backbones/vision")
    parser.add_argument("--threads", type=int, default=1, help="threads of the training")
    parser.add_argument("--out", type=Path, help="file to write the tables to")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)

    size = load_params().corpus.phantom
    world = make_world(
        options.seed,
        size.patients,
        size.studies_per_patient,
        size.lateral_fraction,
        size.val_fraction,
        size.test_fraction,
    )
    studies = [study for patient in world for study in patient.studies]
    train, test = ([s for s in studies if s.split == split] for split in ("train", "test"))
    lines = wording(train, test, options.seed + 1, size.vocabulary) + copying(train, test, size.image_size)
    if options.probes:
        lines += probes(options.seed, options.patients, options.vision)
    text = "\n".join(lines)
    print(text)
    if options.out:
        options.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
