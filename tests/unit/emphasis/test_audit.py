"""The lines of the audit of the marks."""

from collections import Counter

from pacer.config.anchors import Emphasis
from pacer.emphasis.audit import Audit

CONFIG = Emphasis.model_validate(
    {"source": "computed", "steps": 4, "smoothing": 1.0, "threshold": 0.4, "batch_size": 8}
)


def test_lines() -> None:
    audit = Audit(CONFIG)
    audit.counts["train", "sn"].update(sentences=30, marked_sentences=12, shortened=3)
    audit.counts["train", "mn"].update(sentences=10, marked_sentences=3, dropped=2)
    audit.counts["val", "sn"].update(sentences=5, marked_sentences=1, dropped=1, not_binary=0)
    audit.agreement["train"] = Counter({(True, True): 7, (True, False): 1, (False, True): 7})
    assert {line["name"]: (line["detail"], line["good"]) for line in audit.content()["checks"]} == {
        "Emphasis in training (computed)": ("37.5 % of 40 sentences", True),
        "Records whose released emphasis was changed": ("3 shortened, 3 dropped", False),
        "Precision and recall of computed emphasis against released, by sentence (train)": ("0.875 and 0.500", True),
    }


def test_a_doubt_is_marked_unless_no_marks_are_wanted() -> None:
    for source, good in (("computed", False), ("none", True)):
        audit = Audit(CONFIG.model_copy(update={"source": source}))
        [line] = audit.content()["checks"]
        assert (line["detail"], line["good"]) == (audit.doubt(), good)
