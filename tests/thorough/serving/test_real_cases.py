"""Real radiographs of Open-I and of a COVID collection, and real DICOM files, where they lie beside the repository."""

from __future__ import annotations

import json
from pathlib import Path

import pydicom
import pytest

from pacer.core.contexts import CONTEXTS
from pacer.core.io import read_jsonl
from pacer.serving.batch import report_cases
from pacer.serving.case import Case
from pacer.serving.reporter import Reporter
from tests.support.world import DATA, case_of

#: Records of each annotation file at most.
EACH = 4


def real_cases(corpus: str, context: str) -> list[Case]:
    path = DATA / "rg4" / corpus / f"{context}.json"
    if not path.is_file():
        pytest.skip(f"the real {corpus} files are not at {DATA}")
    return [case_of(row, DATA, f"{context}-{row['id']}") for row in json.loads(path.read_text())["test"][:EACH]]


@pytest.mark.parametrize(("corpus", "contexts"), [("openi", ("sn", "mn")), ("covid", CONTEXTS)])
def test_real_cases_have_reports(reporter: Reporter, tmp_path: Path, corpus: str, contexts: tuple[str, ...]) -> None:
    cases = [case for context in contexts for case in real_cases(corpus, context)]
    results = reporter.generate(cases)
    for case, result in zip(cases, results, strict=True):
        assert result.context == case.name[:2] and result.tokens > 0
        assert (result.lateral is None) == (case.lateral is None)
    report_cases(reporter, cases, tmp_path / "out.jsonl")
    assert len(read_jsonl(tmp_path / "out.jsonl")) == len(cases)


@pytest.mark.parametrize("name", ["RG1_UNCR.dcm", "Fake_MONOHR1.dcm"])
def test_real_dicom(reporter: Reporter, name: str) -> None:
    path = DATA / "dicom" / name
    if not path.is_file():
        pytest.skip(f"the real DICOM files are not at {DATA}")
    result = reporter(path)
    position = pydicom.dcmread(path, stop_before_pixels=True).get("ViewPosition")
    assert result.view == (position if position in ("AP", "PA") else "other")
    assert reporter(path.read_bytes()).generated == result.generated
