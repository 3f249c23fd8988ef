"""What TRIPOD-LLM and CLAIM 2024 ask of a study: answered from the files of a run, the rest left as questions."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
from pydantic import model_validator
from ruamel.yaml import YAML

from pacer.comparison.case_statistics import score_intervals
from pacer.core.io import read_json
from pacer.metrics.signature import flat
from pacer.model.prompt.instruction import instruction
from pacer.params import Strict, load_params, validated
from pacer.reporting.signature import caution
from pacer.reporting.tables import number

FILE = Path(__file__).with_name("checklist.yaml")
#: The folder of scores that the questions name.
METRICS = "metrics"


class Item(Strict):
    """``asks``: the question; ``facts``: names of what answers it; ``left``: what these leave open."""

    asks: str
    facts: str = ""
    left: str | None = None


class Standard(Strict):
    title: str
    cite: str
    items: dict[str, Item]


class Questions(Strict):
    """The content of ``checklist.yaml``."""

    facts: dict[str, dict[str, dict[str, str]]]
    standards: list[Standard]

    @model_validator(mode="after")
    def _known(self) -> Questions:
        for standard in self.standards:
            for number_, item in standard.items.items():
                if unknown := set(item.facts.split()) - set(self.facts):
                    raise ValueError(f"{standard.title} {number_} names {', '.join(unknown)}, which facts lacks")
        return self


class Filled(NamedTuple):
    """The checklist as Markdown, and by standard how many of its items are answered, in part, and not."""

    markdown: str
    counts: dict[str, tuple[int, int, int]]


def load_questions() -> Questions:
    return validated(YAML(typ="safe").load(FILE.read_text(encoding="utf-8")), str(FILE), Questions)


def fill_checklist(root: Path, metrics: Path) -> Filled:
    """Answer what the files of a run answer.

    Args:
        root: of the repository that the run was made in. metrics: folder of the run's scores.

    Raises:
        PacerError: a file that is there cannot be read.
    """
    questions, read = load_questions(), dict[str, Mapping[str, Any]]()
    for name in dict.fromkeys(name for files in questions.facts.values() for name in files):
        path = metrics / name.removeprefix(f"{METRICS}/") if Path(name).parent == Path(METRICS) else root / name
        if (content := _content(path)) is not None:
            read[name] = content
    answers = {
        fact: {name: text for name, paths in files.items() if name in read and (text := _said(read[name], paths))}
        for fact, files in questions.facts.items()
    }
    lines = [
        "# Reporting checklist",
        "",
        f"Made by `pacer checklist` ({version('pacer')}) from the files of one run. A tick: the files answer it, with "
        "what stands below under the names behind the arrow. Questions without a tick, and those in bold, are left to "
        "the authors. The wording is ours: complete the standards' own forms for a submission.",
        *(f"\n**{warning}**" for warning in _warnings(read)),
    ]
    counts = {}
    for standard in questions.standards:
        states = []
        lines += ["", f"## {standard.title}", "", standard.cite.strip() + ".", ""]
        for name, item in standard.items.items():
            facts = [fact for fact in item.facts.split() if answers[fact]]
            states.append(0 if facts and not item.left else 1 if facts else 2)
            files = dict.fromkeys(f"`{file}`" for fact in facts for file in answers[fact])
            said = f" → {', '.join(f'[{fact}](#{fact})' for fact in facts)} ({', '.join(files)})" if facts else ""
            left = f" **{item.left}**" if item.left else ""
            lines.append(f"- [{'x' if facts else ' '}] **{name}** {item.asks}{said}{left}")
        counts[standard.title] = (states.count(0), states.count(1), states.count(2))
    lines += ["", "## What the files say"]
    for fact, files in answers.items():
        if files:
            lines += ["", f"### {fact}", "", *(f"- `{file}`: {text}" for file, text in files.items())]
    missing = [name for files in questions.facts.values() for name in files if name not in read]
    if missing:
        lines += ["", f"Not there: {', '.join(f'`{name}`' for name in dict.fromkeys(missing))}."]
    return Filled("\n".join(lines) + "\n", counts)


def _content(path: Path) -> Mapping[str, Any] | None:
    """A file as nested mappings; None where it is not there."""
    if path.name == "instruction.py":
        return _prompts()
    if not path.is_file():
        return None
    if path.suffix == ".parquet":
        return _intervals(path, path.with_name("signature.json"))
    if path.suffix == ".yaml":
        load_params(path)  # its errors say what is wrong
        return YAML(typ="safe").load(path.read_text(encoding="utf-8"))
    if path.suffix == ".lock":
        stages = YAML(typ="safe").load(path.read_text(encoding="utf-8")).get("stages", {})
        made = {name: {out["path"]: out.get("md5") for out in stage.get("outs", [])} for name, stage in stages.items()}
        return made | {"": {name: stage.get("params", {}).get("params.yaml", {}) for name, stage in stages.items()}}
    return read_json(path)


def _prompts() -> dict[str, str]:
    """The instruction of a record with both sections, as text."""
    texts = {
        name: instruction(
            view="PA",
            sections="findings+impression",
            indication="(the indication)",
            history=None,
            commit=name == "commit",
        )
        for name in ("commit", "direct")
    }
    return {name: " (image) ".join(text).replace("\n", "\\n") for name, text in texts.items()}


def _intervals(cases: Path, signature: Path) -> dict[str, Any]:
    """Score -> context -> value and interval, and ``how`` they were made."""
    convention = read_json(signature)["clinical"]["convention"]
    found = score_intervals(pl.read_parquet(cases), convention)
    scores: dict[str, dict[str, str]] = {}
    for context, own in found.scores.items():
        for name, one in own.items():
            if None not in (one.value, one.low, one.high):
                text = f"{number(one.value)} [{number(one.low)}, {number(one.high)}]"
                scores.setdefault(name, {})[context] = text
    made = f"{100 * found.level:g} % percentiles of {number(found.resamples)} bootstrap samples"
    return scores | {"how": f"{made} of {number(found.units)}, by {found.unit}"}


def _said(values: Mapping[str, Any], paths: Mapping[str, str]) -> str:
    """``name value; name (key value, key value)`` of everything that is found."""
    parts = []
    for name, path in paths.items():
        found = {(): values}
        for part in path.split("/"):
            inside = {keys: value for keys, value in found.items() if isinstance(value, Mapping)}
            if part == "*":
                found = {(*keys, key): item for keys, value in inside.items() for key, item in value.items()}
            else:
                found = {keys: value[part] for keys, value in inside.items() if part in value}
        leaves = flat({" ".join(keys): value for keys, value in found.items()})
        texts = [f"{key.strip('.')} {_words(value)}".strip() for key, value in leaves.items()]
        if texts:
            parts.append(
                f"{name} ({', '.join(texts)})" if len(texts) > 1 or set(leaves) != {""} else f"{name} {texts[0]}"
            )
    return "; ".join(parts)


def _words(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_words, value))}]"
    if value in (None, {}):
        return "none"
    return f"{value:.4g}" if isinstance(value, float) else str(value).replace("<", "\\<")  # no tag in Markdown


def _warnings(read: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Stand-ins, and parameters that are no longer those that a stage ran with."""
    found = []
    if "metrics/signature.json" in read and (note := caution(read["metrics/signature.json"])) is not None:
        found.append(note)
    if {"params.yaml", "dvc.lock"} <= read.keys():
        now = flat(read["params.yaml"])
        ran = {stage: flat(values) for stage, values in read["dvc.lock"][""].items()}
        other = [
            stage for stage, values in ran.items() if any(now.get(key, value) != value for key, value in values.items())
        ]
        if other:
            found.append(
                f"params.yaml is not what {', '.join(other)} ran with (dvc.lock): its answers may be of another run."
            )
    return found
