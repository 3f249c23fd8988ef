"""Our beam search gives the tokens of ``generate`` of transformers, candidates for a commitment
those of a loop."""

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from pacer.core.anchor import read_list
from pacer.core.errors import BackboneError, DataError
from pacer.decoding import beam, generate, hypotheses, search
from pacer.decoding.agreement import distance, text_distance
from pacer.decoding.beam import BeamSearch
from pacer.decoding.extract import CLOSE_ANCHOR
from pacer.decoding.generate import Generator
from pacer.decoding.hypotheses import candidate_noise
from pacer.decoding.search import Prefix, search_reports
from pacer.decoding.tree import TokenTree
from pacer.model.assemble import load_tokenizer
from tests.support.cases import listed_cases
from tests.support.models import moved_model, specification
from tests.support.searches import EOS, Case, candidates, found, random_case, settings
from tests.support.sentences import anchor_of
from tests.support.transformers_generate import Generate

pytestmark = pytest.mark.usefixtures("messages")


class CountingTree(TokenTree):
    """Counts over all searches: ``steps`` of the language model, ``tokens`` fed to them, ``nodes``
    that those attended to and ``read``, the same with what the mask hides (both once a record, not
    once a beam)."""

    steps = tokens = nodes = read = 0

    def stepping(self, rows: int) -> Any:
        counts = type(self)
        counts.steps += 1
        counts.tokens += rows * self.beams
        counts.nodes += int(self.ancestors[:rows].any(1).sum())
        counts.read += rows * self.width
        return super().stepping(rows)


#: Of nine prefixes each; `tests/thorough` has more.
CASES = [
    *((seed, "cpu") for seed in range(12)),
    *(pytest.param(seed, "cuda", marks=pytest.mark.gpu) for seed in range(0, 60, 10)),
]


def alone(case: Case) -> list[list[int]]:
    """The definition: ``generate`` on one prefix at a time."""
    engine = Generate(case.language, case.decode, EOS)
    return [found(engine, [prefix])[0] for prefix in case.prefixes]


def own(case: Case, **changes) -> list[list[int]]:
    return found(
        BeamSearch(case.language, case.decode.model_copy(update=changes), EOS), case.prefixes
    )


@pytest.mark.parametrize(("seed", "device"), CASES, indirect=["device"])
def test_tokens_are_those_of_the_definition(seed: int, device: torch.device) -> None:
    """Of ``generate`` on each prefix alone and on batches that are padded on the left."""
    case = random_case(seed).to(device)
    expected = alone(case)
    assert found(Generate(case.language, case.decode, EOS), case.prefixes) == expected
    assert own(case) == expected


@pytest.mark.parametrize("seed", [1003, 1004])
def test_tokens_are_those_of_the_definition_in_single_precision(seed: int) -> None:
    case = random_case(seed, dtype=torch.float32)
    assert own(case) == alone(case)


@cache
def one_at_a_time(seed: int) -> list[list[int]]:
    return own(random_case(seed), batch_size=1)


@given(seed=st.integers(2000, 2004), batch_size=st.integers(1, 12), order=st.permutations(range(9)))
def test_neither_order_nor_company_matters(seed: int, batch_size: int, order: list[int]) -> None:
    case = random_case(seed)
    expected = one_at_a_time(seed)
    shuffled = own(
        case._replace(prefixes=[case.prefixes[place] for place in order]), batch_size=batch_size
    )
    assert shuffled == [expected[place] for place in order]


@pytest.mark.parametrize("beams", [1, 2, 5])
def test_equal_scores_are_ordered_as_in_the_definition(beams: int) -> None:
    """Each token has a twin with the same logit, and half of the beams repeat each other's
    scores."""
    for seed in range(3000, 3004):
        case = random_case(seed)
        weight = case.language.lm_head.weight.data
        half = len(weight) // 2
        weight[half : 2 * half] = weight[:half]
        weight.copy_((weight * 4).round() / 4)
        case = case._replace(decode=case.decode.model_copy(update={"num_beams": beams}))
        assert own(case) == alone(case)


def test_padding_on_the_left_does_not_lift_the_repetition_penalty() -> None:
    """With generate's own option (transformers 5.23) a padded row's first tokens escape it."""
    case = random_case(7)._replace(
        decode=settings(
            num_beams=1, max_new_tokens=24, min_new_tokens=24, batch_size=9, repetition_penalty=3.0
        )
    )
    assert max(map(len, case.prefixes)) - min(map(len, case.prefixes)) > 8
    expected = alone(case)
    assert found(Generate(case.language, case.decode, EOS), case.prefixes) == expected == own(case)
    free = own(case, repetition_penalty=1.0)
    assert all(len(set(row)) > len(set(other)) for row, other in zip(expected, free, strict=True))


def test_settings_that_a_checkpoint_brings_count_for_neither_engine() -> None:
    case = random_case(11)._replace(decode=settings(min_new_tokens=12))
    expected = own(case)
    for name, value in {
        "no_repeat_ngram_size": 1,
        "repetition_penalty": 1.5,
        "early_stopping": True,
        "suppress_tokens": expected[0][:3],
    }.items():
        setattr(case.language.generation_config, name, value)
    assert alone(case) == expected


@pytest.mark.parametrize("beams", [1, 4])
@pytest.mark.parametrize("most", [1, 2])
def test_one_record_and_few_tokens(beams: int, most: int) -> None:
    for seed in range(4000, 4005):
        case = random_case(seed, prefixes=1)
        case = case._replace(
            decode=settings(num_beams=beams, max_new_tokens=most), prefixes=[case.prefixes[0][:1]]
        )
        assert own(case) == alone(case)


def test_a_record_that_ends_makes_room_for_the_next() -> None:
    """A prefix is asked for when there is a place, so never more than ``batch_size`` are under
    way."""
    case = random_case(6, prefixes=12)
    asked, under_way = 0, []

    def queue() -> Iterator[tuple[int, Prefix]]:
        nonlocal asked
        for prefix in case.prefixes:
            asked += 1
            yield asked - 1, Prefix(prefix)

    engine = BeamSearch(
        case.language, settings(batch_size=3, max_new_tokens=20, length_penalty=0.0), EOS
    )
    numbers = []
    for ended, (number, _) in enumerate(engine(queue())):
        numbers.append(number)
        under_way.append(asked - ended)
    assert sorted(numbers) == list(range(12)) and numbers != sorted(numbers)
    assert max(under_way) == 3 and under_way[-4:] == [3, 3, 2, 1]


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> type[CountingTree]:
    tree = type("Counts", (CountingTree,), {})
    monkeypatch.setattr(beam, "TokenTree", tree)
    return tree


def test_greedy_search_feeds_each_token_once(counts: type[CountingTree]) -> None:
    """No step is spent on a record that has ended."""
    case = random_case(21)._replace(decode=settings(num_beams=1, batch_size=4))
    engine = BeamSearch(case.language, case.decode, EOS)
    tokens = found(engine, case.prefixes)
    assert len(set(map(len, tokens))) > 2
    assert counts.tokens == sum(len(row) - 1 for row in tokens)


def test_beams_share_their_prefix_and_their_start(counts: type[CountingTree]) -> None:
    """What a step attends to is far less than every beam's own copy, and what the mask hides
    little."""
    case = random_case(12, prefixes=4)
    decode = settings(num_beams=5, min_new_tokens=60, max_new_tokens=60, repetition_penalty=1.1)
    engine = BeamSearch(case.language, decode, EOS)
    found(engine, case.prefixes)
    copies = sum(5 * (len(prefix) + length) for prefix in case.prefixes for length in range(1, 60))
    assert counts.nodes < 0.5 * copies and counts.steps == 59
    assert counts.read < 2 * counts.nodes


def test_the_model_attends_as_before_afterwards() -> None:
    case = random_case(1)
    before = case.language.config._attn_implementation
    engine = BeamSearch(case.language, case.decode, EOS)
    next(
        iter(engine(enumerate(map(Prefix, case.prefixes))))
    )  # and also where a search is left in the middle
    assert case.language.config._attn_implementation == before != "pacer_tree"


@pytest.fixture(
    params=[(True, True), (True, False), (False, True)], ids=["whole", "parent", "LoRA beside"]
)
def generator(request: pytest.FixtureRequest, backbones, features) -> Generator:
    """No parameter at its initial value; LoRA merged or beside the weights, with and without
    Calibrate."""
    merged, calibrate = request.param
    model = moved_model(backbones, specification("calibrate" if calibrate else "parent"), seed=4)
    with torch.no_grad():
        model.language.lm_head.weight[2] *= 5.0  # some rows end early
    if merged:
        model.merge_lora()
    return Generator(
        model, load_tokenizer(backbones), features, specification(), settings(max_new_tokens=24)
    )


def rows(records: Any) -> list[dict]:
    return [row for row in records.iter_rows(named=True) if row["split"] == "train"]


def test_results_are_those_of_the_reference(generator: Generator, records, monkeypatch) -> None:
    generator.decode = settings(max_new_tokens=24, min_new_tokens=6, length_penalty=0.0)
    ours = generator(rows(records))
    monkeypatch.setattr(generate, "BeamSearch", Generate)
    theirs = generator(rows(records))
    assert len(set(result.tokens for result in ours)) > 1
    for own, other, row in zip(ours, theirs, rows(records), strict=True):
        assert (own.text, own.tokens, own.gate) == (other.text, other.tokens, other.gate)
        assert torch.equal(own.depth_weights["frontal"], other.depth_weights["frontal"])
        assert ("lateral" in own.depth_weights) == (row["lateral"] is not None)


def test_a_family_that_is_not_supported_is_refused(generator: Generator) -> None:
    language = generator.model.language
    language.config.model_type = "olmo2"
    with pytest.raises(BackboneError, match="language models of the family olmo2; choose one of"):
        Generator(
            generator.model, generator.tokenizer, generator.features, specification(), settings()
        )


def test_a_sliding_window_must_hold_prompt_and_report(generator: Generator, records) -> None:
    row = rows(records)[0]
    positions = len(generator.encode(row)[0]) + generator.decode.max_new_tokens - 1
    generator.model.language.config.sliding_window = positions
    assert len(generator([row])) == 1
    generator.model.language.config.sliding_window = positions - 1
    with pytest.raises(
        DataError, match=f"record {row['record_id']}: .*up to {positions} .* last {positions - 1},"
    ):
        generator([row])


LOW = -1.0e9


def drawn_case(seed: int) -> tuple[Case, list[Prefix]]:
    case = random_case(seed)
    changes = {
        "candidates": 3,
        "max_new_tokens": 12,
        "min_new_tokens": min(seed % 5, 3),
        "select": "agreement",
    }
    case = case._replace(decode=case.decode.model_copy(update=changes))
    return case, [
        Prefix(prefix, [3 + (place * 5 + step) % 20 for step in range(1 + place % 4)])
        for place, prefix in enumerate(case.prefixes)
    ]


def plain(case: Case, opening: Prefix, noise: Tensor) -> tuple[list[int], float]:
    """One candidate, all of whose beams are computed anew in each step. noise: [T, M]."""
    decode, embed = case.decode, case.language.get_input_embeddings()
    beams, most, power = decode.num_beams, decode.max_new_tokens, decode.length_penalty
    running, finished = [(0.0, opening.forced)], []
    while True:
        length, every = len(running[0][1]), []
        inputs = [torch.cat([opening.inputs, embed(torch.tensor(tokens))]) for _, tokens in running]
        logits = case.language(inputs_embeds=torch.stack(inputs)).logits[:, -1]
        for (total, tokens), scores in zip(running, logits.float().log_softmax(-1), strict=True):
            if length < decode.min_new_tokens:
                scores[EOS] = -torch.inf
            for token in set(tokens):
                penalty = decode.repetition_penalty
                scores[token] = (
                    scores[token] * penalty if scores[token] < 0 else scores[token] / penalty
                )
            sums = (
                scores + torch.tensor(total)
            ).tolist()  # in float32, because ranks choose the noise
            every += [(score, [*tokens, token]) for token, score in enumerate(sums)]
        every.sort(key=lambda pair: -pair[0])
        ranked = list(zip(every, noise[length].tolist(), strict=False))
        ranked.sort(key=lambda pair: -(pair[0][0] + pair[1]))
        chosen = [pair for pair, _ in ranked[: 2 * beams]]
        ends = [tokens[-1] == EOS or length + 1 == most for _, tokens in chosen]
        running = [pair for pair, end in zip(chosen, ends, strict=True) if not end][:beams]
        scored = [(total / (length + 1) ** power, tokens) for total, tokens in chosen[:beams]]
        finished += [pair for pair, end in zip(scored, ends, strict=False) if end]
        finished = sorted(finished, key=lambda pair: -pair[0])[:beams]
        worst = finished[-1][0] if len(finished) == beams else LOW
        if (
            length + 1 == most
            or not max(total for total, _ in running) / (length + 1) ** power > worst
        ):
            return finished[0][1], finished[0][0]


@pytest.mark.parametrize(("seed", "beams"), [*((seed, None) for seed in range(6)), (5, 17)])
def test_candidates_are_those_of_a_plain_loop(seed: int, beams: int | None) -> None:
    case, openings = drawn_case(seed)
    if beams is not None:  # more than half of the continuations among which few beams draw
        case, openings = (
            case._replace(decode=case.decode.model_copy(update={"num_beams": beams})),
            openings[:2],
        )
    own = candidates(BeamSearch(case.language, case.decode, EOS), openings, 3)
    noise = candidate_noise(case.decode, 3)
    assert not noise[0].any() and noise[1:].all()
    with torch.no_grad():
        for opening, results in zip(openings, own, strict=True):
            expected = [plain(case, opening, part) for part in noise]
            expected.sort(key=lambda pair: -pair[1])
            assert results == [tokens for tokens, _ in expected]


@pytest.mark.parametrize("batch_size", [1, 2, 9])
def test_company_does_not_change_candidates(batch_size: int) -> None:
    case, openings = drawn_case(5)
    search = BeamSearch(case.language, case.decode, EOS)
    expected = [candidates(search, [opening], 3)[0] for opening in openings]
    decode = case.decode.model_copy(update={"batch_size": batch_size})
    assert candidates(BeamSearch(case.language, decode, EOS), openings, 3) == expected


def test_prefixes_with_and_without_forced_tokens_do_not_disturb_each_other() -> None:
    case, openings = drawn_case(5)
    mixed = [Prefix(opening.inputs) if at % 3 else opening for at, opening in enumerate(openings)]
    engine = BeamSearch(case.language, case.decode, EOS)
    for count in (1, 3):
        alone = [candidates(engine, [prefix], count)[0] for prefix in mixed]
        assert candidates(engine, mixed, count) == alone


def words(tokens: Sequence[int]) -> str:
    return " ".join(map(str, tokens))


def reports(case: Case, prefixes: Iterable[Prefix], **changes: Any) -> list[list[int]]:
    """What is found for each prefix, in their order."""
    decode = case.decode.model_copy(update=changes)
    engine = BeamSearch(case.language, decode, EOS)
    results = dict(search_reports(engine, enumerate(prefixes), decode, words))
    return [results[place] for place in range(len(results))]


def test_the_candidate_that_keeps_the_commitment_is_taken(monkeypatch) -> None:
    """The best hypothesis among equals; records without a commitment as they are."""
    case, _ = drawn_case(5)
    prefixes = [Prefix(inputs) for inputs in case.prefixes]
    best = reports(case, prefixes, select="score")
    assert best == found(BeamSearch(case.language, case.decode, EOS), case.prefixes)
    assert reports(case, prefixes) == best
    monkeypatch.setattr(
        search, "_commitment", lambda tokens, *_: tokens[:1] if len(tokens) > 1 else []
    )
    monkeypatch.setattr(search, "text_distance", lambda text, sides: (1, 0, 0))
    assert reports(case, prefixes) == best
    texts = set(map(words, best))
    monkeypatch.setattr(search, "text_distance", lambda text, sides: (text in texts, 0))
    taken = reports(case, prefixes)
    assert taken != best and all(new[:1] == old[:1] for new, old in zip(taken, best, strict=True))


@pytest.mark.parametrize("beams", [1, 3])
def test_the_best_text_for_a_given_list_is_taken_among_equals(beams: int, monkeypatch) -> None:
    """The candidate without noise can differ from it: one beam without candidates is searched by
    logits, as the definition does."""
    case, openings = drawn_case(5)
    case = case._replace(decode=case.decode.model_copy(update={"num_beams": beams}))
    monkeypatch.setattr(search, "text_distance", lambda text, sides: (1, 0, 0))
    best = reports(case, openings, select="score")
    assert reports(case, openings, select="agreement") == best


@pytest.mark.parametrize(("commitment", "report", "apart"), listed_cases(__file__, "reports"))
def test_how_far_a_report_is_from_its_commitment(
    commitment: str, report: str, apart: list[int]
) -> None:
    """Contradictions count before differences."""
    assert [*distance(anchor_of(commitment), report)] == apart


@pytest.mark.parametrize(
    ("listed", "sides", "report", "apart"), listed_cases(__file__, "described")
)
def test_a_side_that_the_list_does_not_have_is_a_contradiction(
    listed: str, sides: bool, report: str, apart: list[int]
) -> None:
    assert [*distance(read_list(f"positive: {listed}", sides), report, sides)] == apart


@pytest.mark.parametrize("kept", [False, True])
def test_candidates_are_searched_only_where_the_first_report_is_not_the_list(
    kept: bool, monkeypatch
) -> None:
    """In groups, each of which is given before the next is read."""
    monkeypatch.setattr(hypotheses, "TEMPERATURE", 0.7)  # so that the reports differ
    case, openings = drawn_case(5)
    decode = case.decode.model_copy(update={"batch_size": 2})
    firsts = [row[0] for row in candidates(BeamSearch(case.language, decode, EOS), openings, 1)]
    texts = set(map(words, firsts))
    monkeypatch.setattr(
        search, "text_distance", lambda text, sides: (0,) if kept else (1, text in texts)
    )
    engine, asked, read = BeamSearch(case.language, decode, EOS), [], []

    def counting(pairs: Iterable, count: int = 1) -> Iterator:
        return engine((asked.append(count) or pair for pair in pairs), count)

    def reading() -> Iterator[tuple[int, Prefix]]:
        for place, opening in enumerate(openings):
            read.append(1)
            yield place, opening

    given = 0
    for place, tokens in search_reports(counting, reading(), decode, words):
        given += 1
        assert (tokens == firsts[place]) == kept and len(read) <= given + 4
    assert given == 9 and asked.count(3) == 9 * (not kept) and asked.count(1) == 9


def test_a_candidate_without_a_report_comes_last() -> None:
    """Its commitment, read as its report, would agree with itself."""
    list_of = "<ANCHOR> positive: edema; negative: none; uncertain: none </ANCHOR>"
    wrong = f"{list_of} <REPORT> no edema . there is a pneumothorax . </REPORT>"
    assert text_distance(list_of) > text_distance(wrong) > (0, 0, 0, 0)


def test_the_end_of_a_commitment_is_found_in_its_text() -> None:
    names = ["<ANCHOR>", "x", CLOSE_ANCHOR, "y", "z"]

    def text(tokens: Sequence[int]) -> str:
        return " ".join(names[token] for token in tokens)

    assert search._commitment([0, 1, 2, 3, 4], text) == [0, 1, 2]
    assert search._commitment([0, 1, 3], text) == []
    assert search._commitment([0, 1, 2], text) == []
