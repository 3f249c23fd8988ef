"""Write the reports of a system that copies the previous report: ``copy_previous.py
probe/inputs.csv copy.csv``."""

import csv
import sys

with open(sys.argv[1], newline="") as inputs, open(sys.argv[2], "w", newline="") as out:
    rows = [(row["probe_id"], row["prior"] or "no finding .") for row in csv.DictReader(inputs)]
    csv.writer(out).writerows([("probe_id", "report"), *rows])
