#!/bin/sh
# medspaCy's ConText, with the rules that it loads by default, takes "Cannot exclude pneumonia.", "Evaluate for
# pneumonia." and "No change in the effusion." for denials of the finding: "cannot", "evaluate for" and "no" are negations.
# "Pneumonia cannot be excluded." and "Pneumonia is suspected." are plain affirmations, since a hedge counts only before
# the finding, and "There is no doubt about the fracture." is denied and uncertain at once.
# Expected: the first two are uncertain (or hypothetical), the third affirms; ConText's own paper lists "no change" among
# its pseudo-negations. In radiology reports, these are among the most frequent sentences.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet "medspacy==1.3.1" "spacy==3.7.5" "PyRuSH==1.0.13"
cat > "$folder/read.py" <<'PYTHON'
from importlib.metadata import version

import spacy
import medspacy.context  # registers the component

SENTENCES = {
    "Cannot exclude pneumonia.": ("pneumonia", ["is_negated"]),
    "Evaluate for pneumonia.": ("pneumonia", ["is_negated"]),
    "No change in the effusion.": ("effusion", ["is_negated"]),
    "Pneumonia cannot be excluded.": ("Pneumonia", []),
    "Pneumonia is suspected.": ("Pneumonia", []),
    "There is no doubt about the fracture.": ("fracture", ["is_negated", "is_uncertain"]),
    # read as one would expect
    "No pneumonia.": ("pneumonia", ["is_negated"]),
    "Suspicious for pneumonia.": ("pneumonia", ["is_uncertain"]),
}
nlp = spacy.blank("en")
nlp.add_pipe("sentencizer")
context = nlp.create_pipe("medspacy_context")
print("medspaCy", version("medspacy"), "with", len(context.rules), "rules")
same = True
for text, (finding, expected) in SENTENCES.items():
    doc = nlp(text)
    start = text.index(finding)
    doc.ents = [doc.char_span(start, start + len(finding), label="FINDING")]
    entity = context(doc).ents[0]
    states = ["is_negated", "is_uncertain", "is_historical", "is_hypothetical"]
    found = [state for state in states if getattr(entity._, state)]
    print(f"{text:40}", found or "affirmed")
    same &= found == expected
raise SystemExit(not same)
PYTHON
"$folder/venv/bin/python" "$folder/read.py" 2> /dev/null
