"""Print which run the scores are of, and whether its mean F1 is in the range of earlier runs of the
default profile, if no parameters other than `train.seed` differ from it."""

from pathlib import Path

from pacer.config.strict import read_mapping
from pacer.metrics.result import read_scores
from pacer.metrics.runs import SPREAD, describe_run

ROOT = Path(__file__).resolve().parents[1]


def main() -> None:
    scores, signature = read_scores(ROOT / "metrics")
    print(describe_run(ROOT / "metrics"))
    print(f"This is one run. {SPREAD}")
    parameters = signature.parameters or {}
    seen = read_mapping(ROOT / "bench" / "results" / "default_f1.yaml")
    if parameters.get("profile") == seen["profile"] and not parameters["changed"]:
        low, high = seen["low"], seen["high"]
        f1 = scores["mean"]["f1"]
        place = "matches" if low <= round(f1, 3) <= high else "is below" if f1 < low else "is above"
        print(
            f"mean F1 {f1:.3f}, seed {parameters['seed']}, {place} earlier runs of this profile: "
            f"{low:.3f} to {high:.3f}, seeds {', '.join(map(str, seen['seeds']))}"
        )


if __name__ == "__main__":
    main()
