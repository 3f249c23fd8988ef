"""All that is released of the default run.

    dvc repro; pacer study run first; python bench/release.py    # write it
    python bench/release.py --check                              # is it of this code?

The table of experiments `first` has three seeds of the default run, and of README's first
experiment. The certificate (docs/certificate.md) is of the phantom's reports alone, without a run.
"""

import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import croissant
import default_run
import evidence
import polars as pl
import rates
from example import draw_example
from measuring import options_of
from phantom_picture import draw_phantom
from policies import gains

from pacer.backbones.tokenizer import read_tokenizer
from pacer.config import load_params
from pacer.config.strict import read_mapping
from pacer.core.errors import DataError, run_cleanly
from pacer.core.findings import FINDINGS
from pacer.core.io import hash_file, read_json, write_json, write_text
from pacer.core.schemas import read_records
from pacer.extras.studies.repository import Repository
from pacer.extras.studies.run import finished, plan
from pacer.extras.studies.study import load_study
from pacer.metrics.result import CASES

SOURCE, CORPUS = Path("data/source"), Path("data/corpus")
FIRST = evidence.RESULTS / "first.json"
#: The row of `first` that is shown beside the default run.
READ = "read, agreement"
EXAMPLES, FIGURES = Path("docs/examples"), Path("docs/figures")
#: Reports in docs/examples, and their context.
REPORTS, CONTEXT = 60, "mw"
CERTIFICATE = Path("bench/results/certificate.md")
CERTIFIED = "bleu1 bleu4 rougeL meteor cider f1 report_positive_f1 exact_f1"
CERTIFIED += " attributes_side attributes_severity attributes_course pacer:reward repetition"
PICTURED = "bleu4 f1 exact_f1"
#: The report of a system that looks at nothing.
CONSTANT = "no acute cardiopulmonary process ."
#: What the released files were made from, and their hashes.
RELEASE = default_run.FOLDER / "release.json"
#: Outputs of the pipeline that they are made from.
OUTPUTS = ("data/source", "data/corpus", "models/backbones", "predictions", "metrics/scores.json")
#: The code of certificates, of the probe and of comparisons.
CODE = ("pacer/extras/certify", "pacer/extras/probe", "pacer/metrics", "pacer/phantom")
CODE += ("pacer/statistics", "pacer/text")
FILES = (
    *(default_run.FOLDER / name for name in ("scores.json", "signature.json")),
    *(default_run.PREVIOUS, default_run.CORPUS, default_run.COMPARED, default_run.F1, FIRST),
    *(default_run.CERTIFIED, default_run.POLICIES),
    *(EXAMPLES / f"{name}.csv" for name in ("references", "pacer", "pacer_read")),
    *(FIGURES / name for name in ("example.png", "example_narrow.png")),
    *(FIGURES / name for name in ("certificate.svg", "probe.svg")),
    *(CERTIFICATE, croissant.OUT, rates.MEASURED, Path("docs/phantom.png")),
)


def made_from(repository: Repository) -> dict[str, Any]:
    """Return the hashes of all that the released files are made from, as git and dvc.lock have
    them, and the runs of the table."""
    stages = read_mapping("dvc.lock")["stages"].values()
    outputs = {out["path"]: out["md5"] for stage in stages for out in stage.get("outs", [])}
    objects = repository.objects()
    runs = [run.name for run in plan(load_study(Path("studies"), "first"), repository)]
    return {
        "outputs": {path: outputs[path] for path in OUTPUTS},
        "code": {path: objects[path] for path in CODE},
        "runs": runs,
    }


def counts() -> dict[str, Any]:
    """Return counts of the corpus, and shares of its reports."""
    records, truth = (
        read_records(CORPUS / "records.parquet"),
        pl.read_parquet(SOURCE / "truth.parquet"),
    )
    manifest = read_json(SOURCE / "manifest.json")["counts"]
    sizes = truth["split"].value_counts()
    tokenizer = read_tokenizer(Path("models/backbones/language")).backend_tokenizer
    texts = records["report"].to_list()
    tokens = pl.Series(
        [len(one.ids) for one in tokenizer.encode_batch(texts, add_special_tokens=False)]
    )
    words = records["report"].str.extract_all("[a-z0-9-]+")
    most = load_params().trajectory.report_tokens - 2  # without BOS and EOS
    return {
        "patients": manifest["patients"],
        "studies": manifest["studies"],
        "images": manifest["images"],
        "splits": {
            split: sizes.filter(split=split)["count"].item() for split in ("train", "val", "test")
        },
        "most_studies": truth["subject_id"].value_counts()["count"].max(),
        "findings": truth.select(pl.sum_horizontal(FINDINGS).mean()).item(),
        "words": words.explode().n_unique(),
        "reports": {
            "findings": records["sections"].str.contains("findings").mean(),
            "impression": records["sections"].str.contains("impression").mean(),
            "mean_words": words.list.len().mean(),
            "mean_tokens": tokens.mean(),
            "most_tokens": tokens.max(),
            "cut": (tokens > most).mean(),
        },
    }


def restore_read(repository: Repository, out: Path) -> None:
    """Write the folders ``predictions`` and ``metrics`` of the row beside the default run, with the
    same seed, into ``out``, which exists."""
    study = load_study(Path("studies"), "first")
    found = next(
        one for one in finished(plan(study, repository), repository) if one.run.row == READ
    )
    for name in ("predictions", "metrics"):
        source = (".", name, "--rev", found.commit)
        repository.dvc("get", "--quiet", *source, "--out", str(out / name))


def printed_by(commands: str, folder: Path) -> str:
    """Return what commands of a page print in a folder."""
    script = ["bash", "-euo", "pipefail", "-c", commands]
    done = subprocess.run(script, cwd=folder, stdout=subprocess.PIPE, check=True, text=True)
    return done.stdout


def write_examples(read: Path) -> None:
    """Write references and reports of both ways of decoding as tables, and what comparing them
    prints."""
    ours = pl.read_parquet("metrics" / Path(CASES)).filter(context=CONTEXT).head(REPORTS)
    theirs = ours.select("record_id").join(
        pl.read_parquet(read / "metrics" / CASES), on="record_id", maintain_order="left"
    )
    for name, cases, column in (
        ("references", ours, "reference"),
        ("pacer", ours, "hypothesis"),
        ("pacer_read", theirs, "hypothesis"),
    ):
        table = cases.select(id="record_id", report=column)
        write_text(EXAMPLES / f"{name}.csv", table.write_csv())
    write_text(default_run.COMPARED, printed_by(default_run.COMMANDS, Path.cwd()))


def write_certificate(scratch: Path) -> None:
    """Write the certificate of this package's scores, below the heading that it has, and the
    picture of three of them."""
    cards = scratch / "cards"
    commands = [("make", "--out", cards)]
    for names in (CERTIFIED, PICTURED):
        metrics = [part for name in names.split() for part in ("--metric", name)]
        labeller = ("--chexbert", "models/backbones/chexbert")
        commands.append(("score", cards, *metrics, *labeller, "--out", scratch / names))
    for command in commands:
        subprocess.run(["pacer", "certify", *command], check=True, stdout=subprocess.DEVNULL)
    heading = CERTIFICATE.read_text(encoding="utf-8").partition("\n|")[0]
    tables = (scratch / CERTIFIED / "table.md").read_text(encoding="utf-8")
    write_text(CERTIFICATE, f"{heading}\n{tables}")
    shutil.copy(scratch / PICTURED / "certificate.svg", FIGURES)
    # the functions of the page's example
    page = Path("docs/certificate.md").read_text(encoding="utf-8")
    write_text(scratch / "mine.py", page.partition("```python\n")[2].partition("```")[0])
    write_text(default_run.CERTIFIED, printed_by(default_run.CERTIFY, scratch))


def write_probe(scratch: Path) -> None:
    """Draw what the default run, a copy of the previous report and a constant report use."""
    probe, use = scratch / "probe", scratch / "use"
    inputs = probe / "inputs.csv"
    files = {
        "PACER": scratch / "pacer.jsonl",
        "copies the previous report": scratch / "copy.csv",
        "constant": scratch / "constant.csv",
    }
    ours, copied, constant = files.values()
    named = [part for item in files.items() for part in ("--reports", "{}={}".format(*item))]
    for command in (
        ("pacer", "export", scratch / "model"),
        ("pacer", "probe", "make", "--limit", "30", "--out", probe),
        ("pacer", "generate", "--model", scratch / "model", "--cases", inputs, "--out", ours),
        (sys.executable, EXAMPLES / "copy_previous.py", inputs, copied),
    ):
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    same = pl.read_csv(inputs, infer_schema=False).select("probe_id", report=pl.lit(CONSTANT))
    same.write_csv(constant)
    command = ("pacer", "probe", "score", "--probe", probe, *named, "--out", use)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    shutil.copy(use / "use.svg", FIGURES / "probe.svg")


def release(repository: Repository) -> None:
    """Write everything from the finished runs."""
    sources = made_from(repository)
    if missing := [name for name in sources["runs"] if name not in repository.experiments()]:
        raise DataError(f"{missing[0]} has not been run; run `pacer study run first`")
    for name in ("scores.json", "signature.json"):
        shutil.copy(Path("metrics") / name, default_run.FOLDER)
    scores = evidence.previous_scores(pl.read_parquet(Path("metrics") / CASES))
    write_json(default_run.PREVIOUS, scores)
    write_json(default_run.CORPUS, counts())
    write_json(FIRST, first := evidence.stored("first"))
    write_text(default_run.F1, default_run.f1_file(first))
    write_json(default_run.POLICIES, gains())
    rates.measure()
    croissant.main()
    draw_phantom(Path("docs/phantom.png"))
    with TemporaryDirectory() as folder:
        (read := Path(folder, "read")).mkdir()
        restore_read(repository, read)
        for name, is_narrow in (("example", False), ("example_narrow", True)):
            draw_example(Path(), read, FIGURES / f"{name}.png", is_narrow)
        write_examples(read)
        write_certificate(Path(folder))
        write_probe(Path(folder))
    evidence.write_pages()
    subprocess.run([sys.executable, "-m", "tests.support.documented_scores"], check=True)
    files = {str(path): hash_file(path) for path in FILES}
    write_json(RELEASE, {"made_from": sources, "files": files})
    print("`git diff` shows what has changed: check the sentences around it, and commit it")


def check(repository: Repository) -> None:
    """Raise a DataError unless the released files are of this code, and as they were written."""
    released, now = read_json(RELEASE), made_from(repository)
    problems = [
        f"{kind} in {RELEASE} are not those of now"
        for kind, value in now.items()
        if released["made_from"][kind] != value
    ]
    problems += [
        f"{path} is not as it was written"
        for path in FILES
        if released["files"].get(str(path)) != hash_file(path)
    ]
    if problems:
        raise DataError(f"run `make release`: {'; '.join(problems)}")


def main() -> None:
    options = options_of(__doc__, check={"action": "store_true", "default": False})
    (check if options.check else release)(Repository(Path.cwd()))


if __name__ == "__main__":
    run_cleanly(main)
