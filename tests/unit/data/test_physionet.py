"""The phantom as PhysioNet would ship it, through the reader: each record is the one that the world gives.

What is expected comes from the world and from how its studies are filed, by the rules of docs/data.md; of the code
under test only the cleaner is used, which has tests of its own.
"""

from __future__ import annotations

import gzip
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
import pytest

from pacer.config import Corpus
from pacer.core.io import write_json
from pacer.data.build_corpus import build_corpus
from pacer.data.cleaning import clean_report
from pacer.data.schemas import RECORD_SCHEMA, read_records
from pacer.data.source import describe_source
from pacer.phantom.render import image_path
from pacer.phantom.world import make_world
from tests.support.physionet import QUIRKS, ROLES, Filing, file_study, write_physionet
from tests.support.profiles import profile

CONFIG = Corpus.model_validate(
    profile("phantom").corpus.model_dump() | {"source": "files", "format": "mimic_cxr", "root": "-", "mimic_cxr": ROLES}
)
#: Peculiarities of studies that give no record.
UNUSABLE = {"no text", "no frontal view", "no split"}


def sections(filing: Filing) -> tuple[str | None, str | None]:
    """Findings and impression: under one heading for both they are findings, under none a conclusion."""
    findings, impression = filing.findings or None, filing.impression or None
    both = " ".join(filter(None, (findings, impression))) or None
    if "no headings" in filing.quirks:
        return None, both
    return (both, None) if "one heading" in filing.quirks else (findings, impression)


def report_of(filing: Filing) -> str | None:
    return " ".join(filter(None, sections(filing))) or None


class Unused(NamedTuple):
    """A row of problems.csv."""

    reason: str
    images: frozenset[str]  # dicom ids


@dataclass
class Expected:
    """Records by id, images that are part of none, and the earlier study of each that has one."""

    records: dict[str, dict[str, Any]] = field(default_factory=dict)
    unused: list[Unused] = field(default_factory=list)
    priors: dict[str, tuple[Any, ...]] = field(default_factory=dict)


def expected(filings: list[Filing]) -> Expected:
    wanted = Expected()
    subjects: dict[str, list[Filing]] = {}
    for filing in filings:
        subjects.setdefault(filing.study.subject_id, []).append(filing)
    for own in subjects.values():
        own.sort(key=lambda filing: filing.made)
        for number, filing in enumerate(own):
            _study(filing, own[:number], wanted)
    return wanted


def _study(filing: Filing, earlier: list[Filing], wanted: Expected) -> None:
    study, text = filing.study, report_of(filing)
    reported = [other for other in earlier if report_of(other)]
    prior = reported[-1] if reported else None
    splits = {image.split for image in filing.images}
    paths: dict[str, list[str]] = {"PA": [], "AP": [], "lateral": [], "": []}
    for image in filing.images:
        kind = "lateral" if image.position in ("LATERAL", "LL") else image.position
        paths[kind].append(image_path(study, image.name))
    frontals, laterals = sorted(paths["PA"]) + sorted(paths["AP"]), sorted(paths["lateral"])

    def leave_out(images: list[str], reason: str, one_by_one: bool = False) -> None:
        names = [Path(path).stem for path in images]
        groups = [[name] for name in names] if one_by_one else [names] * bool(names)
        wanted.unused += [Unused(reason, frozenset(group)) for group in groups]

    if None in splits or len(splits) > 1:
        reason = "the table of splits has none of its images" if None in splits else "its images are in two splits"
        return leave_out([path for group in paths.values() for path in group], reason)
    leave_out(paths[""], "unknown view", one_by_one=True)
    if text is None:
        return leave_out(frontals + laterals, "neither findings nor impression")
    if not frontals:
        return leave_out(laterals, "no frontal image")
    leave_out(frontals[1:], "a further frontal image of the study", one_by_one=True)
    leave_out(laterals[1:], "a further lateral image of the study", one_by_one=True)
    findings, impression = sections(filing)
    split = {"train": "train", "validate": "val", "test": "test"}[str(splits.pop())]
    for context in ("sn", "sw", "mn", "mw"):
        if (context[0] == "m" and not laterals) or (context[1] == "w" and prior is None):
            continue
        wanted.records[f"{context}-{study.study_id}"] = {
            "record_id": f"{context}-{study.study_id}",
            "context": context,
            "split": split,
            "study_id": study.study_id,
            "subject_id": study.subject_id,
            "view": "PA" if paths["PA"] else "AP",
            "frontal": frontals[0],
            "lateral": laterals[0] if context[0] == "m" else None,
            "report": clean_report(text),
            "report_raw": text,
            "findings_original": None,
            "sections": "+".join(n for n, s in (("findings", findings), ("impression", impression)) if s),
            "prior_report": clean_report(str(report_of(prior))) if prior and context[1] == "w" else None,
            "indication": filing.indication or None,
            "history": filing.history or None,
            "emphasis": None,
            "emphasis_text": None,
        }
    if prior is not None:
        gap = (filing.made - prior.made).total_seconds() / 86400
        passed_over = len(earlier) - 1 - earlier.index(prior)
        wanted.priors[study.study_id] = (prior.study.study_id, gap, "date and time", False, passed_over)


@pytest.fixture(scope="module")
def filings() -> list[Filing]:
    world = make_world(5, 160, 2.6, 0.6, 0.1, 0.2)
    return [file_study(study) for patient in world for study in patient.studies]


@pytest.fixture(scope="module")
def built(filings: list[Filing], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("physionet")
    write_physionet(filings, folder / "source")
    return folder, build_corpus(CONFIG, folder / "source", folder / "corpus")


def test_every_field_of_every_record_is_the_expected_one(built, filings: list[Filing]) -> None:
    wanted = expected(filings).records
    found = {row["record_id"]: row for row in read_records(built[0] / "corpus" / "records.parquet").to_dicts()}
    assert {frozenset(row) for row in wanted.values()} == {frozenset(RECORD_SCHEMA)}
    differ = [
        (name, column)
        for name in wanted.keys() | found.keys()
        for column in RECORD_SCHEMA
        if wanted.get(name, {}).get(column, "-") != found.get(name, {}).get(column, "-")
    ]
    assert differ == []
    assert len(found) == len(wanted) > 800
    # every peculiarity is part of what was compared
    used = {row["study_id"] for row in found.values()}
    seen = {quirk for filing in filings for quirk in filing.quirks if filing.study.study_id in used}
    assert seen == QUIRKS.keys() - UNUSABLE


def test_what_is_not_used_is_what_was_planted(built, filings: list[Filing]) -> None:
    folder, audit = built
    wanted = expected(filings).unused
    lines = {name: line for line, name in enumerate(_table(folder, "metadata")["dicom_id"], start=2)}
    listed = pl.read_csv(folder / "corpus" / "problems.csv", infer_schema=False)
    found = set(listed.select("kind", "row", "reason", "rows").rows())
    first = [min(lines[name] for name in u.images) for u in wanted]
    assert found == {
        ("left out", f"line {n}", u.reason, str(len(u.images))) for n, u in zip(first, wanted, strict=True)
    }
    assert listed.height == len(found) == len(wanted)
    reasons = Counter(u.reason for u in wanted)
    assert len(reasons) == 7 and min(reasons.values()) > 1
    images = sum(len(filing.images) for filing in filings)
    used = images - sum(len(u.images) for u in wanted)
    assert audit["rows"] == {
        "read": {"metadata": images},
        "used": used, "bad": 0, "left_out": images - used, "beyond_limit": 0,
    }  # fmt: skip


def test_views_in_full_are_not_needed(filings: list[Filing], tmp_path: Path) -> None:
    write_physionet([filing for filing in filings if "view in full" not in filing.quirks], tmp_path / "source")
    build_corpus(CONFIG, tmp_path / "source", tmp_path / "with")
    path = tmp_path / "source" / ROLES["metadata"]
    table = pl.read_csv(path, infer_schema=False).drop("ViewCodeSequence_CodeMeaning")
    path.write_bytes(gzip.compress(table.write_csv().encode()))
    described = describe_source(tmp_path / "source", ".", "files", ROLES)
    write_json(tmp_path / "source" / "source.json", described)
    build_corpus(CONFIG, tmp_path / "source", tmp_path / "without")
    records = [read_records(tmp_path / name / "records.parquet") for name in ("with", "without")]
    assert records[0].height and records[0].equals(records[1])


def test_previous_studies_are_the_expected_ones(built, filings: list[Filing]) -> None:
    found = {name: choice for name, *choice in pl.read_parquet(built[0] / "corpus" / "priors.parquet").iter_rows()}
    wanted = expected(filings).priors
    assert found.keys() == wanted.keys()
    for name, (study, gap, *rest) in wanted.items():
        assert found[name] == [study, pytest.approx(gap, abs=1e-8), *rest]
    assert any(rest[-1] for rest in wanted.values()) and any(gap < 1 for _, gap, *_ in wanted.values())


def _table(folder: Path, role: str) -> pl.DataFrame:
    return pl.read_csv(folder / "source" / ROLES[role], infer_schema=False)
