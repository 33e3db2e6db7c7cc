# `make run` and `make test` need Python 3.11 or newer and make, nothing else.
# Python 3.11 is preferred: there the pins of constraints.txt resolve to a CPU build of torch everywhere.
PYTHON ?= $(shell command -v python3.11 || command -v python3 || command -v python)
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: run test check bench fuzz screenshots captures clean golden

run: $(VENV)/.run
	@$(BIN)/hwexplorer $(ARGS)

test: check
	$(BIN)/python -m pytest -q -n 2 --dist loadgroup

check: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/.test
	$(BIN)/python tests/bench_core.py
	$(BIN)/python -m tests.bench_terminal
	$(BIN)/python tests/bench_sweep.py

# 50,000 altered inputs for everything that reads what strangers write; `make test` has a short run of each.
# ARGS="states devices --seed 7 --seconds 60" picks readers, seed and time; a new reader is a file tests/fuzz/fuzz_NAME.py.
fuzz: $(VENV)/.test
	$(BIN)/python -m tests.fuzz $(ARGS)

screenshots: $(VENV)/.test
	$(BIN)/python -m hwexplorer.tui.screenshots screenshots
	$(BIN)/python -m tests.recording screenshots/tour.cast

# Rewrites what the verbs are expected to print, and the key reference; read the diff before you commit it.
golden: $(VENV)/.test
	HWEXPLORER_GOLDEN=1 $(BIN)/python -m pytest -q tests/golden
	$(BIN)/python -m hwexplorer.tui.reference > KEYS.md

# Regenerates the shipped captures from torchvision; minutes, needs torch.
captures: $(VENV)/.run
	$(BIN)/python -m analysis.capture --all --out analysis/workload/captures

$(VENV)/bin/python:
	@"$(PYTHON)" -c 'import sys; sys.exit("hwexplorer needs Python 3.11 or newer" if sys.version_info < (3, 11) else 0)'
	"$(PYTHON)" -m venv $(VENV)

$(VENV)/.run: $(VENV)/bin/python pyproject.toml constraints.txt
	$(PIP) -c constraints.txt -e '.[torch]'
	@touch $@

$(VENV)/.test: $(VENV)/bin/python pyproject.toml constraints.txt
	$(PIP) -c constraints.txt -e '.[torch,dev]'
	@touch $@ $(VENV)/.run

clean:
	rm -rf $(VENV) dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
