r"""ReXrank's studies as a table of cases, and the reports for them in ReXrank's form.

python docs/examples/rexrank.py cases ReXRank_IUXray_test.json iu_xray/images/cases.csv
pacer generate --model models/mine --cases iu_xray/images/cases.csv --out reports.jsonl
python docs/examples/rexrank.py answers ReXRank_IUXray_test.json reports.jsonl predictions.json
pacer score --references predictions.json --reference-text section_findings \
  --hypotheses predictions.json --hypothesis-text model_prediction --out scored

The table belongs in the folder of the images. Age and sex are in no prompt, and the comparison in a
study's ``context`` is not a previous report.
"""

import json
import re
import sys
from pathlib import Path
from typing import Any

import polars as pl

DIRECTIONS = {"postero-anterior": "PA", "antero-posterior": "AP"}


def case_of(name: str, study: dict[str, Any]) -> dict[str, str | None]:
    """Return the row of a study. Views are ignored if there is not one for each image."""
    frontal, words = (
        study["key_image_path"],
        [str(word).lower() for word in study["frontal_lateral"]],
    )
    views = (
        dict(zip(study["image_path"], words, strict=True))
        if len(words) == len(study["image_path"])
        else {}
    )
    lateral = next(
        (path for path, view in views.items() if view == "lateral" and path != frontal), ""
    )
    indication = re.search(r"Indication:(.*?)(?:Comparison:|$)", study["context"], re.DOTALL)
    return {
        "case": name,
        "frontal": frontal.lstrip("/"),
        "lateral": lateral.lstrip("/"),
        "view": DIRECTIONS.get(views.get(frontal, "")),
        "indication": indication and indication[1].strip(),
    }


if __name__ == "__main__":
    step, source, *files = sys.argv[1:]
    studies = json.loads(Path(source).read_text(encoding="utf-8"))
    if step == "cases":
        cases = [case_of(name, study) for name, study in studies.items()]
        pl.DataFrame(cases, infer_schema_length=None).write_csv(files[0])
    else:
        with open(files[0], encoding="utf-8") as lines:
            reports = {line["case"]: line["report"] for line in map(json.loads, lines)}
        answers = {
            name: study | {"model_prediction": reports[name]} for name, study in studies.items()
        }
        Path(files[1]).write_text(json.dumps(answers, indent=2), encoding="utf-8")
