"""What TRIPOD-LLM and CLAIM 2024 ask of a study: answered from the files of a run, the rest left as questions."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from ruamel.yaml import YAML, YAMLError

from pacer.comparison.case_statistics import score_intervals
from pacer.comparison.compare import read_run
from pacer.comparison.resampling import Interval
from pacer.comparison.subgroups import subgroups
from pacer.core.errors import DataError
from pacer.core.io import read_json
from pacer.metrics.signature import flat
from pacer.model.prompt.instruction import instruction
from pacer.params import load_params
from pacer.reporting.signature import caution
from pacer.reporting.tables import number

FILE = Path(__file__).with_name("checklist.yaml")
#: The folder of scores that the questions name.
METRICS = "metrics"

Values = Mapping[str, Any]


class Filled(NamedTuple):
    """The checklist as Markdown, and by standard how many of its items are answered, in part, and not."""

    markdown: str
    counts: dict[str, tuple[int, int, int]]


def fill_checklist(root: Path, metrics: Path) -> Filled:
    """Answer what the files of a run answer.

    Args:
        root: of the repository that the run was made in. metrics: folder of the run's scores.

    Raises:
        PacerError: a file that is there cannot be read.
    """
    questions, read = _yaml(FILE), dict[str, Values]()
    named = dict.fromkeys(name for files in questions["facts"].values() for name in files)
    for name in named:
        path = metrics / Path(name).name if Path(name).parent == Path(METRICS) else root / name
        if path.is_file() or path.suffix == ".py":  # the code's own prompts are always there
            read[name] = _MADE.get(path.name, read_json)(path)
    answers = {
        fact: {name: text for name, paths in files.items() if name in read and (text := _said(read[name], paths))}
        for fact, files in questions["facts"].items()
    }
    lines = [
        f"# Reporting checklist\n\nMade by `pacer checklist` ({version('pacer')}) from the files of one run. A tick: "
        "these answer it, with what stands below under the names behind the arrow. Questions without a tick, and those "
        "in bold, are left to the authors. The wording is ours: complete the standards' own forms for a submission.",
        *(f"\n**{warning}**" for warning in _warnings(read)),
    ]
    counts = {}
    for standard in questions["standards"]:
        states = []
        lines.append(f"\n## {standard['title']}\n\n{standard['cite']}.\n")
        for name, item in standard["items"].items():
            wanted, open_ = item.get("facts", "").split(), item.get("left")
            facts, lacking = ([fact for fact in wanted if bool(answers[fact]) is said] for said in (True, False))
            states.append(2 if not facts else 1 if open_ or lacking else 0)
            files = dict.fromkeys(f"`{file}`" for fact in facts for file in answers[fact])
            said = f" → {', '.join(f'[{fact}](#{fact})' for fact in facts)} ({', '.join(files)})" if facts else ""
            said += f", nothing on {', '.join(lacking)}" if facts and lacking else ""
            left = f" **{open_}**" if open_ else ""
            lines.append(f"- [{'x' if facts else ' '}] **{name}** {item['asks']}{said}{left}")
        counts[standard["title"]] = (states.count(0), states.count(1), states.count(2))
    lines.append("\n## What the files say")
    for fact, files in answers.items():
        if files:
            lines += [f"\n### {fact}\n", *(f"- `{file}`: {text}" for file, text in files.items())]
    if missing := [f"`{name}`" for name in named if name not in read]:
        lines.append(f"\nNot there: {', '.join(missing)}.")
    return Filled("\n".join(lines) + "\n", counts)


def _params(path: Path) -> Values:
    load_params(path)  # its errors say what is wrong
    return _yaml(path)


def _yaml(path: Path) -> dict[str, Any]:
    try:
        return YAML(typ="safe").load(path.read_text(encoding="utf-8"))
    except YAMLError:
        raise DataError(f"{path} is not valid YAML; mend it, or take it back from git") from None


def _lock(path: Path) -> Values:
    """Stage -> path and hash of what it made; under an empty name, stage -> the parameters that it ran with."""
    stages = (_yaml(path) or {}).get("stages", {})
    made = {name: {out["path"]: out.get("md5") for out in stage.get("outs", [])} for name, stage in stages.items()}
    return made | {"": {name: stage.get("params", {}).get("params.yaml", {}) for name, stage in stages.items()}}


def _prompts(_: Path) -> Values:
    """The instruction of a record with both sections, as text."""
    found = {}
    for name, commit in (("commit", True), ("direct", False)):
        texts = instruction(
            view="PA", sections="findings+impression", indication="(the indication)", history=None, commit=commit
        )
        found[name] = " (image) ".join(texts).replace("\n", "\\n")
    return found


def _intervals(path: Path) -> Values:
    """Score -> context -> value and interval, ``how`` they were made, and ``groups``: column -> value -> F1."""
    cases, signature = read_run(path.parent)
    convention = (signature.get("clinical") or {}).get("convention", "llm-rg4")
    found = score_intervals(cases, convention)
    drawn = f"{number(found.resamples)} bootstrap samples of {number(found.units)}, by {found.unit}"
    values: dict[str, Any] = {"how": f"{100 * found.level:g} % percentiles of {drawn}", "groups": {}}
    for context, own in found.scores.items():
        for name, one in own.items():
            values.setdefault(name, {})[context] = _interval(one)
    for group in subgroups(cases, convention):
        values["groups"].setdefault(group.column, {})[group.value] = f"{_interval(group.score)} of {group.n}"
    return values


def _interval(one: Interval) -> str:
    if one.value is None or one.low is None or one.high is None:
        return "undefined"
    return f"{number(one.value)} [{number(one.low)}, {number(one.high)}]"


#: How files that are no JSON become nested values.
_MADE = {"params.yaml": _params, "dvc.lock": _lock, "instruction.py": _prompts, "cases.parquet": _intervals}


def _said(values: Values, paths: Mapping[str, str]) -> str:
    """``name value; name (key value, key value)`` of everything that is found."""
    parts = []
    for name, path in paths.items():
        found: dict[tuple[str, ...], Any] = {(): values}
        for part in path.split("/"):
            inside = {keys: value for keys, value in found.items() if isinstance(value, Mapping)}
            if part == "*":
                found = {(*keys, key): item for keys, value in inside.items() for key, item in value.items()}
            else:
                found = {keys: value[part] for keys, value in inside.items() if part in value}
        leaves = flat({" ".join(keys): value for keys, value in found.items()})
        texts = [f"{key.strip('.')} {_words(value)}".strip() for key, value in leaves.items()]
        if texts:
            parts.append(f"{name} {texts[0]}" if [*leaves] == [""] else f"{name} ({', '.join(texts)})")
    return "; ".join(parts)


def _words(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_words, value))}]"
    if value in (None, {}):
        return "none"
    return f"{value:.4g}" if isinstance(value, float) else str(value).replace("<", "\\<")  # no tag in Markdown


def _warnings(read: Mapping[str, Values]) -> list[str]:
    """Stand-ins, and parameters that are no longer those that a stage ran with."""
    found = [caution(read[name]) for name in (f"{METRICS}/signature.json",) if name in read]
    now, ran = flat(read.get("params.yaml", {})), read.get("dvc.lock", {"": {}})[""]
    other = [stage for stage, values in ran.items() if any(now.get(k, v) != v for k, v in flat(values).items())]
    if other:
        found.append(
            f"params.yaml is not what {', '.join(other)} ran with (dvc.lock): its answers may be of another run."
        )
    return [warning for warning in found if warning is not None]
