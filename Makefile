# Two commands for a fresh machine with Python >= 3.11: `make demo` and `make test`. Each sets itself up in .venv.
PYTHON ?= python3
BIN := .venv/bin
PYTEST_ARGS ?=

.PHONY: demo test lint types bench docs reproduce reproduce-neural install clean help

help:  ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/'

.venv/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "fullrank needs Python 3.11 or newer, this is " + sys.version.split()[0])'
	$(PYTHON) -m venv .venv

# compiled when first imported: compiling all of SciPy, numba and Arrow beforehand takes longer than everything else
.venv/.core: pyproject.toml | .venv/bin/python
	$(BIN)/python -m pip install --no-compile --quiet --disable-pip-version-check -e .
	@touch $@

.venv/.report: pyproject.toml | .venv/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[report]"
	@touch $@ .venv/.core

.venv/.dev: pyproject.toml | .venv/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[dev]"
	@touch $@ .venv/.core

demo: .venv/.core  ## see in a few seconds what fullrank is for
	@PYTHONDONTWRITEBYTECODE= $(BIN)/fullrank demo

install: .venv/.report  ## .venv/bin/fullrank, with charts and pages
	@echo "ready: .venv/bin/fullrank --help (or: source .venv/bin/activate, then: fullrank --help)"

# tests start a hundred interpreters, each of which would compile all of fullrank anew; neighbours go to the same worker,
# whose fixtures and caches they share, until one of the two has nothing left to do
test: .venv/.dev  ## run all tests that need no download
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n 2 --dist worksteal $(PYTEST_ARGS)

lint: .venv/.dev  ## style, formatting, layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: .venv/.dev  ## mypy --strict
	$(BIN)/mypy

bench: .venv/.dev  ## speed and accuracy, as ratios in one run
	$(BIN)/python benchmarks/estimators.py --quick

.venv/.docs: pyproject.toml | .venv/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[docs]"
	@touch $@

docs: .venv/.docs  ## build the documentation into site/ (open site/index.html)
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet

REPRODUCTION ?= artifacts/reproduction
NEURAL ?= ml-1m citeulike pinterest-20
JOBS ?= 2
REPRODUCE = $(BIN)/fullrank-papers --all --jobs $(JOBS) --out $(REPRODUCTION) --html $(REPRODUCTION)/index.html --doc docs/reproduction.md

.venv/.papers: pyproject.toml papers/pyproject.toml | .venv/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e . -e papers
	@touch $@

reproduce: .venv/.papers  ## the papers' tables and figures, as far as the data at hand allow; goes on where it stopped
	$(REPRODUCE)

reproduce-neural: .venv/.papers  ## the same after training NeuMF, MultiVAE and NGCF on NEURAL (hours; each model is kept once trained)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e . -e "papers[neural]"
	$(REPRODUCE) $(NEURAL:%=--neural %)

clean:  ## remove what make made
	rm -rf .venv site .pytest_cache .mypy_cache .ruff_cache .hypothesis
