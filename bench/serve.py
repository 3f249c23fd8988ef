"""Seconds to a report of one's own X-ray, alone and on the page, and whether the page's memory stays flat.

    python bench/serve.py                                  the model in models/calibrate, on a CPU; some minutes
    python bench/serve.py --model DIR --device cuda        an exported model
    python bench/serve.py --out bench/results/serve.md     also write the results

Cases are the examples of the page, each with its lateral view, previous report and indication. A report that is made
again has to be the same, and the page's has to be the Reporter's: that is asserted first. Wall seconds, so the machine
should be free. Memory: resident bytes of the serving process after 50 requests and after 500 more.
Exit code 1 where the memory has grown by more than its bar.
"""

from __future__ import annotations

import argparse
import gc
import html
import io
import json
import os
import platform
import re
import socket
import statistics
import sys
import tempfile
import time
import urllib.request
from contextlib import ExitStack
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import torch
from measuring import Unequal, hardware, table
from PIL import Image

from pacer.params import load_params
from pacer.serving.case import Case
from pacer.serving.examples import example_cases
from pacer.serving.export import export_model
from pacer.serving.reporter import Reporter

ROOT = Path(__file__).resolve().parents[1]
WARM, REQUESTS = 50, 500
#: Bytes by which the memory may grow over the requests.
BAR = 32e6


def export_own(folder: Path) -> Path:
    """The pipeline's own model as an exported one."""
    if not (ROOT / "models" / "calibrate").is_dir():
        sys.exit("there is no models/calibrate: run the pipeline, or name an exported model with --model")
    export_model(
        folder / "model",
        load_params(ROOT / "params.yaml").decode,
        model=ROOT / "models" / "calibrate",
        backbones=ROOT / "models" / "backbones",
        features=ROOT / "data" / "features",
        records=ROOT / "data" / "corpus" / "records.parquet",
    )
    return folder / "model"


class Client:
    """Asks as an open page does: with all of a case each time."""

    def __init__(self, address: str):
        self.address = address.rstrip("/")

    def write(self, example: Case) -> str:
        """The HTML of the report of an example with all its sources."""
        images = []
        for image in example.images().values():
            Image.fromarray(np.asarray(image)).save(buffer := io.BytesIO(), "PNG")
            images.append(buffer.getvalue())
        fields = {name: getattr(example, name) for name in ("prior", "view", "indication", "history")}
        first = json.dumps({"sizes": list(map(len, images)), **fields}).encode()
        asked = urllib.request.Request(
            f"{self.address}/report/own", b"\n".join([first, b"".join(images)]), {"Origin": self.address}
        )
        with urllib.request.urlopen(asked) as lines:
            return json.loads(lines.readlines()[-1])["html"]


def report_in(shown: str) -> str:
    """The words of the report in the HTML of a result."""
    inner = re.search(r'<p class="report">(.*?)</p>', shown, re.DOTALL)
    if inner is None:
        raise Unequal("the page shows no report")
    told = re.sub(r'<span class="spoken">.*?</span>', "", inner[1])
    return " ".join(html.unescape(re.sub(r"<[^>]*>", "", told)).split())


def seconds(call: Any) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def memory_over_requests(reporter: Reporter, examples: list[Case], expected: list[str]) -> tuple[list[float], int, int]:
    """Seconds of every request on the page, and resident bytes before and after."""
    from pacer.serving.server import served

    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    process, times, before = psutil.Process(), [], 0
    with served(reporter, "127.0.0.1", port, lambda line: None) as address:
        client = Client(address)
        for number in range(WARM + REQUESTS):
            if number == WARM:
                gc.collect()
                before = process.memory_info().rss
            which = number % len(examples)
            started = time.perf_counter()
            shown = client.write(examples[which])
            times.append(time.perf_counter() - started)
            if report_in(shown) != " ".join(expected[which].split()):
                raise Unequal(f"request {number}: the page's report is not the Reporter's")
        gc.collect()
        return times[WARM:], before, process.memory_info().rss


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, help="exported model")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--repeats", type=int, default=8, help="of the four examples")
    parser.add_argument("--out", type=Path, help="also write the results here")
    arguments = parser.parse_args()
    load = os.getloadavg()[0]
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        model = arguments.model or export_own(scratch)
        started = time.perf_counter()
        reporter = Reporter.from_pretrained(model, device=arguments.device)
        loaded = time.perf_counter() - started
        cases = example_cases()
        first = seconds(lambda: reporter.generate(cases[:1]))
        expected = [reporter.generate([case])[0].report for case in cases]
        if [reporter.generate([case])[0].report for case in cases] != expected:
            raise Unequal("a report that is made again is another")
        repeated = cases * arguments.repeats
        alone = [seconds(lambda case=case: reporter.generate([case])) for case in repeated]
        every = [seconds(lambda case=case: reporter.in_all_contexts(case)) for case in repeated]
        together = seconds(lambda: reporter.generate(repeated)) / len(repeated)
        page, before, after = memory_over_requests(reporter, cases, expected)
    rows = [
        ["loading", f"{loaded:.2f}"],
        ["first report", f"{first:.2f}"],
        ["one report, steady", f"{statistics.median(alone):.3f} ({min(alone):.3f} to {max(alone):.3f})"],
        ["one case in its four contexts", f"{statistics.median(every):.3f} ({min(every):.3f} to {max(every):.3f})"],
        [f"a report among many, batches of {reporter.batch_size}", f"{together:.3f}"],
        [
            "one report on the page, all around it",
            f"{statistics.median(page):.3f} ({min(page):.3f} to {max(page):.3f})",
        ],
    ]
    grown = after - before
    met = grown <= BAR
    search = reporter.settings.search
    lines = [
        "# Reports for one's own X-ray",
        "",
        f"`python bench/serve.py{' --model DIR' if arguments.model else ''}`, {date.today()}. "
        f"{hardware(reporter.device)}; load average {load:.2f} at the start, {os.getloadavg()[0]:.2f} at the end. "
        f"Python {platform.python_version()}, torch {torch.__version__}.",
        "",
        f"At most {search.max_new_tokens} tokens, {search.num_beams} beams. All reports of a case were the same, on "
        "the page too.",
        "",
        *table(["", "seconds: median (range)"], rows),
        f"Memory over {REQUESTS} requests: {before / 1e6:,.1f} MB before, {after / 1e6:,.1f} MB "
        f"after, {grown / 1e6:+,.1f} MB (at most {BAR / 1e6:.0f}: {'met' if met else '**missed**'}).",
    ]
    text = "\n".join(lines)
    print(text)
    if arguments.out:
        arguments.out.write_text(text + "\n", encoding="utf-8")
    sys.exit(0 if met else 1)


if __name__ == "__main__":
    main()
