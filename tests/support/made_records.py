"""A few records that stand for a corpus."""

import polars as pl

from pacer.core.anchor import DESCRIBED, POLARITIES
from pacer.text.rules import extract_anchor, read_attributes

REPORTS = (
    "the heart is normal .",
    "no pleural effusion or pneumothorax .",
    "mild cardiomegaly . no edema .",
    "large right pleural effusion . possible pneumonia .",
)


def few_records(image_suffix: str) -> pl.DataFrame:
    """Six train and two val records for each context, of eight patients."""
    rows = [
        {
            "record_id": f"{context}-{i}",
            "context": context,
            "split": "train" if i < 6 else "val",
            "study_id": f"s{i}",
            "subject_id": f"p{i}",
            "view": ("AP", "PA", "other")[i % 3],
            "frontal": f"f{i}{image_suffix}",
            "lateral": f"l{i}{image_suffix}" if context[0] == "m" else None,
            "report": REPORTS[i % 4],
            "report_raw": REPORTS[i % 4],
            "findings_original": None,
            "sections": "findings+impression",
            "prior_report": REPORTS[(i + 1) % 4] if context[1] == "w" else None,
            "indication": "cough" if i % 2 else None,
            "history": None,
            "emphasis": [0.0, 1.0, 1.0, 0.0],
            "emphasis_text": None,
        }
        for context in ("sn", "sw", "mn", "mw")
        for i in range(8)
    ]
    empty = ("lateral", "prior_report", "findings_original", "history", "emphasis_text")
    return pl.DataFrame(rows, schema_overrides=dict.fromkeys(empty, pl.String))


def commitments_of(records: pl.DataFrame) -> pl.DataFrame:
    """The commitments that the rules read in the reports, with sides."""
    anchors = [extract_anchor(report) for report in records["report_raw"]]
    anchors = [
        anchor.with_sides(read_attributes(report))
        for anchor, report in zip(anchors, records["report_raw"], strict=True)
    ]
    lists = {
        name: [anchor.as_dict().get(name, []) for anchor in anchors]
        for name in (*POLARITIES, *DESCRIBED)
    }
    schema = dict.fromkeys(lists, pl.List(pl.String))
    return pl.DataFrame({"record_id": records["record_id"], **lists}, schema_overrides=schema)
