"""Spans and ids of trajectories and prompts are exact with each kind of tokenizer."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import AddedToken, AutoTokenizer, BertTokenizer, PreTrainedTokenizerBase

from pacer.backbones.pointers import read_pieces
from pacer.backbones.tokenizer import (
    CLOSING_TEXT,
    OPENING_TEXT,
    continuation_ids,
    read_tokenizer,
)
from pacer.core.anchor import CLOSE_REPORT, OPEN_REPORT
from pacer.core.instruction import BEFORE_IMAGE
from pacer.decoding.extract import extract_report
from pacer.model.assemble import load_tokenizer
from pacer.model.prompt import build_prompt
from pacer.training.trajectory import RouteSeed, Span, TrajectoryBuilder
from tests.support.families import write_tokenizer

KINDS = ("sentencepiece", "bytes", "bytes with BOS", "gemma")
ANCHOR = "<ANCHOR> positive: edema, pleural effusion; negative: none; uncertain: none </ANCHOR>"
WORDS = st.sampled_from(
    ["no", "edema", "left", ".", ",", "2", "12", "5.4", "t", "(", "effusion", "é", "x-ray"]
)
REPORTS = st.lists(WORDS, min_size=1, max_size=30).map(" ".join)


@pytest.fixture(scope="module", params=KINDS)
def tokenizer(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> PreTrainedTokenizerBase:
    return read_tokenizer(write_tokenizer(request.param, tmp_path_factory.mktemp("tokenizer")))


def ids(tokenizer: PreTrainedTokenizerBase, text: str) -> list[int]:
    return tokenizer(text, add_special_tokens=False)["input_ids"]


@given(report=REPORTS, limit=st.integers(8, 60), anchored=st.booleans())
def test_spans_and_ids(
    tokenizer: PreTrainedTokenizerBase, report: str, limit: int, anchored: bool
) -> None:
    builder = TrajectoryBuilder(tokenizer, limit)
    trajectory = builder.build(report, ANCHOR if anchored else None, None)
    parts = {span: trajectory.ids[trajectory.spans == span].tolist() for span in Span}
    alone = ids(tokenizer, report)
    cut = len(alone) + 2 > limit
    assert parts[Span.BOS] == [tokenizer.bos_token_id] and trajectory.spans[0] == Span.BOS
    assert parts[Span.REPORT] == alone[: limit - 1]
    assert parts[Span.COMMITMENT] == (ids(tokenizer, ANCHOR) if anchored else [])
    assert parts[Span.END] == ([] if cut else [tokenizer.eos_token_id])
    assert (np.diff(trajectory.spans) >= 0).all()
    assert tokenizer.bos_token_id not in trajectory.ids[1:-1]
    assert trajectory.omega_cons.tolist() == (trajectory.spans >= Span.OPENING).tolist()
    if anchored:
        assert tokenizer.decode(parts[Span.OPENING]) == OPENING_TEXT
    if anchored and not cut:
        assert tokenizer.decode(parts[Span.CLOSING]) == CLOSING_TEXT
        written = tokenizer.decode(
            trajectory.ids[1:], skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
        # Llama's tokenizer begins a text with a blank
        assert (
            written.replace(f"{OPENING_TEXT} ", OPENING_TEXT)
            == f"{ANCHOR}{OPENING_TEXT}{report}{CLOSING_TEXT}"
        )
        found = extract_report(written)
        assert found.report == report and not found.fallback and found.anchor is not None
    if not anchored and not cut:
        written = tokenizer.decode(
            trajectory.ids[1:], skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
        assert extract_report(written, commit=False).report == report


@given(history=REPORTS, tokens=st.integers(8, 40), commit=st.booleans())
def test_the_prompt(
    tokenizer: PreTrainedTokenizerBase, history: str, tokens: int, commit: bool
) -> None:
    record = {"view": "AP", "sections": "findings", "indication": None, "history": history}
    prompt = build_prompt(tokenizer, record, commit=commit, before_tokens=tokens)
    marker = continuation_ids(tokenizer, BEFORE_IMAGE)
    assert len(prompt.before) <= tokens and prompt.before[-len(marker) :] == marker
    whole = ids(tokenizer, f"Human: HISTORY: {history} <Img>")
    assert prompt.before == whole or prompt.before == [*whole[: tokens - len(marker)], *marker]
    assert (
        OPEN_REPORT in tokenizer.decode(prompt.after)
        if commit
        else OPEN_REPORT not in tokenizer.decode(prompt.after)
    )
    assert CLOSE_REPORT not in tokenizer.decode(prompt.after)
    prefix = prompt.prefix(tokenizer.bos_token_id, 3)
    assert prefix == [tokenizer.bos_token_id, *prompt.before, 0, 0, 0, *prompt.after]
    assert prompt.visual_start == 1 + len(prompt.before)
    assert tokenizer.decode(prompt.after).endswith("\nAssistant:")


#: Names of special tokens of several families, which a text may hold.
NAMES = (
    "<s>",
    "</s>",
    "<unk>",
    "<pad>",
    "<bos>",
    "<eos>",
    "<REPORT>",
    "[SEP]",
    "<|eot_id|>",
    "<|im_end|>",
)


@pytest.mark.parametrize("field", ["indication", "history"])
def test_special_tokens_in_a_text_are_text(tokenizer: PreTrainedTokenizerBase, field: str) -> None:
    texts = [f"Fever {name}{name} and cough." for name in (*NAMES, *tokenizer.all_special_tokens)]
    for text in texts:
        special = set(tokenizer.all_special_ids)
        assert special.isdisjoint(ids(tokenizer, text))
        assert tokenizer.decode(ids(tokenizer, text)).strip() == text
        trajectory = TrajectoryBuilder(tokenizer, 99).build(text, None, None)
        assert special.isdisjoint(trajectory.ids[trajectory.spans == Span.REPORT].tolist())
        record = {
            "view": "AP",
            "sections": "findings",
            "indication": None,
            "history": None,
            field: text,
        }
        prompt = build_prompt(tokenizer, record, commit=True)
        assert special.isdisjoint([*prompt.before, *prompt.after])


def test_marks_that_a_vocabulary_calls_not_special_are_text(
    tokenizer: PreTrainedTokenizerBase, tmp_path: Path
) -> None:
    """Runs of blanks, which some vocabularies add as well, stay pieces."""
    marks = ["<tool_call>", "</think>", "<|vision_start|>", "[TOOL_CALLS]"]
    tokenizer.save_pretrained(tmp_path)
    plain = AutoTokenizer.from_pretrained(tmp_path)
    plain.add_tokens(
        [AddedToken(name, special=False, normalized=False) for name in (*marks, "   ")]
    )
    plain.save_pretrained(tmp_path)
    *numbers, blanks = plain.convert_tokens_to_ids([*marks, "   "])
    read = read_pieces(AutoTokenizer, tmp_path)
    for name in marks:
        text = f"Fever {name} and   cough."
        assert set(numbers).isdisjoint(ids(read, text)) and blanks in ids(read, text)
        assert read.decode(ids(read, text), skip_special_tokens=True).strip() == text


def test_special_tokens_in_a_text_are_text_to_bert(tmp_path: Path) -> None:
    """As CheXbert and encoders of previous reports read it; only the ends of a text are special."""
    words = [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
        "[",
        "]",
        "<",
        ">",
        "/",
        "s",
        "edema",
        "sep",
        "mask",
        "cls",
    ]
    (tmp_path / "vocab.txt").write_text("\n".join([*words, "unk", "pad"]) + "\n")
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    for kind in (AutoTokenizer, BertTokenizer):
        tokenizer = read_pieces(kind, tmp_path)
        for name in (*words[:5], "</s>"):
            numbers = tokenizer([f"edema {name} edema", "edema"], padding=True)["input_ids"][0]
            assert set(tokenizer.all_special_ids) & set(numbers[1:-1]) == set(), name
            assert (numbers[0], numbers[-1]) == (2, 3)


LISTED = "<LISTED> positive: edema; negative: none; uncertain: none </LISTED>"
REPORT = "there is edema . no effusion ."


@pytest.fixture(scope="module")
def builder(backbones) -> TrajectoryBuilder:
    return TrajectoryBuilder(load_tokenizer(backbones), 100)


def pieces(builder: TrajectoryBuilder, text: str) -> list[int]:
    return builder.tokenizer(text, add_special_tokens=False)["input_ids"]


def test_emphasis_moves_to_the_report_span(builder: TrajectoryBuilder) -> None:
    count = len(pieces(builder, REPORT))
    scores = [1.0, *([1.0, 0.0] * count)[:count], 1.0]  # BOS, report, EOS
    for anchor in (LISTED, None):
        trajectory = builder.build(REPORT, anchor, scores)
        assert trajectory.s[trajectory.spans == Span.REPORT].tolist() == scores[1 : count + 1]
        assert trajectory.s[-1] == 1.0
        assert trajectory.s[trajectory.spans < Span.REPORT].sum() == 0
        assert trajectory.s[trajectory.spans == Span.CLOSING].sum() == 0
    cut = builder.build(
        "heart " * 160, None, [0.0] * 99 + [1.0, 1.0]
    )  # the last token that is kept, and a lost one
    assert cut.s.tolist() == [0.0] * 99 + [1.0]


def test_the_route_is_a_function_of_its_arguments() -> None:
    draws = [RouteSeed(42, "parent").uniform(0, f"sn-{i}") for i in range(2000)]
    assert draws == [RouteSeed(42, "parent").uniform(0, f"sn-{i}") for i in range(2000)]
    assert all(0 <= d < 1 for d in draws)
    assert abs(np.mean(np.array(draws) < 0.3) - 0.3) < 0.04
    assert (
        RouteSeed(42, "parent").uniform(1, "sn-0")
        != draws[0]
        != RouteSeed(43, "parent").uniform(0, "sn-0")
    )
