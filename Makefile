# `make run` and `make test` need only make and Python 3.11 or newer.
# Python 3.11 is preferred: with it the pins of constraints.txt resolve to a CPU build of torch everywhere.
PYTHON ?= $(shell command -v python3.11 || command -v python3 || command -v python)
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

# Three on two cores: a test of the screen or of a process waits for a third of its time.
WORKERS ?= 3

.PHONY: lab judge run test test-slow check test-versions packages bench fuzz screenshots captures lock clean golden

run: $(VENV)/.run
	@$(BIN)/hwexplorer $(ARGS)

# Tests of processes read the output of a child at once. Imported modules are compiled once; see tests/conftest.py.
test test-slow: export PYTHONUNBUFFERED := 1
test test-slow: export PYTHONDONTWRITEBYTECODE :=

test: check
	$(BIN)/python -m compileall -q hardware analysis hwexplorer
	$(BIN)/python -m pytest -q -n $(WORKERS) --dist loadgroup

# Slow tests that rarely fail: whole catalogues, long scans, fresh captures, and properties with new random examples
# (`make test` repeats the same examples). They run weekly in CI and before a release.
test-slow: $(VENV)/.test
	$(BIN)/python -m compileall -q hardware analysis hwexplorer
	$(BIN)/python -m pytest -q -n $(WORKERS) --dist loadgroup -m "slow or hypothesis" --hypothesis-profile=random

check: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Tests with the lowest and newest versions that pyproject.toml allows, on each installed Python from 3.11 to 3.13.
test-versions: build/resolve/.uv
	build/resolve/bin/python lab/versions.py $(ARGS)

# Builds both wheels and the source distribution in dist/ from what is committed, and tests them installed.
packages: $(VENV)/.test
	@test -z "$$(git status --porcelain)" || { echo "commit first: packages are built of what is committed"; exit 1; }
	rm -rf dist
	$(BIN)/python -m hatchling build -d dist
	cd hwexplorer_annexes && "$(abspath $(BIN))/python" -m hatchling build -t wheel -d ../dist
	$(BIN)/python -m pytest -q tests/packaging/test_wheel.py -m "slow or not slow"

bench: $(VENV)/.test
	$(BIN)/python -m lab.bench_core
	$(BIN)/python -m lab.bench_terminal
	$(BIN)/python -m lab.bench_sweep

# Gives thousands of altered inputs to every reader of untrusted data, new ones each time; ARGS="-k onnx" picks readers.
lab: $(VENV)/.test
	$(BIN)/python -m lab

# Predicts the fifth of all measured rows that nothing follows from; ARGS="--given --by device".
judge: $(VENV)/.test
	$(BIN)/python -m lab.judge $(ARGS)

fuzz: $(VENV)/.test
	ulimit -v 16777216; $(BIN)/python -m pytest -q tests/fuzz --hypothesis-profile=fuzz $(ARGS)

screenshots: $(VENV)/.test
	$(BIN)/python -m lab.screenshots screenshots
	$(BIN)/python -m lab.recording screenshots/tour.cast

# Rewrites the expected output of the verbs and the generated references; read the diff before you commit it.
golden: $(VENV)/.test
	HWEXPLORER_GOLDEN=1 $(BIN)/python -m pytest -q tests/golden
	$(BIN)/python -m lab.reference

# Regenerates the shipped captures from torchvision. It takes minutes and needs torch.
captures: $(VENV)/.run
	$(BIN)/python -m lab.captures analysis/model/captures

$(VENV)/bin/python:
	@"$(PYTHON)" -c 'import sys; sys.exit("hwexplorer needs Python 3.11 or newer" if sys.version_info < (3, 11) else 0)'
	"$(PYTHON)" -m venv $(VENV)

# Installs only built files whose hash is in a lock. torch is pinned by version (constraints.txt explains why).
$(VENV)/.run $(VENV)/.test: $(VENV)/.%: $(VENV)/bin/python pyproject.toml constraints.txt locks/%.txt
	$(PIP) --require-hashes --only-binary :all: -r locks/$*.txt
	$(PIP) -c constraints.txt torch torchvision
	$(PIP) --no-deps --no-build-isolation -e .
	@touch $@

# Locks the newest versions that pyproject.toml and constraints.txt allow, with the hashes of files for every platform.
lock: build/resolve/.uv
	$(call lock,run,--group build --extra torch --extra onnx)
	$(call lock,test,--group build --extra torch --extra dev)
	build/resolve/bin/uv pip compile $(LOCKED) --group resolve --output-file locks/uv.txt

LOCKED := --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-annotate \
  --custom-compile-command 'make lock'
define lock
build/resolve/bin/uv pip compile $(LOCKED) --constraint constraints.txt $(2) --output-file build/lock.txt pyproject.toml
awk '/^[a-z]/ {kept = !/^(torch|torchvision|triton|cuda-[a-z]+|nvidia-[a-z0-9-]+)==/} kept || /^#/' \
  build/lock.txt > locks/$(1).txt
endef

build/resolve/.uv: locks/uv.txt
	"$(PYTHON)" -m venv build/resolve
	build/resolve/bin/python -m pip install --quiet --require-hashes --only-binary :all: -r locks/uv.txt
	@touch $@

clean:
	rm -rf $(VENV) dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
