"""Emphasis: the attribution against what is known, and the stage with its audit and a run that was
stopped."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
import torch
from torch import nn

from pacer.backbones.chexbert import CheXbert
from pacer.backbones.observations import NEGATIVE, POSITIVE, UNCERTAIN
from pacer.config.corpus import Emphasis
from pacer.core.io import hash_file, read_json, read_jsonl
from pacer.core.schemas import EMPHASIS_SCHEMA, RECORD_SCHEMA, read_table, write_table
from pacer.emphasis import attribution
from pacer.emphasis import build_emphasis as room
from pacer.emphasis.attribution import Attribution, Attributor, sentence_scores
from pacer.model.assemble import load_tokenizer
from pacer.training.examples import RecordTable
from pacer.training.trajectory import Span, TrajectoryBuilder

pytestmark = pytest.mark.usefixtures("messages")

SENTENCES = [
    "the heart is normal . small left effusion .",
    "no pneumothorax .",
    "possible edema . lungs are clear . no effusion .",
    "right edema . the heart is normal . possible right pneumothorax . small effusion .",
]


@pytest.fixture
def labeller(chexbert_directory: Callable[..., Path]) -> CheXbert:
    """The labeller with random weights."""
    return CheXbert(chexbert_directory())


class Linear(nn.Module):
    """A BERT whose state is the sum of its word embeddings."""

    def __init__(self, embedding: nn.Embedding):
        super().__init__()
        self.embedding = embedding

    def get_input_embeddings(self) -> nn.Embedding:
        return self.embedding

    def forward(self, attention_mask, input_ids=None, inputs_embeds=None):
        embedded = self.embedding(input_ids) if inputs_embeds is None else inputs_embeds
        return SimpleNamespace(
            last_hidden_state=(embedded * attention_mask[..., None]).sum(1, keepdim=True)
        )


def observed(labeller: CheXbert, reports: list[str]) -> list[tuple[int, int, int]]:
    """Report, observation and class of all that is positive or uncertain, "No Finding" left out."""
    labels = labeller(reports)[:, :13]
    return [
        (row, column, int(labels[row, column]))
        for row, column in ((labels == POSITIVE) | (labels == UNCERTAIN)).nonzero().tolist()
    ]


@pytest.mark.parametrize(("steps", "batch"), [(1, 1), (3, 7), (20, 64)])
def test_pieces_of_a_linear_model_have_their_own_weights(
    labeller: CheXbert, steps: int, batch: int
) -> None:
    embedding = labeller.network.bert.get_input_embeddings()
    labeller.network.bert = Linear(embedding)
    found = Attributor(labeller, batch, steps)(SENTENCES)
    expected = observed(labeller, SENTENCES)
    assert len(expected) > len(SENTENCES) and sum(len(read.scores) for read in found) == len(
        expected
    )
    rows = [(report, scores) for report, read in enumerate(found) for scores in read.scores]
    for (report, scores), (row, observation, label) in zip(rows, expected, strict=True):
        assert report == row
        ids = torch.tensor(
            labeller.tokenizer(SENTENCES[row], add_special_tokens=False)["input_ids"]
        )
        moved = embedding(ids) - embedding(torch.tensor(labeller.tokenizer.mask_token_id))
        weight = labeller.network.linear_heads[observation].weight[label]
        np.testing.assert_allclose(scores, (moved @ weight).detach().numpy(), rtol=1e-4, atol=1e-5)


def test_scores_add_up_to_what_the_text_changes(labeller: CheXbert) -> None:
    network, reports = labeller.network, SENTENCES[:2]
    rows = [scores for read in Attributor(labeller, 64, 64)(reports) for scores in read.scores]
    for scores, (row, observation, label) in zip(rows, observed(labeller, reports), strict=True):
        ids = torch.tensor(labeller.tokenizer([reports[row]])["input_ids"])
        blank = torch.full_like(ids, labeller.tokenizer.mask_token_id)
        blank[:, [0, -1]] = ids[:, [0, -1]]
        with torch.no_grad():
            states = network.bert(input_ids=torch.cat([blank, ids])).last_hidden_state[:, 0]
            start, end = network.linear_heads[observation](states)[:, label].tolist()
        assert scores.sum() == pytest.approx(end - start, rel=1e-3, abs=1e-3)


def test_pieces_are_places_in_the_text_and_what_is_not_read_has_none(labeller: CheXbert) -> None:
    report = "small   left effusion ."
    assert Attributor(labeller, 8, 1)([report])[0].piece_ends == [5, 12, 21, 23]
    long = "small effusion . " * 200
    read = Attributor(labeller, 8, 1)([long.strip()])[0]
    assert len(read.piece_ends) == 510 and read.scores.shape[1] == 510


def test_nothing_positive_or_uncertain_has_no_scores(labeller: CheXbert) -> None:
    for head in labeller.network.linear_heads:
        nn.init.zeros_(head.weight)
        nn.init.zeros_(head.bias)
        head.bias.data[1 if head.out_features == 2 else NEGATIVE] = (
            1.0  # "No Finding" is positive: it does not count
        )
    read = Attributor(labeller, 8, 2)(SENTENCES)
    assert [found.scores.shape for found in read] == [(0, len(found.piece_ends)) for found in read]
    assert sentence_scores(SENTENCES[0], read[0], 1.0) == [0.0, 0.0]


def test_sentence_scores_by_hand() -> None:
    report = "a b . c ."  # pieces end at 1, 3, 5, 7, 9
    scores = np.array(
        [[0.0, 2.0, 1.0, -4.0, 0.5], [-1.0, -2.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 3.0, 1.0]]
    )
    read = Attribution([1, 3, 5, 7, 9], scores)
    assert sentence_scores(report, Attribution(read.piece_ends, scores[:1]), 0.0) == [1.0, 0.25]
    assert sentence_scores(report, Attribution(read.piece_ends, scores[1:2]), 0.0) == [0.0, 0.0]
    assert sentence_scores(report, read, 0.0) == [1.0, 1.0]
    assert sentence_scores(f"{report} not read .", read, 0.0) == [1.0, 1.0, 0.0]


def test_smoothing_is_a_gaussian_within_the_report() -> None:
    """Pieces beyond either end are those within, mirrored."""
    report, ends = " ".join(["a ."] * 21), [4 * n + 1 for n in range(21)]
    bell = sentence_scores(report, Attribution(ends, np.eye(21)[[10]]), 1.5)
    np.testing.assert_allclose(bell, np.exp(-0.5 * ((np.arange(21) - 10) / 1.5) ** 2), atol=1e-3)
    edge = sentence_scores(report, Attribution(ends, np.eye(21)[[0]]), 1.5)
    np.testing.assert_allclose(edge[1], (bell[11] + bell[12]) / (bell[10] + bell[11]), rtol=1e-3)
    assert sentence_scores(report, Attribution(ends, np.full((1, 21), 0.3)), 1.5) == pytest.approx(
        [1.0] * 21
    )


REPORTS = [
    "the heart is normal . small left effusion .",
    "no pneumothorax . possible edema .",
    "lungs are clear .",
]


class Case:
    """A folder with records whose reports the labeller knows the words of, and the stage run in
    it."""

    def __init__(self, folder: Path, records: pl.DataFrame, backbones: Path, chexbert: Path):
        self.folder, self.backbones = folder, folder / "backbones"
        self.backbones.mkdir()
        (self.backbones / "language").symlink_to(backbones / "language")
        (self.backbones / "chexbert").symlink_to(chexbert)
        self.rows = [row | {"report": REPORTS[n % 3]} for n, row in enumerate(records.to_dicts())]
        self.rows[5] |= {"split": "test", "report": "right effusion ."}

    def make(self, source: str = "computed", **settings: float) -> list[list[float] | None]:
        write_table(
            self.folder / "records.parquet",
            pl.DataFrame(self.rows, schema=RECORD_SCHEMA),
            RECORD_SCHEMA,
        )
        config = {
            "source": source,
            "threshold": 0.4,
            "batch_size": 8,
        } | settings
        room.build_emphasis(
            Emphasis.model_validate(config),
            self.folder / "records.parquet",
            self.backbones,
            self.folder / "emphasis",
        )
        table = read_table(self.folder / "emphasis" / "emphasis.parquet", EMPHASIS_SCHEMA)
        assert table["record_id"].to_list() == [row["record_id"] for row in self.rows]
        return table["emphasis"].to_list()

    @property
    def audit(self) -> dict:
        return read_json(self.folder / "emphasis" / "audit.json")


@pytest.fixture
def case(
    tmp_path: Path,
    records: pl.DataFrame,
    backbones: Path,
    chexbert_directory,
    monkeypatch: pytest.MonkeyPatch,
) -> Case:
    monkeypatch.setattr(attribution, "STEPS", 4)
    return Case(tmp_path, records, backbones, chexbert_directory())


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sentences about effusion and edema have the largest score, whatever random weights say."""

    def scores(report: str, read: object) -> list[float]:
        return [
            float("effusion" in s or "edema" in s) for s in report.removesuffix(" .").split(" . ")
        ]

    monkeypatch.setattr(attribution, "sentence_scores", scores)


def test_released_marks_are_taken_as_they_are(
    case: Case, capsys: pytest.CaptureFixture[str]
) -> None:
    for number, row in enumerate(case.rows):
        row["emphasis"] = [0.0, *([float(number % 2)] * 6)]
    case.rows[0]["emphasis"] = None
    case.rows[1]["emphasis"] = [1.0, 0.5, -1.0]
    marks = case.make("corpus")
    assert marks[0] is None and marks[5] is None, "no marks; a record of test"
    assert marks[1] == [1.0, 1.0, 0.0]
    assert marks[2:5] == [row["emphasis"] for row in case.rows[2:5]]
    counts = case.audit["train"]["sn"]
    assert (
        counts["records"] == 5 and counts["records_with_marks"] == 2 and counts["not_binary"] == 1
    )
    assert not any("Precision" in line["name"] for line in case.audit["checks"])
    assert "training records have emphasised tokens" in capsys.readouterr().out


def test_marks_of_a_longer_text_end_with_the_report(case: Case) -> None:
    case.rows = case.rows[:3]
    tokens = len(
        load_tokenizer(case.backbones)("no effusion .", add_special_tokens=False)["input_ids"]
    )
    given = {"report": "no effusion .", "emphasis": [1.0] * 30}
    case.rows[0] |= given | {"emphasis_text": "no effusion . normal heart ."}
    # findings without a final period: cleaning joins their last sentence with the impression
    case.rows[1] |= given | {"emphasis_text": "no effusion normal heart ."}
    case.rows[2] |= given
    marks = case.make("corpus")
    assert marks[0] == [1.0] * (tokens + 1), "EOS takes none of the impression's"
    assert marks[1] is None and marks[2] == [1.0] * 30
    assert (
        case.audit["train"]["sn"].items()
        >= {"shortened": 1, "dropped": 1, "records_with_marks": 2}.items()
    )


@pytest.mark.usefixtures("known")
def test_computed_marks_are_the_sentences_that_training_weights(case: Case) -> None:
    long = "the heart is normal . " * 40 + "small left effusion ."  # longer than released marks are
    case.rows[0]["report"] = long
    marks = case.make()
    paths = case.folder / "records.parquet", case.folder / "emphasis" / "emphasis.parquet"
    table = RecordTable.read(*paths, None, ("sn",))
    builder = TrajectoryBuilder(load_tokenizer(case.backbones), 1000)
    expected = dict(
        zip(
            [*REPORTS, long],
            ["small left effusion .", "possible edema .", "", "small left effusion ."],
        )
    )
    for number in range(len(table)):
        row = table.row(number)
        assert row["emphasis"] == marks[number] and (row["split"] == "test") == (
            row["emphasis"] is None
        )
        trajectory = builder.build(row["report"], None, row["emphasis"])
        weighted = trajectory.ids[trajectory.s > 0]
        assert builder.tokenizer.decode(weighted.tolist()).strip() == expected.get(
            row["report"], ""
        )
        assert (
            marks[number] is None
            or len(marks[number]) == (trajectory.spans <= Span.REPORT).sum() + 1
        )
        assert not trajectory.s[trajectory.spans != Span.REPORT].any()


@pytest.mark.usefixtures("known")
def test_agreement_with_released_marks_is_counted_by_hand(case: Case) -> None:
    computed = case.make()
    for row in case.rows:
        row["emphasis"] = None
    number = next(
        n for n, marks in enumerate(computed) if marks and 1.0 in marks and 0.0 in marks[1:-1]
    )
    case.rows[number]["emphasis"] = [0.0, *[1.0] * (len(computed[number]) - 2), 0.0]
    case.make()
    assert case.audit["checks"][-1]["detail"] == "1.000 and 0.500"


@pytest.mark.parametrize("source", ["none", "corpus"])
def test_a_corpus_without_marks_says_so(
    case: Case, source: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for row in case.rows:
        row["emphasis"] = [0.0, 1.0] if source == "none" else None
    assert case.make(source) == [None] * len(case.rows)
    doubt = f"emphasis.source: {source} emphasises no tokens of any training record, so L_TLW is 0"
    assert case.audit["checks"][0]["detail"] == doubt and doubt in capsys.readouterr().out


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The reports that were attributed."""
    whole, texts = Attributor.__call__, []

    def counted(attributor: Attributor, reports: list[str]):
        found = whole(attributor, reports)
        texts.extend(reports)
        return found

    monkeypatch.setattr(Attributor, "__call__", counted)
    return texts


def test_a_stopped_run_goes_on_and_no_report_is_read_twice(
    case: Case, read: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object) -> None:
        if len(read) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(room, "_GROUP", 1)
    with monkeypatch.context() as stopped, pytest.raises(KeyboardInterrupt):
        stopped.setattr(room.Ticker, "advance", stop)
        case.make()
    assert len(read) == 2 and not (case.folder / "emphasis" / "emphasis.parquet").exists()
    with open(case.folder / "emphasis" / room.CACHE, "a") as cache:
        cache.write('{"key": "cut o')
    # with other groups and another threshold the same scores are used
    monkeypatch.setattr(room, "_GROUP", 16)
    resumed = case.make(threshold=0.2)
    assert sorted(read) == sorted(REPORTS), (
        "each distinct report once, that of the test record not at all"
    )
    made = hash_file(case.folder / "emphasis" / "emphasis.parquet")
    (case.folder / "emphasis" / room.CACHE).unlink()
    read.clear()
    assert case.make(threshold=0.2) == resumed and len(read) == 3
    assert hash_file(case.folder / "emphasis" / "emphasis.parquet") == made


def test_only_new_texts_and_settings_of_the_attribution_are_attributed(
    case: Case, read: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    marks, cache = case.make(), case.folder / "emphasis" / room.CACHE
    read.clear()
    assert case.make() == marks
    case.make(threshold=0.1, batch_size=3)
    case.make("none")
    case.rows[0]["split"], case.rows[1]["report"] = "test", "right pneumothorax ."
    assert not read and case.make()[2:] == marks[2:] and read == ["right pneumothorax ."]
    assert len(read_jsonl(cache)) == 4
    for name, value in (("STEPS", 5), ("SMOOTHING", 0.5)):
        with monkeypatch.context() as other:
            other.setattr(attribution, name, value)
            read.clear()
            case.make()
            assert len(read) == 4
    assert len(read_jsonl(cache)) == 12
    read.clear()
    case.make()
    assert not read, "scores of other settings are kept"


CONFIG = Emphasis.model_validate({"source": "computed", "threshold": 0.4, "batch_size": 8})


def test_lines() -> None:
    audit = room.Audit(CONFIG)
    audit.counts["train", "sn"].update(sentences=30, marked_sentences=12, shortened=3)
    audit.counts["train", "mn"].update(sentences=10, marked_sentences=3, dropped=2)
    audit.counts["val", "sn"].update(sentences=5, marked_sentences=1, dropped=1, not_binary=0)
    audit.agreement["train"] = Counter({(True, True): 7, (True, False): 1, (False, True): 7})
    assert {line["name"]: (line["detail"], line["good"]) for line in audit.content()["checks"]} == {
        "Emphasis in training (computed)": ("37.5% of 40 sentences", True),
        "Records whose released emphasis was changed": ("3 shortened, 3 dropped", False),
        "Precision and recall of computed against released emphasis, by sentence (train)": (
            "0.875 and 0.500",
            True,
        ),
    }


def test_a_doubt_is_marked_unless_no_marks_are_wanted() -> None:
    for source, good in (("computed", False), ("none", True)):
        audit = room.Audit(CONFIG.model_copy(update={"source": source}))
        [line] = audit.content()["checks"]
        assert (line["detail"], line["good"]) == (audit.doubt(), good)
