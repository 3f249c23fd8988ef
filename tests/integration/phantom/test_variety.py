"""Neither reports nor radiographs repeat, copying does not win, and the phantom is the same from
any process."""

import subprocess
import sys
from collections import Counter
from contextlib import redirect_stdout
from dataclasses import replace
from io import StringIO

import numpy as np
import pytest

from pacer.core.findings import FINDINGS
from pacer.core.io import hash_file
from pacer.phantom.generate import generate_phantom
from pacer.phantom.language import sample_texts
from pacer.phantom.render import VIEWS, render
from pacer.phantom.world import make_world
from pacer.text.cleaning.cleaners import clean_report
from tests.support.phantom import example_study
from tests.unit.phantom.test_world import CONFIG, corpus

SIZE = 112


@pytest.fixture(scope="module")
def reports():
    return sample_texts(31, 3000)


def coarse(image):
    """Brightness of 14 x 14 cells: noise of single pixels is gone."""
    return image.reshape(14, 8, 14, 8).mean(axis=(1, 3))


def test_reports_and_sentences_with_findings_rarely_repeat(reports):
    texts = [clean_report(report.text) for report in reports if report.listed("positive")]
    stating = Counter(text for report in reports for text, findings in report.sentences if findings)
    assert len(set(texts)) > 0.99 * len(texts)
    assert len(stating) > 0.40 * stating.total()
    assert stating.most_common(1)[0][1] < 0.02 * stating.total()


@pytest.mark.parametrize("view", VIEWS)
def test_two_studies_of_one_normal_patient_differ_beyond_noise(view):
    patients = [patient for patient in make_world(35, 60, 3.0, 1.0) if len(patient.studies) > 1]
    for patient in patients[:15]:
        first, second = (replace(study, findings={}, resolved={}) for study in patient.studies[:2])
        noise = replace(first, key=(*first.key[:2], first.key[2] + 50))  # noise and texture anew
        image, again, other = (
            coarse(render(study, SIZE, view)[0].astype(float)) for study in (first, noise, second)
        )
        assert np.abs(image - other).mean() > 2 * np.abs(image - again).mean()


def test_body_and_exposure_do_not_tell_the_findings():
    plain, ill = example_study(None, 5), example_study("pneumonia", 5)
    assert plain.anatomy == ill.anatomy and plain.exposure == ill.exposure
    studies = [study for patient in make_world(38, 900) for study in patient.studies]
    for name in FINDINGS:
        present = np.array([name in study.findings for study in studies])
        dark = np.array([study.exposure.gamma for study in studies])
        assert abs(dark[present].mean() - dark[~present].mean()) < 0.05


def test_the_nearest_train_image_does_not_know_the_truth():
    world = make_world(33, 400, 2.4, 0.6, test_fraction=0.25)

    def described(split):
        studies = [
            study for patient in world if patient.split == split for study in patient.studies
        ]
        rendered = (render(study, SIZE, "frontal")[0] for study in studies)
        images = [image.reshape(28, 4, 28, 4).mean(axis=(1, 3)).ravel() for image in rendered]
        return np.stack(images), np.array(
            [[name in study.findings for name in FINDINGS] for study in studies]
        )

    (shown, known), (asked, truth) = described("train"), described("test")
    nearest = known[[np.square(shown - image).sum(axis=1).argmin() for image in asked]]
    assert 2 * (nearest & truth).sum() / (nearest.sum() + truth.sum()) < 0.5


__all__ = ["corpus"]


def test_world_and_tokenizer_do_not_depend_on_the_hash_seed():
    script = (
        "from pacer.phantom.world import make_world; from pacer.phantom.language import report_of;"
        "from pacer.phantom.tokenizer import phantom_tokenizer;"
        "print([(s, report_of(s, 'sn').text) for p in make_world(3, 15) for s in p.studies]);"
        "print(phantom_tokenizer(900).to_str())"
    )
    command = [sys.executable, "-c", script]
    first = subprocess.run(
        command, env={"PYTHONHASHSEED": "1"}, capture_output=True, check=True, text=True
    ).stdout
    with redirect_stdout(StringIO()) as second:  # this process has another seed
        exec(script, {})
    assert len(first) > 1000 and first == second.getvalue()


def hashes(directory):
    return {
        str(path.relative_to(directory)): hash_file(path)
        for path in directory.rglob("*")
        if path.is_file()
    }


def test_generation_is_deterministic_whatever_the_processes(corpus, tmp_path, monkeypatch):
    monkeypatch.setattr("pacer.phantom.render._PROCESSES", 1)
    generate_phantom(CONFIG, 7, tmp_path, image_size=56, vocabulary=900)
    assert hashes(tmp_path) == hashes(corpus)
