#!/bin/sh
# torchvision's v2 Resize with bicubic interpolation, of a tensor of unsigned 16-bit values, makes pixels beside an edge
# wrap around: where bicubic interpolation undershoots zero, as it does on the dark side of an edge, the result is not 0
# but close to 65535, and an overshoot past 65535 is close to 0. It says nothing. With uint8, the same function cuts off
# what is out of range; with int16 and with floats, the slightly negative values stay. (This is so on x86: what a
# negative float becomes as an unsigned integer is left to the processor.)
# Expected: the values stay within the range of the type, as for uint8, or uint16 is refused. The documentation of
# `decode_image` says that PyTorch's support of uint16 is limited and recommends floats.
# v2.PILToTensor makes such tensors of the 16-bit PNGs in which radiographs are published, and bicubic is the
# interpolation in the preprocessing of CLIP and DINOv2. A collimated radiograph is a bright field in a black frame, so
# it gets a white line around the field, and who then divides by the image's maximum, as is common for 12 bits in 16,
# has the whole chest in the lowest twentieth of the grey levels. Below, an image whose largest value is 3000 has one
# beyond 65000 afterwards.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet "torch==2.13.0" "numpy==2.3.5" "pillow==13.0.0"
"$folder/venv/bin/pip" install --quiet --no-deps "torchvision==0.28.0"
cat > "$folder/resize.py" <<'PYTHON'
from importlib.metadata import version

import numpy as np
import torch
from PIL import Image

try:
    from torchvision.transforms import v2
except RuntimeError:  # torchvision from PyPI is built for CUDA, and beside a torch for the CPU it lacks two operators,
    library = torch.library.Library("torchvision", "DEF")  # which the transforms do not use, but which must be known
    for name in ("nms", "qnms"):
        library.define(f"{name}(Tensor boxes, Tensor scores, float threshold) -> Tensor")
    from torchvision.transforms import v2

FIELD = {torch.uint8: 200, torch.int16: 3000, torch.uint16: 3000, torch.float32: 3000}
print("torch", version("torch"), "torchvision", version("torchvision"))
largest = {}
for kind, value in FIELD.items():
    pixels = np.zeros((64, 64), dtype=str(kind).removeprefix("torch."))
    pixels[16:48, 16:48] = value  # a bright field in a black frame
    if kind is torch.uint16:  # the usual way from a 16-bit PNG
        image = v2.PILToTensor()(Image.fromarray(pixels))
    else:
        image = torch.from_numpy(pixels)[None]
    assert image.dtype is kind and image.shape == (1, 64, 64)
    for how in (v2.InterpolationMode.BILINEAR, v2.InterpolationMode.BICUBIC):
        resized = v2.Resize((44, 44), interpolation=how)(image)
        assert resized.dtype is kind
        row = resized[0, 22].to(torch.int64)
        largest[kind, how.value] = int(resized.to(torch.int64).max())
        print(f"{str(kind):13} {how.value:8} field {value}, largest pixel {largest[kind, how.value]:5},", end=" ")
        print("from the frame into the field:", row[8:14].tolist())
bicubic = {kind: largest[kind, "bicubic"] for kind in FIELD}
same = all(largest[kind, "bilinear"] <= value for kind, value in FIELD.items())
same &= bicubic[torch.uint8] <= 255 and bicubic[torch.int16] < 4000 and bicubic[torch.float32] < 4000
raise SystemExit(not (same and bicubic[torch.uint16] > 65000))
PYTHON
"$folder/venv/bin/python" "$folder/resize.py"
