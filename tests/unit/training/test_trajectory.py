import numpy as np
import pytest

from pacer.model.assemble import load_tokenizer
from pacer.training.trajectory import RouteSeed, Span, TrajectoryBuilder

ANCHOR = "<ANCHOR> positive: edema; negative: none; uncertain: none </ANCHOR>"
REPORT = "there is edema . no effusion ."


@pytest.fixture(scope="module")
def builder(backbones) -> TrajectoryBuilder:
    return TrajectoryBuilder(load_tokenizer(backbones), 100)


def ids(builder: TrajectoryBuilder, text: str) -> list[int]:
    return builder.tokenizer(text, add_special_tokens=False)["input_ids"]


def test_emphasis_moves_to_the_report_span(builder: TrajectoryBuilder) -> None:
    count = len(ids(builder, REPORT))
    scores = [1.0, *([1.0, 0.0] * count)[:count], 1.0]  # BOS, report, EOS
    for anchor in (ANCHOR, None):
        trajectory = builder.build(REPORT, anchor, scores)
        assert trajectory.s[trajectory.spans == Span.REPORT].tolist() == scores[1 : count + 1]
        assert trajectory.s[-1] == 1.0
        assert trajectory.s[trajectory.spans < Span.REPORT].sum() == 0
        assert trajectory.s[trajectory.spans == Span.CLOSING].sum() == 0
    cut = builder.build("heart " * 160, None, [0.0] * 99 + [1.0, 1.0])  # the last token that is kept, and a lost one
    assert cut.s.tolist() == [0.0] * 99 + [1.0]


def test_the_route_is_a_function_of_its_arguments() -> None:
    draws = [RouteSeed(42, "parent").uniform(0, f"sn-{i}") for i in range(2000)]
    assert draws == [RouteSeed(42, "parent").uniform(0, f"sn-{i}") for i in range(2000)]
    assert all(0 <= d < 1 for d in draws)
    assert abs(np.mean(np.array(draws) < 0.3) - 0.3) < 0.04
    assert RouteSeed(42, "parent").uniform(1, "sn-0") != draws[0] != RouteSeed(43, "parent").uniform(0, "sn-0")
