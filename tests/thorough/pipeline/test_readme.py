"""The commands of README.md run in its order on a finished run, those about the user's files aside."""

import re

from tests.support.repository import ROOT, Repository


def block(heading: str) -> str:
    """The first block of commands below a heading of README.md."""
    found = re.search(
        rf"^## {heading}\n.*?```bash\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL | re.MULTILINE
    )
    assert found is not None
    return found[1]


def test_experiments(repository: Repository) -> None:
    # a few updates in miniature may change no score, which --all shows too
    commands = block("Experiments with DVC").replace("dvc metrics diff", "dvc metrics diff --all")
    commands = commands.replace("git commit", "git -c user.name=test -c user.email=test@localhost commit --allow-empty")
    output = repository.run("bash", "-euo", "pipefail", "-c", commands)
    assert "mean.f1" in output
    assert "variant: endpoint" not in (repository.folder / "params.yaml").read_text()


def test_a_trained_model(repository: Repository) -> None:
    """`pacer serve` waits for requests, so it is asked for its help alone; the study is one of the micro profile."""
    image = next((repository.folder / "data/source/images").glob("p*/p*/s*/*.jpg"))
    study = image.parent.relative_to(repository.folder)
    commands = re.sub(r"^study=\S+", f"study={study}", block("Use a trained model"), flags=re.MULTILINE)
    commands = re.sub(r"\$study/\w+\*\.jpg", str(image.relative_to(repository.folder)), commands)
    commands = re.sub(r"\$\(ls [^)]*\)", str(image.relative_to(repository.folder)), commands)
    commands = commands.replace("pacer serve", "pacer serve --help")
    output = repository.run("bash", "-euo", "pipefail", "-c", commands)
    assert (repository.folder / "models/mine/model.safetensors").is_file()
    assert all(context in output for context in ("SN", "SW", "--port"))
