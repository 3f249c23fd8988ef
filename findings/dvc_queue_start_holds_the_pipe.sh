#!/bin/sh
# `dvc queue start` says "Started '1' new experiments task queue worker" and ends, but a caller that reads its output
# through a pipe, as `subprocess.run(..., capture_output=True)` and CI runners do, waits until the whole queue is done:
# the worker in the background keeps the pipe open. With a file for the output the caller goes on at once.
# Expected: a command that only starts a daemon closes what it inherited, as DVC's own daemon (`dvc daemon`) does.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"; "$folder/venv/bin/pip" install --quiet "dvc==3.67.1"
PATH="$folder/venv/bin:$PATH"; export PATH GIT_CONFIG_GLOBAL=/dev/null DVC_NO_ANALYTICS=1
mkdir "$folder/repository"; cd "$folder/repository"
git init --quiet; git config user.name test; git config user.email test@localhost; dvc init --quiet
echo "a: 1" > params.yaml
printf 'stages:\n  wait:\n    cmd: sleep 25\n    params: [a]\n' > dvc.yaml
printf 'wait\n' > .gitignore
git add --all; git commit --quiet -m state
seconds() { began=$(date +%s); "$@"; echo $(($(date +%s) - began)); }
through_a_pipe() { dvc queue start | cat > /dev/null; }
into_a_file() { dvc queue start > start.log 2>&1; }
dvc exp run --queue --quiet -n first -S a=2
piped=$(seconds through_a_pipe)
while dvc queue status | grep -q Running; do sleep 1; done
sleep 15 # the worker ends by itself
dvc exp run --queue --quiet -n second -S a=3
filed=$(seconds into_a_file)
dvc --version
echo "through a pipe: $piped s; into a file: $filed s (the stage takes 25 s)"
while dvc queue status | grep -q Running; do sleep 1; done
[ "$piped" -ge 25 ] && [ "$filed" -lt 20 ]
