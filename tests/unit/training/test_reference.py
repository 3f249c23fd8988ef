"""The phases' objective and its gradients against loops over samples, from the paper's equations,
in float64."""

from dataclasses import fields
from types import MethodType
from typing import Any

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from pacer.core.anchor import render_anchor
from pacer.core.instruction import instruction
from pacer.core.io import yaml_beside
from pacer.model.assemble import from_modules
from pacer.model.pacer import Pacer
from pacer.text.rules import extract_anchor
from pacer.training.examples import Examples
from pacer.training.losses import TERMS, LossWeights, Term, divisors_of, objective
from pacer.training.phases import TRAINED
from tests.support import reference
from tests.support.models import WIDTH, moved, moved_model, specification
from tests.support.reference import Sample, Token, Weights

#: lambda_Q: a number that float32, in which batches hold weights, has exactly.
COMMITMENT = 0.25
GIVEN = yaml_beside(__file__, "reference.yaml")
#: Rows of the records, the route of each, and whether all of them have one context.
BATCHES: dict[str, tuple[list[int], list[bool]]] = GIVEN["batches"]
PHASES = {
    "warmup": (
        LossWeights(lambda_q=1.0, lambda_tlw=0.75),
        ("router.", "interface.queries", "interface.frontal."),
    ),
    "parent": (
        LossWeights(lambda_q=COMMITMENT, lambda_tlw=0.75),
        ("router.", "interface.", "language."),
    ),
    "calibrate": (
        LossWeights(lambda_q=COMMITMENT, lambda_tlw=0.75, lambda_cons=0.4, lambda_drift=0.3),
        TRAINED["calibrator"],
    ),
}


def exact(module: Any, x: torch.Tensor) -> torch.Tensor:
    """RMSNorm in the type of its input; transformers rounds to float32."""
    return module.weight * (
        x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + module.variance_epsilon)
    )


CASES = [
    *(
        (language, phase, rows, {})
        for language in GIVEN["languages"]
        for phase in PHASES
        for rows in BATCHES
    ),
    *(("llama", phase, "mixed", groups) for phase, groups in GIVEN["variants"]),
]


def language_model(language: str) -> torch.nn.Module:
    """In float64, with the weights of norms off one."""
    config = AutoConfig.for_model(**GIVEN["shape"] | GIVEN["languages"][language])
    model = AutoModelForCausalLM.from_config(config).double().eval()
    for module in model.modules():
        if type(module).__name__.endswith("RMSNorm"):
            torch.nn.init.normal_(module.weight, 1.0, 0.3)
            module.forward = MethodType(exact, module)
    return model


def built(language: str, phase: str, groups: dict[str, dict]) -> Pacer:
    """A model in float64 and eval mode, with no parameter where its initialisation put it."""
    torch.manual_seed(3)
    endpoint_norm = torch.nn.LayerNorm(WIDTH)
    torch.nn.init.normal_(endpoint_norm.weight, 1.0, 0.3)
    made = language_model(language)
    model = moved(
        from_modules(made, endpoint_norm, 20, specification(phase, **groups)).double().eval(), 0.3
    )
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(
            name.startswith(PHASES[phase][1]) and ("lora_" in name or "language." not in name)
        )
    return model


def sample(examples: Examples, row: int, commit: bool, phase: str) -> Sample:
    """A record as the paper's sequence, from its texts."""
    record, tokenizer = examples.table.row(row), examples.tokenizer
    lambda_q = PHASES[phase][0].lambda_q

    def ids(text: str) -> list[int]:
        return tokenizer(text, add_special_tokens=False)["input_ids"]

    def continued(text: str) -> list[int]:
        return ids(f"a{text}")[len(ids("a")) :]

    report = ids(record["report"])
    scores = [*record["emphasis"][1:], *([0.0] * len(report))]
    target = [Token(id, 1.0, s, True) for id, s in zip(report, scores, strict=False)]
    if commit:
        anchor = ids(render_anchor(extract_anchor(record["report"])))
        target = [
            *(Token(id, lambda_q, 0.0, False) for id in anchor),
            *(Token(id, lambda_q, 0.0, True) for id in continued("\n<REPORT>\n")),
            *target,
            *(Token(id, 1.0, 0.0, True) for id in continued("\n</REPORT>")),
        ]
    target.append(Token(tokenizer.eos_token_id, 1.0, scores[len(report)], True))
    known = {name: record[name] for name in ("view", "sections", "indication", "history")}
    texts = ("", "") if phase == "warmup" else instruction(**known, commit=commit)
    before, after = (ids(text) if text else [] for text in texts)
    lateral, prior = reference.AVAILABLE[record["context"]]
    read = examples.features
    return Sample(
        context=record["context"],
        before=before,
        after=after,
        bos=tokenizer.bos_token_id,
        target=target,
        kappa=lambda_q if commit else 1.0,
        frontal=read.depth_states([record["frontal"]])[0].double(),
        lateral=read.depth_states([record["lateral"]])[0].double() if lateral else None,
        prior=read.prior_states([record["prior_report"]])[0][0].double() if prior else None,
    )


@pytest.mark.parametrize(("language", "phase", "rows", "groups"), CASES, ids=str)
def test_objective_and_gradients_are_the_papers(
    language: str, phase: str, rows: str, groups: dict[str, dict], examples: Examples
) -> None:
    model, (losses, _), (numbers, commits) = (
        built(language, phase, groups),
        PHASES[phase],
        BATCHES[rows],
    )
    if phase == "warmup":
        examples.prompt, commits = None, [False] * len(numbers)
    trained = {
        name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad
    }
    batch = examples.batch(numbers, commits, losses.lambda_q)
    in_float64(batch)
    if batch.prior is not None:  # the first report is all padding
        batch.prior_mask = torch.arange(batch.prior.shape[1]) < 3 * torch.arange(
            len(batch.prior)
        ).unsqueeze(1)
    result = objective(model, batch, losses, frontal_only=phase == "warmup")
    result.total.backward()

    values = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    for name in trained:
        values[name].requires_grad_()
    fixed = {
        "max_scale": model.router.max_scale,
        "cues": groups.get("calibrate", {}).get("gate_inputs", "hze"),
    }
    w = Weights(
        values, language_model(language), heads=2, lora_scale=2.0, endpoint_eps=1e-5, **fixed
    )
    samples = [
        sample(examples, row, commit, phase) for row, commit in zip(numbers, commits, strict=True)
    ]
    if model.interface.mask_prior_padding:
        for row, mask in zip(batch.prior_rows.tolist(), batch.prior_mask, strict=True):
            samples[row].seen = mask
    weights = {
        name: getattr(losses, name) or 0.0 for name in ("lambda_tlw", "lambda_cons", "lambda_drift")
    }
    total = reference.objective(w, samples, warmup=phase == "warmup", **weights)
    total.backward()

    assert result.total.dtype == torch.float64
    torch.testing.assert_close(result.total.detach(), total.detach(), rtol=1e-12, atol=0)
    largest = max(
        float(values[name].grad.norm()) for name in trained if values[name].grad is not None
    )
    for name, parameter in trained.items():
        expected = values[name].grad
        if expected is None:  # of a source that no row has
            assert parameter.grad is None, name
            continue
        allowed = 1e-12 * max(float(expected.norm()), 1e-3 * largest)
        assert float((parameter.grad - expected).norm()) <= allowed, name
    assert largest > 1e-3


def in_float64(batch: Any) -> None:
    """Make a batch's states and weights float64."""
    for name in ("frontal", "lateral", "prior", "omega", "s", "kappa"):
        if getattr(batch, name) is not None:
            setattr(batch, name, getattr(batch, name).double())


#: Every term with a weight of its own.
ALL_TERMS = LossWeights(
    **{field.name: 0.1 + 0.2 * place for place, field in enumerate(fields(LossWeights))}
)


def wrong_shares(model: Pacer, examples: Examples) -> list[str]:
    """The terms that two processes, with one row and with three, do not compute as one does with
    their whole batch."""
    rows, commits, parts = (
        [0, 9, 18, 27],
        [True, False, True, False],
        (slice(4), slice(1), slice(1, 4)),
    )
    batches = [examples.batch(rows[part], commits[part], COMMITMENT) for part in parts]
    own = [divisors_of(batch) for batch in batches[1:]]
    assert all(own[0][name] != own[1][name] for name in TERMS)  # each is divided unevenly
    divisors = {name: own[0][name] + own[1][name] for name in TERMS}
    with torch.no_grad():
        whole, *shares = [
            objective(model, batch, ALL_TERMS, divisors=divisors) for batch in batches
        ]
    assert whole.parts.keys() == TERMS.keys()
    values = {"total": whole.total, **whole.parts}
    added = {"total": shares[0].total + shares[1].total}
    added |= {name: shares[0].parts[name] + shares[1].parts[name] for name in TERMS}
    return [
        name
        for name, value in values.items()
        if not torch.isclose(added[name], value, rtol=1e-5, atol=0)
    ]


def test_two_processes_compute_the_objective_of_their_whole_batch(backbones, examples) -> None:
    """The stabiliser is counted once: else each process would add its own."""
    assert wrong_shares(moved_model(backbones), examples) == []


def test_a_term_that_is_no_sum_over_samples_is_found(
    backbones, examples, monkeypatch: pytest.MonkeyPatch
) -> None:
    square = Term(
        lambda output: output.nll.mean().square(),
        lambda batch: batch.omega,
        lambda losses: losses.lambda_tlw,
    )
    monkeypatch.setitem(TERMS, "square of a mean", square)
    assert wrong_shares(moved_model(backbones), examples) == ["total", "square of a mean"]
