# Everything a newcomer needs: `make repro` runs the pipeline, `make test` runs the tests; both set up first.
# PYTHON=python3.12 make setup chooses another interpreter.

PYTHON ?= python3
VENV := .venv
# Programs are named by their path: GNU make 3.81, the one of macOS, looks for them on the PATH that it was started with.
BIN := $(VENV)/bin
# The PATH without the environment, whose Python may not start.
OUTSIDE := $(subst $(CURDIR)/$(BIN):,,$(PATH))
export PATH := $(CURDIR)/$(VENV)/bin:$(PATH)

.DEFAULT_GOAL := help
.PHONY: help setup stand-ins radeval repro experiments quick test thorough coverage format check bench gpu figures release release-check clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# check_setup.py looks at the environment in a tenth of a second, so every target that needs it does this first.
.PHONY: usable ready
usable:
	@$(BIN)/python check_setup.py usable 2>/dev/null || PATH="$(OUTSIDE)" $(PYTHON) check_setup.py create

ready: usable
	@$(BIN)/python check_setup.py run

setup: usable  ## virtual environment with the pinned packages (a minute; nothing to do when it has them)
	@$(BIN)/python check_setup.py setup

stand-ins: ready  ## train the bundled stand-ins again (some minutes); `git diff` shows their quality
	$(BIN)/python bench/stand_ins.py

radeval:  ## environment of RadEval's metrics, for scorers/radeval.py (docs/evaluation.md): ten minutes, 6.6 GB
	@echo "RadEval and what it needs: some ten minutes and 6.6 GB in .venv-radeval; weights come at first use"
	test -x .venv-radeval/bin/python || $(PYTHON) -m venv .venv-radeval
	.venv-radeval/bin/python -m pip --disable-pip-version-check install --quiet RadEval==2.2.1 polars
	# the package `radeval` imports itself as `RadEval`, which only file systems that ignore case find
	cd "$$(.venv-radeval/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')" && \
	{ test -e RadEval || ln -s radeval RadEval; }

repro: ready  ## run the pipeline of params.yaml: data to scored tables and reports/index.html
	$(BIN)/dvc repro
	@echo; sed -n '/^|/p' reports/tables/scores.md; echo; echo "$(CURDIR)/reports/index.html has all of it"
	@$(BIN)/python bench/last_run.py

experiments: ready  ## the experiments of this commit: mean F1 and BLEU-4, and the parameters that differ
	@groups=$$(sed -n 's/^\([a-z_]*\):.*/\1/p' params.yaml | paste -s -d '|' -); \
	$(BIN)/dvc exp show --no-pager --only-changed --keep 'Experiment|metrics/table\.json:mean\.(f1|bleu4)$$' --drop "(?!($$groups)\.)"

quick: ready  ## the unit tests, with few examples of each property: a minute
	$(BIN)/pytest tests/unit -q -n logical --maxprocesses 4 --dist loadfile --hypothesis-profile quick

test: ready  ## unit and integration tests, the real pipeline in miniature among them (no network, no GPU): 4 to 20 minutes
	$(BIN)/pytest tests/integration tests/unit -q -n logical --maxprocesses 4 --dist loadfile --no-loadscope-reorder

thorough: ready  ## all tests, 300 examples of each property, every point of a kill, browsers, real files: 15 minutes on a quiet machine, hours on a busy one
	$(BIN)/pytest tests -q -n logical --maxprocesses 4 --dist loadfile --no-loadscope-reorder --hypothesis-profile thorough

format: ready  ## lay the code out
	$(BIN)/ruff format

coverage: ready  ## `make test`, and the lines that it did not reach (htmlcov/index.html)
	$(BIN)/pytest -q -n logical --maxprocesses 4 --dist loadfile --no-loadscope-reorder --cov=pacer --cov-report=term:skip-covered --cov-report=html

check: ready  ## layout, lint and types
	$(BIN)/ruff format --check --quiet || { echo "not formatted; run: make format"; exit 1; }
	$(BIN)/ruff check
	TY_MAX_PARALLELISM=1 $(BIN)/ty check  # with several threads it judges an import cycle differently now and then

bench: ready  ## measure the building blocks on this machine (some minutes)
	for script in train decode features; do echo "== $$script" && $(BIN)/python bench/$$script.py || exit 1; done

gpu: ready  ## tests and measurements that need a GPU: nine minutes at most (PARTS="tests decode": these)
	$(BIN)/python bench/gpu.py $(PARTS)

release: ready  ## make the default run with three seeds, commit its dvc.lock and metrics, and write all figures, pictures and examples from it: half an hour to an hour on two cores; continues where it stopped
	cmp params.yaml configs/phantom.yaml
	$(BIN)/dvc repro
	git diff --quiet HEAD -- dvc.lock metrics || git commit --quiet --message "The default run of this code" -- dvc.lock metrics
	$(BIN)/pacer study run first
	$(BIN)/python bench/release.py

release-check: ready  ## fail if dvc.lock, or a figure, picture or example of the default run, is not of this code
	@echo "stages that would run again, as dvc.lock is not of this code:"
	! $(BIN)/dvc repro --allow-missing --dry 2>&1 | grep -E "Running stage|ERROR"
	for name in scores signature; do cmp metrics/$$name.json bench/results/default/$$name.json || exit 1; done
	$(BIN)/python bench/release.py --check
	$(BIN)/pytest -q tests/unit/pipeline/test_blocks.py

figures: ready  ## draw the report page again from what the last run left, without DVC
	$(BIN)/python stages/run.py stages/report.py

clean:  ## remove the environment and tool caches; data, models and results stay
	rm -rf $(VENV) .coverage htmlcov .pytest_cache .ruff_cache .hypothesis *.egg-info
	find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +
