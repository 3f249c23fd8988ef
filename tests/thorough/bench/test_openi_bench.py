"""The reports that need no trained model are those that their names say, and their scores those of a hand count."""

from pathlib import Path
from types import ModuleType

import polars as pl
import pytest

from pacer.commitments.rules.extract import extract_anchor
from pacer.data.schemas import of_split
from tests.support import drive
from tests.support.made_records import few_records
from tests.support.models import MODEL


@pytest.fixture
def bench(script) -> ModuleType:
    return script("openi")


@pytest.fixture
def scores(script) -> ModuleType:
    return script("openi_scores")


@pytest.fixture
def corpus() -> pl.DataFrame:
    """Contexts sn and mn of eight patients, the last three in test, two of whose reports are in no other."""
    records = few_records(".png").filter(pl.col("context").is_in(["sn", "mn"]))
    last = pl.col("study_id").is_in(["s5", "s6", "s7"])
    added = pl.when(pl.col("study_id").is_in(["s5", "s6"])).then(pl.lit(" the ribs are old .")).otherwise(pl.lit(""))
    return records.with_columns(
        split=pl.when(last).then(pl.lit("test")).otherwise(pl.lit("train")), report=pl.col("report") + added
    )


def test_the_nearest_radiograph_is_the_same_one(
    bench: ModuleType, corpus: pl.DataFrame, backbones: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drive.write_features(tmp_path / "features", tmp_path / "images", backbones, drive.parameters(MODEL), seed=0)
    monkeypatch.setattr(bench, "FEATURES", tmp_path / "features")
    assert bench.nearest_reports(corpus, corpus) == dict(corpus.select("record_id", "report").iter_rows())


def written(row: str, replicate: str | None, control: str, reports: dict[str, str], *, committed: bool) -> list[dict]:
    """Lines of one system, with what the rules read in its reports for a commitment."""
    about = {"row": row, "replicate": replicate, "control": control}
    return [
        about
        | {"record_id": record, "report": text, "commitment": extract_anchor(text).as_dict() if committed else None}
        for record, text in reports.items()
    ]


def test_findings_chance_and_controls(
    bench: ModuleType, scores: ModuleType, corpus: pl.DataFrame, tmp_path: Path
) -> None:
    """The three test reports of a context name nothing, a cardiomegaly, and an effusion and a pneumonia."""
    train, test = of_split(corpus, "train"), of_split(corpus, "test")
    right = dict(test.select("record_id", "report").iter_rows())
    heart = dict.fromkeys(right, "mild cardiomegaly .")
    lateral = {record: text for record, text in heart.items() if record.startswith("mn")}
    lines = written(scores.PACER, "43", "", right, committed=True)
    for control, reports in ((scores.ANOTHER, heart), (bench.MEAN_RADIOGRAPH, heart), (scores.NO_LATERAL, lateral)):
        lines += written(scores.PACER, "43", control, reports, committed=True)
    lines += written(scores.NEAREST, None, "", heart, committed=False)
    lines += written(scores.CONSTANT, None, "", bench.constant_reports(train, test), committed=False)
    bench.write_lines(lines, tmp_path)
    judged = scores.Corpus(corpus, bench.read_lines(tmp_path))
    assert judged.new.to_list() == [True, True, False] * 2
    names = [scores.PACER, scores.NEAREST, scores.CONSTANT]
    table = scores.findings_table(judged, names, pl.Series([True] * 6))
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table if line.startswith("| ")][1:]
    assert [[*row[:3], row[3].split()[0]] for row in rows] == [
        [scores.PACER, "43", "commitment", "1.000"],
        [scores.PACER, "43", "report", "1.000"],
        [scores.NEAREST, "–", "report", ".333"],
        [scores.CONSTANT, "–", "report", ".000"],
    ]
    assert [cell.split(" (")[0] for cell in rows[0][6:]] == [".333", ".333", ".333", "6 of 6"]
    assert rows[2][4] == ".333", "whoever writes the same for everybody has the F1 of chance"
    assert abs(float(rows[0][4]) - 1 / 3) < 0.05, "each of three findings meets its patient in a third of the deals"
    gain, excess, each = scores.difference(
        judged, scores.System(scores.PACER), scores.System(scores.NEAREST), pl.Series([True] * 6)
    )
    assert (round(gain.difference, 3), round(excess.difference, 3), each) == (0.667, 0.667, "+.667")
