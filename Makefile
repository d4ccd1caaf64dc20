# One door for everything one does here. `make` alone lists the doors.
# Nothing is assumed but make and a Python ≥ 3.11; tools live in .venv, which is made once and re-used until
# pyproject.toml or constraints.txt change.

PYTHON ?= python3
JOBS ?= auto
SEED ?= 1
ORDERS ?= 200
ARGS ?=

VENV := .venv
PY := $(VENV)/bin/python
# Two stamps, so that trying the demo does not download linters.
RUN_STAMP := $(VENV)/.installed-run
DEV_STAMP := $(VENV)/.installed-dev
# The interpreter is a prerequisite only while it is missing: its own date says nothing about what is installed.
NO_VENV := $(if $(wildcard $(PY)),,$(PY))
PIP_INSTALL := $(PY) -m pip install --quiet --constraint constraints.txt

export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_NO_INPUT := 1
export PIP_USER := 0
export PYRIGHT_PYTHON_IGNORE_WARNINGS := 1

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup fmt lint types test test-unit docs sim demo evidence bench build clean distclean

help: ## List what can be done
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(DEV_STAMP) ## Make .venv with perdure (editable) and all development tools

fmt: $(DEV_STAMP) ## Format the code and mend what can be mended by itself
	$(PY) -m ruff check --fix-only .
	$(PY) -m ruff format .

lint: $(DEV_STAMP) ## Look for mistakes by reading (ruff)
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .

types: $(DEV_STAMP) ## Check types (mypy strict and pyright strict)
	$(PY) -m mypy
	$(PY) -m pyright

test: lint types ## Everything that must hold: lint, types, all tests
	$(PY) -m pytest -n $(JOBS) --dist worksteal $(ARGS)

test-unit: $(DEV_STAMP) ## The quick tests only
	$(PY) -m pytest tests/unit tests/architecture -m "not slow" $(ARGS)

docs: $(DEV_STAMP) ## Build the documentation into dist/docs
	$(PY) -m sphinx -W --keep-going -d build/doctrees docs dist/docs $(ARGS)

sim: $(DEV_STAMP) ## A whole node under virtual time and one seed: make sim SEED=8391
	$(PY) -m perdure sim --seed $(SEED) $(ARGS)

demo: $(RUN_STAMP) ## Run orders, kill the process on the way, watch it recover, audit the result
	$(PY) -m perdure demo --orders $(ORDERS) --crash $(ARGS)

evidence: $(RUN_STAMP) ## Kill workers, nodes and builds under agent pipelines for ten seeds, and audit: about ten minutes
	$(PY) -m perdure chaos run $(ARGS)

bench: $(RUN_STAMP) ## Measure the embedded engine on this machine
	$(PY) -m perdure bench embedded $(ARGS)

build: $(DEV_STAMP) ## Build wheel and source archive into dist/
	$(PY) -m hatchling build

clean: ## Remove caches and what was built
	rm -rf build dist .hypothesis .pytest_cache .mypy_cache .ruff_cache
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

distclean: clean ## As clean, and .venv too
	rm -rf $(VENV)

# A working interpreter first, with a sentence for each way it can be missing; then .venv, unless one that works is here.
$(PY):
	@command -v $(PYTHON) >/dev/null || { echo "perdure needs Python 3.11 or newer, and '$(PYTHON)' is not on the PATH; name one: make PYTHON=/path/to/python3.12 …" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "perdure needs Python 3.11 or newer; '$(PYTHON)' is $$($(PYTHON) -V 2>&1). Name a newer one: make PYTHON=python3.12 …" >&2; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { echo "'$(PYTHON)' comes without venv or ensurepip; on Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; }
	$(PYTHON) -m venv --clear $(VENV)

# The build backend goes first and under the constraints too, so that no unpinned version is fetched behind the scenes.
$(RUN_STAMP): pyproject.toml constraints.txt $(NO_VENV)
	$(PIP_INSTALL) hatchling editables
	$(PIP_INSTALL) --no-build-isolation --editable .
	@touch $@

$(DEV_STAMP): pyproject.toml constraints.txt $(NO_VENV)
	$(PIP_INSTALL) hatchling editables
	$(PIP_INSTALL) --no-build-isolation --editable '.[dev]'
	@touch $@ $(RUN_STAMP)
