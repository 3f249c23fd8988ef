#!/bin/sh
# `medspacy.load()` writes every word of every document to the standard error: its sentence splitter, PyRuSH, logs the
# tokens with loguru at the level DEBUG, and loguru shows DEBUG unless told otherwise. Python's `logging` settings have no
# effect on it. Whoever runs it on clinical reports, with the output in a file or a job's log, has the reports there.
# Expected: a library that is made for clinical text logs none of it by default.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet "medspacy==1.3.1" "spacy==3.7.5" "PyRuSH==1.0.13"
cat > "$folder/read.py" <<'PYTHON'
import logging
from importlib.metadata import version

import medspacy

logging.disable(logging.CRITICAL)
nlp = medspacy.load()
nlp("Small left effusion. No pneumothorax.")
print("medspaCy", version("medspacy"), "PyRuSH", version("PyRuSH"), nlp.pipe_names)
PYTHON
"$folder/venv/bin/python" "$folder/read.py" 2> "$folder/errors"
echo "lines on the standard error: $(wc -l < "$folder/errors"), of these with a word of the report:" \
  "$(grep -c -E 'effusion|pneumothorax|Small' "$folder/errors")"
grep -q "effusion" "$folder/errors"
