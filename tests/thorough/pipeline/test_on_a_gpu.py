"""Every part that computes finds on a GPU, in float32, what it finds on the CPU."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from accelerate.state import AcceleratorState

from pacer.backbones.chexbert import CheXbert
from pacer.core.schemas import ABOUT, read_records
from pacer.decoding.run import trained_generator
from pacer.emphasis.attribution import Attributor
from pacer.features.encoder import open_features
from pacer.serving.case import Case
from pacer.serving.package import export_model
from pacer.serving.reporter import Reporter
from tests.support import drive

PHASES = ("warmup", "parent", "calibrate")
TEXTS = [
    "no effusion .",
    "small left effusion . the heart is normal .",
    "possible edema . lungs are clear .",
]


class Work:
    """What the parts read, below ``root``, and the device on which they compute: first the CPU."""

    def __init__(self, root: Path, backbones: Path, chexbert: Path, mode: str):
        self.root, self.backbones, self.chexbert, self.device = (
            root,
            backbones,
            chexbert,
            torch.device("cpu"),
        )
        groups = {"features": {"mode": mode}, "train": {"precision": "float32"}}
        groups |= {phase: {"learning_rate": 3e-4} for phase in PHASES}
        self.params = drive.parameters(drive.STILL, **groups)
        self.inputs = drive.write_inputs(root, backbones, self.params)
        self.records = read_records(f"{self.inputs['corpus']}/records.parquet")

    def own(self, name: str) -> Path:
        (self.root / self.device.type).mkdir(exist_ok=True)
        return self.root / self.device.type / name


def encode(work: Work) -> list[torch.Tensor]:
    drive.write_features(
        work.own("features"), work.root / "images", work.backbones, work.params, seed=0
    )
    features = open_features(work.own("features"), work.backbones, work.device)
    images = [f"f{number}.png" for number in range(8)]
    return [
        tensor.cpu()
        for tensor in (features.depth_states(images), *features.prior_states([drive.REPORTS[0]]))
    ]


def train(work: Work) -> list[torch.Tensor]:
    """The values that the phases log at each update."""
    found = []
    for phase in PHASES:
        AcceleratorState._reset_state(reset_partial_state=True)
        task = drive.job(phase, work.params, work.inputs, work.own(phase))
        drive.perform(task)
        found += [torch.tensor([*values.values()]) for _, values in drive.logged(task)]
    return found


def generate(work: Work) -> list[str]:
    made = work.root / "cpu" / "calibrate", work.backbones, Path(work.inputs["features"])
    generator, _ = trained_generator(*made, work.params.decode, work.device)
    return [one.text for one in generator(work.records.to_dicts()[::4])]


def report(work: Work) -> list[str]:
    about = json.dumps({"cleaner": "upstream", "target": "findings_and_impression"})
    work.records.write_parquet(work.own("records.parquet"), metadata={ABOUT: about})
    made = {name: Path(work.inputs[name]) for name in ("features", "backbones")}
    made |= {"model": work.root / "cpu" / "calibrate", "records": work.own("records.parquet")}
    export_model(work.own("exported"), work.params.decode, **made)
    reporter = Reporter(work.own("exported"), device=work.device)
    frontal, lateral = (work.root / "images" / name for name in ("f0.png", "l0.png"))
    cases = [
        Case(frontal=frontal, prior=TEXTS[1], name="a"),
        Case(frontal=frontal, lateral=lateral, name="b"),
    ]
    return [
        one.report
        for one in (*reporter.generate(cases), *reporter.in_all_contexts(cases[1]).values())
    ]


def attribute(work: Work) -> list[torch.Tensor]:
    attributor = Attributor(CheXbert(work.chexbert, device=work.device), batch_size=2, steps=4)
    return [torch.from_numpy(read.scores) for read in attributor(TEXTS)]


PARTS: dict[str, Callable[[Work], list]] = {
    "encode": encode,
    "train": train,
    "generate": generate,
    "report": report,
    "label": lambda work: [CheXbert(work.chexbert, device=work.device)(TEXTS).cpu()],
    "attribute": attribute,
}


@pytest.mark.gpu
@pytest.mark.parametrize(("mode", "parts"), [("states", [*PARTS]), ("pixels", ["encode", "train"])])
def test_parts_find_what_they_find_on_the_cpu(
    mode: str,
    parts: list[str],
    backbones: Path,
    chexbert_directory,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ACCELERATE_USE_CPU", "true")
    work = Work(tmp_path / mode, backbones, chexbert_directory(), mode)
    expected = {name: PARTS[name](work) for name in parts}
    monkeypatch.delenv("ACCELERATE_USE_CPU")
    work.device = torch.device("cuda")
    for name, on_cpu in expected.items():
        AcceleratorState._reset_state(reset_partial_state=True)
        on_gpu = PARTS[name](work)
        if torch.is_tensor(on_cpu[0]):
            torch.testing.assert_close(on_gpu, on_cpu, rtol=1e-3, atol=1e-4, msg=name)
        else:
            assert on_gpu == on_cpu, name
