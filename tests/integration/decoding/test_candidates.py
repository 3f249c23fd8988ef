"""Candidates for a commitment are those of a plain loop, in any company, and the choice keeps to the commitment."""

import pytest
import torch
from torch import Tensor

from pacer.commitments.anchor import KINDS, read_list
from pacer.decoding import candidates
from pacer.decoding.beam import BeamSearch
from pacer.decoding.candidates import AgreeingSearch, Candidate, Candidates, Opening, agreement, distance
from tests.support.cases import listed_cases
from tests.support.searches import EOS, Case, found, random_case
from tests.support.sentences import anchor_of

LOW = -1.0e9


def drawn_case(seed: int) -> tuple[Case, list[Opening]]:
    case = random_case(seed)
    changes = {"candidates": 3, "temperature": 0.7, "max_new_tokens": 12, "min_new_tokens": min(seed % 5, 3)}
    case = case._replace(decode=case.decode.model_copy(update=changes))
    openings = []
    for place, prefix in enumerate(case.prefixes):
        tokens = [3 + (place * 5 + step) % 20 for step in range(1 + place % 4)]
        embedded = case.language.get_input_embeddings()(torch.tensor(tokens)).detach()
        openings.append(Opening(torch.cat([prefix, embedded]), tokens))
    return case, openings


def plain(case: Case, opening: Opening, noise: Tensor) -> tuple[list[int], float]:
    """One candidate, all of whose beams are computed anew in each step. noise: [T, M]."""
    decode, embed = case.decode, case.language.get_input_embeddings()
    beams, most, power = decode.num_beams, decode.max_new_tokens, decode.length_penalty
    running, finished = [(0.0, opening.tokens)], []
    prefix = opening.inputs[: len(opening.inputs) - len(opening.tokens)]
    while True:
        length, every = len(running[0][1]), []
        for total, tokens in running:
            inputs = torch.cat([prefix, embed(torch.tensor(tokens))])[None]
            scores = case.language(inputs_embeds=inputs).logits[0, -1].float().log_softmax(-1)
            if length < decode.min_new_tokens:
                scores[EOS] = -torch.inf
            for token in set(tokens):
                penalty = decode.repetition_penalty
                scores[token] = scores[token] * penalty if scores[token] < 0 else scores[token] / penalty
            sums = (scores + torch.tensor(total)).tolist()  # in float32, because ranks choose the noise
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
        if length + 1 == most or not max(total for total, _ in running) / (length + 1) ** power > worst:
            return finished[0][1], finished[0][0]


@pytest.mark.parametrize(("seed", "beams"), [*((seed, None) for seed in range(6)), (5, 17)])
def test_candidates_are_those_of_a_plain_loop(seed: int, beams: int | None) -> None:
    case, openings = drawn_case(seed)
    if beams is not None:  # more than half of the continuations among which few beams draw
        case, openings = case._replace(decode=case.decode.model_copy(update={"num_beams": beams})), openings[:2]
    own = found(BeamSearch(case.language, case.decode, EOS, hypotheses=Candidates), openings)
    noise = Candidates(1, case.decode, EOS, torch.device("cpu")).noise
    assert noise is not None and not noise[0].any() and noise[1:].all()
    with torch.no_grad():
        for opening, results in zip(openings, own, strict=True):
            expected = [plain(case, opening, part) for part in noise]
            assert [result.tokens for result in results] == [tokens for tokens, _ in expected]
            assert [result.score for result in results] == pytest.approx([score for _, score in expected], rel=1e-4)


@pytest.mark.parametrize("batch_size", [1, 2, 9])
def test_company_does_not_change_candidates(batch_size: int) -> None:
    case, openings = drawn_case(5)
    search = BeamSearch(case.language, case.decode, EOS, hypotheses=Candidates)
    expected = [found(search, [opening])[0] for opening in openings]
    decode = case.decode.model_copy(update={"batch_size": batch_size})
    results = found(BeamSearch(case.language, decode, EOS, hypotheses=Candidates), openings)
    assert [[r.tokens for r in row] for row in results] == [[r.tokens for r in row] for row in expected]


def test_the_candidate_that_keeps_the_commitment_is_taken(monkeypatch) -> None:
    """The best hypothesis among equals; records without a commitment as they are."""
    case, _ = drawn_case(5)
    best = found(BeamSearch(case.language, case.decode, EOS), case.prefixes)
    search = AgreeingSearch(case.language, case.decode, EOS, lambda tokens: " ".join(map(str, tokens)))
    monkeypatch.setattr(AgreeingSearch, "_distance", lambda self, tokens: (0, 0, 0))
    assert found(search, case.prefixes) == best
    monkeypatch.setattr(AgreeingSearch, "_commitment", lambda self, tokens: tokens[:1] if len(tokens) > 1 else [])
    assert found(search, case.prefixes) == best
    monkeypatch.setattr(AgreeingSearch, "_distance", lambda self, tokens: (tokens in best, 0))
    taken = found(search, case.prefixes)
    assert taken != best and all(new[:1] == old[:1] for new, old in zip(taken, best, strict=True))


@pytest.mark.parametrize(("commitment", "report", "apart", "share"), listed_cases(__file__, "reports"))
def test_how_far_a_report_is_from_its_commitment(
    commitment: str, report: str, apart: list | None, share: float
) -> None:
    """Contradictions count before differences; the share of the commitment that is said is its agreement."""
    anchor = anchor_of(commitment)
    assert apart is None or [*distance(anchor, report)] == apart
    assert agreement(anchor, report) == share and agreement(None, report) is None


@pytest.mark.parametrize(("listed", "kinds", "report", "apart"), listed_cases(__file__, "described"))
def test_a_side_that_the_list_does_not_have_is_a_contradiction(
    listed: str, kinds: list[str] | None, report: str, apart: list[int]
) -> None:
    kinds = KINDS if kinds is None else kinds
    assert [*distance(read_list(f"positive: {listed}", kinds), report, kinds)] == apart


@pytest.mark.parametrize("kept", [False, True])
def test_candidates_are_searched_only_where_the_first_report_is_not_the_list(kept: bool, monkeypatch) -> None:
    """In groups, each of which is given before the next is read."""
    case, openings = drawn_case(5)
    case = case._replace(decode=case.decode.model_copy(update={"batch_size": 2}))
    search = candidates.ListedSearch(case.language, case.decode, EOS, lambda tokens: " ".join(map(str, tokens)))
    firsts = [row[0] for row in found(BeamSearch(case.language, case.decode, EOS, hypotheses=Candidates), openings)]
    monkeypatch.setattr(search, "_distance", lambda tokens: (0,) if kept else (1, tokens in [f.tokens for f in firsts]))
    asked, several, read = [], search.candidates, []
    search.candidates = lambda pairs: several(asked.append(1) or pair for pair in pairs)

    def reading():
        for opening in openings:
            read.append(1)
            yield opening

    given = 0
    for place, tokens in search(reading()):
        given += 1
        assert (tokens == firsts[place].tokens) == kept and len(read) <= given + 4
    assert given == 9 and len(asked) == 9 * (not kept)


def test_a_candidate_without_a_report_comes_last() -> None:
    """Its commitment, read as its report, would agree with itself."""
    case, _ = drawn_case(5)
    list_of = "<ANCHOR> positive: edema; negative: none; uncertain: none </ANCHOR>"
    texts = [list_of, f"{list_of} <REPORT> no edema . there is a pneumothorax . </REPORT>"]
    search = AgreeingSearch(case.language, case.decode, EOS, lambda tokens: texts[tokens[0]])
    assert search._best([[0]], [Candidate([0], 2.0), Candidate([1], 1.0)]) == [1]


def test_the_end_of_a_commitment_is_found_in_its_text() -> None:
    case, _ = drawn_case(5)
    words = ["<ANCHOR>", "x", candidates.CLOSE_ANCHOR, "y", "z"]
    search = AgreeingSearch(case.language, case.decode, EOS, lambda tokens: " ".join(words[token] for token in tokens))
    assert search._commitment([0, 1, 2, 3, 4]) == [0, 1, 2]
    assert search._commitment([0, 1, 3]) == [] and search._commitment([0, 1, 2]) == []
