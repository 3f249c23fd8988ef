"""Scoring from Python, and what it does not import."""

import inspect
import re
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

import pacer
from pacer.core.errors import ConfigError, DataError
from pacer.metrics.options import Pairing

REFERENCES = {"a": "no effusion .", "b": "the heart is large .", "c": "a tube ."}
REPORTS = {"c": "a tube .", "a": "no effusion . no edema .", "b": "the heart is normal ."}


def frame(texts: dict[str, str]) -> pl.DataFrame:
    return pl.DataFrame({"id": list(texts), "report": list(texts.values())})


def test_mappings_sequences_frames_and_paths_give_the_same_scores(tmp_path, quick_meteor) -> None:
    for name, texts in (("r.csv", REFERENCES), ("h.csv", REPORTS)):
        frame(texts).write_csv(tmp_path / name)
    found = pacer.score(REFERENCES, REPORTS)
    assert (
        found.scores["all"]["n"] == 3 == len(found.cases) and found.intervals.scores["all"]["bleu4"]
    )
    assert found.signature.data["references"] is None
    in_order = [REPORTS[key] for key in REFERENCES]
    for pair in (
        (frame(REFERENCES), frame(REPORTS)),
        (tmp_path / "r.csv", str(tmp_path / "h.csv")),
        (list(REFERENCES.values()), in_order),
        (REFERENCES, tmp_path / "h.csv"),
    ):
        assert pacer.score(*pair).scores == found.scores
    with pytest.raises(
        DataError, match="references: the references for b are blank or placeholders such as nan"
    ):
        pacer.score(REFERENCES | {"b": "nan"}, REPORTS)
    with pytest.raises(ConfigError, match=r"pacer\.score: missing = 'emptty'"):
        pacer.score(REFERENCES, REPORTS, missing="emptty")
    with pytest.raises(DataError, match=r"columns must be the path of a table, got DataFrame$"):
        pacer.score(REFERENCES, REPORTS, columns=frame(REPORTS))
    with pytest.raises(ConfigError, match="nope is unknown; expected module:function"):
        pacer.score(REFERENCES, REPORTS, metrics="nope")
    assert "meteor" not in pacer.score(REFERENCES, REPORTS, without="meteor").scores["all"]


def test_the_keywords_of_score_are_the_fields_of_the_protocol() -> None:
    keywords = inspect.signature(pacer.score).parameters
    for name, field in Pairing.model_fields.items():
        assert keywords[name].default == field.default and keywords[name].annotation not in (
            "",
            "Any",
        )
    assert all(re.search(rf"\b{name}\b.*:", pacer.score.__doc__ or "") for name in keywords)


def test_notes_name_options_and_keywords(quick_meteor) -> None:
    notes = pacer.score(REFERENCES | {"a": "No effusion."}, REPORTS).notes
    cleaning = 'clean them: `--clean decimals`, in Python clean_references="decimals" (same cleaner'
    assert cleaning in " ".join(notes)


def test_results_are_shown_as_tables_with_three_decimals(quick_meteor) -> None:
    nothing = pacer.score(REFERENCES, dict.fromkeys(REFERENCES, "zzz"))
    assert 0 < nothing.scores["all"]["bleu1"] < 1e-15
    assert "BLEU-1       0.000\n" in repr(nothing)
    scored = pacer.score(REFERENCES, REPORTS)
    assert "BLEU-1       0.714\n" in repr(scored) and "Side agrees" not in repr(scored)
    assert "<td>BLEU-1     </td><td>0.714  </td>" in scored._repr_html_()
    compared = pacer.compare(scored, nothing, resamples=20)
    assert re.search(r"ALL +ROUGE-L +0\.836 +0\.000 +3 +−0\.836 +– +–\n", repr(compared))
    assert "<p>3 records; 20 random splits of 3 records into halves" in compared._repr_html_()
    effusions = pacer.score(
        {"a": "left effusion .", "b": "a large heart ."}, {"a": "right effusion .", "b": "clear ."}
    )
    assert effusions.signature.counted["all"][
        "attributes_side"
    ] == 1 and "Side agrees  0.000 (1)\n" in repr(effusions)


def test_the_mean_of_one_named_context_has_an_interval(quick_meteor) -> None:
    for name, context in {"sn": pl.lit("sn"), "all": pl.lit(None, pl.String)}.items():
        found = pacer.score(frame(REFERENCES).with_columns(context=context), REPORTS)
        expected = ["sn", "mean"] if name == "sn" else ["all"]
        assert list(found.scores) == list(found.intervals.scores) == expected
        of = found.intervals.scores
        assert of[expected[-1]] == of[name]


def test_patients_of_another_context_do_not_count_for_an_interval(quick_meteor) -> None:
    cases = [(f"{context}{i}", context) for context, n in (("sn", 12), ("mw", 4)) for i in range(n)]
    texts = ["small left effusion and a large heart", "small right effusion , heart is normal"]
    references = pl.DataFrame(
        {
            "id": [name for name, _ in cases],
            "context": [context for _, context in cases],
            "subject_id": [name for name, _ in cases],
            "report": [texts[i % 2] for i, _ in enumerate(cases)],
        }
    )
    hypotheses = {name: texts[i % 3 == 0] for i, (name, _) in enumerate(cases)}
    of = pacer.score(references, hypotheses).intervals.scores
    for score in ("bleu4", "meteor", "bleu4", "exact_f1"):
        assert of["sn"][score].low is not None
        assert of["mw"][score].value is not None and of["mw"][score].low is None
        assert of["mean"][score].low is None


def test_one_score_against_the_originals_can_be_left_out_alone(quick_meteor) -> None:
    references = frame(REFERENCES).with_columns(findings_original=pl.lit("No effusion."))
    names = {*pacer.score(references, REPORTS).scores["all"]}
    without = pacer.score(references, REPORTS, without=["original_bleu4"]).scores["all"]
    assert "original_bleu4" in names and names - {*without} == {"original_bleu4"}


def test_a_score_that_is_left_out_has_no_interval_and_no_count() -> None:
    everything = pacer.score(REFERENCES, REPORTS, without=["meteor"])
    found = pacer.score(REFERENCES, REPORTS, without=["meteor", "bleu4", "attributes_side"])
    intervals = [{*one.intervals.scores["all"]} for one in (everything, found)]
    assert intervals[0] - intervals[1] == {"bleu4", "attributes_side"}
    assert "meteor" not in intervals[0]
    counted = [{*one.signature.counted["all"]} for one in (everything, found)]
    assert counted[0] - counted[1] == {"attributes_side"}


def test_labels_are_commitments() -> None:
    present, absent = pacer.label(["a left pleural effusion .", "no pleural effusion ."])
    assert present.positive == absent.negative == ("pleural effusion",)
    assert present.as_dict()["attributes"] == ["left pleural effusion"] and not absent.attributes
    assert (
        pacer.label({"a": "no pleural effusion ."})
        == pacer.label("no pleural effusion .")
        == [absent]
    )
    for unreadable in (
        [None],
        {"a": float("nan")},
        frame(REPORTS),
        [1],
        None,
        3,
        Path("r.csv"),
        frame(REPORTS).lazy(),
    ):
        with pytest.raises(DataError, match=r"pacer\.label: expected reports"):
            pacer.label(unreadable)


def test_reports_are_labelled_and_rewarded_as_they_are_scored() -> None:
    text = "<think>A left effusion, or edema?</think> No effusion."
    assert pacer.label(text) == pacer.label("No effusion.")
    assert pacer.reward([text], ["No effusion."]) == pacer.reward(
        ["No effusion."], ["No effusion."]
    )
    prompted = "USER: Is there an effusion? ASSISTANT: No effusion."
    with pytest.raises(DataError, match=r"1 of 1 reports contain .*`USER:`.* as_is=True"):
        pacer.label([prompted])
    assert pacer.label([prompted], as_is=True)[0].uncertain
    assert pacer.label([prompted, *["No effusion."] * 19])[0].uncertain


def test_labels_with_further_findings(tmp_path: Path) -> None:
    texts = ["Hiatal hernia, no effusion.", "No scoliosis."]
    first, second = pacer.label(texts, more_findings="builtin")
    assert (first.more, second.more) == ({"hernia": "positive"}, {"scoliosis": "negative"})
    assert [one.as_dict() for one in (first, second)] == [
        one.as_dict() for one in pacer.label(texts)
    ]
    table = tmp_path / "mine.tsv"
    table.write_text("azygos lobe\tazygos lobe\t\tAn azygos lobe.\n")
    [own] = pacer.label("Possible azygos lobe.", more_findings=table)
    assert own.more == {"azygos lobe": "uncertain"}


def test_reports_in_another_language_are_named(quick_meteor) -> None:
    notes = pacer.score({"a": "No edema.", "b": "Kein Erguss."}, {"a": "No edema.", "b": ""}).notes
    assert [note for note in notes if "English" in note] == [
        "warning: references without any frequent English word: 1 (b); the rules and labellers "
        "read no other language"
    ]


@pytest.mark.parametrize(
    "use", ["", "; pacer.score, pacer.compare, pacer.label", "; import pacer.cli"]
)
def test_scoring_imports_no_models(use: str) -> None:
    heavy = {"torch", "transformers", "dvc", "matplotlib", "sklearn"}
    code = f"import sys, pacer{use}; print(*{heavy} & set(sys.modules))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not found.stdout.strip()
