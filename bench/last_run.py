"""Say whether the mean F1 of the last run is in the range of earlier runs of the default profile;
nothing where parameters other than `train.seed` are not those of `configs/phantom.yaml`."""

from pathlib import Path

from pacer.config import load_params
from pacer.config.strict import read_mapping
from pacer.core.io import read_json

ROOT = Path(__file__).resolve().parents[1]


def main() -> None:
    run, committed = (
        load_params(ROOT / name).model_dump() for name in ("params.yaml", "configs/phantom.yaml")
    )
    seed = run["train"].pop("seed")
    committed["train"].pop("seed")
    if run == committed:
        seen = read_mapping(ROOT / "bench" / "results" / "default_f1.yaml")
        low, high = seen["low"], seen["high"]
        f1 = read_json(ROOT / "metrics" / "scores.json")["mean"]["f1"]
        place = "matches" if low <= round(f1, 3) <= high else "is below" if f1 < low else "is above"
        print(
            f"mean F1 {f1:.3f}, seed {seed}, {place} earlier runs of this profile: {low:.3f} to "
            f"{high:.3f}, seeds {', '.join(map(str, seen['seeds']))}"
        )


if __name__ == "__main__":
    main()
