"""Tokenizers in Llama's layout, and that of the phantom's language model.

The layout is ``<unk>`` 0, ``<s>`` 1, ``</s>`` 2, the 256 byte tokens, then the learned pieces, with
a dummy space before the first word and byte fallback, so texts map to tokens as with the real
model.
"""

from collections.abc import Iterable
from functools import lru_cache

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors, trainers

from pacer.core.anchor import CLOSE_REPORT, OPEN_REPORT, Anchor, render_anchor
from pacer.core.findings import FINDINGS
from pacer.phantom.language import PhantomReport, sample_texts
from pacer.text.cleaning.cleaners import clean_report

#: Tokens of the bundled language model, to which the corpus's emphasis marks refer.
VOCABULARY = 1200
SPECIAL_TOKENS = ("<unk>", "<s>", "</s>")
_BYTES = tuple(f"<0x{value:02X}>" for value in range(256))
#: Maximum number of distinct characters learned.
_LETTERS = 100
#: Seed and number of the reports that the tokenizer is trained on.
_SAMPLE_SEED = 20_240_607
_SAMPLE_SIZE = 5_000
_TASKS = (
    "Human: <Img><ImageHere></Img> Write radiological finding and impression for this posterior "
    "anterior chest X-ray visual feature. Assistant:",
    "Human: <Img><ImageHere></Img> Write radiological finding section of report for this anterior "
    "posterior chest X-ray visual feature. First output <ANCHOR> positive, negative and uncertain "
    "findings, then output the final report in <REPORT>. Assistant:",
    "Write radiological impression section of report for this posterior anterior chest X-ray "
    "visual feature",
    "Write radiological finding section of report for chest X-ray examination",
)


def anchor_of(report: PhantomReport) -> Anchor:
    """Return the statuses of a report as a commitment."""
    return Anchor(report.listed("positive"), report.listed("negative"), report.listed("uncertain"))


def _training_texts() -> Iterable[str]:
    for report in sample_texts(_SAMPLE_SEED, _SAMPLE_SIZE):
        yield clean_report(report.text)
        yield render_anchor(anchor_of(report))
        yield from (OPEN_REPORT, CLOSE_REPORT)
        yield f"INDICATION: {report.study.indication}. HISTORY: {report.study.history}."
    yield from _TASKS * 200
    yield from FINDINGS * 20


@lru_cache(maxsize=4)
def phantom_tokenizer(vocabulary: int) -> Tokenizer:
    """Return the tokenizer of the phantom's language model: the same vocabulary size always yields
    the same tokenizer, as it learns from a fixed sample of cleaned reports, commitments and
    prompts; see :func:`train_tokenizer`."""
    return train_tokenizer(_training_texts(), vocabulary)


def train_tokenizer(texts: Iterable[str], vocabulary: int) -> Tokenizer:
    """Learn a Llama-style tokenizer, which puts ``<s>`` first if special tokens are requested.
    ``decode`` inverts ``encode`` for every text that does not begin with a space; unlearned
    characters become byte tokens.

    Args:
        texts: training texts. They are split at newlines, so a newline is always a byte token.
        vocabulary: number of tokens, including the three special and 256 byte tokens; at least 260.
    """
    special = [*SPECIAL_TOKENS, *_BYTES]
    learner = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    learner.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="first")
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        show_progress=False,
        special_tokens=special,
        limit_alphabet=min(_LETTERS, vocabulary - len(special)),
    )
    learner.train_from_iterator((line for text in texts for line in text.split("\n")), trainer)
    # without the learner's special tokens, so that byte tokens are ordinary
    tokenizer = Tokenizer(learner.model)
    tokenizer.add_special_tokens(
        [AddedToken(token, normalized=False, special=True) for token in SPECIAL_TOKENS]
    )
    tokenizer.pre_tokenizer = learner.pre_tokenizer
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s>:1 $B:1", special_tokens=[("<s>", 1)]
    )
    return tokenizer
