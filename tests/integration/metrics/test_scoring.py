from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest

from pacer.commitments.anchor import ANCHOR_SCHEMA
from pacer.commitments.rules.extract import extract_anchor
from pacer.config.decode import Score
from pacer.core.errors import DataError
from pacer.core.io import read_jsonl, write_json, write_jsonl
from pacer.data.cleaning import CLEANERS
from pacer.data.findings import FINDINGS
from pacer.data.schemas import TRUTH_SCHEMA
from pacer.metrics.chexbert.labeller import CheXbert
from pacer.metrics.chexbert.reference_labels import known_labels, label_references
from pacer.metrics.clinical import clinical_efficacy, ratios
from pacer.metrics.signature import DEFAULTS, ScoreInputs, Signature
from pacer.metrics.truth import findings_present
from pacer.reporting.signature import signature_line
from tests.support.metrics import score_predictions

REPORTS = [
    "the heart is normal . no effusion .",
    "small left effusion . no pneumothorax .",
    "possible edema .",
    "the lungs are clear .",
]
NUMBERS = ("precision", "recall", "f1", "bleu1", "bleu4", "rougeL", "meteor", "fallback_rate")


def records_of(contexts: tuple[str, ...]) -> pl.DataFrame:
    rows = [
        {"record_id": f"{context}-test{i}", "context": context, "study_id": f"test{i}", "subject_id": f"p{i}"}
        | {"split": "test", "report": text, "report_raw": text.replace(" .", "."), "findings_original": None}
        for context in contexts
        for i, text in enumerate(REPORTS)
    ]
    return pl.DataFrame(rows, schema_overrides={"findings_original": pl.String})


def line(record_id: str, report: str, anchor: bool = True) -> dict:
    lists = {k: list(v) for k, v in extract_anchor(report).as_dict().items()}
    said = {"record_id": record_id, "report": report, "generated": f"<REPORT> {report}", "tokens": 7}
    return said | {"anchor": lists if anchor else None, "gate": 0.25 if anchor else None, "fallback": not anchor}


class Case:
    """Records of two contexts with predictions, a control, and all that can be scored against."""

    def __init__(self, folder: Path, chexbert: Path):
        self.folder, self.chexbert, self.predictions = folder, chexbert, folder / "predictions"
        self.records = records_of(("sn", "mn"))
        self.generated = {c: [REPORTS[i] for i in (1, 2, 3, 1)] for c in ("sn", "mn")}
        for context, texts in self.generated.items():
            ids = self.records.filter(pl.col("context") == context)["record_id"].to_list()
            lines = [line(key, text, anchor=i > 0) for i, (key, text) in enumerate(zip(ids, texts, strict=True))]
            write_jsonl(self.predictions / f"{context}.jsonl", lines[::-1])
            shuffled = [line(key, REPORTS[0]) for key in ids]
            write_jsonl(self.predictions / f"controls/another_patient/{context}.jsonl", shuffled)
        write_jsonl(self.predictions / "controls/no_lateral/mn.jsonl", shuffled)
        write_json(self.predictions / "manifest.json", {"step": 3})
        draw = np.random.default_rng(0)
        self.latent = draw.random((4, 13)) < 0.4
        studies = [f"test{i}" for i in range(4)]
        truth = {"study_id": studies, "subject_id": studies, "split": "test"}
        truth |= dict(zip(FINDINGS, self.latent.T, strict=True))
        truth |= {
            "lateral_only": [["edema"] if row[3] else [] for row in self.latent],
            "prior_only": [[]] * 4,
            "states": [[]] * 4,
            "boxes": [[]] * 4,
        }
        pl.DataFrame(truth, schema=TRUTH_SCHEMA).write_parquet(folder / "truth.parquet")

    def score(self, **changes) -> dict:
        """``changes``: of the inputs, of the settings, or of what :func:`score_predictions` takes by name."""
        inputs, settings = (
            {name: changes.pop(name) for name in [*changes] if name in kind.__annotations__}
            for kind in (ScoreInputs, Score)
        )
        arguments = {
            "records": self.records,
            "predictions": self.predictions,
            "out": self.folder / "metrics",
            "inputs": ScoreInputs(self.chexbert, **inputs),
            "settings": DEFAULTS.model_copy(update=settings),
        }
        return score_predictions(**(arguments | changes))

    def read(self, name: str) -> dict:
        return json.loads((self.folder / "metrics" / name).read_text())


@pytest.fixture
def case(tmp_path, chexbert_directory, quick_meteor) -> Case:
    return Case(tmp_path, chexbert_directory())


def test_scores_of_every_context_and_their_mean(case):
    denied = {"positive": [], "negative": ["pleural effusion"], "uncertain": []}
    first, *others = read_jsonl(case.predictions / "mn.jsonl")
    write_jsonl(case.predictions / "mn.jsonl", [first | {"anchor": denied}, *others])
    scores = case.score()
    assert list(scores) == ["sn", "mn", "mean", "contradictions", "conventions", "controls"]
    assert case.read("scores.json") == scores
    labels = CheXbert(case.chexbert)
    expected = clinical_efficacy(labels(REPORTS), labels(case.generated["sn"]))
    assert expected["precision"] != expected["recall"]
    control = clinical_efficacy(labels(REPORTS), labels([REPORTS[0]] * 4))
    for name in ("precision", "recall", "f1"):
        assert scores["sn"][name] == scores["conventions"]["llm-rg4"]["sn"][f"{name}_micro"] == expected[name]
        assert scores["controls"]["another_patient"]["sn"][name] == control[name]
    assert scores["sn"]["n"] == 4 and "n" not in scores["mean"]
    assert scores["sn"]["fallback_rate"] == 0.25 and scores["sn"]["gate"] == 0.25
    assert not [name for name in scores["sn"] if name.startswith("original")]
    assert case.read("signature.json")["language"]["original_references"] == "not available"
    for name in NUMBERS:
        assert scores["mean"][name] == pytest.approx((scores["sn"][name] + scores["mn"][name]) / 2)
    assert scores["sn"]["report_follows_anchor"] == 1.0
    assert scores["contradictions"] == dict.fromkeys(FINDINGS, 0) | {"pleural effusion": 1}
    assert (scores["sn"]["contradiction_rate"], scores["mn"]["contradiction_rate"]) == (0, 1 / 3)
    assert 0 <= scores["sn"]["anchor_agreement"] < 1
    assert {name: list(runs) for name, runs in scores["controls"].items()} == {
        "another_patient": ["sn", "mn"],
        "no_lateral": ["mn"],
    }


def test_a_limited_decode_is_not_called_the_whole_split(case):
    case.score()
    assert "n:4+4 |" in signature_line(Signature.read(case.folder / "metrics/signature.json"))
    write_json(case.predictions / "manifest.json", {"settings": {"split": "test", "limit": 4}})
    case.score()
    assert "n:4+4 (decode.limit 4) |" in signature_line(Signature.read(case.folder / "metrics/signature.json"))


def test_given_labels_and_anchors_equal_those_made_on_the_spot(case):
    expected = case.score()
    label_references(case.records, case.chexbert, case.folder / "references.parquet")
    anchors = [extract_anchor(text).as_dict() for text in case.records["report_raw"]]
    pl.DataFrame(
        {
            "record_id": case.records["record_id"],
            **{name: [anchor[name] for anchor in anchors] for name in ("positive", "negative", "uncertain")},
            "origin": "rules",
        },
        schema=ANCHOR_SCHEMA,
    ).write_parquet(case.folder / "anchors.parquet")
    assert case.score(labels=case.folder / "references.parquet", anchors=case.folder / "anchors.parquet") == expected


def test_truth_and_its_yardsticks(case):
    truth = case.score(truth=case.folder / "truth.parquet")["truth"]
    label, test = CheXbert(case.chexbert), case.latent

    def f1(texts: list[str], latent: np.ndarray) -> float:
        return ratios(latent, findings_present(label(texts)))["f1"]

    assert truth["sn_f1"] == truth["mn_f1"] == truth["mean_f1"] == f1(case.generated["sn"], test)
    assert truth["another_patient_f1"] == pytest.approx(f1([REPORTS[0]] * 4, test))
    assert "no_lateral_f1" not in truth
    cases = pl.read_parquet(case.folder / "metrics/cases.parquet")
    assert cases["truth"].list.len().to_list() == test.sum(axis=1).tolist() * 2


def test_cases_hold_one_row_a_record(case):
    case.score()
    cases = pl.read_parquet(case.folder / "metrics/cases.parquet")
    assert cases["record_id"].to_list() == case.records["record_id"].to_list()
    assert cases["hypothesis"].to_list() == case.generated["sn"] + case.generated["mn"]
    assert cases["hypothesis_labels"].list.len().unique().to_list() == [14]
    assert cases["anchor_positive"].null_count() == 2 and cases["reference_positive"].null_count() == 0
    assert cases.filter(pl.col("record_id") == "sn-test1")["reference_negative"].item().to_list() == ["pneumothorax"]
    assert "truth" not in cases.columns


def test_the_signature_says_what_was_scored_with(case):
    case.score()
    signature = case.read("signature.json")
    assert signature["standin_labeller"] is None and signature["predictions"] == {"step": 3}
    assert signature["counts"]["sn"] == (
        {"n": 4, "studies": 4, "original_references": 0, "empty_references": 0, "empty_hypotheses": 0}
        | {"distinct_hypotheses": 3, "without_anchor": 1}
    )
    assert signature["clinical"]["labeller"]["arithmetic"] == "float32"
    assert len(signature["clinical"]["labeller"]["files"]["chexbert.pth"]) == 64
    assert len(signature["data"]["predictions/sn"]) == 64 and signature["data"]["truth"] is None
    write_json(case.chexbert / "provenance.json", {"provider": "local", "origin": {"provider": "standin"}})
    case.score()
    assert case.read("signature.json")["standin_labeller"] is True
    assert "heart" not in (case.folder / "metrics/signature.json").read_text()


def test_original_findings_are_scored_where_a_study_has_them(case):
    one = pl.when(pl.col("record_id") == case.records["record_id"][0]).then(pl.col("report_raw"))
    scores = case.score(records=case.records.with_columns(findings_original=one), about={"cleaner": "iu_xray"})
    assert scores["sn"]["original_n"] == 1 and "original_n" not in scores["mean"]
    language = case.read("signature.json")["language"]
    assert (language["cleaner"], language["target"]) == ("iu_xray", "not recorded")


@pytest.mark.parametrize(
    ("form", "said"),
    [
        ("upstream", "findings as published, cleaned by upstream, where a study has them"),
        ("lowercase", "findings as published, blanks collapsed, lower-cased, punctuation kept, where a study has them"),
        ("as_is", "findings as published, blanks collapsed, case and punctuation kept, where a study has them"),
    ],
)
def test_original_findings_are_brought_into_the_form_that_is_asked_for(case, form, said):
    """The score is that of the same predictions against references in that form, and the signature names it."""
    raw = [f"{text[0].upper()}{text[1:].replace(' .', '.')}\nStable 1.2 cm nodule." for text in case.records["report"]]
    scores = case.score(records=case.records.with_columns(findings_original=pl.Series(raw)), originals=form)
    changed = {
        "as_is": lambda text: " ".join(text.split()),
        "lowercase": lambda text: " ".join(text.lower().split()),
        **CLEANERS,
    }[form]
    assert case.read("signature.json")["language"]["original_references"] == said
    plain = case.score(records=case.records.with_columns(report=pl.Series([changed(text) for text in raw])))
    found = {name.removeprefix("original_"): value for name, value in scores["sn"].items() if "original_" in name}
    assert found == {name: plain["sn"][name] for name in found} and found["n"] == 4 and found["bleu1"] > 0


def test_ids_must_pair_one_to_one(case):
    path = case.predictions / "sn.jsonl"
    first, *others = read_jsonl(path)
    write_jsonl(path, [*others, others[0] | {"record_id": "sn-other"}])
    with pytest.raises(DataError, match=r"missing in .*: sn-test3; .*not in the records: sn-other"):
        case.score()
    assert first["record_id"] == "sn-test3" and not (case.folder / "metrics").exists()


def test_inputs_that_lack_a_record_are_refused(case):
    (case.predictions / "mn.jsonl").unlink()
    with pytest.raises(DataError, match=r"holds no mn\.jsonl, .*add --context sn"):
        case.score()
    with pytest.raises(DataError, match="no records"):
        case.score(records=case.records[:0])
    with pytest.raises(DataError, match="more than once in the records: sn-test0"):
        case.score(records=pl.concat([case.records, case.records[:1]]))


def test_reference_labels_are_in_a_table(case):
    (case.folder / "labels.parquet").write_bytes(b"PAR1")
    for name, problem in (("nothing", "does not exist"), ("labels", "not a readable"), ("truth", "missing columns")):
        with pytest.raises(DataError, match=problem):
            known_labels(case.folder / f"{name}.parquet", case.records, case.chexbert, "float32")


def test_labels_in_another_arithmetic_are_refused(case):
    """Those of another ``score.precision``, and those of a file that does not tell."""
    path = case.folder / "references.parquet"
    label_references(case.records, case.chexbert, path)
    case.score(labels=path)
    assert case.read("signature.json")["clinical"]["labeller"]["arithmetic"] == "float32"
    label_references(case.records, case.chexbert, path, precision="bfloat16")
    with pytest.raises(DataError, match=r"was labelled in bfloat16, and here .* in float32; .*another path"):
        case.score(labels=path)
    case.score(labels=path, precision="bfloat16")
    assert case.read("signature.json")["clinical"]["labeller"]["arithmetic"] == "bfloat16"
    about = json.loads(pq.read_metadata(path).metadata[b"pacer"])
    about.pop("arithmetic")
    pl.read_parquet(path).write_parquet(path, metadata={"pacer": json.dumps(about)})
    with pytest.raises(DataError, match="was labelled in an arithmetic that it does not state"):
        case.score(labels=path)
