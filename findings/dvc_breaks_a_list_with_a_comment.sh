#!/bin/sh
# `dvc exp run -S KEY=VALUE` of any key writes every list of params.yaml anew, in block style, and a comment behind a list
# then stands behind its key. If the list is the last key of its group, a second experiment that empties it, `-S list=[]`,
# joins the next group to its first key (`numbers: one: 3`), and DVC cannot read what it has just written.
# Expected: a file that DVC wrote can be overridden by DVC again, as it can without the comment.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"; "$folder/venv/bin/pip" install --quiet "dvc==3.67.1" "ruamel.yaml==0.19.1"
PATH="$folder/venv/bin:$PATH"; export PATH GIT_CONFIG_GLOBAL=/dev/null DVC_NO_ANALYTICS=1
dvc --version; pip list 2> /dev/null | grep ruamel.yaml
# try NAME COMMENT: two experiments in a new repository whose list has this comment; the last line of the second
try() {
    mkdir "$folder/$1"; cd "$folder/$1"
    git init --quiet; git config user.name test; git config user.email test@localhost; dvc init --quiet
    printf 'lists:\n  names: [a, b]%s\n\nnumbers:\n  one: 1\n  two: 2\n' "$2" > params.yaml
    printf 'stages:\n  show:\n    cmd: cat params.yaml\n    params: [lists, numbers]\n' > dvc.yaml
    git add --all; git commit --quiet -m state
    dvc exp run --quiet -S numbers.one=3 > /dev/null
    if dvc exp run -S 'lists.names=[]' > out 2>&1; then echo "$1: right"; else echo "$1: $(tail -n 3 out)"; fi
}
try without_comment ''
try with_comment '  # of all'
python - <<EOF
from ruamel.yaml import YAML
assert YAML(typ="safe").load(open("$folder/without_comment/params.yaml")) == {"lists": {"names": []}, "numbers": {"one": 3, "two": 2}}
EOF
grep -q "numbers: one: 3" "$folder/with_comment/out"
