"""DICOM files with chosen values and fields, and radiographs as they are read."""

from pathlib import Path
from typing import Any

import numpy as np
import pydicom
import pytest
from pydicom.dataset import FileDataset, FileMetaDataset
from pydicom.encaps import encapsulate
from pydicom.uid import (
    ExplicitVRBigEndian,
    ExplicitVRLittleEndian,
    ImplicitVRLittleEndian,
    SecondaryCaptureImageStorage,
    generate_uid,
)

from pacer.images import greyscale as pixels
from pacer.images.radiographs import image_header, open_image


@pytest.fixture
def tiny_images_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """What decides a value is seen on a few pixels."""
    monkeypatch.setattr(pixels, "MIN_SIDE", 1)


@pytest.fixture(params=[open_image, image_header])
def read(request: pytest.FixtureRequest) -> Any:
    """Whatever reads an image refuses it."""
    return request.param


def opened(path: Path) -> np.ndarray:
    image = open_image(path)
    assert image.mode == "L"
    assert image.size == image_header(path)[:2]
    return np.asarray(image)


def stretched(values: np.ndarray, low: float, high: float) -> np.ndarray:
    """The expected result, pixel by pixel."""
    return np.array(
        [
            [round(255 * min(max((v - low) / (high - low), 0), 1)) for v in row]
            for row in values.tolist()
        ]
    )


def write_dicom(
    path: Path,
    stored: np.ndarray,
    bits: int = 12,
    signed: bool = False,
    photometric: str = "MONOCHROME2",
    syntax: str = ExplicitVRLittleEndian,
    pixel_data: bytes | None = None,
    **fields: Any,
) -> Path:
    """A secondary capture with these stored values; ``fields`` are set, also as (VR, value), or
    removed (None)."""
    meta = FileMetaDataset()
    meta.MediaStorageSOPClassUID, meta.MediaStorageSOPInstanceUID = (
        SecondaryCaptureImageStorage,
        generate_uid(),
    )
    meta.TransferSyntaxUID = pydicom.uid.UID(syntax)
    little = syntax != ExplicitVRBigEndian
    data = FileDataset(str(path), {}, b"\0" * 128, meta, syntax == ImplicitVRLittleEndian, little)
    data.SOPClassUID, data.SOPInstanceUID = (
        meta.MediaStorageSOPClassUID,
        meta.MediaStorageSOPInstanceUID,
    )
    allocated = 8 if bits <= 8 else 16
    data.Rows, data.Columns = stored.shape[-2:]
    data.SamplesPerPixel, data.PhotometricInterpretation = 1, photometric
    data.BitsAllocated, data.BitsStored, data.HighBit, data.PixelRepresentation = (
        allocated,
        bits,
        bits - 1,
        int(signed),
    )
    data.PixelData = stored.astype(
        f"{'<' if little else '>'}{'i' if signed else 'u'}{allocated // 8}"
    ).tobytes()
    if pixel_data is not None:
        data.PixelData = encapsulate([pixel_data])
        data["PixelData"].is_undefined_length = True
    for name, value in fields.items():
        if value is None:
            delattr(data, name)
        elif isinstance(value, tuple):
            data.add_new(name, *value)
        else:
            setattr(data, name, value)
    data.save_as(path, enforce_file_format=True)
    return path
