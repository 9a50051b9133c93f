# What can be done here: `make` lists it.  Everything runs in a virtual environment of its own.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
PIP ?= $(BIN)/python -m pip
RUNS = $(VENV)/.runs
INSTALLED = $(VENV)/.installed
JOBS ?= 2
# How many tests share the GPU.
GPU_JOBS ?= 4
SAMPLE ?= samples/matmul.tc
# Without bytecode, each process that a test starts compiles all of Python's sources again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo check lint types test thorough bless docs gpu bench paper dist versions clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(RUNS): pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	@touch $@

$(INSTALLED): pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) install --quiet --disable-pip-version-check --no-compile -e '.[dev]'
	@touch $@ $(RUNS)

demo: $(RUNS)  ## install tritonc, compile samples/matmul.tc to PTX, run its problem in the interpreter
	@mkdir -p build
	$(BIN)/tritonc $(SAMPLE) -o build/$(notdir $(basename $(SAMPLE))).ptx -v
	$(BIN)/tritonc run $(SAMPLE)
	@echo 'To have tritonc in this shell:  . $(BIN)/activate'

check: lint types test  ## lint, types and all tests that need no GPU

lint: $(INSTALLED)  ## ruff
	$(BIN)/ruff check .

types: $(INSTALLED)  ## mypy --strict
	$(BIN)/mypy

test: $(INSTALLED)  ## pytest
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal

thorough: $(INSTALLED)  ## pytest with all combinations, of which `make check` takes some
	$(BIN)/python -m pytest --thorough -n $(JOBS) --dist worksteal

bless: $(INSTALLED)  ## rewrite golden files and generated documents; then read the difference
	$(BIN)/python -m pytest --bless -k 'lit or generated'

docs: $(RUNS)  ## build the site, build/site/index.html, from the pages in docs/
	@$(BIN)/python -c 'import furo, myst_parser' 2>/dev/null || \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[docs]'
	@rm -rf build/pages build/site
	$(BIN)/python docs/site_pages.py build/pages
	$(BIN)/python -m sphinx -q -W --keep-going -c docs build/pages build/site
	@echo 'Open build/site/index.html'

gpu: $(INSTALLED)  ## run every sample and run-test on the GPU and compare with the interpreter
	@$(BIN)/python -c 'import cuda.bindings' 2>/dev/null || \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[gpu]'
	$(BIN)/python -m pytest --gpu -m gpu -n $(GPU_JOBS) --dist worksteal

bench: $(INSTALLED)  ## how long a compilation takes, beside its peers
	$(BIN)/python bench/compile_time.py

paper: $(INSTALLED)  ## the evaluation of the paper on Triton again (TUNE=1: search for tiles first; CLUSTER=ADDRESS: on a dask cluster)
	@if nvidia-smi -L >/dev/null 2>&1; then \
	  $(BIN)/python -c 'import matplotlib, torch, cuda.bindings' 2>/dev/null || \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[gpu,paper]'; fi
	$(BIN)/python bench/paper.py $(if $(TUNE)$(CLUSTER),--tune) $(if $(CLUSTER),--cluster=$(CLUSTER))

dist: $(INSTALLED)  ## build wheel and source distribution twice, compare, and try them in empty environments
	@$(BIN)/python -c 'import build, twine' 2>/dev/null || \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[release]'
	$(BIN)/python tests/release.py

versions: $(INSTALLED)  ## all tests of the compiler with the lowest and the newest versions of what it needs
	$(BIN)/python tests/release.py --versions

clean:  ## remove what the targets above made
	rm -rf build $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis
