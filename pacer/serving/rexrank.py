"""ReXrank's studies as cases, and its file of predictions: the studies as they are, each with ``model_prediction``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pacer.core.errors import DataError
from pacer.core.hygiene import stray_path
from pacer.core.io import read_json, read_jsonl, write_json
from pacer.corpus.rexrank import Study
from pacer.corpus.studies import RankedImage, by_view, rank_of
from pacer.serving.case import Case
from pacer.serving.case_files import BadCase

#: What an entry has beside the study itself.
PREDICTION = "model_prediction"


def cases_of(studies: Mapping[str, Study], images: Path) -> list[Case | BadCase]:
    """A case of each study; frontal and lateral image are those that a corpus of these studies would have.

    Args:
        images: folder that the paths count from.
    """
    return [_case(name, study, images) for name, study in studies.items()]


def _case(name: str, study: Study, images: Path) -> Case | BadCase:
    ranks = ((rank_of(view or ""), number, path) for number, (path, view) in enumerate(study.images))
    frontals, laterals = by_view(RankedImage(rank, number, path) for rank, number, path in ranks if rank is not None)
    if not frontals:
        return BadCase(name, f"{name}: no image of it is frontal, neither by frontal_lateral nor as key_image_path")
    used = [frontals[0].path, *(image.path for image in laterals[:1])]
    if stray := next(filter(None, map(stray_path, used)), None):
        return BadCase(name, f"{name}, image_path: {stray} of the images")
    frontal, *lateral = (images / path for path in used)
    # of an unknown direction the DICOM file may know more
    view = None if frontals[0].view == "other" else frontals[0].view
    return Case(frontal, *lateral, indication=study.indication, view=view, name=name)


def check_predictions(out: Path) -> None:
    """Make sure that no other file is replaced.

    Raises:
        DataError: ``out`` exists and is no file of predictions.
    """
    made = read_json(out) if out.is_file() and out.stat().st_size else {}
    if not isinstance(made, dict) or not all(isinstance(one, dict) and PREDICTION in one for one in made.values()):
        raise DataError(f"{out} is not a file of predictions; name another file")


def write_predictions(out: Path, studies: Mapping[str, Study], results: Path) -> None:
    """Write ``out`` from the lines that :func:`pacer.serving.batch.report_cases` left in ``results``."""
    reports = {line["case"]: line["report"] for line in read_jsonl(results)}
    made = {name: study.given | {PREDICTION: reports[name]} for name, study in studies.items() if name in reports}
    write_json(out, made)
