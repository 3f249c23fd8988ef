"""The probe: systems with a known use of their sources are told apart, and what does not pair is
refused."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from PIL import Image
from typer.testing import CliRunner, Result

from pacer.cli.command import app
from pacer.core.errors import DataError
from pacer.core.schemas import IMAGE_SCHEMA, RECORD_SCHEMA, write_table
from pacer.extras.probe.make import (
    COVERED,
    ELSEWHERE,
    GIVEN,
    INPUTS,
    KEY,
)
from pacer.extras.probe.use import CHANCE, read_probe, system_use

FINDINGS = ("pneumothorax", "pleural effusion", "cardiomegaly", "pneumonia", "edema", "fracture")
CONTEXTS = ("sn", "sw", "mn", "mw")
PATIENTS = 36
#: What a probe's change may change.
CHANGED = {
    GIVEN: (),
    "another_frontal": ("frontal",),
    COVERED: ("frontal",),
    ELSEWHERE: ("frontal",),
}
CHANGED |= dict.fromkeys(("another_radiograph", "mean_radiograph"), ("frontal", "lateral"))
CHANGED |= {"no_lateral": ("lateral",), "another_lateral": ("lateral",)}
CHANGED |= {"no_prior": ("prior_report",), "another_prior": ("prior_report",)}
Row = dict[str, str | None]
System = Callable[[Row], str]


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments)


def sentence(*numbers: int) -> str:
    """A report that affirms some findings."""
    return " ".join(f"there is {FINDINGS[number % len(FINDINGS)]} ." for number in numbers)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One record of each context and patient. The frontal shows a finding, the lateral another and
    the previous report names a third; the file names say which."""
    folder = tmp_path_factory.mktemp("corpus")
    draw, rows, images = np.random.default_rng(1), [], {}
    for patient in range(PATIENTS):
        shown = draw.permutation(len(FINDINGS))[:3]
        for kind, number in zip(("frontal", "lateral"), shown[:2], strict=True):
            path = folder / f"{kind}-{patient}-{number}.png"
            pixels = draw.integers(0, 255, (20, 16 + patient % 3)).astype(np.uint8)
            Image.fromarray(pixels).save(path)
            images[path.name] = path
        for context in CONTEXTS:
            frontal, lateral = (
                f"{kind}-{patient}-{number}.png"
                for kind, number in zip(("frontal", "lateral"), shown)
            )
            sources = (shown[0], *shown[1:2][: context[0] == "m"], *shown[2:3][: context[1] == "w"])
            rows.append(
                dict.fromkeys(RECORD_SCHEMA)
                | {"record_id": f"{context}-{patient}", "context": context, "split": "test"}
                | {
                    "study_id": f"s{patient}",
                    "subject_id": f"p{patient}",
                    "view": ("AP", "PA")[patient % 2],
                }
                | {"frontal": frontal, "lateral": lateral if context[0] == "m" else None}
                | {
                    "report": sentence(*sources),
                    "report_raw": sentence(*sources),
                    "sections": "findings",
                }
                | {"prior_report": sentence(shown[2]) if context[1] == "w" else None}
            )
    write_table(folder / "records.parquet", pl.DataFrame(rows, schema=RECORD_SCHEMA), RECORD_SCHEMA)
    sizes = [
        {"image_id": name, "path": str(path), "bytes": 1, "width": 16, "height": 20}
        for name, path in images.items()
    ]
    write_table(folder / "images.parquet", pl.DataFrame(sizes, schema=IMAGE_SCHEMA), IMAGE_SCHEMA)
    return folder


@pytest.fixture(scope="module")
def probe(corpus: Path) -> Path:
    """With boxes: every frontal shows its finding in the upper left quarter."""
    shown = [
        (path.name, FINDINGS[int(path.stem.rsplit("-", 1)[1])])
        for path in sorted(corpus.glob("frontal-*"))
    ]
    lines = [f"{image},{finding},0.1,0.1,0.3,0.3" for image, finding in shown]
    (corpus / "boxes.csv").write_text("\n".join(["image,finding,x,y,width,height", *lines]))
    arguments = ("--records", str(corpus / "records.parquet"), "--boxes", str(corpus / "boxes.csv"))
    made = run("probe", "make", *arguments, "--out", str(corpus / "probe"))
    assert made.exit_code == 0, made.output
    assert "no finding is covered" not in made.output and "finding_covered: 144" in made.output
    return corpus / "probe"


def seen(file: str | None) -> list[int]:
    """The finding that an image shows; none for a mean radiograph, or one in which something is
    covered."""
    return (
        [int(Path(file).stem.rsplit("-", 1)[1])]
        if file and Path(file).name[:7] in ("frontal", "lateral")
        else []
    )


def prior(row: Row) -> str:
    return row["prior"] or ""


SYSTEMS: dict[str, System] = {
    "looks at all": lambda row: (
        f"{sentence(*seen(row['frontal']), *seen(row['lateral']))} {prior(row)}"
    ),
    "ignores the lateral": lambda row: f"{sentence(*seen(row['frontal']))} {prior(row)}",
    "copies": lambda row: prior(row) or "the lungs are clear .",
    "constant": lambda row: "there is pneumothorax . there is no edema .",
}
SOURCES = {
    "radiographs": ("another_radiograph", "another_frontal", "mean_radiograph"),
    "lateral": ("no_lateral", "another_lateral"),
    "previous report": ("no_prior", "another_prior"),
}
USED = {
    "looks at all": {"radiographs", "lateral", "previous report"},
    "ignores the lateral": {"radiographs", "previous report"},
    "copies": {"previous report"},
    "constant": set(),
}


def reports(probe: Path, system: System, out: Path) -> Path:
    rows = pl.read_csv(probe / INPUTS, infer_schema=False)
    pl.DataFrame(
        {
            "probe_id": rows["probe_id"],
            "report": [system(row) for row in rows.iter_rows(named=True)],
        }
    ).write_csv(out)
    return out


@pytest.mark.parametrize("name", SYSTEMS)
def test_systems_are_told_apart(name: str, probe: Path, tmp_path: Path) -> None:
    key = read_probe(probe)
    uses = system_use(name, key, reports(probe, SYSTEMS[name], tmp_path / "r.csv")).uses
    for source, twins in SOURCES.items():
        for twin in twins:
            gain = uses[twin].score
            if source in USED[name] or (twin, name) == ("another_radiograph", "looks at all"):
                assert uses[twin].verdict == "used" and (gain.low or 0) > 0, twin
            elif name == "ignores the lateral" and source == "radiographs":
                continue
            else:  # a system that is invariant to a source differs by exactly nothing
                assert (uses[twin].verdict, gain.difference, gain.low, gain.high) == (
                    "ignored",
                    0,
                    0,
                    0,
                ), twin
    assert uses[CHANCE].verdict == ("not above chance" if name == "constant" else "above chance")


def test_the_inputs_are_what_their_names_say(corpus: Path, probe: Path) -> None:
    key = pl.read_parquet(probe / KEY)
    given = {row["record_id"]: row for row in key.filter(twin=GIVEN).iter_rows(named=True)}
    assert len(given) == 4 * PATIENTS
    changed_in = {
        "another_lateral": {"mn", "mw"},
        "another_frontal": {"mn", "mw"},
        "another_prior": {"sw", "mw"},
    }
    for twin, contexts in changed_in.items():
        assert set(key.filter(twin=twin)["context"]) == contexts
    for row in key.iter_rows(named=True):
        own = given[row["record_id"]]
        changed = {
            name
            for name in ("frontal", "lateral", "prior_report", "view")
            if row[name] != own[name]
        }
        expected = set(CHANGED[row["twin"]])
        assert changed <= expected and (changed or not expected or "another" in row["twin"])
        assert row["reference"] == own["reference"] and row["context"] == own["context"]
    rows = pl.read_csv(probe / INPUTS, infer_schema=False)
    assert all(Path(path).is_file() for path in [*rows["frontal"], *rows["lateral"].drop_nulls()])
    assert not set(rows.columns) & {"report", "reference"}


def test_a_finding_is_covered_where_it_is_and_as_much_elsewhere(probe: Path) -> None:
    key, rows = pl.read_parquet(probe / KEY), pl.read_csv(probe / INPUTS, infer_schema=False)
    files = key.join(rows.select("probe_id", file="frontal"), on="probe_id")
    given = dict(files.filter(twin=GIVEN).select("record_id", "file").iter_rows())
    assert files.filter(twin=COVERED).height == files.filter(twin=ELSEWHERE).height == 4 * PATIENTS
    for twin, columns in ((COVERED, slice(0, 8)), (ELSEWHERE, slice(8, 20))):
        for row in files.filter(twin=twin).head(8).iter_rows(named=True):
            before, now = (
                np.asarray(Image.open(path), int) for path in (given[row["record_id"]], row["file"])
            )
            changed = np.abs(before - now) > 12
            assert (
                changed[:, columns].sum() > 15 and changed.sum() - changed[:, columns].sum() < 8
            ), twin


def test_a_probe_is_the_same_in_a_seed(corpus: Path, probe: Path, tmp_path: Path) -> None:
    same = ("--records", str(corpus / "records.parquet"), "--boxes", str(corpus / "boxes.csv"))
    again = run("probe", "make", *same, "--out", str(tmp_path / "again"))
    assert (
        again.exit_code == 0
        and (tmp_path / "again" / KEY).read_bytes() == (probe / KEY).read_bytes()
    )
    few = run(
        *(
            "probe",
            "make",
            "--records",
            str(corpus / "records.parquet"),
            "--out",
            str(tmp_path / "few"),
        ),
        *("--limit", "3", "--seed", "1", "--context", "mw"),
    )
    given = pl.read_parquet(tmp_path / "few" / KEY).filter(twin=GIVEN)
    assert few.exit_code == 0 and set(given["context"]) == {"mw"} and len(given) == 3
    first = np.random.default_rng(1).choice(PATIENTS, 3, replace=False)
    assert set(given["record_id"]) == {
        sorted(f"mw-{n}" for n in range(PATIENTS))[place] for place in first
    }


def test_the_page_is_a_table_with_its_chart(probe: Path, tmp_path: Path) -> None:
    plain = reports(probe, SYSTEMS["copies"], tmp_path / "copies.csv")
    rows = [{"case": case, "report": report} for case, report in pl.read_csv(plain).iter_rows()]
    (tmp_path / "own.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = run(
        *("probe", "score", "--probe", str(probe), "--reports", f"copies={plain}"),
        *("--reports", str(tmp_path / "own.jsonl"), "--out", str(tmp_path / "use")),
    )
    assert done.exit_code == 0, done.output
    page = (tmp_path / "use" / "index.html").read_text()
    record = json.loads((tmp_path / "use" / "use.json").read_text())
    copies = record["systems"]["copies"]
    verdicts = {twin: use["verdict"] for twin, use in copies["uses"].items()}
    assert verdicts["another_radiograph"] == "ignored" and verdicts["another_prior"] == "used"
    assert set(copies["findings"]["edema"]["rates"]) >= {GIVEN, COVERED, ELSEWHERE}
    assert "<svg" in page and page.count("<table") == 1
    assert "no lateral view" in page and list(record["systems"]) == ["copies", "own"]


def test_reports_for_another_probe_and_empty_ones_are_told(
    corpus: Path, probe: Path, tmp_path: Path
) -> None:
    made = run(
        "probe", "make", "--records", str(corpus), "--out", str(tmp_path / "other"), "--seed", "1"
    )
    assert made.exit_code == 0 and "no finding is covered" in made.output, made.output
    file = reports(probe, SYSTEMS["constant"], tmp_path / "r.csv")
    with pytest.raises(DataError, match="do not match"):
        system_use("s", read_probe(tmp_path / "other"), file)
    rows = pl.read_csv(file)
    rows.select("probe_id", generated=pl.lit("nan")).write_csv(file)
    command = (
        "probe",
        "score",
        "--probe",
        str(probe),
        "--reports",
        str(file),
        "--out",
        str(tmp_path / "use"),
    )
    assert "rename yours, or choose it with hypothesis_text (--hypothesis-text)" in str(
        run(*command).exception
    )
    assert (
        f"{len(rows):,} reports are empty" in run(*command, "--hypothesis-text", "generated").output
    )
