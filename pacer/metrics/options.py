"""The two sets of options: how references and reports are paired, and how pairs are scored."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from pacer.config import Strict
from pacer.config.corpus import Cleaner, Delimiter
from pacer.config.decode import ScoreSettings
from pacer.core.contexts import Context
from pacer.core.errors import ConfigError

#: Default settings: the paper's convention, and original findings cleaned by ``upstream``.
DEFAULTS = ScoreSettings(convention="llm-rg4", columns=None)
#: References and reports in the same order, each on one line -> one number for each pair.
Function = Callable[[list[str], list[str]], Iterable[float]]

#: What happens to a reference without a report, and to a blank reference.
MissingReport = Literal["error", "empty"]
MissingReference = Literal["error", "leave-out"]
#: Which part of a generated text is the report, and how texts are cleaned.
Extract = Literal["none", "boxed"]
Cleaning = Literal["none", Cleaner]


class Pairing(Strict):
    """How reports are read, paired and changed; the signature has it. Fields: see
    :func:`pacer.statistics.calls.score`."""

    missing: MissingReport = "error"
    missing_references: MissingReference = "error"
    extract: Extract = "none"
    as_is: bool = False
    deduplicate: bool = False
    clean_references: Cleaning = "none"
    clean_hypotheses: Cleaning = "none"
    split: str | None = None
    context: Context | None = None
    reference_id: str | None = None
    reference_text: str | None = None
    hypothesis_id: str | None = None
    hypothesis_text: str | None = None
    delimiter: Delimiter | None = None


@dataclass(frozen=True)
class Scoring:
    """How pairs are scored. ``chexbert``: the folder of the labeller; without it there are no
    scores of labels. ``labels``: CheXbert labels of the references; without it they are labelled on
    the spot. ``truth``: latent findings of every study. ``settings``: convention of the headline
    F1, form of the original findings, and the user's columns. ``without``: keys of scores to leave
    out, each with the same score against the original findings. ``metrics``: the user's functions
    by name, beside those of the settings. ``more_findings``: table of findings beyond the 13, which
    the ledger has, too."""

    chexbert: Path | None = None
    labels: Path | None = None
    truth: Path | None = None
    settings: ScoreSettings = DEFAULTS
    without: tuple[str, ...] = ()
    metrics: Mapping[str, Function] = field(default_factory=dict)
    more_findings: str | Path | None = None

    def __post_init__(self) -> None:
        """Raise a :class:`ConfigError` if labels or truth are given without a labeller."""
        if self.chexbert is None and (self.labels or self.truth):
            raise ConfigError(
                "reference labels and scores against the ground truth need a labeller; pass its "
                "folder as chexbert (--chexbert)"
            )
