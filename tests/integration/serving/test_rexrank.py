"""docs/examples/rexrank.py: ReXrank's studies become cases, and their reports the file that ReXrank expects."""

import json
import subprocess
import sys
from pathlib import Path

from pacer.serving.case import Case, read_cases

SCRIPT = Path(__file__).parents[3] / "docs" / "examples" / "rexrank.py"
STUDIES = {
    "one": {
        "key_image_path": "/1/front.png",
        "image_path": ["/1/side.png", "/1/front.png"],
        "frontal_lateral": ["Lateral", "Postero-anterior"],
        "context": "Age: 50. Gender: F. Indication: Cough, fever. Comparison: None.",
    },
    "two": {"key_image_path": "/2/a.png", "image_path": ["/2/a.png"], "frontal_lateral": [], "context": "Age: 50."},
}


def run(folder: Path, *arguments: str) -> None:
    subprocess.run([sys.executable, str(SCRIPT), *arguments], cwd=folder, check=True)


def test_studies_become_cases_and_reports_go_back(tmp_path: Path) -> None:
    (tmp_path / "studies.json").write_text(json.dumps(STUDIES))
    for image in ("1/front.png", "1/side.png", "2/a.png"):
        (tmp_path / image).parent.mkdir(exist_ok=True)
        (tmp_path / image).touch()
    run(tmp_path, "cases", "studies.json", "cases.csv")
    front, side, other = (tmp_path / image for image in ("1/front.png", "1/side.png", "2/a.png"))
    assert read_cases(tmp_path / "cases.csv") == [
        Case(front, side, view="PA", indication="Cough, fever.", name="one"),
        Case(other, name="two"),
    ]

    (tmp_path / "reports.jsonl").write_text(
        "".join(f"{json.dumps({'case': name, 'report': f'report of {name}'})}\n" for name in ("two", "one"))
    )
    run(tmp_path, "answers", "studies.json", "reports.jsonl", "predictions.json")
    answers = json.loads((tmp_path / "predictions.json").read_text())
    expected = {name: study | {"model_prediction": f"report of {name}"} for name, study in STUDIES.items()}
    assert answers == expected and list(answers) == list(STUDIES)
