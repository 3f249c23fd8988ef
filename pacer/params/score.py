"""How reports are scored."""

from __future__ import annotations

import re
import shlex
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from pacer.params.corpus import Cleaner
from pacer.params.strict import Positive, PositiveFloat, Strict


def _is_name(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}", name):
        raise ValueError("the name of a scorer has letters, digits, '_' and '-', 40 at most")
    return name


def _distinct(names: list[str]) -> list[str]:
    if len(set(names)) < len(names):
        raise ValueError("a column is named twice")
    return names


def _is_command(command: str) -> str:
    if not shlex.split(command):
        raise ValueError("a scorer needs a command")
    return command


class Groups(Strict):
    """A table with a row a patient, study or record, by whose ``columns`` scores are shown too."""

    file: str
    id: Literal["subject_id", "study_id", "record_id"]
    column: str
    columns: Annotated[list[str], Field(min_length=1), AfterValidator(_distinct)]


class Score(Strict):
    convention: Literal["llm-rg4", "r2gen", "nicolson", "top5", "weighted"]
    originals: Literal[Cleaner, "lowercase", "as_is"]
    batch_size: Positive
    precision: Literal["float32", "bfloat16"]
    external: dict[Annotated[str, AfterValidator(_is_name)], Annotated[str, AfterValidator(_is_command)]]
    external_minutes: PositiveFloat
    groups: Groups | None
