"""The world in PhysioNet's layout: files, columns, report text, and that each peculiarity is there."""

import gzip
import math
import zipfile
from collections import Counter

import polars as pl
import pytest

from pacer.core.contexts import CONTEXTS
from pacer.core.io import read_json, read_jsonl
from pacer.phantom.generate import generate_phantom
from pacer.phantom.physionet import QUIRKS, ROLES, file_study, report_file
from pacer.phantom.world import make_world
from tests.phantom.test_generate import CONFIG, hashes

METADATA = (
    "dicom_id,subject_id,study_id,PerformedProcedureStepDescription,ViewPosition,Rows,Columns,StudyDate,StudyTime,"
    "ProcedureCodeSequence_CodeMeaning,ViewCodeSequence_CodeMeaning,PatientOrientationCodeSequence_CodeMeaning"
)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    directory = tmp_path_factory.mktemp("physionet")
    return directory, generate_phantom(CONFIG, 7, directory, "mimic_cxr")


@pytest.fixture(scope="module")
def filings():
    return [file_study(study) for patient in make_world(3, 400, 2.4, 0.6) for study in patient.studies]


def table(directory, role):
    return pl.read_csv(directory / ROLES[role], infer_schema=False)


def test_generation_is_deterministic_whatever_the_processes(corpus, tmp_path):
    generate_phantom(CONFIG, 7, tmp_path, "mimic_cxr", processes=1)
    assert hashes(tmp_path) == hashes(corpus[0])


def test_files_and_columns(corpus):
    directory, manifest = corpus
    with gzip.open(directory / ROLES["metadata"], "rt") as file:
        assert file.readline().strip() == METADATA
    metadata, split = table(directory, "metadata"), table(directory, "split")
    assert split.columns == ["dicom_id", "study_id", "subject_id", "split"]
    assert set(split["split"]) == {"train", "validate", "test"} and set(split["dicom_id"]) < set(metadata["dicom_id"])
    images = {path.relative_to(directory / "files").as_posix() for path in (directory / "files").rglob("*.jpg")}
    assert len(images) == metadata.height == manifest["counts"]["images"]
    for row in metadata.iter_rows(named=True):
        subject, study = row["subject_id"], row["study_id"]
        assert f"p{subject[:2]}/p{subject}/s{study}/{row['dicom_id']}.jpg" in images
        assert row["StudyDate"].isdigit() and 0 <= float(row["StudyTime"]) < 240000 and "." in row["StudyTime"]
    studies = {f"files/p{s[:2]}/p{s}/s{t}.txt" for s, t in metadata.select("subject_id", "study_id").iter_rows()}
    with zipfile.ZipFile(directory / ROLES["reports"]) as archive:
        assert set(archive.namelist()) == studies and len(studies) == manifest["counts"]["reports"]
    described = read_json(directory / "source.json")
    assert described["images"] == "files" and {r: f["path"] for r, f in described["files"].items()} == ROLES


def test_there_is_an_answer_for_every_record_that_train_can_give(corpus):
    studies = [s for p in make_world(7, 40, 2.4, 0.6, 0.1, 0.2) for s in p.studies if s.split == "train"]
    answers = [row["record_id"] for row in read_jsonl(corpus[0] / "answers.jsonl")]
    expected = {
        f"{c}-{s.study_id}" for s in studies for c in CONTEXTS if s.has_lateral >= (c[0] == "m")
        if (s.prior is not None) >= (c[1] == "w")
    }  # fmt: skip
    assert len(answers) == len(expected) and set(answers) == expected


def test_each_peculiarity_has_its_share(filings):
    found = Counter(quirk for filing in filings for quirk in filing.quirks)
    for quirk, share in QUIRKS.items():
        assert abs(found[quirk] - share * len(filings)) < 4 * math.sqrt(len(filings) * share), quirk


def test_reports_look_like_physionets(filings):
    for filing in filings:
        text = report_file(filing)
        lines = text.split("\n")
        assert text.endswith(" \n") and all(line.startswith(" ") and len(line) < 80 for line in lines[:-1])
        assert sum("FINAL REPORT" in line for line in lines) == 1
        words = " ".join(text.split())
        for section in (filing.indication, filing.history, filing.findings, filing.impression):
            assert " ".join(section.split()) in words
        headings = {line.split(":")[0].strip() for line in lines if ":" in line and line.split(":")[0].isupper()}
        assert ("WET READ" in headings) == ("wet read" in filing.quirks)
        assert ("ADDENDUM" in headings) == bool({"addendum before", "addendum after"} & filing.quirks)
        assert ("___" in filing.indication) == ("removed words" in filing.quirks)


def test_studies_of_a_patient_keep_their_order(filings):
    made = {filing.study.study_id: filing.made for filing in filings}
    days = Counter()
    for filing in filings:
        if (prior := filing.study.prior) is not None:
            assert made[prior.study_id] < filing.made
            days[made[prior.study_id].date() == filing.made.date(), "same day" in filing.quirks] += 1
    assert set(days) == {(True, True), (False, False)}
    assert any(filing.made.hour == 0 for filing in filings)


def test_images_and_splits_follow_the_peculiarities(filings):
    for filing in filings:
        names, positions, splits = zip(*filing.images, strict=True)
        assert len(set(names)) == len(names) and set(positions) <= {"PA", "AP", "LATERAL", "LL", ""}
        assert ("no frontal view" in filing.quirks) <= (not set(positions) & {"PA", "AP"})
        assert ("no split" in filing.quirks) == (set(splits) == {None})
        assert len(set(splits)) <= 2 if "two splits" in filing.quirks else len(set(splits)) == 1
