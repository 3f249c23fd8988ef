"""Open-I's real reports, rewritten as PhysioNet's report files: the sections are those of Open-I's own reader."""

from __future__ import annotations

import html
import textwrap
import zipfile
from pathlib import Path
from typing import Any

from pacer.config import Corpus
from pacer.data.formats import FORMATS
from pacer.data.readers import openi
from pacer.data.readers.files import read_files
from pacer.data.source import Source
from tests.integration.data.test_openi import PHANTOM
from tests.support.real import real
from tests.support.rows import Examination, LeftOut, read_rows

HEADINGS = {"indication": "INDICATION", "findings": "FINDINGS", "impression": "IMPRESSION"}


def report_file(texts: dict[str, str | None], width: int) -> str:
    """Sections as in MIMIC-CXR: each line begins with a blank, an empty line between paragraphs."""
    lines = ["                                 FINAL REPORT", " EXAMINATION:  CHEST (PA AND LAT)", " "]
    for name, heading in HEADINGS.items():
        if texts[name]:
            lines += textwrap.wrap(f" {heading}:  {texts[name]}", width, subsequent_indent=" ", break_on_hyphens=False)
            lines.append(" ")
    return "\n".join(lines) + "\n"


def test_open_i_rewritten_gives_the_texts_of_its_own_reader(tmp_path: Path) -> None:
    reports = [openi.parse_report(content) for _, content in read_files(real("openi/NLMCXR_reports.tgz"), ".xml")]
    native = {int(report.uid[3:]): report.texts for report in reports}
    metadata = ["dicom_id,subject_id,study_id,ViewPosition,Rows,Columns,StudyDate,StudyTime"]
    split = ["dicom_id,study_id,subject_id,split"]
    with zipfile.ZipFile(tmp_path / "reports.zip", "w") as packed:
        for number, texts in native.items():
            subject, study = 10_000_000 + number, 50_000_000 + number
            packed.writestr(f"files/p10/p{subject}/s{study}.txt", report_file(texts, 79))
            metadata.append(f"{number},{subject},{study},PA,10,10,21100101,85027.5")
            split.append(f"{number},{study},{subject},train")
    (tmp_path / "metadata.csv").write_text("\n".join(metadata) + "\n")
    (tmp_path / "split.csv").write_text("\n".join(split) + "\n")
    files = {
        "reports": tmp_path / "reports.zip",
        "metadata": tmp_path / "metadata.csv",
        "split": tmp_path / "split.csv",
    }
    named = dict.fromkeys(files, "-")
    config = Corpus.model_validate(
        PHANTOM | {"source": "files", "format": "mimic_cxr", "root": "-", "mimic_cxr": named}
    )
    rows, _ = read_rows(FORMATS["mimic_cxr"].read, Source(tmp_path, files, None), config)

    found: dict[int, dict[str, Any]] = {}
    for row in rows:
        if isinstance(row, Examination):
            texts = {"findings": row.findings, "impression": row.impression, "indication": row.indication}
            found[int(row.study_id) - 50_000_000] = {name: _words(text) for name, text in texts.items()}
    # two impressions have a twice escaped `>` or `<`; the reader of report files undoes it
    whole = {n: {k: _words(html.unescape(t or "")) for k, t in texts.items()} for n, texts in native.items()}
    usable = {number: texts for number, texts in whole.items() if texts["findings"] or texts["impression"]}
    assert (len(native), len(usable)) == (3955, 3927)
    assert sum(isinstance(row, LeftOut) for row in rows) == len(native) - len(usable)
    assert found.keys() == usable.keys()
    # one impression holds the whole report again, headings and all; broken into lines, its last impression counts
    assert [number for number, texts in usable.items() if found[number] != texts] == [2415]
    said, _, again = str(usable[2415]["impression"]).partition(" IMPRESSION: ")
    assert again.endswith(f" IMPRESSION: {said}") and found[2415] == usable[2415] | {"impression": said}


def _words(text: str | None) -> str | None:
    return " ".join(text.split()) or None if text else None
