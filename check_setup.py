"""Check the environment in `.venv`, and create or repair it; the Makefile runs this. Obstacles are
reported in one sentence before anything is written.

    .venv/bin/python check_setup.py usable    # exit code 1: `.venv` must be created again
    python3 check_setup.py create             # creates it; also runs on a Python that is too old
    .venv/bin/python check_setup.py run       # for all targets: installs what is missing
    .venv/bin/python check_setup.py setup     # for `make setup`: also replaces other versions
"""

import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
from pathlib import Path

#: The oldest and the newest Python for which all pinned packages have wheels.
OLDEST, NEWEST = (3, 11), (3, 14)
ROOT = Path(__file__).resolve().parent
#: If this is a link, the environment belongs to another clone, and nothing is installed in it.
VENV = ROOT / ".venv"
#: The project's own package, and the console scripts that the Makefile starts, with their packages.
OWN = "pacer-cxr"
#: Extras of pyproject.toml that `dev` includes.
EXTRAS = ("meteor", "corpus", "pages", "pipeline", "excel", "dev")
SCRIPTS = {"pacer": OWN, "dvc": "dvc", "pytest": "pytest", "ruff": "ruff", "ty": "ty"}


def obstacle():
    """Return what stands against making the environment, with the remedy; None if nothing does."""
    python = f"{sys.executable} is Python {platform.python_version()}"
    if not OLDEST <= sys.version_info[:2] <= NEWEST:
        return (
            f"{python}, expected 3.{OLDEST[1]} to 3.{NEWEST[1]}; try: make setup PYTHON=python3.12"
        )
    if sys.platform not in ("linux", "darwin"):
        return f"this is {platform.system()}, expected Linux or macOS; on Windows, use WSL"
    if sys.platform == "darwin" and platform.machine() != "arm64":
        return (
            f"{python} for Intel Macs, which PyTorch no longer supports; use an arm64 Python "
            "on Apple silicon"
        )
    if shutil.which("git") is None:
        return "git is not on the PATH; install it, because the pipeline runs in a git repository"
    if not os.path.exists(".git"):
        remedy = "clone PACER with git, or run: git init && git add --all && git commit -m PACER"
        return f"{os.getcwd()} is not a git repository, which the pipeline needs; {remedy}"
    if not can_make_environments():
        package = f"python3.{sys.version_info[1]}-venv"
        return (
            f"{python} without ensurepip, which virtual environments need; on Debian and Ubuntu, "
            f"run: sudo apt install {package}"
        )
    return None


def can_make_environments():
    """Return whether this Python has the modules that Debian and Ubuntu put into a package of their
    own."""
    try:
        import venv  # noqa: F401
        from ensurepip import bootstrap  # noqa: F401
    except ImportError:
        return False
    return True


def flaw(environment):
    """Return why an environment must be created again, or None; its own Python runs this. If only
    pip is missing, install it."""
    if not OLDEST <= sys.version_info[:2] <= NEWEST:
        return f"its Python is {platform.python_version()}"
    if not site_packages(environment).is_dir():
        return f"its Python was replaced by {platform.python_version()}"
    for name in SCRIPTS:
        if not starts(environment / "bin" / name):
            return f"its command `{name}` belongs to another folder or Python"
    if environment.is_symlink() or has_pip(environment):
        return None
    subprocess.call([sys.executable, "-m", "ensurepip"], stdout=subprocess.DEVNULL)
    return None if has_pip(environment) else "it has no pip"


def site_packages(environment):
    """Return where this Python's packages are in an environment."""
    place = {"base": str(environment), "platbase": str(environment)}
    return Path(sysconfig.get_path("purelib", "venv", vars=place))


def starts(script):
    """Return whether the Python that a console script names is in the script's folder; True for a
    script that is absent or names none."""
    if not script.exists():
        return True
    with script.open("rb") as file:
        head = file.read(1000)
    # the second form is that of long paths and of paths with spaces
    named = re.match(rb"#!(?:/bin/sh\n'''exec' )?[\"']?(/[^\"'\n]*?/python[\w.]*)", head)
    if named is None:
        return True
    python = Path(os.fsdecode(named[1]))
    return python.exists() and python.parent.samefile(script.parent)


def installed(environment):
    """Return the versions of an environment's packages by name, and the metadata folders of those
    that are incomplete: an installer writes its own name last, after the console scripts."""
    versions, incomplete = {}, {}
    for folder in site_packages(environment).glob("*.dist-info"):
        name, _, version = folder.name[: -len(".dist-info")].partition("-")
        name = normal(name)
        scripts = [environment / "bin" / script for script in SCRIPTS if SCRIPTS[script] == name]
        if (folder / "INSTALLER").exists() and all(script.exists() for script in scripts):
            versions[name] = version
        else:
            incomplete[name] = folder
    return versions, incomplete


def has_pip(environment):
    """Return whether an environment has the whole of pip."""
    return (
        "pip" in installed(environment)[0]
        and (site_packages(environment) / "pip" / "__main__.py").exists()
    )


def normal(name):
    """Return the name of a package as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def pinned():
    """Return the versions of constraints.txt by the packages' names."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = (re.match(r"([\w.-]+)==([^\s;]+)", line) for line in lines)
    return {normal(pin[1]): pin[2] for pin in pins if pin}


def project():
    """Return the table `project` of pyproject.toml."""
    import tomllib  # not in a Python that is too old

    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def look(environment):
    """Return what an environment lacks, and by name the packages whose versions are not those of
    constraints.txt. In a linked environment, this package is that of another clone, and it is
    imported from here through PYTHONPATH: its version and place do not matter."""
    own, (versions, incomplete) = project(), installed(environment)
    extras = own["optional-dependencies"]
    lines = [*own["dependencies"], *(line for name in EXTRAS for line in extras[name])]
    required = {normal(re.match(r"[\w.-]+", line)[0]) for line in lines} | incomplete.keys()
    lacks = sorted(required - versions.keys())
    if OWN in versions and not environment.is_symlink():
        if versions[OWN] != own["version"]:
            lacks.append(f"{OWN} {own['version']}")
        elif not any(map(leads_here, site_packages(environment).glob("*.pth"))):
            lacks.append(f"the path of {ROOT}")
    differ = {
        name: f"{name} {versions[name]} instead of {version}"
        for name, version in pinned().items()
        # 2.13.0+cu126 is 2.13.0, built for a certain GPU driver
        if name in versions and version not in (versions[name], versions[name].partition("+")[0])
    }
    return lacks, differ


def leads_here(file):
    """Return whether a .pth file adds this folder to Python's path. (A finder, the other form of an
    editable installation, comes after the path: in a folder that contains a folder `pacer`, such as
    this clone, Python would import that one, which is empty.)"""
    lines = file.read_text(encoding="utf-8").splitlines()
    return any(os.path.isdir(line) and ROOT.samefile(line) for line in lines)


def usable():
    """Return exit code 1 and print the reason if `.venv` must be created again."""
    found = flaw(VENV)
    if found:
        print(f".venv cannot be used: {found}")
    return 1 if found else 0


def create():
    """Create `.venv`, and remove what is there."""
    if VENV.is_symlink():
        return (
            f"error: .venv is a link to {os.readlink(str(VENV))}, which cannot be used; remove the "
            "link and run: make setup"
        )
    found = obstacle()
    if found:
        return f"error: {found}"
    print(f"making .venv with Python {platform.python_version()}", flush=True)
    return subprocess.call([sys.executable, "-m", "venv", "--clear", str(VENV)])


def install(exactly):
    """Install what `.venv` lacks and, if ``exactly``, the pinned versions where others are
    installed. These may be the user's choice, so other targets only mention them."""
    lacks, differ = look(VENV)
    linked = VENV.is_symlink()
    if linked and lacks:
        return (
            f"error: .venv is a link to an environment that {described(lacks, {})}; run "
            "`make setup` in the clone that it belongs to, or remove the link"
        )
    if lacks or (exactly and differ and not linked):
        print(f"setting up .venv, which {described(lacks, differ)}", flush=True)
        return pip_install(differ)
    if differ:
        remedy = "it is a link, so this is left" if linked else "`make setup` restores these"
        print(f"note: .venv {described(lacks, differ)}; {remedy}", flush=True)
    elif exactly:
        print(".venv has the packages of constraints.txt; nothing to do")
    return 0


def described(lacks, differ):
    """Return the result of :func:`look` as the end of a sentence about an environment."""
    parts = ["lacks " + listing(lacks)] if lacks else []
    if differ:
        parts.append("has other versions than constraints.txt: " + listing([*differ.values()]))
    return ", and ".join(parts)


def listing(names, most=5):
    """Return names for a sentence, only some of them if they are many."""
    rest = len(names) - most
    return ", ".join(names[:most]) + (f" and {rest} more" if rest > 0 else "")


def pip_install(differ):
    """Install this package, editable, all that it needs, and the pinned versions of ``differ``."""
    for folder in installed(VENV)[1].values():
        shutil.rmtree(folder)  # pip would take the package for complete
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    pins = [f"{name}=={pinned()[name]}" for name in differ]
    status = subprocess.call([*pip, "-c", "constraints.txt", "-e", ".[dev]", *pins], cwd=str(ROOT))
    if status:
        return "error: pip failed (its message is above); run the same command again"
    lacks, _ = look(VENV)
    if lacks:
        left = described(lacks, {})
        return f"error: after the installation, .venv still {left}; run: make clean setup"
    return 0


if __name__ == "__main__":
    commands = {
        "usable": usable,
        "create": create,
        "run": lambda: install(exactly=False),
        "setup": lambda: install(exactly=True),
    }
    # Ctrl-C must end the shell too, which would otherwise run `create` after `usable`
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.exit(commands[sys.argv[1]]())
