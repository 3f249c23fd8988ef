"""Reading PhysioNet's MIMIC-CXR at its size: minutes and peak memory of the stage `corpus`.

    python bench/mimic_cxr.py            # a tenth of the studies, then all 227,835 of them
    python bench/mimic_cxr.py --studies 50000 --unpacked

Invented files in PhysioNet's layout (reports, metadata, splits: 65,379 subjects and 377,110 images at full size) are
written first, in a process of their own and not timed. Reading, sectioning, finding previous reports, cleaning and
auditing run in a fresh process. Images are neither written nor opened: what looking at their headers costs depends on
the disk. Hashing of the named files (stage `source`) is timed apart. Results are printed as JSON, a line per size.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import os
import random
import tempfile
import time
import zipfile
from pathlib import Path
from typing import Any

from corpus import ROOT, _text, _unopened, measure, peak_memory

from pacer.params import Corpus, load_params

STUDIES, SUBJECTS, IMAGES = 227_835, 65_379, 377_110
#: ViewPosition of the images beside the first of each study, which is frontal: 60 % AP, so that the sums are MIMIC's.
FURTHER = {"AP": 10_472, "PA": 5_027, "LATERAL": 82_853, "LL": 35_133, "": 15_790}
#: Shares of the reports that have a section.
SECTIONS = {"EXAMINATION": 0.41, "INDICATION": 0.67, "HISTORY": 0.2, "TECHNIQUE": 0.36, "COMPARISON": 0.68}
FINDINGS, IMPRESSION = 0.66, 0.82
FILES = {
    "reports": "mimic-cxr-reports.zip",
    "metadata": "mimic-cxr-2.0.0-metadata.csv.gz",
    "split": "mimic-cxr-2.0.0-split.csv.gz",
}
METADATA = (
    "dicom_id",
    "subject_id",
    "study_id",
    "PerformedProcedureStepDescription",
    "ViewPosition",
    "Rows",
    "Columns",
    "StudyDate",
    "StudyTime",
    "ProcedureCodeSequence_CodeMeaning",
    "ViewCodeSequence_CodeMeaning",
    "PatientOrientationCodeSequence_CodeMeaning",
)


def write_files(folder: Path, studies: int, unpacked: bool, results: Any) -> None:
    """Write the files of so many studies; puts their numbers and bytes into ``results``."""
    rng = random.Random(5)
    subjects, images = (max(round(studies * part / STUDIES), 1) for part in (SUBJECTS, IMAGES))
    (folder / "files").mkdir(parents=True, exist_ok=True)
    views = [[rng.choices(("AP", "PA"), (0.6, 0.4))[0]] for _ in range(studies)]
    for view in rng.choices(list(FURTHER), list(FURTHER.values()), k=images - studies):
        rng.choice(views).append(view)
    numbers = sorted(rng.sample(range(10_000_000, 20_000_000), subjects))
    owners = sorted(numbers + rng.choices(numbers, k=studies - subjects))
    texts = 0
    with (
        gzip.open(folder / FILES["metadata"], "wt", newline="", compresslevel=6) as metadata,
        gzip.open(folder / FILES["split"], "wt", newline="", compresslevel=6) as split,
        zipfile.ZipFile(folder / FILES["reports"], "w", zipfile.ZIP_DEFLATED) as archive,
    ):
        rows, splits = csv.writer(metadata), csv.writer(split)
        rows.writerow(METADATA)
        splits.writerow(("dicom_id", "study_id", "subject_id", "split"))
        for number, (subject, shown) in enumerate(zip(owners, views)):
            study = 50_000_000 + number
            part = "test" if subject % 200 == 0 else "validate" if subject % 200 == 1 else "train"
            day = f"{rng.randrange(2110, 2200)}{rng.randrange(1, 13):02}{rng.randrange(1, 29):02}"
            clock = float(f"{rng.randrange(24)}{rng.randrange(60):02}{rng.randrange(60):02}.{rng.randrange(1000):03}")
            for view in shown:
                name = "-".join(f"{rng.getrandbits(32):08x}" for _ in range(5))
                kind = "CHEST (PA AND LAT)"
                rows.writerow((name, subject, study, kind, view, 3056, 2544, day, clock, kind, view.lower(), "Erect"))
                splits.writerow((name, study, subject, part))
            name, text = f"files/p{str(subject)[:2]}/p{subject}/s{study}.txt", _report(rng)
            texts += len(text)
            if unpacked:
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / name).write_text(text)
            else:
                archive.writestr(name, text)
    results.put({"studies": studies, "subjects": len(set(owners)), "images": images, "report_bytes": texts})


def _report(rng: random.Random) -> str:
    """A report file; findings of about 480 and impressions of about 180 characters."""
    lines = [f"{' ' * 33}FINAL REPORT"]
    body = {name: _text(rng, 1) for name, share in SECTIONS.items() if rng.random() < share}
    impression = rng.random() < IMPRESSION
    if rng.random() < FINDINGS or not impression:
        body["FINDINGS"] = _text(rng, rng.randrange(6, 13))
    if impression:
        body["IMPRESSION"] = _text(rng, rng.randrange(1, 7))
    for name, text in body.items():
        words, line = f"{name}:  {text}".split(" "), ""
        for word in words:
            if len(line) + len(word) > 77:
                lines, line = [*lines, line], ""
            line += f" {word}"
        lines += [line, " "]
    return "\n".join(lines)


def read(root: Path, results: Any) -> None:
    """The stages `source` and `corpus` on the files below ``root``, images apart."""
    from pacer.corpus.build_corpus import build_corpus
    from pacer.corpus.source.files import point_to_files

    values = load_params(ROOT / "configs" / "mimic_cxr.yaml").corpus.model_dump()
    files = FILES | ({"reports": "files"} if (root / "files" / "p10").is_dir() else {})
    config = Corpus.model_validate(values | {"root": str(root), "images": "files", "mimic_cxr": files})
    started = time.perf_counter()
    point_to_files(config, root / "source")
    described, worked = time.perf_counter(), time.process_time()
    audit = build_corpus(config, root / "source", root / "corpus", inspect=_unopened)
    results.put(
        {
            "records": audit["records"],
            "source_seconds": round(described - started, 1),
            "corpus_seconds": round(time.perf_counter() - described, 1),
            "cpu_seconds": round(time.process_time() - worked, 1),
            "peak_megabytes": round(peak_memory() / 1e6),
            "left_out": audit["left_out"],
        }
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--studies", type=int, nargs="+", default=[STUDIES // 10, STUDIES])
    parser.add_argument("--unpacked", action="store_true", help="reports as a tree of files in place of the archive")
    arguments = parser.parse_args()
    for studies in arguments.studies:
        with tempfile.TemporaryDirectory() as temporary:
            root = Path(temporary)
            written = measure(write_files, root, studies, arguments.unpacked)
            print(json.dumps(written | measure(read, root) | {"load_average": os.getloadavg()[0]}), flush=True)


if __name__ == "__main__":
    main()
