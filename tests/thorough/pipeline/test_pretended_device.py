"""Every part that computes on a device does all of it there: on one that is pretended it finds what it does on the CPU.

Half precision and page-locked memory are not pretended; ``pytest -m gpu`` tests them. The parts run in a process of
their own, because the device stays registered in it: this file as a script.
"""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from accelerate.state import AcceleratorState
from safetensors.torch import load_file

from pacer.data.schemas import ABOUT, read_records
from pacer.decoding.run import trained_generator
from pacer.emphasis.attribution import Attributor
from pacer.features.online import open_features
from pacer.metrics.chexbert.labeller import CheXbert
from pacer.serving.case import Case
from pacer.serving.package import export_model
from pacer.serving.reporter import Reporter
from pacer.training.run import Inputs, run_phase
from tests.support import drive
from tests.support.metrics import chexbert_directory
from tests.support.models import MODEL

__all__ = ["chexbert_directory"]
ROOT = Path(__file__).parents[3]
PHASES = ("warmup", "parent", "calibrate")
TEXTS = ["no effusion .", "small left effusion . the heart is normal .", "possible edema . lungs are clear ."]


class Work:
    """What the parts read, below ``root``, and where they compute."""

    def __init__(self, root: Path, backbones: Path, chexbert: Path, mode: str):
        self.root, self.backbones, self.chexbert = root, backbones, chexbert
        self.params = drive.parameters(MODEL, features={"mode": mode}, train={"precision": "float32"})
        self.inputs = {name: Path(path) for name, path in drive.write_inputs(root, backbones, self.params).items()}
        self.device = torch.device("cpu")

    def own(self, name: str) -> Path:
        return self.root / f"{self.device.type}-{name}"


class Stopped(Exception):
    pass


def encode(work: Work) -> list[torch.Tensor]:
    AcceleratorState._reset_state(reset_partial_state=True)
    drive.write_features(work.own("features"), work.root / "images", work.backbones, work.params, seed=0)
    features = open_features(work.own("features"), work.backbones, work.device)
    images = [f"f{number}.png" for number in range(8)]
    return [tensor.cpu() for tensor in (features.depth_states(images), *features.prior_states([drive.REPORTS[0]]))]


def train(work: Work) -> list[torch.Tensor]:
    """The parent is stopped in its middle, and goes on from its saved state."""

    @contextmanager
    def log(directory: Path) -> Iterator[Callable]:
        def note(values: dict, step: int) -> None:
            if step == 4 and not (stopped := work.own("stopped")).exists():
                stopped.touch()
                raise Stopped

        yield note

    start: Path | None = None
    for name in PHASES:
        later = name != "warmup"
        inputs = Inputs(**work.inputs | {"start": start, "anchors": work.inputs["anchors"] if later else None})
        start = work.own(name)
        while not start.exists():
            AcceleratorState._reset_state(reset_partial_state=True)
            try:
                run_phase(name, work.params, inputs, start, log)
            except Stopped:
                assert not start.exists()
    assert work.own("stopped").exists()
    found = [load_file(work.own(name) / "model.safetensors") for name in PHASES]
    return [weights[name] for weights in found for name in sorted(weights)]


def generate(work: Work, engine: str) -> list[str]:
    decode = work.params.decode.model_copy(update={"engine": engine})
    made = work.root / "cpu-calibrate", work.backbones, work.inputs["features"]
    generator, _ = trained_generator(*made, decode, work.device)
    return [one.text for one in generator(read_records(work.inputs["corpus"] / "records.parquet").to_dicts()[::4])]


def report(work: Work) -> list[str]:
    model, frontal, lateral = work.root / "exported", *(work.root / "images" / name for name in ("f0.png", "l0.png"))
    if not model.exists():
        made = {name: work.inputs[name] for name in ("features", "backbones")}
        records = work.root / "records.parquet"
        about = json.dumps({"cleaner": "upstream", "target": "findings_and_impression"})
        read_records(work.inputs["corpus"] / records.name).write_parquet(records, metadata={ABOUT: about})
        export_model(model, work.params.decode, model=work.root / "cpu-calibrate", records=records, **made)
    reporter = Reporter(model, device=work.device)
    cases = [Case(frontal=frontal, prior=TEXTS[1], name="a"), Case(frontal=frontal, lateral=lateral, name="b")]
    results = [*reporter.generate(cases), *reporter.in_all_contexts(cases[1]).values()]
    return [result.report for result in results]


def label(work: Work) -> list[torch.Tensor]:
    return [CheXbert(work.chexbert, device=work.device)(TEXTS).cpu()]


def attribute(work: Work) -> list[torch.Tensor]:
    attributor = Attributor(CheXbert(work.chexbert, device=work.device), steps=4, batch_size=2)
    return [torch.from_numpy(read.scores) for read in attributor(TEXTS)]


PARTS: dict[str, Callable[[Work], list]] = {
    "encode": encode,
    "train": train,
    "search": lambda work: generate(work, "beam"),
    "generate": lambda work: generate(work, "generate"),
    "report": report,
    "label": label,
    "attribute": attribute,
}


def main(root: Path, backbones: Path, chexbert: Path) -> None:
    from tests.support.pretended_device import Mixed, pretended

    torch.set_num_threads(1)
    with pretended() as device, pytest.raises(Mixed):
        torch.ones(2).to(device) + torch.ones(2)
    works = {mode: Work(root / mode, backbones, chexbert, mode) for mode in ("states", "pixels")}
    wanted = [*(("states", name) for name in PARTS), ("pixels", "encode"), ("pixels", "train")]
    expected = {(mode, name): PARTS[name](works[mode]) for mode, name in wanted}
    with pretended() as device:
        for (mode, name), on_cpu in expected.items():
            print(name, mode, flush=True)
            works[mode].device = device
            on_device = PARTS[name](works[mode])
            if torch.is_tensor(on_cpu[0]):
                torch.testing.assert_close(on_device, on_cpu, rtol=1e-4, atol=1e-5)
            else:
                assert on_device == on_cpu


def test_all_is_computed_on_the_device(
    backbones: Path, chexbert_directory: Callable[..., Path], tmp_path: Path
) -> None:
    script = [sys.executable, "-m", "tests.thorough.pipeline.test_pretended_device"]
    done = subprocess.run(
        [*script, tmp_path, backbones, chexbert_directory()], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    assert all(f"{name} states" in done.stdout for name in PARTS) and "train pixels" in done.stdout


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
