#!/bin/sh
# SimpleITK reads a radiograph with the photometric interpretation MONOCHROME1 (the smallest value is shown white) with
# its stored values inverted, before the rescale slope and intercept are applied, and leaves the metadata as they were:
# (0028,0004) still says MONOCHROME1, and the window's centre and width still belong to the values that were not
# inverted. So whoever inverts an image because its tag says MONOCHROME1, as one must with pydicom, inverts it a second
# time, into a negative; whoever applies the file's window (here 1000 +- 400) to the pixels has its centre at 3095,
# saturated; and with a slope of 0.5 and an intercept of 10 the stored 0, which is 10 by the file, is read as 2057.5.
# SimpleITK 2.2 and 2.3 did the same with a warning; 2.4 and 2.5 say nothing.
# Expected: a reader gives the values that the file defines, as it does for MONOCHROME2, as pydicom does for both, and
# as ITK's own notes on DICOM colours say of ITK 5.0 (by the standard the inversion is the last step, after the
# window), or it sets the tag to MONOCHROME2 when it has inverted.
# Chest radiographs of some devices are MONOCHROME1, so that a part of a data set becomes negatives, which no error
# tells.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet "SimpleITK==2.5.7" "pydicom==3.0.2" "numpy==2.3.5"
cat > "$folder/read.py" <<'PYTHON'
import sys
from importlib.metadata import version

import numpy as np
import pydicom
import SimpleITK
from pydicom.dataset import Dataset, FileMetaDataset
from pydicom.pixels import apply_modality_lut
from pydicom.uid import ComputedRadiographyImageStorage, ExplicitVRLittleEndian, generate_uid

STORED = [0, 1000, 4095]
CASES = {  # (interpretation, slope, intercept): (values by pydicom, values by SimpleITK)
    ("MONOCHROME2", 1, 0): ([0, 1000, 4095], [0, 1000, 4095]),
    ("MONOCHROME1", 1, 0): ([0, 1000, 4095], [4095, 3095, 0]),
    ("MONOCHROME2", 0.5, 10): ([10, 510, 2057.5], [10, 510, 2057.5]),
    ("MONOCHROME1", 0.5, 10): ([10, 510, 2057.5], [2057.5, 1557.5, 10]),
}


def write(path, interpretation, slope, intercept):
    image = Dataset()
    image.file_meta = FileMetaDataset()
    image.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
    image.SOPClassUID, image.SOPInstanceUID = ComputedRadiographyImageStorage, generate_uid()
    image.StudyInstanceUID, image.SeriesInstanceUID = generate_uid(), generate_uid()
    image.PatientName = image.PatientID = image.StudyDate = image.StudyTime = ""
    image.Modality, image.InstanceNumber = "CR", 1
    image.Rows, image.Columns, image.SamplesPerPixel = 1, len(STORED), 1
    image.PhotometricInterpretation = interpretation
    image.BitsAllocated, image.BitsStored, image.HighBit, image.PixelRepresentation = 16, 12, 11, 0
    image.RescaleSlope, image.RescaleIntercept, image.RescaleType = slope, intercept, "US"
    image.WindowCenter, image.WindowWidth = 1000, 800
    image.PixelData = np.array(STORED, dtype="<u2").tobytes()
    image.save_as(path, enforce_file_format=True)


print("SimpleITK", version("SimpleITK"), "pydicom", version("pydicom"), "stored values", STORED)
path = sys.argv[1]
same = True
for case, expected in CASES.items():
    write(path, *case)
    dataset = pydicom.dcmread(path)
    by_pydicom = apply_modality_lut(dataset.pixel_array, dataset).ravel().tolist()
    image = SimpleITK.ReadImage(path)
    by_simpleitk = SimpleITK.GetArrayFromImage(image).ravel().tolist()
    tag, centre = image.GetMetaData("0028|0004").strip(), image.GetMetaData("0028|1050").strip()
    print(*case, "pydicom", by_pydicom, "SimpleITK", by_simpleitk, "tag", tag, "window centre", centre)
    same &= (by_pydicom, by_simpleitk) == expected and (tag, centre) == (case[0], "1000.0")
raise SystemExit(not same)
PYTHON
"$folder/venv/bin/python" "$folder/read.py" "$folder/image.dcm"
