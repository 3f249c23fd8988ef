"""Reports for images and texts as a person has them, by the very steps of training and of the stage ``decode``."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from copy import copy, deepcopy
from dataclasses import replace
from os import PathLike
from pathlib import Path
from threading import Lock, RLock
from typing import Any

import torch
from torch import Tensor
from transformers import AutoTokenizer

from pacer.core.contexts import CONTEXTS, Context
from pacer.core.errors import CheckpointError, ConfigError, DataError, PacerError
from pacer.core.io import hash_file, hash_json
from pacer.corpus.text.cleaning import CLEANERS
from pacer.corpus.views import View
from pacer.decoding.extract import extract_report
from pacer.decoding.generate import Generated, Generator, Prefix
from pacer.decoding.run import inference_dtype
from pacer.features.encoder import ImageEncoder, TextEncoder
from pacer.model.assemble import load_model
from pacer.model.checkpoint import CheckpointRecord
from pacer.model.pacer import Pacer
from pacer.model.prompt.instruction import instruction
from pacer.parallel.prefetch import prefetch
from pacer.pretrained.pointers import resolve
from pacer.serving.case import Case, Cuts, Prepared, Result, Routing, Timings
from pacer.serving.features import CaseFeatures
from pacer.serving.package import MANIFEST, TOKENIZER, Settings, frozen_models, read_settings
from pacer.serving.sources import ImageSource, load_image, load_text

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
SECTIONS = ("findings+impression", "findings", "impression")
VIEWS = ("AP", "PA", "other")


class _Timed(Generator):
    """Notes when the prefix of a record is there, by the record's ``number``."""

    ready: dict[int, float]

    def prefix(self, record: dict[str, Any]) -> Prefix:
        prefix = super().prefix(record)
        self.ready[record["number"]] = time.perf_counter()
        return prefix


class Reporter:
    """Writes reports with an exported model; :meth:`from_pretrained` makes one.

    Threads may call it at once: cases are prepared side by side, and reports are generated one call after the other.

    Attributes:
        settings: of the export. contexts: that the model was trained on. phase: of training that it comes from.
        commit: does it state findings first? depths: encoder blocks that it draws on, 1 is the first.
        directory, device, dtype: where it was loaded from, where it runs, and the language model's type.
    """

    def __init__(
        self,
        directory: Path,
        settings: Settings,
        model: Pacer,
        record: CheckpointRecord,
        features: CaseFeatures,
        tokenizer: Any,
        device: torch.device,
        dtype: torch.dtype,
    ):
        self.directory, self.settings, self.device, self.dtype = directory, settings, device, dtype
        self.phase = record.phase
        self.contexts = tuple(context for context in CONTEXTS if context in settings.contexts)
        self.depths = tuple(settings.states.depths)
        self._features = features
        self._generator = _Timed(model, tokenizer, features, record.model, settings.search.decode(), device)
        self.commit = self._generator.commit
        self._one_at_a_time = RLock()
        # counting has tokenizers of its own: a call sets how they cut, which the encoder's must not lose half-way
        self._counting, self._words, self._pieces = Lock(), deepcopy(features.texts.tokenizer), deepcopy(tokenizer)

    @classmethod
    def from_pretrained(
        cls,
        directory: str | PathLike,
        device: str | torch.device | None = None,
        dtype: str | torch.dtype | None = None,
        backbones: str | PathLike | None = None,
    ) -> Reporter:
        """Load an exported model.

        Args:
            directory: made by ``pacer export``. device: None: the first GPU, else the CPU.
            dtype: of the language model, ``float32`` or ``bfloat16``; None: as the stage ``decode`` chooses.
            backbones: folder with frozen models in ``vision``, ``language`` and ``text`` (those that are there count),
                for a directory that came without them from another machine.

        Raises:
            CheckpointError: the directory is no exported model, not whole, or the frozen models are not its own.
            BackboneError: a frozen model is not there. ConfigError: a device or type that there is not.
        """
        directory = Path(directory)
        settings = read_settings(directory)
        place, kind = _device(device), _dtype(dtype)
        kind = inference_dtype(place) if kind is None else kind
        given = None if backbones is None else Path(backbones)
        if given is not None and not given.is_dir():
            raise ConfigError(f"backbones {given} is not a folder; name one that holds vision, language and text")
        with frozen_models(directory, given) as root:
            model, record = load_model(directory, root, kind)
            states = settings.states
            features = CaseFeatures(
                ImageEncoder(resolve(root / "vision"), states.depths, place, states.precision),
                TextEncoder(resolve(root / "text"), states.prior_tokens, place, states.precision),
                states.dtype,
            )
        own = record.model.features.depths
        if own != states.depths:
            raise CheckpointError(
                f"{directory}: the weights belong to depths {own}, the settings to {states.depths}; "
                "export the model again"
            )
        tokenizer = AutoTokenizer.from_pretrained(directory / TOKENIZER)
        return cls(directory, settings, model, record, features, tokenizer, place, kind)

    def __call__(
        self,
        frontal: ImageSource,
        lateral: ImageSource | None = None,
        prior: str | PathLike | None = None,
        indication: str | PathLike | None = None,
        history: str | PathLike | None = None,
        view: str | None = None,
        sections: str | None = None,
    ) -> Result:
        """The report of one case; for the arguments see :class:`pacer.serving.case.Case`.

        Raises:
            DataError: as :meth:`prepare`.
        """
        return self.generate([Case(frontal, lateral, prior, indication, history, view, sections)], batch_size=1)[0]

    def prepare(self, case: Case) -> Prepared:
        """Check a case and prepare it as training does; takes no accelerator and may run in any thread.

        Raises:
            DataError: a source cannot be used, or the model was trained without such a source. One sentence that
                names the case and the source.
        """
        started, name = time.perf_counter(), case.name
        frontal, seen = self._levels(case.frontal, f"frontal of {name}")
        lateral = named = None
        if case.lateral is not None:
            lateral, named = self._levels(case.lateral, f"lateral of {name}")
            if torch.equal(frontal, lateral):
                raise DataError(f"{name}: the same image is given as frontal and as lateral; leave out the lateral")
        prior = self._prior(load_text(case.prior, f"previous report of {name}"), name)
        indication = load_text(case.indication, f"indication of {name}")
        history = load_text(case.history, f"history of {name}")
        view = _one_of(_as_stored(case.view), (None, *VIEWS), f"view of {name}")
        target = self.settings.texts.target
        sections = _one_of(case.sections, (None, *SECTIONS), f"sections of {name}")
        prepared = Prepared(
            name=name,
            frontal=frontal,
            lateral=lateral,
            prior=prior,
            indication=indication,
            history=history,
            view=view or (seen.view if seen else "other"),
            sections=sections or ("findings" if target == "findings" else "findings+impression"),
            cuts=Cuts(0, 0),
            notes=_kinds(seen, named),
            seconds=0.0,
        )
        if prepared.context not in self.contexts:
            known = ", ".join(self.contexts)
            raise DataError(
                f"{name} has the sources of context {prepared.context}, and the model was trained on "
                f"{known} alone; leave out the source that it does not know"
            )
        cuts = Cuts(self._cut_of_prior(prior), self._cut_of_context(prepared))
        return replace(prepared, cuts=cuts, seconds=time.perf_counter() - started)

    def contexts_of(self, case: Prepared) -> tuple[Context, ...]:
        """The contexts that both the case's sources and the model allow."""
        return tuple(context for context in case.contexts() if context in self.contexts)

    def in_all_contexts(self, case: Case | Prepared, batch_size: int | None = None) -> dict[Context, Result]:
        """The same case in each of its :meth:`contexts_of`."""
        prepared = self._prepared(case)
        contexts = self.contexts_of(prepared)
        results = self.generate([prepared.in_context(context) for context in contexts], batch_size)
        return dict(zip(contexts, results, strict=True))

    def generate(self, cases: Sequence[Case | Prepared], batch_size: int | None = None) -> list[Result]:
        """The reports of several cases, in their order.

        Raises:
            DataError: as :meth:`prepare`, for the first case that cannot be used.
        """
        prepared = [self._prepared(case) for case in cases]
        if batch_size is None:
            batch_size = max(1, min(len(prepared), self.batch_size))
        with self._one_at_a_time:
            found = list(self.stream(prepared, batch_size))
        return [result for _, result in sorted(found, key=lambda item: item[0])]

    @property
    def fingerprint(self) -> str:
        """Hash of all that a report depends on beside the case, but for the rounding of the device."""
        return hash_json([hash_file(self.directory / MANIFEST), str(self.dtype)])

    @property
    def batch_size(self) -> int:
        """Cases generated at a time where nothing else is said."""
        return self.settings.search.batch_size

    def stream(
        self, cases: Iterable[Case | Prepared], batch_size: int | None = None, workers: int = 0
    ) -> Iterator[tuple[int, Result]]:
        """Number of a case in the order of ``cases``, and its result as soon as it is there.

        Cases are asked for when there is room for them, so there may be any number.

        Args:
            batch_size: cases at a time; it does not change a result. workers: threads that prepare cases ahead.

        Raises:
            DataError: as :meth:`prepare`, when the case's turn comes. PacerError: the device has too little memory.
        """
        if batch_size is not None and batch_size < 1:
            raise ConfigError(f"batch_size = {batch_size!r}: at least 1")
        generator = copy(self._generator)
        generator.decode = self.settings.search.decode(batch_size=batch_size or self.batch_size)
        generator.ready = {}
        waiting: dict[int, tuple[Prepared, float]] = {}

        def records() -> Iterator[dict[str, Any]]:
            for number, case in enumerate(prefetch(self._prepared, cases, workers)):
                waiting[number] = case, time.perf_counter()
                frontal, lateral = self._features.show(case.frontal, case.lateral)
                yield {
                    "number": number,
                    "context": case.context,
                    "frontal": frontal,
                    "lateral": lateral,
                    "prior_report": case.prior,
                    "view": case.view,
                    "sections": case.sections,
                    "indication": case.indication,
                    "history": case.history,
                }

        found = generator.stream(records())
        while True:
            with self._one_at_a_time:  # not while the caller has the result: it may never ask for the next
                try:
                    item = next(found, None)
                except torch.OutOfMemoryError:
                    count = generator.decode.batch_size
                    raise PacerError(
                        f"{self.device} has too little memory for {count} cases at a time; choose a smaller batch size"
                    ) from None
            if item is None:
                return
            number, generated = item
            case, started = waiting.pop(number)
            yield number, self._result(generated, case, started, generator.ready.pop(number))

    def _prepared(self, case: Case | Prepared) -> Prepared:
        return self.prepare(case) if isinstance(case, Case) else case

    def _levels(self, source: ImageSource, name: str) -> tuple[Tensor, View | None]:
        image, view = load_image(source, name)
        return self._features.images.preparation.levels_of(image), view

    def _prior(self, text: str | None, name: str) -> str | None:
        if text is None:
            return None
        cleaned = CLEANERS[self.settings.texts.cleaner](text)
        if not any(character.isalnum() for character in cleaned):
            raise DataError(
                f"previous report of {name}: no words are left after cleaning; give the report, or leave it out"
            )
        return cleaned

    def _cut_of_prior(self, prior: str | None) -> int:
        if prior is None:
            return 0
        with self._counting:
            count = len(self._words(prior, truncation=False, verbose=False)["input_ids"])
        return max(0, count - self._features.texts.tokens)

    def _cut_of_context(self, case: Prepared) -> int:
        before, _ = instruction(
            view=case.view, sections=case.sections, indication=case.indication, history=case.history, commit=self.commit
        )
        with self._counting:
            count = len(self._pieces(before, add_special_tokens=False, verbose=False)["input_ids"])
        return max(0, count - self._generator.prompt.before_tokens)

    def _result(self, found: Generated, case: Prepared, started: float, encoded: float) -> Result:
        report, anchor, fallback = found.text.strip(), None, False
        if self.commit:
            report, anchor, fallback = extract_report(found.text)
        ended = time.perf_counter()
        timings = Timings(case.seconds, encoded - started, ended - encoded, case.seconds + ended - started)
        return Result(
            name=case.name,
            context=case.context,
            report=report,
            generated=found.text,
            commitment=anchor,
            fallback=fallback,
            truncated=found.tokens >= self.settings.search.max_new_tokens,
            tokens=found.tokens,
            cuts=case.cuts,
            notes=case.told(),
            gate=found.gate,
            view=case.view,
            sections=case.sections,
            timings=timings,
            frontal=self._routing(case.frontal, found.frontal_weights),
            lateral=None
            if case.lateral is None or found.lateral_weights is None
            else self._routing(case.lateral, found.lateral_weights),
        )

    def _routing(self, levels: Tensor, weights: Tensor) -> Routing:
        """Patches lie in rows; the grid has the image's proportions."""
        patch = self._features.images.model.config.patch_size
        rows, columns = levels.shape[1] // patch, levels.shape[2] // patch
        planes = levels.permute(1, 2, 0).numpy()
        return Routing(
            planes[:, :, 0] if levels.shape[0] == 1 else planes,
            weights.float().view(rows, columns, -1).numpy(),
            self.depths,
        )


def _kinds(frontal: View | None, lateral: View | None) -> tuple[str, ...]:
    """What DICOM files say against the places that they were given."""
    return tuple(
        f"the DICOM file given as {place} names a {view.kind} view"
        for place, view in (("frontal", frontal), ("lateral", lateral))
        if view is not None and view.kind != place
    )


def _as_stored(view: Any) -> Any:
    """A view in the letters of the corpus; what is none stays as it is, to be refused."""
    letters = view.strip().upper() if isinstance(view, str) else view
    return letters if letters in ("AP", "PA") else view


def _one_of(value: Any, allowed: tuple[Any, ...], name: str) -> Any:
    if value not in allowed:
        raise DataError(f"{name}: expected {' or '.join(filter(None, allowed))}, got {value!r:.40}")
    return value


def _device(device: str | torch.device | None) -> torch.device:
    if device is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        found = torch.device(device)
        torch.empty(0, device=found)
    except (RuntimeError, AssertionError):
        raise ConfigError(
            f"device = {str(device)!r:.40} is not on this machine; expected cpu, cuda or cuda:N"
        ) from None
    return found


def _dtype(dtype: str | torch.dtype | None) -> torch.dtype | None:
    if dtype is None:
        return None
    for name, known in DTYPES.items():
        if dtype in (name, known):
            return known
    raise ConfigError(f"dtype = {str(dtype)!r:.40}: expected {' or '.join(DTYPES)}")
