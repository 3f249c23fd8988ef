#!/bin/sh
# Pillow rotates and warps a 16-bit grey image (mode I;16, as it opens a 16-bit PNG and makes of a uint16 array) with
# BILINEAR or BICUBIC as if it held one byte a pixel: it interpolates between the low and the high bytes of the pixels
# in the left half of each row, in turn, and leaves the high bytes of the result zero. All values are below 256, the
# right half of the image is lost, and what is there is noise; even the transform that moves nothing does so. There is
# no error and no warning, and NEAREST, `resize` with the same two filters, and rotations by 90 degrees are right.
# Expected: the same as in the modes "I" and "F", or the error "image has wrong mode" that Pillow raises for other
# operations that lack 16 bits. The documentation calls its support of I;16 limited and does not say this.
# Chest radiographs of several public sets are 16-bit PNGs, and a small random rotation is the usual augmentation in
# training: torchvision's RandomRotation and RandomAffine with bilinear interpolation call this for Pillow images. After
# each image's values are scaled to between 0 and 1, as is common, only a look at the images shows it. Below, a smooth
# image with a bright disc at the right is rotated by 5 degrees.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"; "$folder/venv/bin/pip" install --quiet "pillow==13.0.0" "numpy==2.3.5"
cat > "$folder/rotate.py" <<'PYTHON'
import sys

import numpy as np
import PIL
from PIL import Image
from PIL.Image import Resampling, Transform

SIDE = 128
down, right = np.mgrid[:SIDE, :SIDE]
disc = (down - 64) ** 2 + (right - 90) ** 2 < 20**2
pixels = (500 + 10 * down + 8 * right + 1000 * disc).astype(np.uint16)  # a 12-bit radiograph's values
Image.fromarray(pixels).save(sys.argv[1])
image = Image.open(sys.argv[1])
assert image.mode == "I;16" and np.array_equal(image, pixels)
wide = image.convert("I")  # 32 bits
assert np.array_equal(wide, pixels)

OPERATIONS = {
    "rotate by 5 degrees": lambda picture, how: picture.rotate(5, how),
    "transform by nothing": lambda picture, how: picture.transform(
        picture.size, Transform.AFFINE, (1, 0, 0, 0, 1, 0), how
    ),
    "rotate by 90 degrees": lambda picture, how: picture.rotate(90, how),
    "resize to 100 x 100": lambda picture, how: picture.resize((100, 100), how),
}
WRONG = {(name, how) for name in list(OPERATIONS)[:2] for how in ("BILINEAR", "BICUBIC")}
print("Pillow", PIL.__version__, "values from", pixels.min(), "to", pixels.max())
same = True
for name, operation in OPERATIONS.items():
    for how in (Resampling.NEAREST, Resampling.BILINEAR, Resampling.BICUBIC):
        short, long = (np.asarray(operation(picture, how)).astype(int) for picture in (image, wide))
        inside = long > 0  # not the corners, which the rotation leaves empty
        likeness = np.corrcoef(short[inside], long[inside])[0, 1]
        wrong = short.max() < 256 and likeness < 0.1
        print(f"{name:20} {how.name:8} largest value {short.max():4} in I;16, {long.max():4} in I,", end=" ")
        print(f"correlation of the two {likeness:.2f}", "WRONG" if wrong else "")
        same &= wrong if (name, how.name) in WRONG else likeness > 0.999
# what is in the image that was not moved: the bytes of each row, in turn
still = np.asarray(OPERATIONS["transform by nothing"](image, Resampling.BILINEAR))
bytes_in_turn = np.array_equal(still, pixels.astype("<u2").view(np.uint8)[:, :SIDE])
print("pixels of row 0:", pixels[0, :4].tolist(), "after a bilinear transform by nothing:", still[0, :8].tolist())
print("these are the bytes of the left half:", bytes_in_turn)
raise SystemExit(not (same and bytes_in_turn))
PYTHON
"$folder/venv/bin/python" "$folder/rotate.py" "$folder/image.png"
