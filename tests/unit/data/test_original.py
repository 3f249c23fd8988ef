"""Original findings from R2Gen's file, PhysioNet's folders and their archive; the texts are invented."""

from __future__ import annotations

import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from pacer.core.errors import DataError
from pacer.data.readers.mimic_cxr import read_original_findings
from tests.unit.data.test_sections import FULL

FINDINGS = "The heart is of normal size. A 1.2 cm nodule projects over the left base. LINES AND TUBES: None."
WITHOUT = " FINAL REPORT\n CHEST, TWO VIEWS\n\n IMPRESSION:  No pneumonia.\n"
SECOND = " FINDINGS:  Clear lungs.\n IMPRESSION:  Normal.\n"
REPORTS = {
    "p10/p10000032/s50000001.txt": FULL,
    "p10/p10000032/s50000002.txt": WITHOUT,
    "p11/p11000099/s50000003.txt": SECOND,
}


def folder(root: Path, reports: dict[str, str] = REPORTS) -> Path:
    for name, text in reports.items():
        file = root / "files" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    (root / "files" / "index.html").write_text("no report")
    return root


def archive(root: Path, reports: dict[str, str] = REPORTS) -> Path:
    root.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(root / "mimic-cxr-reports.zip", "w") as file:
        file.writestr("files/README.txt", "no report")
        for name, text in reports.items():
            file.writestr(f"files/{name}", text)
    return root / "mimic-cxr-reports.zip"


def findings(path: Path) -> dict[str, str]:
    return dict(read_original_findings(path).iter_rows())


# --- the three sources ---


@pytest.mark.parametrize("make", [folder, archive])
def test_report_files(make: Callable[[Path], Path], tmp_path: Path) -> None:
    read = findings(make(tmp_path))
    assert read == {"50000001": FINDINGS, "50000003": "Clear lungs."}


@pytest.mark.parametrize("make", [folder, archive])
def test_two_files_of_one_study(make: Callable[..., Path], tmp_path: Path) -> None:
    again = {"p20/p20000000/s50000003.txt": " FINDINGS: Other words.\n", "p21/p21000000/s50000001.txt": FULL}
    read = findings(make(tmp_path, REPORTS | again))
    assert read["50000003"] == "Clear lungs."


def test_file_that_is_not_utf8_is_named(tmp_path: Path) -> None:
    source = folder(tmp_path)
    (source / "files/p11/p11000099/s50000003.txt").write_bytes(b" FINDINGS: caf\xe9\n")
    with pytest.raises(DataError, match=r"s50000003\.txt is not valid UTF-8"):
        read_original_findings(source)
    (tmp_path / "zip").mkdir()
    shutil.make_archive(str(tmp_path / "zip" / "reports"), "zip", source)
    with pytest.raises(DataError, match=r"reports\.zip.*s50000003\.txt is not valid UTF-8"):
        read_original_findings(tmp_path / "zip" / "reports.zip")


def test_sources_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="No such file"):
        read_original_findings(tmp_path / "none")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=r"holds no \.txt file"):
        read_original_findings(tmp_path / "empty")
    (tmp_path / "broken.zip").write_bytes(b"PK no archive")
    with pytest.raises(DataError, match=r"broken\.zip cannot be read as a folder, a zip or a tar archive"):
        read_original_findings(tmp_path / "broken.zip")
    with pytest.raises(DataError, match="damaged"):
        source = archive(tmp_path / "damaged")
        content = bytearray(source.read_bytes())
        at = content.index(b"1.2 cm")
        content[at] ^= 1
        source.write_bytes(content)
        read_original_findings(source)
