"""Scores of a run's predictions; planted models that look at no source are called so; METEOR's
counts and failures."""

import json
from collections.abc import Callable
from itertools import product
from pathlib import Path

import numpy as np
import polars as pl
import psutil
import pytest

from pacer.backbones.chexbert import CheXbert, label_references
from pacer.config.decode import ScoreSettings
from pacer.core.anchor import ANCHOR_SCHEMA
from pacer.core.errors import DataError
from pacer.core.io import hash_file, read_jsonl, write_json, write_jsonl, yaml_beside
from pacer.metrics.language import meteor, meteor_statistics
from pacer.metrics.meteor import MeteorError, meteor_run
from pacer.metrics.options import DEFAULTS, Scoring
from pacer.metrics.predictions import decoded_records
from pacer.metrics.signature import Signature
from pacer.reporting.score_tables import signature_line
from pacer.statistics.checks import at_chance, warnings
from pacer.statistics.halves import score_intervals
from pacer.text.cleaning.cleaners import clean_report
from pacer.text.rules import extract_anchor
from tests.integration.core.test_stops import STRANGE
from tests.support.cases import listed_cases
from tests.support.metrics import efficacy, random_texts, score_predictions
from tests.support.waiting import wait_until

REPORTS = [
    "the heart is normal . no effusion .",
    "small left effusion . no pneumothorax .",
    "possible edema .",
    "the lungs are clear .",
]


def records_of(contexts: tuple[str, ...]) -> pl.DataFrame:
    rows = [
        {
            "record_id": f"{context}-test{i}",
            "context": context,
            "study_id": f"test{i}",
            "subject_id": f"p{i}",
        }
        | {
            "split": "test",
            "report": text,
            "report_raw": text.replace(" .", "."),
            "findings_original": None,
        }
        for context in contexts
        for i, text in enumerate(REPORTS)
    ]
    return pl.DataFrame(rows, schema_overrides={"findings_original": pl.String})


def line(record_id: str, report: str, anchor: bool = True) -> dict:
    lists = {k: list(v) for k, v in extract_anchor(report).as_dict().items()}
    said = {
        "record_id": record_id,
        "report": report,
        "generated": f"<REPORT> {report}",
    }
    return said | {
        "anchor": lists if anchor else None,
        "gate": 0.25 if anchor else None,
        "fallback": not anchor,
    }


class Case:
    """Records of two contexts with predictions, a control, and all that can be scored against."""

    def __init__(self, folder: Path, chexbert: Path):
        self.folder, self.chexbert, self.predictions = folder, chexbert, folder / "predictions"
        self.records = records_of(("sn", "mn"))
        self.generated = {c: [REPORTS[i] for i in (1, 2, 3, 1)] for c in ("sn", "mn")}
        for context, texts in self.generated.items():
            ids = self.records.filter(pl.col("context") == context)["record_id"].to_list()
            lines = [
                line(key, text, anchor=i > 0)
                for i, (key, text) in enumerate(zip(ids, texts, strict=True))
            ]
            write_jsonl(self.predictions / f"{context}.jsonl", lines[::-1])
            shuffled = [line(key, REPORTS[0]) for key in ids]
            write_jsonl(self.predictions / f"controls/another_patient/{context}.jsonl", shuffled)
        write_jsonl(self.predictions / "controls/no_lateral/mn.jsonl", shuffled)
        write_json(self.predictions / "manifest.json", {"step": 3})

    def score(self, **changes) -> dict:
        """``changes``: of the options, of the settings, or of what :func:`score_predictions` takes
        by name."""
        options, settings = (
            {name: changes.pop(name) for name in [*changes] if name in kind.__annotations__}
            for kind in (Scoring, ScoreSettings)
        )
        settings = DEFAULTS.model_copy(update=settings)
        arguments = {
            "records": self.records,
            "predictions": self.predictions,
            "out": self.folder / "metrics",
            "options": Scoring(self.chexbert, settings=settings, **options),
        }
        return score_predictions(**(arguments | changes))

    def read(self, name: str) -> dict:
        return json.loads((self.folder / "metrics" / name).read_text())


@pytest.fixture
def case(tmp_path, chexbert_directory, quick_meteor) -> Case:
    return Case(tmp_path, chexbert_directory())


def test_scores_of_every_context_and_their_mean(case):
    scores = case.score()
    assert list(scores) == ["sn", "mn", "mean", "controls"]
    assert case.read("scores.json") == scores
    cases = pl.read_parquet(case.folder / "metrics/cases.parquet")
    assert cases["record_id"].to_list() == case.records["record_id"].to_list()
    assert cases["hypothesis"].to_list() == case.generated["sn"] + case.generated["mn"]
    assert (
        cases["anchor_positive"].null_count() == 2 and cases["reference_positive"].null_count() == 0
    )
    labels = CheXbert(case.chexbert)
    expected = efficacy(labels(REPORTS), labels(case.generated["sn"]))
    assert expected["precision"] != expected["recall"]
    control = efficacy(labels(REPORTS), labels([REPORTS[0]] * 4))
    for name in ("precision", "recall", "f1"):
        micro = case.read("conventions.json")["llm-rg4"]["sn"][f"{name}_micro"]
        assert scores["sn"][name] == micro == expected[name]
    assert scores["controls"]["another_patient"]["sn"] == {"f1": control["f1"]}
    assert scores["sn"]["n"] == 4 and "n" not in scores["mean"]
    assert scores["sn"]["fallback_rate"] == 0.25 and scores["sn"]["gate"] == 0.25
    assert not [name for name in scores["sn"] if name.startswith("original")]
    assert case.read("signature.json")["language"]["original_references"] == "not available"
    for name in (
        "precision",
        "recall",
        "f1",
        "bleu1",
        "bleu4",
        "rougeL",
        "meteor",
        "fallback_rate",
    ):
        assert scores["mean"][name] == pytest.approx((scores["sn"][name] + scores["mn"][name]) / 2)
    assert scores["sn"]["contradiction_rate"] == 0
    assert {name: list(runs) for name, runs in scores["controls"].items()} == {
        "another_patient": ["sn", "mn"],
        "no_lateral": ["mn"],
    }


def test_given_labels_and_commitments_equal_those_made_on_the_spot(case):
    expected = case.score()
    label_references(case.records[::-1], case.chexbert, case.folder / "references.parquet")
    anchors = [extract_anchor(text).as_dict() for text in case.records["report_raw"]]
    pl.DataFrame(
        {
            "record_id": case.records["record_id"],
            **{
                name: [anchor[name] for anchor in anchors]
                for name in ("positive", "negative", "uncertain")
            },
            "origin": "rules",
        },
        schema=ANCHOR_SCHEMA,
    ).write_parquet(case.folder / "anchors.parquet")
    assert (
        case.score(
            labels=case.folder / "references.parquet", anchors=case.folder / "anchors.parquet"
        )
        == expected
    )


def test_the_signature_says_what_was_scored_with(case):
    case.score()
    signature = case.read("signature.json")
    assert signature["standin_labeller"] is None and signature["predictions"] == {"step": 3}
    assert signature["counts"]["sn"] == {"n": 4, "original_references": 0, "empty_hypotheses": 0}
    assert "n:4+4 |" in signature_line(Signature.read(case.folder / "metrics/signature.json"))
    assert len(signature["clinical"]["labeller"]["files"]["chexbert.pth"]) == 64
    assert len(signature["data"]["predictions/sn"]) == 64 and signature["data"]["truth"] is None
    write_json(
        case.chexbert / "provenance.json", {"provider": "local", "origin": {"provider": "standin"}}
    )
    write_json(
        case.predictions / "manifest.json",
        {"settings": {"split": "test", "limit": 4}, "examples": ["study 1"]},
    )
    case.score()
    assert "n:4+4 (decode.limit 4) |" in signature_line(
        Signature.read(case.folder / "metrics/signature.json")
    )
    assert case.read("signature.json")["standin_labeller"] is True
    assert not any(
        word in (case.folder / "metrics/signature.json").read_text()
        for word in ("heart", "study 1")
    )


def test_original_findings_are_cleaned(case):
    """The score is that of the same predictions against cleaned references, and the signature names
    the cleaner."""
    raw = [
        f"{text[0].upper()}{text[1:].replace(' .', '.')}\nStable 1.2 cm nodule."
        for text in case.records["report"]
    ]
    records = case.records.with_columns(findings_original=pl.Series([*raw[:-1], None]))
    assert case.score(records=records, about={"cleaner": "iu_xray"})["mn"]["original_n"] == 3
    assert case.read("signature.json")["language"]["cleaner"] == "iu_xray"
    scores = case.score(records=case.records.with_columns(findings_original=pl.Series(raw)))
    assert "original_n" not in scores["mean"]
    assert case.read("signature.json")["language"]["original_references"] == (
        "findings as published, cleaned by upstream, where a study has them"
    )
    plain = case.score(
        records=case.records.with_columns(report=pl.Series(list(map(clean_report, raw))))
    )
    found = {
        name.removeprefix("original_"): value
        for name, value in scores["sn"].items()
        if "original_" in name
    }
    assert list(found) == ["bleu1", "bleu4", "rougeL", "n"]
    assert (
        found == {name: plain["sn"][name] for name in found}
        and found["n"] == 4
        and found["bleu1"] > 0
    )


def test_inputs_that_lack_a_record_are_refused(case):
    path = case.predictions / "sn.jsonl"
    _, *others = read_jsonl(path)
    write_jsonl(path, [*others, others[0] | {"record_id": "sn-other"}])
    with pytest.raises(DataError, match=r"missing in .*: sn-test3; .*not in the records: sn-other"):
        case.score()
    assert not (case.folder / "metrics").exists()
    (case.predictions / "mn.jsonl").unlink()
    with pytest.raises(DataError, match=r"has no mn\.jsonl, .*add --context=sn"):
        case.score()
    with pytest.raises(DataError, match="no records"):
        case.score(records=case.records[:0])


def test_columns_reach_scores_cases_and_intervals(case) -> None:
    plain, ids, path = (
        case.score(),
        case.records["record_id"].to_list(),
        case.folder / "columns.csv",
    )
    rows = [f"{key},{number or ''},{'ab'[number % 2]}\n" for number, key in enumerate(ids)]
    path.write_text(f"record_id,words,site\n{''.join(rows[::-1])}")
    scores = case.score(columns=str(path))
    assert scores["sn"] == plain["sn"] | {"words": 2.0, "words_n": 3}  # the first record has none
    assert scores["mean"] == plain["mean"] | {"words": 3.75}
    cases = pl.read_parquet(case.folder / "metrics/cases.parquet")
    assert cases["words"].to_list() == [None, *map(float, range(1, 8))] and cases["site"][
        :2
    ].to_list() == ["a", "b"]
    signature = case.read("signature.json")
    assert signature["columns"] == {"scores": ["words"], "groups": ["site"]}
    assert signature["data"]["columns"] == hash_file(path)
    assert (
        score_intervals(cases, "llm-rg4", 20, columns=["words"]).scores["sn"]["words"].value == 2.0
    )


CASES = 40
Texts = list[str]


def reports(words: Texts, seed: int) -> Texts:
    draw = np.random.default_rng(seed)
    return [" ".join([*draw.choice(words, 9), "."]) for _ in range(CASES)]


def lines(context: str, texts: Texts) -> list[dict]:
    return [
        {"record_id": f"{context}-{number}", "report": text} for number, text in enumerate(texts)
    ]


@pytest.fixture
def scored(
    tmp_path, words, chexbert_directory, quick_meteor
) -> Callable[[Texts, Texts], pl.DataFrame]:
    """Scored cases of one context, from a model's reports of the cases' own sources and of
    another patient's."""
    references = reports(words, 0)
    numbers = [str(number) for number in range(CASES)]
    records = pl.DataFrame(
        {
            "record_id": [f"sn-{number}" for number in numbers],
            "context": "sn",
            "study_id": numbers,
            "subject_id": numbers,
            "report": references,
            "report_raw": references,
        }
    ).with_columns(findings_original=pl.lit(None, pl.String))

    def score(own: Texts, other: Texts) -> pl.DataFrame:
        write_jsonl(tmp_path / "sn.jsonl", lines("sn", own))
        write_jsonl(tmp_path / "controls/another_patient/sn.jsonl", lines("sn", other))
        options = Scoring(chexbert_directory())
        score_predictions(records, tmp_path, tmp_path / "scores", options)
        return pl.read_parquet(tmp_path / "scores/cases.parquet")

    return score


def test_planted_models_are_called_so_and_one_that_looks_is_not(scored, words) -> None:
    references = reports(words, 0)
    models = {
        "identical": (references[:1] * CASES, references[:1] * CASES),
        "stay the same with another patient's sources": (references[1:] + references[:1],) * 2,
        "not shown to be above F1 with other patients'": (reports(words, 2), reports(words, 3)),
    }
    for sentence, (own, other) in models.items():
        found = warnings(scored(own, other), "llm-rg4")
        assert any(sentence in line for line in found) and all("SN" in line for line in found)
    assert len(found) == 1, "what differs from case to case has one fault"
    assert warnings(scored(references, references[1:] + references[:1]), "llm-rg4") == []


def test_commitments_and_reports_are_held_against_the_references_of_other_patients() -> None:
    """Both agree in sn, neither in mn: each case has one of two findings, and in mn texts state the
    other one."""
    numbers = [str(number) for number in range(2 * CASES)]
    stated = {"sn": [["edema"], ["fracture"]] * CASES, "mn": [["fracture"], ["edema"]] * CASES}
    frames = [
        pl.DataFrame(
            {"subject_id": numbers, "study_id": numbers, "reference_positive": stated["sn"]}
        ).with_columns(
            pl.lit(context).alias("context"),
            pl.concat_str(pl.lit(context), "subject_id").alias("record_id"),
            *(pl.Series(f"{side}_positive", stated[context]) for side in ("anchor", "report")),
            *(
                pl.lit([], pl.List(pl.String)).alias(f"{side}_{polarity}")
                for side, polarity in product(
                    ("reference", "anchor", "report"), ("negative", "uncertain")
                )
            ),
        )
        for context in stated
    ]
    cases = pl.concat(frames)
    in_mn = {"MN": ("0.000", "0.925")}  # F1 against own references, and against those of others
    assert at_chance(cases, "llm-rg4") == {"Commitments": in_mn, "Reports": in_mn}
    unlisted = cases.with_columns(pl.lit(None, pl.List(pl.String)).alias("anchor_positive"))
    assert at_chance(unlisted, "llm-rg4") == {"Reports": in_mn}
    assert (
        at_chance(
            cases.with_columns(pl.col("anchor_negative").alias("reference_positive")), "llm-rg4"
        )
        == {}
    )


def script(folder: Path, text: str) -> Path:
    program = folder / "java"
    program.write_text(f"#!/bin/sh\n{text}\n")
    program.chmod(0o755)
    return program


def counts_by(java: Path) -> np.ndarray:
    """The counts of one pair, by a program in the place of Java."""
    with meteor_run(["a"], ["a"], java) as counts:
        return counts()


def meteor_texts() -> tuple[list[str], list[str]]:
    """References and reports: among them equal ones, whose matches are counted in a way of their
    own, and a letter outside ASCII."""
    references, hypotheses = random_texts(1), random_texts(2)
    hypotheses[:8] = references[:8]
    hypotheses[8] += " épanchement"
    return references, hypotheses


def resamples() -> list[np.ndarray]:
    """All pairs, and some drawn with repeats."""
    draw = np.random.default_rng(1)
    return [np.arange(40), *(draw.integers(0, 40, 25) for _ in range(4))]


def test_scores_of_any_resample_equal_the_original_package(monkeypatch):
    """Line breaks change nothing, and neither does a strange environment. ``tests/thorough`` runs
    the original package, which wrote the values that are listed here."""
    for name, value in STRANGE.items():
        monkeypatch.setenv(name, value)
    references, hypotheses = meteor_texts()
    with meteor_run([text.replace(" ", "\n") for text in references], hypotheses) as counts:
        rows = meteor_statistics(counts())
    listed = yaml_beside(__file__, "scoring.yaml")["meteor"]
    assert meteor(rows) == pytest.approx(listed["each"], abs=1e-12)
    for chosen, total in zip(resamples(), listed["totals"], strict=True):
        assert meteor(rows[chosen].sum(axis=0)) == pytest.approx(total, abs=1e-12)


@pytest.mark.parametrize(("text", "problem"), listed_cases(__file__, "failing"))
def test_a_program_that_fails_or_talks_nonsense_is_an_error(tmp_path, text, problem):
    with pytest.raises(MeteorError, match=problem) as error:
        counts_by(script(tmp_path, text))
    assert "SECRET" not in str(error.value)
    with pytest.raises(MeteorError, match="make setup"):
        counts_by(tmp_path / "nowhere")


@pytest.mark.parametrize("text", listed_cases(__file__, "endless"))
def test_what_does_not_end_is_killed(tmp_path, monkeypatch, text):
    monkeypatch.setattr("pacer.metrics.meteor.STARTUP_SECONDS", 1.5)
    pid = tmp_path / "pid"
    with pytest.raises(MeteorError, match=r"took more than 2 seconds: it has hung, or the machine"):
        counts_by(script(tmp_path, f"trap '' TERM INT HUP; echo $$ > {pid}; {text}"))
    # the system needs a moment to bury a killed process
    wait_until(lambda: not psutil.pid_exists(int(pid.read_text())))


def test_no_program_outlives_the_scores_beside_it(tmp_path):
    program = script(tmp_path, f"echo $$ > {tmp_path / 'pid'}; exec sleep 60")
    with pytest.raises(KeyboardInterrupt), meteor_run(["a"], ["a"], program):
        pid = tmp_path / "pid"
        wait_until(lambda: pid.is_file() and pid.read_text())
        raise KeyboardInterrupt
    assert not psutil.pid_exists(int(pid.read_text()))


def test_scored_records_are_those_that_were_decoded(tmp_path: Path):
    records = pl.DataFrame(
        {
            "record_id": ["sn-1", "sn-2", "mn-1", "mn-2", "sn-3"],
            "context": ["sn", "sn", "mn", "mn", "sn"],
            "split": ["val", "val", "val", "val", "test"],
        }
    )
    assert decoded_records(records, tmp_path, None)[0]["record_id"].to_list() == ["sn-3"]
    assert decoded_records(records, tmp_path, "val")[0].height == 4
    (tmp_path / "manifest.json").write_text(json.dumps({"settings": {"split": "val", "limit": 1}}))
    kept, note = decoded_records(records, tmp_path)
    assert kept["record_id"].to_list() == ["sn-1", "mn-1"]
    assert note == "2 of 4 records of split val: decode.limit 1"
    assert decoded_records(records, tmp_path, "test")[1] is None
