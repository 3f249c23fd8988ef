"""Reports for a user's images and texts, with exactly the same steps as in training and the stage
``decode``."""

from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from os import PathLike
from pathlib import Path
from typing import Any, get_args

import torch
from torch import Tensor

from pacer.backbones.pointers import resolve
from pacer.core.anchor import read_list
from pacer.core.contexts import CONTEXTS, Context, availability, contexts_within
from pacer.core.devices import device_of
from pacer.core.errors import DataError
from pacer.core.io import hash_file, read_json
from pacer.decoding.extract import extract_report
from pacer.decoding.generate import Generated, Generator
from pacer.decoding.lists.maps import read_predictor
from pacer.features.encoder import ImageEncoder, TextEncoder
from pacer.features.store import DTYPES, as_stored
from pacer.images.greyscale import NOTES
from pacer.images.views import parse_view
from pacer.model.assemble import load_model, load_tokenizer
from pacer.serving.case import (
    GENERATED_NOTE,
    Case,
    Prepared,
    Projection,
    ReportSections,
    Result,
    Routing,
    load_image,
    load_text,
    unsupported_comparisons,
)
from pacer.serving.layout import MANIFEST, READING, located
from pacer.serving.package import CAUTIONS, GENERATED, frozen_models, read_settings, trained_prompts
from pacer.text.cleaning.cleaners import CLEANERS


class CaseFeatures:
    """A :class:`pacer.model.batch.FeatureSource` for prepared images in memory.

    Each image and each text is encoded separately, so a report does not depend on the other cases
    at all. States are rounded as in the store that the model was trained on.

    Args:
        dtype: type of the stored states (``features.dtype``).

    Attributes:
        levels: the prepared images [1 or 3, H, W] uint8 of the unfinished cases, by image id.
    """

    def __init__(self, images: ImageEncoder, texts: TextEncoder, dtype: str):
        self.images = images
        self.texts = texts
        self.dtype = DTYPES[dtype]
        self.levels: dict[str, Tensor] = {}

    def depth_states(self, image_ids: Sequence[str]) -> Tensor:
        """Return the states of images [B, K, N, d_v], on the CPU."""
        states = [self.images.encode_levels(self.levels[name].unsqueeze(0)) for name in image_ids]
        return as_stored(torch.cat(states), self.dtype, image_ids).cpu()

    def prior_states(self, texts: Sequence[str]) -> tuple[Tensor, Tensor]:
        """Return the states of previous reports [B, L, d_text] and the mask [B, L], on the CPU."""
        states, masks = zip(*(self.texts.encode([text]) for text in texts), strict=True)
        names = ["the previous report" for _ in texts]
        stored = as_stored(torch.cat(states), self.dtype, names)
        return stored.cpu(), torch.cat(masks).cpu()


class Reporter:
    """Writes reports with an exported model. It is not thread-safe.

    Args:
        directory: written by ``pacer export``, or ``org/name@revision`` of the hub, where it was
            uploaded.
        device: None: the first GPU, else the CPU.
        backbones: folder with some or all of the frozen models ``vision``, ``language`` and
            ``text``, for a directory that came without them from another machine.
        batch_size: cases generated at a time; does not change a report. None: ``decode.batch_size``
            of the export.

    Attributes:
        settings: the settings of the export.
        contexts: the contexts of the model's training.
        views: the views of the model's training.
        sections: the sections of the model's training.
        commit: whether the model states a commitment first.
        sides: whether its commitments have the sides of findings.
        depths: encoder blocks that it uses, counted from 1.
        notes: sentences that apply to each of its reports.
        fingerprint: SHA-256 of the manifest, and so of all files that reports depend on.

    Raises:
        CheckpointError: the directory is not an exported model or not complete, or the frozen
            models do not belong to it.
        BackboneError: a frozen model is missing.
        ConfigError: there is no GPU for ``device``.
    """

    def __init__(
        self,
        directory: str | PathLike,
        device: str | int | torch.device | None = None,
        backbones: str | PathLike | None = None,
        batch_size: int | None = None,
    ):
        directory = located(directory)
        self.settings = settings = read_settings(directory)
        self.batch_size = settings.decoding.batch_size if batch_size is None else batch_size
        self.device = device_of(device)
        self.fingerprint = hash_file(directory / MANIFEST)
        manifest = read_json(directory / MANIFEST)
        generated = (GENERATED_NOTE,) if manifest.get(GENERATED) else ()
        self.notes = (*generated, *(f"this model: {line}" for line in manifest.get(CAUTIONS, ())))
        trained = trained_prompts(directory)
        self.views = trained.get("view", get_args(Projection))
        self.sections = trained.get("sections", ())
        states = settings.states
        with frozen_models(directory, None if backbones is None else Path(backbones)) as root:
            model, record = load_model(directory, root)
            tokenizer = load_tokenizer(root)
            predictor = None
            if (directory / READING).is_dir():
                predictor = read_predictor(directory / READING, directory)
            self._features = CaseFeatures(
                ImageEncoder(
                    resolve(root / "vision"), states.depths, self.device, states.precision
                ),
                TextEncoder(
                    resolve(root / "text"), states.prior_tokens, self.device, states.precision
                ),
                states.dtype,
            )
        self._generator = Generator(
            model,
            tokenizer,
            self._features,
            record.model,
            settings.decoding,
            self.device,
            predictor,
        )
        self.commit = self._generator.commit
        self.depths = tuple(states.depths)
        self.sides = self._generator.sides
        self.contexts = tuple(context for context in CONTEXTS if context in settings.contexts)

    def __call__(self, *sources: Any, **named: Any) -> Result:
        """Generate the report of one case; takes the arguments of :class:`pacer.serving.case.Case`.
        Raises a DataError, as :meth:`prepare`."""
        return self.generate([Case(*sources, **named)])[0]

    def prepare(self, case: Case) -> Prepared:
        """Check a case and prepare it as training does, without the model. Raises a DataError if a
        source cannot be used, or the model was trained without it. The message is one sentence that
        names the case and the source."""
        name = case.name
        notes: list[str] = []
        levels: dict[str, Tensor] = {}
        view: str | None = None
        for place, source in case.images().items():
            image, header_view = load_image(source, f"{name}, {place}")
            levels[place] = self._features.images.preparation.levels(image)
            notes += [f"the image given as {place}: {note}" for note in image.info.get(NOTES, ())]
            if header_view is not None and header_view.kind != place:
                kind = header_view.kind
                notes.append(f"the DICOM file given as {place} is marked as a {kind} view")
            if header_view is not None and place == "frontal":
                view = header_view.view
        frontal = levels["frontal"]
        lateral = levels.get("lateral")
        if lateral is not None and torch.equal(frontal, lateral):
            raise DataError(
                f"{name}: the same image is given as frontal and as lateral; omit the lateral"
            )
        target = "findings" if self.settings.texts.target == "findings" else "findings+impression"
        if self.sections and target not in self.sections:
            target = self.sections[0]
        prior = self._prior(case.prior, f"previous report of {name}")
        indication = load_text(case.indication, f"indication of {name}")
        history = load_text(case.history, f"history of {name}")
        if case.commitment is not None and not self.commit:
            raise DataError(
                f"{name}: the model was trained without Commit and cannot write a report from a "
                "commitment"
            )
        commitment = None
        if case.commitment is not None:
            commitment = read_list(case.commitment, self.sides)
        parsed = parse_view(case.view)  # in any of the words that tables use
        stated = case.view
        if parsed is not None and parsed.kind == "frontal":
            # as in a table, the header states the direction of a view that is only frontal
            stated = None if parsed.view == "other" else parsed.view
        named = stated or view
        requested = _checked(named or "other", get_args(Projection), f"view of {name}")
        if named and requested not in self.views:
            known = " and ".join(self.views)
            notes.append(
                f"the model was trained only with images of view {known}; view {requested} is "
                "treated as unknown"
            )
        prepared = Prepared(
            name=name,
            frontal=frontal,
            lateral=lateral,
            prior=prior,
            indication=indication,
            history=history,
            view=requested if requested in self.views else "other",
            sections=_checked(
                case.sections or target, get_args(ReportSections), f"sections of {name}"
            ),
            notes=tuple(notes),
            commitment=commitment,
        )
        if prepared.context not in self.contexts:
            raise DataError(
                f"{name} has the sources of context {prepared.context}, but the model was trained "
                f"only on {', '.join(self.contexts)}; provide the sources of one of these"
            )
        return prepared

    def in_all_contexts(self, case: Case) -> dict[Context, Result]:
        """Generate reports in each context that the case's sources and the model allow, in the
        order SN, SW, MN, MW."""
        prepared = self.prepare(case)
        allowed = contexts_within(*availability(prepared.context))
        contexts = [context for context in allowed if context in self.contexts]
        results = self.generate([prepared.in_context(context) for context in contexts])
        return dict(zip(contexts, results, strict=True))

    def generate(self, cases: Sequence[Case | Prepared]) -> list[Result]:
        """Generate the reports of several cases, in their order. Raises a DataError, as
        :meth:`prepare`, for the first case that cannot be used."""
        prepared = [self._prepared(case) for case in cases]
        results = dict(self.stream(prepared, max(1, min(len(prepared), self.batch_size))))
        return [results[number] for number in range(len(prepared))]

    def stream(
        self, cases: Iterable[Case | Prepared], batch_size: int | None = None
    ) -> Iterator[tuple[int, Result]]:
        """Yield the number of each case in the order of ``cases``, and its result as soon as it is
        finished.

        Cases are taken only when there is room for them, so there may be any number. Memory is
        reserved for ``batch_size`` cases; None: the reporter's. Raises a DataError, as
        :meth:`prepare`, when the case's turn comes.
        """
        batch_size = batch_size or self.batch_size
        features = copy(self._features)
        features.levels = {}
        generator = copy(self._generator)
        generator.decode = generator.decode.model_copy(update={"batch_size": batch_size})
        generator.features = features
        waiting: dict[int, Prepared] = {}

        def records() -> Iterator[dict[str, Any]]:
            for number, case in enumerate(map(self._prepared, cases)):
                waiting[number] = case
                features.levels[f"frontal {number}"] = case.frontal
                if case.lateral is not None:
                    features.levels[f"lateral {number}"] = case.lateral
                names = {
                    "record_id": case.name,
                    "frontal": f"frontal {number}",
                    "lateral": f"lateral {number}",
                }
                yield vars(case) | names | {"context": case.context, "prior_report": case.prior}

        for number, generated in generator.stream(records()):
            for view in ("frontal", "lateral"):
                features.levels.pop(f"{view} {number}", None)
            yield number, self._result(generated, waiting.pop(number))

    def _prepared(self, case: Case | Prepared) -> Prepared:
        return self.prepare(case) if isinstance(case, Case) else case

    def _prior(self, text: str | None, name: str) -> str | None:
        loaded = load_text(text, name)
        if loaded is None:
            return None
        cleaned = CLEANERS[self.settings.texts.cleaner](loaded)
        if not any(character.isalnum() for character in cleaned):
            raise DataError(f"{name}: no words are left after cleaning; change the text or omit it")
        return cleaned

    def _result(self, generated: Generated, case: Prepared) -> Result:
        extracted = self._generator.extract(generated.text)
        notes = self.notes + case.notes
        context = case.context.upper()
        unsupported = ", ".join(unsupported_comparisons(extracted.report, case.prior))
        if unsupported:
            note = f"{context}: comparisons not supported by a previous report: {unsupported}"
            notes = (note, *notes)
        whole = extract_report(generated.text, self._generator.commit).report
        if extracted.report not in ("", whole):
            note = (
                f"{context}: sentences that do not agree with the commitment were left out of the "
                "report"
            )
            notes = (*notes, note)
        lateral = None
        if case.lateral is not None:
            lateral = self._routing(case.lateral, generated.depth_weights["lateral"])
        return Result(
            name=case.name,
            context=case.context,
            report=extracted.report,
            generated=generated.text,
            commitment=extracted.anchor,
            fallback=extracted.fallback,
            truncated=generated.tokens >= self.settings.decoding.max_new_tokens,
            tokens=generated.tokens,
            notes=notes,
            gate=generated.gate,
            view=case.view,
            sections=case.sections,
            frontal=self._routing(case.frontal, generated.depth_weights["frontal"]),
            lateral=lateral,
            probabilities=generated.findings,
            given=case.commitment is not None,
        )

    def _routing(self, levels: Tensor, weights: Tensor) -> Routing:
        """Return an image's routing; patches are ordered by rows, and the grid has the image's
        proportions."""
        rows, columns = self._features.images.grid
        planes = levels.permute(1, 2, 0).numpy()
        return Routing(
            planes[:, :, 0] if levels.shape[0] == 1 else planes,
            weights.float().view(rows, columns, -1).numpy(),
            self.depths,
        )


def _checked(value: Any, allowed: tuple[Any, ...], name: str) -> Any:
    if value not in allowed:
        raise DataError(f"{name}: expected {' or '.join(allowed)}, got {value!r:.40}")
    return value
