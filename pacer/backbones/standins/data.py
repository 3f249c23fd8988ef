"""What the stand-ins learn from: a phantom world of its own, or the train split of the corpus."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import polars as pl
from PIL import Image
from tokenizers import Tokenizer

from pacer.anchors.anchor import Anchor
from pacer.anchors.render import render_anchor
from pacer.anchors.vocabulary import FINDINGS
from pacer.backbones.standins.language import TrainingText
from pacer.backbones.standins.vision import TrainingImages
from pacer.core.errors import DataError
from pacer.corpus.text.cleaning import clean_report
from pacer.params import Backbones
from pacer.phantom.language import contexts_of, write_report
from pacer.phantom.tokenizer import phantom_tokenizer, train_tokenizer
from pacer.phantom.training import training_images
from pacer.phantom.world import make_world
from pacer.radiographs.opening import open_image
from pacer.rules.extract import extract_anchor
from pacer.rules.version import Version

#: (view, sections, indication, history, commit) -> instruction text left and right of the visual tokens.
Instruct = Callable[[str, str, str | None, str | None, bool], tuple[str, str]]
STATUS = {"positive": 1, "negative": 2, "uncertain": 3}


class LabelledText(NamedTuple):
    """One report with what it says: ``raw`` and ``cleaned`` text, ``anchor``, raw sentences that state a finding,
    and the record's ``view``, ``sections``, ``indication`` and ``history``."""

    raw: str
    cleaned: str
    anchor: Anchor
    stated: tuple[str, ...]
    view: str
    sections: str
    indication: str | None
    history: str | None

    @property
    def statuses(self) -> list[int]:
        """Per finding 0 blank, 1 positive, 2 negative, 3 uncertain (CheXbert's classes)."""
        by_finding = {f: STATUS[p] for p in STATUS for f in getattr(self.anchor, p)}
        return [by_finding.get(finding, 0) for finding in FINDINGS]


class TrainingData(NamedTuple):
    """Everything the stand-ins are trained on; ``origin`` names it in their provenance."""

    origin: str
    tokenizer: Callable[[int], Tokenizer]
    texts: Callable[[int], list[LabelledText]]
    images: Callable[[int, int, int], TrainingImages]


def phantom_data(seed: int) -> TrainingData:
    """A phantom world that no corpus shares: its seed is derived from ``backbones.seed``."""
    world = 1_000_003 + seed

    def texts(count: int) -> list[LabelledText]:
        return _phantom_texts(world, count)

    def images(count: int, size: int, grid: int) -> TrainingImages:
        pixels, labels, masks, _ = training_images(world, count, size, grid)
        return TrainingImages(pixels, labels, masks)

    return TrainingData(f"phantom world {world}", phantom_tokenizer, texts, images)


def _phantom_texts(world: int, count: int) -> list[LabelledText]:
    """One text for each study of a world, in a context drawn from those that the study has."""
    texts: list[LabelledText] = []
    rng = np.random.default_rng(world)
    for patient in make_world(world, count):
        for study in patient.studies:
            contexts = contexts_of(study)
            report = write_report(study, contexts[rng.integers(len(contexts))], rng)
            sections = [name for name in ("findings", "impression") if getattr(report, name)]
            anchor = Anchor(report.listed("positive"), report.listed("negative"), report.listed("uncertain"))
            stated = tuple(sentence for sentence, mentioned in report.sentences if mentioned)
            texts.append(
                LabelledText(
                    report.text,
                    clean_report(report.text),
                    anchor,
                    stated,
                    study.view,
                    "+".join(sections),
                    study.indication,
                    study.history,
                )
            )
    return texts[:count]


def corpus_data(records: pl.DataFrame, images: pl.DataFrame, seed: int, rules: Version) -> TrainingData:
    """The train split alone; labels by this version of the rules, places unknown.

    Raises:
        DataError: the corpus has no train record.
    """
    train = records.filter(pl.col("split") == "train")
    if train.is_empty():
        raise DataError("backbones.train_on: corpus needs train records; use train_on: phantom")
    rng = np.random.default_rng(seed)
    reports = train.unique("report_raw", maintain_order=True)
    rows = reports.select("report_raw", "report", "view", "sections", "indication", "history").rows()

    def texts(count: int) -> list[LabelledText]:
        chosen = rng.permutation(np.arange(max(count, len(rows))) % len(rows))[:count]
        return [_of_record(rules, *rows[i]) for i in chosen]

    def pictures(count: int, size: int, grid: int) -> TrainingImages:
        by_image: dict[str, str] = {}
        for frontal, lateral, raw in train.select("frontal", "lateral", "report_raw").iter_rows():
            for image_id in filter(None, (frontal, lateral)):
                by_image.setdefault(image_id, raw)
        chosen = [i for i in by_image][:count]
        paths = dict(images.select("image_id", "path").iter_rows())
        present = [{*a.positive, *a.uncertain} for a in (extract_anchor(by_image[i], rules) for i in chosen)]
        labels = np.array([[f in p for f in FINDINGS] for p in present], dtype=np.float32)
        return TrainingImages(np.stack([_grey_square(paths[i], size) for i in chosen]), labels, None)

    def tokenizer(vocabulary: int) -> Tokenizer:
        samples = [_of_record(rules, *row) for row in rows]
        return train_tokenizer(
            [f"{render_anchor(t.anchor)}\n<REPORT>\n{t.cleaned}\n</REPORT>" for t in samples], vocabulary
        )

    return TrainingData(
        f"train split of the corpus ({len(rows)} distinct reports), labels by the rules ({rules})",
        tokenizer,
        texts,
        pictures,
    )


def _of_record(
    rules: Version, raw: str, cleaned: str, view: str, sections: str, indication: str | None, history: str | None
) -> LabelledText:
    stated = []
    for sentence in raw.split(". "):
        anchor = extract_anchor(sentence, rules)
        if anchor.positive or anchor.uncertain:
            stated.append(sentence)
    return LabelledText(raw, cleaned, extract_anchor(raw, rules), tuple(stated), view, sections, indication, history)


def _grey_square(path: str, size: int) -> np.ndarray:
    grey = open_image(path).convert("L")
    side = min(grey.size)
    left, top = (grey.width - side) // 2, (grey.height - side) // 2
    return np.asarray(grey.resize((size, size), Image.Resampling.BICUBIC, (left, top, left + side, top + side)))


def training_text(text: LabelledText, instruct: Instruct) -> TrainingText:
    """The language stand-in's form of a labelled text; sentences are cleaned as the report is."""
    before, direct = instruct(text.view, text.sections, text.indication, text.history, False)
    _, commit = instruct(text.view, text.sections, text.indication, text.history, True)
    return TrainingText(
        before,
        direct,
        commit,
        text.cleaned,
        render_anchor(text.anchor),
        tuple(clean_report(sentence) for sentence in text.stated),
    )


def load_data(config: Backbones, records: pl.DataFrame, images: pl.DataFrame, rules: Version) -> TrainingData:
    """The training data that ``backbones.train_on`` asks for."""
    if config.train_on == "phantom":
        return phantom_data(config.seed)
    return corpus_data(records, images, config.seed, rules)
