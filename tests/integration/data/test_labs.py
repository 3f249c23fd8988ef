"""The labs and public collections of docs/data.md, by its own parameter files and scripts: each becomes a corpus."""

import contextlib
import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from PIL import Image

from pacer.config import Corpus
from pacer.config.profiles import load_profile
from pacer.core.errors import DataError
from pacer.data.schemas import read_records
from tests.support import labs
from tests.support.cases import cases
from tests.support.corpus import built, lines_of

DOCS = Path(__file__).resolve().parents[3] / "docs" / "data.md"


def code(heading: str, language: str) -> str:
    """The first block of code in a language below a bold heading of the document."""
    below = DOCS.read_text(encoding="utf-8").partition(f"**{heading}**")[2]
    return re.search(rf"```{language}\n(.*?)```", below, re.DOTALL)[1]


def build(heading: str, folder: Path, *renamed: str) -> tuple[dict[str, str], pl.DataFrame, pl.DataFrame]:
    """The lines of the audit, the records and the list of problems of a corpus in ``folder``; ``renamed``: a name in
    the document's parameters, and another for it."""
    # the labs' bad rows have been seen
    shown = code(heading, "yaml").replace("# max_bad_rows", "max_bad_rows").replace(*renamed or ("", ""))
    given = re.sub(r"root: [^\s,}]+", f"root: {folder}", shown)
    (folder / "mine.yaml").write_text(given)
    audit = built(Corpus.model_validate(load_profile(folder / "mine.yaml").corpus.model_dump()), folder / "out")
    problems = pl.read_csv(folder / "out" / "corpus" / "problems.csv", infer_schema=False)
    return lines_of(audit), read_records(folder / "out" / "corpus" / "records.parquet"), problems


@cases(__file__, "labs")
def test_a_labs_corpus(kind: str, case: dict[str, Any], tmp_path: Path) -> None:
    getattr(labs, case["make"])(tmp_path)
    renamed = ()
    if case["make"] == "hub":
        with pytest.raises(DataError, match="contains images or lists; run this script") as refused:
            build(case["heading"], tmp_path)
        exec(str(refused.value).partition("\n")[2], {})
        renamed = "*.parquet", "*.files.parquet"
    lines, records, problems = build(case["heading"], tmp_path, *renamed)
    for name, words in case["lines"]:
        assert any(line.startswith(name) and words in detail for line, detail in lines.items()), (name, lines)
    assert records["study_id"].n_unique() == case["studies"]
    assert sorted(set(records["context"])) == case["contexts"]
    assert problems.filter(kind="doubted").height >= 2
    if case["make"] == "hospital":
        assert records["report"].str.contains("2.5 cm above the carina", literal=True).all()
        assert not records["report"].str.contains("roe|indication|examination").any()
        assert records["indication"].drop_nulls().str.contains("60 year old").all()


def test_a_table_with_the_models_of_the_profile_micro(tmp_path: Path) -> None:
    """The first table of the document, by the keys that take it through every stage."""
    (tmp_path / "radiographs" / "71").mkdir(parents=True)
    Image.new("L", (16, 16)).save(tmp_path / "radiographs" / "71" / "front.png")
    rows = [f"{n},7{n},71/front.png,PA,2019-05-06,A tube 2.5 cm above.,,cough" for n in range(20)]
    header = re.search(r"studies\.csv: (\S+)", DOCS.read_text(encoding="utf-8"))[1]
    (tmp_path / "studies.csv").write_text("\n".join([header, *rows]))
    _, records, _ = build("Every stage in minutes", tmp_path)
    assert records.height == 20 and set(records["report"]) == {"a tube 2.5 cm above ."}
    params = load_profile(tmp_path / "mine.yaml")
    assert params.anchors.llm.provider == "none" and params.warmup.updates == 4
    assert {model.provider for model in (params.backbones.vision, params.backbones.language)} == {"bundled"}


def test_a_row_for_each_study_with_the_models_of_the_profile_small_gpu(tmp_path: Path) -> None:
    for number in range(4):
        Image.new("L", (16, 16), number).save(tmp_path / f"{number}.png")
    (tmp_path / "studies.csv").write_text(
        "patient,exam,frontal,lateral,findings,impression,previous_report\n"
        "p,a,0.png,1.png,Effusion.,Edema.,Clear.\nq,b,2.png,,Clear.,,\nr,c,3.png,,Effusion.,,\n"
    )
    _, records, _ = build("A row for each study", tmp_path, "studies.xlsx", "studies.csv")
    assert dict(records["context"].value_counts().iter_rows()) == {"sn": 3, "sw": 1, "mn": 1, "mw": 1}
    assert load_profile(tmp_path / "mine.yaml").backbones.vision.id == "microsoft/rad-dino"


def test_the_parameters_for_going_on_from_a_trained_model(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(code("Continuing to train a trained PACER", "yaml"))
    parent = load_profile(tmp_path / "mine.yaml").parent
    assert (
        parent.start == "trained" and parent.learning_rate < load_profile("configs/phantom.yaml").parent.learning_rate
    )


@cases(__file__, "collections")
def test_a_public_collection(kind: str, case: dict[str, Any], tmp_path: Path) -> None:
    for name, content in case["files"].items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    for number, name in enumerate(case["images"]):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", (16, 16), number).save(tmp_path / name)
    with contextlib.chdir(tmp_path):
        exec(code(case["heading"], "python"), {})
    lines, records, _ = build(case["heading"], tmp_path)
    assert lines["Bad rows or records"] == lines["Rows or records left out"] == "none"
    assert dict(records["context"].value_counts().iter_rows()) == case["contexts"]
    for record_id, report in case["reports"].items():
        assert records.filter(record_id=record_id)["report"][0] == report
