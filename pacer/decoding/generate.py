"""Reports from a trained model: a search continues the calibrated prefix of each record.

One search generates commitment and report; the repetition penalty covers all generated tokens.
Models with Commit generate the commitment first, models without it only the report. A commitment
that is predicted from the source tokens, or written by a person, is where the text of a search
begins, and its tokens count as generated.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from pacer.backbones.families import check_attention
from pacer.config import Decode
from pacer.core.anchor import Anchor, render_anchor
from pacer.core.attributes import Attributes
from pacer.core.errors import ConfigError, DataError
from pacer.core.processes import prefetch
from pacer.decoding.agreement import drop_uncommitted_sentences, stated_commitment
from pacer.decoding.beam import BeamSearch
from pacer.decoding.extract import Extraction, extract_report
from pacer.decoding.list_bias import ListBias
from pacer.decoding.lists.maps import ListPredictor, Probabilities
from pacer.decoding.search import Engine, Prefix, search_reports
from pacer.model.batch import Batch, FeatureSource, RecordRow, SourceStates, read_sources
from pacer.model.checkpoint import ModelSpecification
from pacer.model.pacer import Pacer
from pacer.model.prompt import PromptIds, build_prompt


@dataclass(frozen=True)
class Encoded:
    """What the model computes from a record's sources, besides the prefix."""

    #: Of Calibrate; None without it.
    gate: float | None
    #: [N, K] of the ``frontal`` image and, if there is one, of the ``lateral`` image.
    depth_weights: dict[str, Tensor]
    #: The predicted findings; None without a list predictor.
    findings: Probabilities | None
    #: The predicted sides by finding; empty without a predictor of sides.
    sides: dict[str, Attributes]


@dataclass(frozen=True)
class Generated(Encoded):
    """The result for one record."""

    #: Raw text.
    text: str
    #: Number of generated tokens, EOS included.
    tokens: int


class Generator:
    """A generator of reports for records; ``decode`` may be replaced between calls.

    Args:
        model: in eval mode; not of the warm-up, which has no instruction.
        specification: from its checkpoint record.
        predictor: of lists, from the model's fused tokens.

    Raises:
        BackboneError: the search does not support the language model's attention.
        ConfigError: ``decode.commitment: read`` with a model without Commit, or without a list
            predictor.
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
        self.sides = specification.sides
        self.predictor = predictor
        self.num_queries = specification.interface.num_queries
        check_generator(self)

    def stream(
        self, records: Iterable[RecordRow], workers: int = 0
    ) -> Iterator[tuple[int, Generated]]:
        """Yield each record's index in ``records`` and its result, as soon as it is ready.

        Records are read in the given order, whenever rows are free. Decoding is fastest if records
        of similar length follow each other. ``workers`` threads read features ahead (0: features
        are read when they are needed).
        """
        prefixes = self._prefixes(records, workers)
        for (place, encoded), tokens in search_reports(
            self._engine(), prefixes, self.decode, self.text, self.sides
        ):
            yield place, Generated(**vars(encoded), text=self.text(tokens), tokens=len(tokens))

    def __call__(self, records: Sequence[RecordRow]) -> list[Generated]:
        """Return the results in the records' order."""
        return [result for _, result in sorted(self.stream(records), key=lambda placed: placed[0])]

    def _engine(self) -> Engine:
        bias = None
        if self.commit and self.decode.list_bias:
            bias = ListBias(self.tokenizer, self.decode.list_bias)
        return BeamSearch(self.model.language, self.decode, self.tokenizer.eos_token_id, bias)

    def _prefixes(
        self, records: Iterable[RecordRow], workers: int
    ) -> Iterator[tuple[tuple[int, Encoded], Prefix]]:
        """Yield the prefix of each record, with its index and what else the model computed."""
        for place, record, sources in prefetch(self._read, enumerate(records), workers):
            inputs, encoded = self.encode(record, sources)
            commitment = self._given_commitment(record, encoded)
            forced = [] if commitment is None else self._tokens(render_anchor(commitment))
            prefix = Prefix(inputs, forced)
            check_prefix(self, record, prefix)
            yield (place, encoded), prefix

    def _read(self, numbered: tuple[int, RecordRow]) -> tuple[int, RecordRow, SourceStates]:
        place, record = numbered
        return place, record, read_sources([record], self.features)

    @torch.no_grad()
    def encode(
        self, record: RecordRow, sources: SourceStates | None = None
    ) -> tuple[Tensor, Encoded]:
        """Compute the calibrated prefix of one record with the target's BOS [P, d], and what else
        the model reads from its sources; ``sources`` as in :meth:`batch`.

        Records are embedded one by one, so the result is bit-identical however records are batched,
        split over processes or resumed.
        """
        batch = self.batch(record, sources).to(self.device)
        embedded = self.model.embed(batch)
        inputs, gate, _ = self.model.calibrate(embedded, batch)
        depth_weights = {view: weights[0].cpu() for view, weights in embedded.depth_weights.items()}
        findings = None
        sides: dict[str, Attributes] = {}
        if self.predictor is not None:
            findings = self.predictor(embedded.sources.fused[0])
            if self.predictor.sides is not None:
                sides = self.predictor.sides(batch.frontal, embedded.frontal)
        encoded = Encoded(
            gate=None if gate is None else gate.item(),
            depth_weights=depth_weights,
            findings=findings,
            sides=sides,
        )
        return inputs[0], encoded

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

    def _given_commitment(self, record: RecordRow, encoded: Encoded) -> Anchor | None:
        """Return the commitment that a record's report is written for: that of its reference, if it
        has the column ``gold_list`` (a control); the record's own, an Anchor in ``commitment`` that
        a person wrote; or, with ``decode.commitment: read``, the predicted one. The latter two get
        the predicted sides. None: the model writes the commitment."""
        if record.get("gold_list"):
            return stated_commitment(record["report_raw"], self.sides)
        commitment = record.get("commitment")
        if commitment is None and self.decode.commitment == "read":
            assert encoded.findings is not None
            commitment = encoded.findings.commitment(self.decode.threshold)
        return None if commitment is None else commitment.completed(encoded.sides)

    def extract(self, text: str) -> Extraction:
        """Extract commitment and report from a generated text. With ``decode.commitment: read``
        the sentences that the commitment does not support are left out."""
        extraction = extract_report(text, self.commit, self.sides)
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

    def _tokens(self, text: str) -> list[int]:
        return self.tokenizer(text, add_special_tokens=False)["input_ids"]


def check_generator(generator: Generator) -> None:
    """Raise the errors of :class:`Generator`: its model cannot write reports as configured."""
    check_attention(generator.model.language.config)
    if generator.decode.commitment == "generated":
        return
    if not generator.commit:
        raise ConfigError(
            "decode.commitment = 'read' needs a model that writes commitments, but this one was "
            "trained without Commit (commit.route = 'direct'); set decode.commitment: generated"
        )
    if generator.predictor is None:
        raise ConfigError(
            "decode.commitment = 'read' needs the output of the `lists` stage for this model's "
            "parent, or an export that includes it; otherwise, set decode.commitment: generated"
        )


def check_prefix(generator: Generator, record: RecordRow, prefix: Prefix) -> None:
    """Raise a DataError for a record that the search would write garbage for, or no report."""
    name = f"record {record['record_id']}"
    if not prefix.inputs.isfinite().all():
        raise DataError(
            f"{name}: its prefix has NaN or infinite values, so the checkpoint or the record's "
            "features are damaged; regenerate the damaged files"
        )
    most = generator.decode.max_new_tokens
    if len(prefix.forced) >= most:
        raise DataError(
            f"{name}: its commitment has {len(prefix.forced)} tokens, which leaves no room for a "
            f"report within decode.max_new_tokens ({most}); increase it"
        )
    window = getattr(generator.model.language.config, "sliding_window", None)
    # no position attends to the last token
    positions = len(prefix.inputs) + most - 1
    if window is not None and positions > window:
        raise DataError(
            f"{name}: prompt and report take up to {positions} positions, but the language model "
            f"attends only to the last {window}, which decoding does not support; reduce "
            f"decode.max_new_tokens ({most}), or choose another language model"
        )
