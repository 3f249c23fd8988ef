"""Commands of DVC in the documentation run the stages that they are said to run, and no others."""

import re
import shlex
from itertools import pairwise

import pytest

from pacer.core.io import parse_yaml
from tests.support.cli import REPOSITORY
from tests.support.profiles import yaml_of
from tests.support.repository import Repository, ran
from tests.unit.cli.test_documented_commands import PAGES

#: Commands as documented -> the stages that run in a repository that is up to date.
EXPECTED = {
    "dvc repro -f -s score": ["score"],
    "dvc repro -f -s anchor_llm": ["anchor_llm"],
    "dvc repro -f -s features": ["features"],
    "dvc repro -f source": ["source"],
    "dvc exp run -S calibrate.lambda_cons=0.1": ["calibrate", "decode", "score", "report"],
    "dvc exp run -S score.columns=columns.csv": ["score", "report"],
    "dvc exp run -S decode.commitment=read -S decode.select=agreement": [
        "decode",
        "score",
        "report",
    ],
}
#: Options that change what runs; commands with them must be in EXPECTED.
FORCED = re.compile(r"\s(-f|--force)\b")


def documented() -> set[str]:
    """Every `dvc repro` and `dvc exp run` of the pages, without comments and what follows."""
    found = set()
    for page in PAGES:
        for text in re.findall(r"dvc (?:repro|exp run)[^`#;|&\n]*", page.read_text("utf-8")):
            found.add(" ".join(text.replace("\\", " ").split()))
    return found


def test_every_forced_command_is_expected() -> None:
    assert {command for command in documented() if FORCED.search(command)} <= EXPECTED.keys()
    assert EXPECTED.keys() <= documented()


def readers(settings: list[str]) -> list[str]:
    """Return the stages that read one of the parameters, and all that follow them; a dry run of
    `dvc exp run -S` would need the data."""
    params = parse_yaml(yaml_of("phantom"))
    stages = parse_yaml((REPOSITORY / "dvc.yaml").read_text("utf-8"))["stages"]
    changed: set[str] = set()
    for key in (setting.partition("=")[0] for setting in settings):
        group = params
        for name in key.split("."):
            assert name in group, f"{key} is not a parameter"
            group = group[name]
        for name, stage in stages.items():
            own = [one for one in stage.get("params", []) if isinstance(one, str)]
            if any(f"{key}.".startswith(f"{one}.") for one in own):
                changed.add(name)
    for name, stage in stages.items():  # in the order in which they run
        made = {out for one in changed for out in paths(stages[one])}
        if any(f"{dep}/".startswith(f"{out}/") for dep in stage["deps"] for out in made):
            changed.add(name)
    return [name for name in stages if name in changed]


def paths(stage: dict) -> list[str]:
    """The outputs of a stage."""
    listed = [*stage.get("outs", []), *stage.get("metrics", [])]
    return [one if isinstance(one, str) else next(iter(one)) for one in listed]


@pytest.mark.parametrize("command", sorted(documented() | EXPECTED.keys()))
def test_it_runs_these_stages(finished: Repository, command: str) -> None:
    """Of the miniature, in which all is up to date."""
    words = shlex.split(command)
    settings = [value for option, value in pairwise(words) if option == "-S"]
    if words[-1] == "-S" or words == ["dvc", "exp", "run"]:
        pytest.skip("its value is the reader's")
    if settings:
        stages = readers(settings)
        assert stages and stages == EXPECTED.get(command, stages)
        return
    dry = [*words[:2], "--dry", *({"--allow-missing"} - {*words}), *words[2:]]
    assert list(ran(finished.run(*dry))) == EXPECTED.get(command, [])
