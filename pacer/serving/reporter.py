"""Reports for images and texts as a person has them, by the very steps of training and of the stage ``decode``."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from copy import copy, deepcopy
from dataclasses import replace
from os import PathLike
from pathlib import Path
from threading import Lock, RLock
from typing import Any, get_args

import torch
from torch import Tensor

from pacer.backbones.pointers import resolve
from pacer.backbones.tokenizer import read_tokenizer
from pacer.core.contexts import CONTEXTS, Context, availability, contexts_within
from pacer.core.errors import CheckpointError, ConfigError, DataError, PacerError
from pacer.core.io import read_json
from pacer.data.cleaning import CLEANERS
from pacer.data.radiographs import OTHER_PART
from pacer.decoding.extract import extract_report
from pacer.decoding.generate import Generated, Generator, Prefix
from pacer.features.encoder import ImageEncoder, TextEncoder
from pacer.model.assemble import load_model
from pacer.model.precision import recorded_dtype
from pacer.model.prompt import instruction
from pacer.serving.case import GENERATED_NOTE, Case, Prepared, Result, Routing, Sections, Timings, Truncation, View
from pacer.serving.features import CaseFeatures
from pacer.serving.package import GENERATED, MANIFEST, TOKENIZER, frozen_models, read_settings
from pacer.serving.sources import load_image, load_text

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


class _Timed(Generator):
    """Notes when the prefix of a record is there, by the record's ``number``."""

    ready: dict[int, float]

    def prefix(self, record: dict[str, Any]) -> Prefix:
        prefix = super().prefix(record)
        self.ready[record["number"]] = time.perf_counter()
        return prefix


class Reporter:
    """Writes reports with an exported model.

    Threads may call it at once: cases are prepared side by side, and reports are generated one call after the other.

    Args:
        directory: made by ``pacer export``. device: None: the first GPU, else the CPU.
        dtype: of the language model, ``float32`` or ``bfloat16``; None: as it was trained.
        backbones: folder with frozen models in ``vision``, ``language`` and ``text`` (those that are there count),
            for a directory that came without them from another machine.

    Attributes:
        settings: of the export. contexts: that the model was trained on. commit: does it state findings first?
        depths: encoder blocks that it draws on, 1 is the first. notes: sentences that hold for each of its reports.
        directory, device, dtype: where it was loaded from, where it runs, and the language model's type.

    Raises:
        CheckpointError: the directory is no exported model, not whole, or the frozen models are not its own.
        BackboneError: a frozen model is not there. ConfigError: a device or type that there is not.
    """

    def __init__(
        self,
        directory: str | PathLike,
        device: str | torch.device | None = None,
        dtype: str | torch.dtype | None = None,
        backbones: str | PathLike | None = None,
    ):
        self.directory = Path(directory)
        self.settings = settings = read_settings(self.directory)
        self.device = _device(device)
        given = None if backbones is None else Path(backbones)
        if given is not None and not given.is_dir():
            raise ConfigError(f"backbones {given} is not a folder; name one that holds vision, language and text")
        self.notes = (GENERATED_NOTE,) if read_json(self.directory / MANIFEST).get(GENERATED) else ()
        states = settings.states
        with frozen_models(self.directory, given) as root:
            found = recorded_dtype(self.directory, root, self.device) if dtype is None else _dtype(dtype)
            self.dtype = found
            model, record = load_model(self.directory, root, self.dtype)
            self._features = CaseFeatures(
                ImageEncoder(resolve(root / "vision"), states.depths, self.device, states.precision),
                TextEncoder(resolve(root / "text"), states.prior_tokens, self.device, states.precision),
                states.dtype,
            )
        if record.model.features.depths != states.depths:
            raise CheckpointError(
                f"{directory}: the weights belong to depths {record.model.features.depths}, the settings to "
                f"{states.depths}; export the model again"
            )
        tokenizer = read_tokenizer(self.directory / TOKENIZER)
        self._generator = _Timed(model, tokenizer, self._features, record.model, settings.search.decode(), self.device)
        self.commit, self.depths = self._generator.commit, tuple(states.depths)
        self.contexts = tuple(context for context in CONTEXTS if context in settings.contexts)
        self._one_at_a_time = RLock()
        # counting has tokenizers of its own: a call sets how they cut, which the encoder's must not lose half-way
        self._counting, self._words = Lock(), deepcopy(self._features.texts.tokenizer)
        self._pieces = deepcopy(tokenizer)

    @classmethod
    def from_pretrained(cls, *arguments: Any, **named: Any) -> Reporter:
        """Load an exported model: the class under the name that loading has elsewhere."""
        return cls(*arguments, **named)

    def __call__(self, *sources: Any, **named: Any) -> Result:
        """The report of one case; takes the arguments of :class:`pacer.serving.case.Case`.

        Raises:
            DataError: as :meth:`prepare`.
        """
        return self.generate([Case(*sources, **named)], batch_size=1)[0]

    def prepare(self, case: Case) -> Prepared:
        """Check a case and prepare it as training does; takes no accelerator and may run in any thread.

        Raises:
            DataError: a source cannot be used, or the model was trained without such a source. One sentence that
                names the case and the source.
        """
        started, name, notes = time.perf_counter(), case.name, []
        levels: dict[str, Tensor] = {}
        view = "other"
        for place, source in case.images().items():
            image, seen = load_image(source, f"{place} of {name}")
            levels[place] = self._features.images.preparation.levels_of(image)
            if part := image.info.get(OTHER_PART):
                notes.append(f"the DICOM file given as {place} names {part} as the part of the body")
            if seen is not None and seen.kind != place:
                notes.append(f"the DICOM file given as {place} names a {seen.kind} view")
            if seen is not None and place == "frontal":
                view = seen.view
        frontal, lateral = levels["frontal"], levels.get("lateral")
        if lateral is not None and torch.equal(frontal, lateral):
            raise DataError(f"{name}: the same image is given as frontal and as lateral; leave out the lateral")
        if case.view is not None:
            letters = case.view.strip().upper() if isinstance(case.view, str) else case.view
            view = letters if letters in ("AP", "PA") else case.view
        target = "findings" if self.settings.texts.target == "findings" else "findings+impression"
        prepared = Prepared(
            name=name,
            frontal=frontal,
            lateral=lateral,
            prior=self._prior(load_text(case.prior, f"previous report of {name}"), name),
            indication=load_text(case.indication, f"indication of {name}"),
            history=load_text(case.history, f"history of {name}"),
            view=_one_of(view, get_args(View), f"view of {name}"),
            sections=_one_of(
                target if case.sections is None else case.sections, get_args(Sections), f"sections of {name}"
            ),
            notes=tuple(notes),
        )
        if prepared.context not in self.contexts:
            raise DataError(
                f"{name} has the sources of context {prepared.context}, but the model was trained on "
                f"{', '.join(self.contexts)} only; give the sources of one of these"
            )
        return replace(prepared, truncation=self._truncation(prepared), seconds=time.perf_counter() - started)

    def contexts_of(self, context: Context) -> tuple[Context, ...]:
        """The contexts that both a case's own context and the model allow."""
        return tuple(inner for inner in contexts_within(*availability(context)) if inner in self.contexts)

    def in_all_contexts(self, case: Case | Prepared) -> dict[Context, Result]:
        """The same case in each of its :meth:`contexts_of`, its own first."""
        prepared = self._prepared(case)
        contexts = self.contexts_of(prepared.context)[::-1]
        results = self.generate([prepared.in_context(context) for context in contexts])
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
            found = dict(self.stream(prepared, batch_size))
        return [found[number] for number in range(len(prepared))]

    @property
    def batch_size(self) -> int:
        """Cases generated at a time where nothing else is said."""
        return self.settings.search.batch_size

    def stream(self, cases: Iterable[Case | Prepared], batch_size: int | None = None) -> Iterator[tuple[int, Result]]:
        """Number of a case in the order of ``cases``, and its result as soon as it is there.

        Cases are asked for when there is room for them, so there may be any number.

        Args:
            batch_size: cases at a time; it does not change a result.

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
            for number, case in enumerate(map(self._prepared, cases)):
                started = time.perf_counter()
                frontal, lateral = self._features.show(case.frontal, case.lateral)
                waiting[number] = case, started
                yield {
                    "number": number,
                    "record_id": case.name,
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

    def _prior(self, text: str | None, name: str) -> str | None:
        if text is None:
            return None
        cleaned = CLEANERS[self.settings.texts.cleaner](text)
        if not any(character.isalnum() for character in cleaned):
            raise DataError(
                f"previous report of {name}: no words are left after cleaning; give the report, or leave it out"
            )
        return cleaned

    def _truncation(self, case: Prepared) -> Truncation:
        before, _ = instruction(
            view=case.view, sections=case.sections, indication=case.indication, history=case.history, commit=self.commit
        )
        with self._counting:
            words = self._words(case.prior, truncation=False, verbose=False)["input_ids"] if case.prior else ()
            pieces = self._pieces(before, add_special_tokens=False, verbose=False)["input_ids"]
        return Truncation(
            max(0, len(words) - self._features.texts.tokens), max(0, len(pieces) - self._generator.prompt.before_tokens)
        )

    def _result(self, found: Generated, case: Prepared, started: float, encoded: float) -> Result:
        extracted = extract_report(found.text, self.commit)
        ended = time.perf_counter()
        return Result(
            name=case.name,
            context=case.context,
            report=extracted.report,
            generated=found.text,
            commitment=extracted.anchor,
            fallback=extracted.fallback,
            truncated=found.tokens >= self.settings.search.max_new_tokens,
            tokens=found.tokens,
            truncation=case.truncation,
            notes=self.notes + case.all_notes(),
            gate=found.gate,
            view=case.view,
            sections=case.sections,
            timings=Timings(case.seconds, encoded - started, ended - encoded, case.seconds + ended - started),
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


def _one_of(value: Any, allowed: tuple[Any, ...], name: str) -> Any:
    if value not in allowed:
        raise DataError(f"{name}: expected {' or '.join(allowed)}, got {value!r:.40}")
    return value


def _device(device: str | torch.device | None) -> torch.device:
    if device is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        found = torch.device(device)
        torch.empty(0, device=found)
    except (RuntimeError, AssertionError):
        raise ConfigError(
            f"device = {str(device)!r:.40}: not available on this machine; expected cpu, cuda or cuda:N"
        ) from None
    return found


def _dtype(dtype: str | torch.dtype) -> torch.dtype:
    for name, known in DTYPES.items():
        if dtype in (name, known):
            return known
    raise ConfigError(f"dtype = {str(dtype)!r:.40}: expected {' or '.join(DTYPES)}")
