"""Training data of the stand-ins: a separate phantom world, or the train split of the corpus.

It is cheap to import and to pickle, because each process that trains stand-ins gets a copy of this
data.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from itertools import chain, islice, pairwise
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from PIL import Image
from tokenizers import Tokenizer

from pacer.config.backbones import Backbones
from pacer.core.anchor import CLOSE_REPORT, FINDINGS, OPEN_REPORT, POLARITIES, Anchor, render_anchor
from pacer.core.errors import DataError
from pacer.images.radiographs import open_image
from pacer.phantom.language import contexts_of, write_report
from pacer.phantom.render import TrainingImages, training_images
from pacer.phantom.tokenizer import anchor_of, phantom_tokenizer, train_tokenizer
from pacer.phantom.world import PhantomStudy, make_world
from pacer.text.cleaning.cleaners import clean_report, sentence_ends
from pacer.text.rules import extract_anchor, read_attributes

#: A function with the keywords view, sections, indication, history and commit that returns the
#: instruction text before and after the visual tokens.
Instruct = Callable[..., tuple[str, str]]
#: The world of ``backbones.seed`` 0.
_FIRST_WORLD = 1_000_003
#: Largest number of words that label a radiograph.
WORDS = 600
#: Smallest number of reports that have such a word.
LEAST = 10
#: Largest share of the reports that have such a word.
MOST = 0.9
#: Largest number of sentences that are added to a composed report.
ADDED = 3


class LabelledText(NamedTuple):
    """A report with its labels, and the record's view, sections, indication and history."""

    raw: str
    cleaned: str
    anchor: Anchor
    #: The raw sentences that state a finding.
    stated: tuple[str, ...]
    view: str
    sections: str
    indication: str | None
    history: str | None

    @property
    def statuses(self) -> list[int]:
        """CheXbert's class of each finding: 0 blank, 1 positive, 2 negative, 3 uncertain."""
        classes = (None, *POLARITIES)
        return [classes.index(self.anchor.polarity(finding)) for finding in FINDINGS]

    def commitment(self, sides: bool) -> str:
        """Return the commitment, with ``sides`` as the rules read them, or without."""
        anchor = self.anchor.with_sides(read_attributes(self.raw)) if sides else self.anchor
        return render_anchor(anchor)


def commitment_first(commitment: str, report: str) -> str:
    """Return the target of the commitment-first route."""
    return f"{commitment}\n{OPEN_REPORT}\n{report}\n{CLOSE_REPORT}"


class PhantomData:
    """A phantom world that no corpus uses."""

    def __init__(self, world: int):
        self.world = world
        self.origin = f"phantom world {world}"

    def tokenizer(self, vocabulary: int) -> Tokenizer:
        """Return the tokenizer of generated reports, with ``vocabulary`` tokens."""
        return phantom_tokenizer(vocabulary)

    def texts(self, count: int) -> list[LabelledText]:
        """Write one text for each of ``count`` examinations, in a context drawn from those of the
        examination."""
        rng = np.random.default_rng(self.world)
        studies = (study for patient in make_world(self.world, count) for study in patient.studies)
        return [_written(study, rng) for study in islice(studies, count)]

    def recombined(self, texts: Sequence[LabelledText], count: int) -> list[LabelledText]:
        """Return no text: the world can write as many texts as needed."""
        return []

    def images(self, count: int, size: int, grid: int) -> TrainingImages:
        """Return ``count`` radiographs [size, size], with labels and with masks [grid, grid] of
        findings."""
        return training_images(self.world, count, size, grid)


def _written(study: PhantomStudy, rng: np.random.Generator) -> LabelledText:
    contexts = contexts_of(study)
    report = write_report(study, contexts[rng.integers(len(contexts))], rng)
    stated = tuple(sentence for sentence, mentioned in report.sentences if mentioned)
    sections = "+".join(name for name in ("findings", "impression") if getattr(report, name))
    about = study.view, sections, study.indication, study.history
    return LabelledText(report.text, clean_report(report.text), anchor_of(report), stated, *about)


class CorpusData:
    """The ``train`` split only; labels by the rules, locations of findings unknown."""

    def __init__(self, train: pl.DataFrame, files: pl.DataFrame, seed: int):
        self.train = train
        self.files = files
        self.seed = seed
        columns = "report_raw", "report", "view", "sections", "indication", "history"
        self.reports = train.unique("report_raw", maintain_order=True).select(columns).rows()
        self.origin = (
            f"train split of the corpus ({len(self.reports)} distinct reports), labels by the rules"
        )

    def tokenizer(self, vocabulary: int) -> Tokenizer:
        """Train a tokenizer with ``vocabulary`` tokens on the reports and their commitments."""
        texts = (_labelled(*row) for row in self.reports)
        return train_tokenizer(
            [commitment_first(text.commitment(sides=True), text.cleaned) for text in texts],
            vocabulary,
        )

    def texts(self, count: int) -> list[LabelledText]:
        """Return at most ``count`` reports in random order. They are distinct, because a repeated
        report could be both learnt and held out."""
        chosen = np.random.default_rng(self.seed).permutation(len(self.reports))[:count]
        return [_labelled(*self.reports[i]) for i in chosen]

    def recombined(self, texts: Sequence[LabelledText], count: int) -> list[LabelledText]:
        """Compose ``count`` reports from the sentences of ``texts``, so that there are many
        different lists of findings, and few empty ones. Sentences are replaced by others that state
        the same; then findings are drawn, and sentences that affirm them replace those that mention
        them."""
        rng = np.random.default_rng(self.seed)
        parts = [_sentences(text.cleaned) for text in texts]
        alike = defaultdict[Anchor, list[str]](list)
        affirming = defaultdict[str, list[str]](list)
        for sentence, anchor in chain.from_iterable(parts):
            alike[anchor].append(sentence)
            for finding in anchor.positive:
                affirming[finding].append(sentence)
        present = sorted(affirming)
        composed = []
        for row in rng.integers(len(texts), size=count if present else 0):
            chosen = []
            for sentence, anchor in parts[row]:
                others = [sentence] if anchor == Anchor() else alike[anchor]
                chosen.append((others[rng.integers(len(others))], anchor))
            for _ in range(int(rng.integers(ADDED + 1))):
                sentences = affirming[present[rng.integers(len(present))]]
                sentence = sentences[rng.integers(len(sentences))]
                added = extract_anchor(sentence)
                place = next(
                    (i for i, (_, a) in enumerate(chosen) if _mentioned(a) & _mentioned(added)),
                    len(chosen),
                )
                chosen = [pair for pair in chosen if not _mentioned(pair[1]) & _mentioned(added)]
                chosen.insert(place, (sentence, added))
            text = " ".join(sentence for sentence, _ in chosen)
            composed.append(_labelled(text, text, *texts[row][4:]))
        return composed

    def images(self, count: int, size: int, grid: int) -> TrainingImages:
        """Return at most ``count`` radiographs of twice the ``size``, without masks. The labels are
        the findings by the rules, followed by words of the report: the :data:`WORDS` most frequent
        ones, without those that nearly all reports have."""
        images = self.train.select(
            "report_raw", "report", image_id=pl.concat_list("frontal", "lateral")
        ).explode("image_id")
        images = (
            images.drop_nulls("image_id")
            .unique("image_id", keep="first", maintain_order=True)
            .head(count)
        )
        paths = images.join(self.files, on="image_id", how="left", maintain_order="left")["path"]
        present = [{*a.positive, *a.uncertain} for a in map(extract_anchor, images["report_raw"])]
        texts = [set(report.split()) for report in images["report"]]
        common = common_words(texts)
        labels = []
        for findings, words in zip(present, texts):
            has_finding = [finding in findings for finding in FINDINGS]
            labels.append(has_finding + [word in words for word in common])
        pixels = np.stack([_grey_square(path, 2 * size) for path in paths])
        return TrainingImages(pixels, np.array(labels, dtype=np.float32), None)


def common_words(texts: Sequence[set[str]]) -> list[str]:
    """Return the :data:`WORDS` most frequent words of ``texts``, without those that few or nearly
    all of them have. Equally frequent ones are in alphabetical order: that of a set differs between
    processes."""
    found = Counter(chain.from_iterable(texts))
    ranked = sorted(found.items(), key=lambda pair: (-pair[1], pair[0]))[:WORDS]
    return [word for word, times in ranked if LEAST <= times < MOST * len(texts)]


def _sentences(text: str) -> list[tuple[str, Anchor]]:
    """Return the sentences of a text, each with the findings that it states."""
    sentences = (text[start:end].strip() for start, end in pairwise([0, *sentence_ends(text)]))
    return [(sentence, extract_anchor(sentence)) for sentence in sentences if sentence]


def _mentioned(anchor: Anchor) -> set[str]:
    return {*anchor.positive, *anchor.negative, *anchor.uncertain}


def _labelled(raw: str, cleaned: str, *about: Any) -> LabelledText:
    anchors = ((sentence, extract_anchor(sentence)) for sentence in raw.split(". "))
    stated = tuple(sentence for sentence, anchor in anchors if anchor.positive or anchor.uncertain)
    return LabelledText(raw, cleaned, extract_anchor(raw), stated, *about)


def _grey_square(path: str, size: int) -> np.ndarray:
    """Return the resized centre of a radiograph; like ImageOps.fit, but cropped at whole pixels."""
    grey = open_image(path).convert("L")
    side = min(grey.size)
    left, top = (grey.width - side) // 2, (grey.height - side) // 2
    return np.asarray(
        grey.resize((size, size), Image.Resampling.BICUBIC, (left, top, left + side, top + side))
    )


#: Training data of the stand-ins; ``origin`` names it in their provenance. ``texts`` and ``images``
#: return at most ``count`` items; images have masks of ``grid`` x ``grid`` if the locations of
#: findings are known.
TrainingData = PhantomData | CorpusData


def load_data(config: Backbones, records: pl.DataFrame, files: pl.DataFrame) -> TrainingData:
    """Return the training data that ``backbones.train_on`` selects. Raises a DataError if it
    selects the corpus, which has no train record."""
    if config.train_on == "phantom":
        return PhantomData(_FIRST_WORLD + config.seed)
    train = records.filter(pl.col("split") == "train")
    if train.is_empty():
        raise DataError(
            "backbones.train_on = 'corpus' needs training records; set backbones.train_on: phantom"
        )
    return CorpusData(train, files, config.seed)
