"""Reports from a trained model: the configured engine continues the calibrated prefix of each
record.

One search generates commitment and report; the repetition penalty covers all generated tokens.
Models with Commit generate the commitment first, models without it only the report. A commitment
that is predicted from the source tokens, or written by a person, is a forced prefix of the
generation, and its tokens count as generated.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from pacer.config import Decode
from pacer.core.anchor import Anchor, render_anchor
from pacer.core.errors import BackboneError, ConfigError, DataError
from pacer.core.processes import prefetch
from pacer.decoding.beam import BeamSearch, Generate, search_with, unknown_attention
from pacer.decoding.candidates import (
    AgreeingSearch,
    Extraction,
    ForcedPrefix,
    ListedSearch,
    drop_uncommitted_sentences,
    extract_report,
    force_prefix,
)
from pacer.decoding.hypotheses import ListBias
from pacer.decoding.lists.maps import AttributeChances, ListPredictor, Probabilities
from pacer.model.batch import Batch, FeatureSource, RecordRow, SourceStates, read_sources
from pacer.model.checkpoint import ModelSpecification
from pacer.model.pacer import Pacer
from pacer.model.prompt import PromptIds, build_prompt
from pacer.text.rules import extract_anchor, read_attributes

_log = logging.getLogger(__name__)

#: Values of ``decode.engine``. Both engines take prefixes and return the same tokens.
ENGINES = {"beam": BeamSearch, "generate": Generate}


class Request(NamedTuple):
    """Columns of a record that determine the commitment of its report."""

    #: The report is written for this commitment.
    commitment: Anchor | None = None
    #: The report is written for the commitment of its reference.
    gold_list: bool = False

    @classmethod
    def of(cls, record: RecordRow) -> Self:
        """Return the request of a record; columns that it lacks have their default values."""
        return cls(**{name: record[name] for name in cls._fields if record.get(name) is not None})


class Prefix(NamedTuple):
    """The start of a generation. All but ``inputs`` are as in :class:`Generated`."""

    #: [P, d], the calibrated prefix and the target's BOS.
    inputs: Tensor
    gate: float | None
    depth_weights: dict[str, Tensor]
    findings: Probabilities | None
    attributes: AttributeChances | None


class Generated(NamedTuple):
    """The result for one record."""

    #: Raw text.
    text: str
    #: Number of generated tokens, EOS included.
    tokens: int
    #: None without Calibrate.
    gate: float | None
    #: [N, K] of the ``frontal`` image and, if there is one, of the ``lateral`` image.
    depth_weights: dict[str, Tensor]
    #: The predicted findings; None without a list predictor.
    findings: Probabilities | None = None
    #: The predicted attributes; None without a predictor of attributes.
    attributes: AttributeChances | None = None


class Generator:
    """A generator of reports for records; ``decode`` may be replaced between calls.

    If ``decode.engine`` is ``beam`` and the beam search does not support the language model's
    attention, ``generate`` is used and a message is printed.

    Args:
        model: in eval mode; not of the warm-up, which has no instruction.
        specification: from its checkpoint record.
        predictor: of lists, from the model's fused tokens.

    Raises:
        BackboneError: ``decode.select: agreement`` or ``decode.commitment: read`` with a language
            model that the beam search does not support.
        ConfigError: ``read`` with a model without Commit, or without a list predictor.
    """

    def __init__(
        self,
        model: Pacer,
        tokenizer: PreTrainedTokenizerBase,
        features: FeatureSource,
        specification: ModelSpecification,
        decode: Decode,
        device: torch.device | str = "cpu",
        predictor: ListPredictor | None = None,
    ):
        self.model = model.to(device)
        self.tokenizer = tokenizer
        self.features = features
        self.decode = decode
        assert specification.prompt is not None, "a warm-up model"
        self.prompt = specification.prompt
        self.device = torch.device(device)
        self.commit = specification.commits
        self.attributes = specification.attributes
        self.predictor = predictor
        self.num_queries = specification.interface.num_queries
        unknown = unknown_attention(model.language.config)
        if unknown and (decode.select == "agreement" or decode.commitment == "read"):
            raise BackboneError(
                f"beam search does not support {unknown}; set decode.select: score and "
                "decode.commitment: generated"
            )
        if decode.commitment == "read":
            if not self.commit:
                raise ConfigError(
                    "decode.commitment = 'read' needs a model that writes commitments, but this "
                    "one was trained without Commit (commit.route = 'direct'); set "
                    "decode.commitment: generated"
                )
            if predictor is None:
                raise ConfigError(
                    "decode.commitment = 'read' needs the output of the `lists` stage for this "
                    "model's parent, or an export that includes it; otherwise, set "
                    "decode.commitment: generated"
                )
        if unknown and decode.engine == "beam":
            _log.warning(
                f"decode: beam search does not support {unknown}; using decode.engine: generate"
            )
            self.decode = decode.model_copy(update={"engine": "generate"})

    def prompt_ids(self, record: RecordRow) -> PromptIds:
        """Return the text ids of the prefix, the only part whose length differs between records."""
        return build_prompt(self.tokenizer, record, commit=self.commit, **self.prompt.model_dump())

    def batch(self, record: RecordRow, sources: SourceStates | None = None) -> Batch:
        """Return a batch of one record's prefix and the target's BOS. sources: its features; None:
        they are read."""
        prompt = self.prompt_ids(record)
        bos = self.tokenizer.bos_token_id
        prefix = prompt.prefix(bos, self.num_queries)
        return Batch(
            ids=torch.tensor([[*prefix, bos]]),
            visual_start=torch.tensor([prompt.visual_start]),
            prefix_length=torch.tensor([len(prefix)]),
            longest_prefix=len(prefix),
            length=torch.tensor([len(prefix) + 1]),
            **vars(sources or read_sources([record], self.features)),
        )

    @torch.no_grad()
    def prefix(self, record: RecordRow, sources: SourceStates | None = None) -> Prefix:
        """Compute the calibrated prefix of one record; ``sources`` as in :meth:`batch`.

        Records are embedded one by one, so the result is bit-identical however records are batched,
        split over processes or resumed. Raises a DataError if the prefix is not finite, because the
        search would generate garbage.
        """
        batch = self.batch(record, sources).to(self.device)
        embedded = self.model.embed(batch)
        inputs, gate, _ = self.model.calibrate(embedded, batch)
        if not inputs.isfinite().all():
            raise DataError(
                f"record {record['record_id']}: its prefix has NaN or infinite values, so the "
                "checkpoint or the record's features are damaged; regenerate the damaged files"
            )
        depth_weights = {view: weights[0].cpu() for view, weights in embedded.depth_weights.items()}
        findings = None
        attributes = None
        if self.predictor is not None:
            fused = embedded.sources.fused[0]
            findings = self.predictor(fused)
            if self.predictor.attributes is not None:
                has_prior = bool(batch.availability[0, 1])
                attributes = self.predictor.attributes(
                    batch.frontal, embedded.frontal, fused, prior=has_prior
                )
        return Prefix(
            inputs=inputs[0],
            gate=None if gate is None else gate.item(),
            depth_weights=depth_weights,
            findings=findings,
            attributes=attributes,
        )

    def stream(
        self, records: Iterable[RecordRow], workers: int = 0
    ) -> Iterator[tuple[int, Generated]]:
        """Yield each record's index in ``records`` and its result, as soon as it is ready.

        Records are read in the given order, whenever rows are free. Decoding is fastest if records
        of similar length follow each other. ``workers`` threads read features ahead (0: features
        are read when they are needed).
        """

        def is_listed(numbered: tuple[int, RecordRow]) -> bool:
            return self._is_listed(numbered[1])

        def read(numbered: tuple[int, RecordRow]) -> tuple[int, RecordRow, SourceStates]:
            place, record = numbered
            return place, record, read_sources([record], self.features)

        def prefixes(
            group: Iterable[tuple[int, RecordRow]], listed: bool
        ) -> Iterator[tuple[Any, tuple[int, Generated]]]:
            for place, record, sources in prefetch(read, group, workers):
                prefix = self.prefix(record, sources)
                start = self._forced_prefix(record, prefix) if listed else prefix.inputs
                unfinished = Generated(
                    text="",
                    tokens=0,
                    gate=prefix.gate,
                    depth_weights=prefix.depth_weights,
                    findings=prefix.findings,
                    attributes=prefix.attributes,
                )
                yield start, (place, unfinished)

        for listed, group in groupby(enumerate(records), is_listed):
            pairs = prefixes(group, listed)
            for (place, unfinished), tokens in search_with(self._search(listed), pairs):
                yield place, unfinished._replace(text=self.text(tokens), tokens=len(tokens))

    def _is_listed(self, record: RecordRow) -> bool:
        """Return whether the commitment of a record's report is not generated."""
        request = Request.of(record)
        return (
            self.decode.commitment == "read" or request.commitment is not None or request.gold_list
        )

    def _search(self, listed: bool) -> Callable[..., Iterator]:
        language = self.model.language
        decode = self.decode
        eos = self.tokenizer.eos_token_id
        kinds = self.attributes
        agreeing = decode.select == "agreement" and self.commit
        if listed:
            if not agreeing:
                decode = decode.model_copy(update={"candidates": 1})
            return ListedSearch(language, decode, eos, self.text, kinds)
        bias = None
        if self.commit and decode.list_bias:
            bias = ListBias(self.tokenizer, decode.list_bias)
        if agreeing:
            return AgreeingSearch(language, decode, eos, self.text, kinds, bias=bias)
        return ENGINES[decode.engine](language, decode, eos, bias)

    def _forced_prefix(self, record: RecordRow, prefix: Prefix) -> ForcedPrefix:
        """Return the prefix of a record, continued by the commitment that the record requests, or
        else by the predicted commitment. Raises a DataError if the commitment leaves no room
        for a report."""
        request = Request.of(record)
        if request.gold_list:
            attributes = read_attributes(record["report_raw"]) if self.attributes else {}
            commitment = extract_anchor(record["report_raw"]).described(attributes, self.attributes)
        else:
            commitment = request.commitment
            if commitment is None:
                assert prefix.findings is not None
                commitment = prefix.findings.commitment(self.decode.threshold)
            if prefix.attributes is not None:
                commitment = commitment.completed(prefix.attributes.stated())
        tokens = self.tokenizer(render_anchor(commitment), add_special_tokens=False)["input_ids"]
        if len(tokens) >= self.decode.max_new_tokens:
            raise DataError(
                f"record {record['record_id']}: its commitment has {len(tokens)} tokens, which "
                "leaves no room for a report within decode.max_new_tokens "
                f"({self.decode.max_new_tokens}); increase it"
            )
        return force_prefix(prefix.inputs, tokens, self.model.language.get_input_embeddings())

    def extract(self, text: str) -> Extraction:
        """Extract commitment and report from a generated text. With ``decode.commitment: read``
        the sentences that the commitment does not support are left out."""
        extraction = extract_report(text, self.commit, self.attributes)
        if (
            self.decode.commitment == "generated"
            or extraction.anchor is None
            or extraction.fallback
        ):
            return extraction
        report = drop_uncommitted_sentences(extraction.report, extraction.anchor)
        return extraction._replace(report=report)

    def text(self, tokens: Sequence[int]) -> str:
        """Return the text of generated tokens."""
        return str(
            self.tokenizer.decode(
                list(tokens), skip_special_tokens=True, clean_up_tokenization_spaces=False
            )
        )

    def __call__(self, records: Sequence[RecordRow]) -> list[Generated]:
        """Return the results in the records' order."""
        return [result for _, result in sorted(self.stream(records), key=lambda placed: placed[0])]
