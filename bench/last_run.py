"""Print which run the scores are of, and whether its mean F1 is in the expected range of the
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
        place = "in" if low <= round(f1, 3) <= high else "below" if f1 < low else "above"
        print(
            f"mean F1 {f1:.3f}, seed {parameters['seed']}, is {place} the expected range of this "
            f"profile: {low:.3f} to {high:.3f}, from runs with the seeds "
            f"{', '.join(map(str, seen['f1']))}"
        )


if __name__ == "__main__":
    main()
