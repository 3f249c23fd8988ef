#!/bin/sh
# NLTK's METEOR matches each word of the candidate, from its end, with the last free occurrence of that word in the
# reference. A report repeats "the", "is", "no" and its full stops in every sentence, so a candidate that copies the
# beginning of the reference has its words strewn over all of it, and METEOR punishes each break ("chunk"), while one
# that copies the end is matched as it stands. The first sentence of the reference below gets half the score of the
# last one, which is as long, and the same text loses a fifth when the part that it omits comes after it rather than
# before it.
# Expected: no difference. The docstring of `align_words` says that of several matches the one with the fewest
# crossings is chosen; here one without any is possible, in one chunk, and up to 21 crossings are taken.
# In papers on report generation the METEOR of this package, or of Hugging Face's evaluate, which calls it, thus
# depends on the order of the sentences in the references: a model that says the first findings right gets less than
# one that says the last ones right. All words match exactly, so WordNet is not needed to see this.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"; "$folder/venv/bin/pip" install --quiet "nltk==3.10.4"
cat > "$folder/score.py" <<'PYTHON'
from importlib.metadata import version
from itertools import combinations, pairwise

from nltk.translate.meteor_score import align_words, single_meteor_score

SENTENCES = [
    "the lungs are clear .",
    "the heart is normal in size .",
    "the mediastinum is normal .",
    "there is no pleural effusion .",
    "there is no pneumothorax .",
    "the bones are intact .",
]
FIRST = "the lungs are clear . the heart is normal . there is no effusion ."
SECOND = "the bones are intact . the aorta is tortuous . there is no fracture ."
CASES = {  # name: (candidate, reference, (crossings, chunks, score))
    "the first sentence": (SENTENCES[0], " ".join(SENTENCES), (3, 5, 0.0828)),
    "the last sentence": (SENTENCES[5], " ".join(SENTENCES), (0, 1, 0.1649)),
    "A of a reference A B": (FIRST, f"{FIRST} {SECOND}", (21, 11, 0.4225)),
    "A of a reference B A": (FIRST, f"{SECOND} {FIRST}", (0, 1, 0.5262)),
}
print("NLTK", version("nltk"))
same = True
for name, (candidate, reference, expected) in CASES.items():
    assert candidate in reference  # an unbroken part of it, so that one chunk without crossings is possible
    matches = align_words(candidate.split(), reference.split())[0]
    assert len(matches) == len(candidate.split())
    places = [place for _, place in matches]  # in the reference, in the order of the candidate
    crossings = sum(first > second for first, second in combinations(places, 2))
    chunks = 1 + sum(second != first + 1 for first, second in pairwise(places))
    found = crossings, chunks, round(single_meteor_score(reference.split(), candidate.split()), 4)
    print(f"{name:21} {len(matches):2} words, {crossings:2} crossings, {chunks:2} chunks, METEOR {found[2]:.4f}")
    same &= found == expected
raise SystemExit(not same)
PYTHON
"$folder/venv/bin/python" "$folder/score.py"
