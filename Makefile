# One word per job. Every target makes .venv first; nothing has to be installed by hand but Python and make.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

VENV := .venv
PY := $(VENV)/bin/python
STAMP := $(VENV)/.made
EXTRAS := cpu,demo,dev
# uv trusts the certificates that this system trusts, as pip does; the second is the name in older versions.
export UV_SYSTEM_CERTS := 1
export UV_NATIVE_TLS := 1

OLDEST := .venv-tf218
OLDEST_PY := $(OLDEST)/bin/python
OLDEST_STAMP := $(OLDEST)/.made
OLDEST_EXTRAS := demo,dev
OLDEST_TF := tensorflow-cpu==2.18.1

# The first Python of a version that TensorFlow has wheels for. PYTHON=... overrides.
FIND_PYTHON := for name in $(PYTHON) python3 python3.12 python3.11 python3.13 python3.10 python; do \
	  if "$$name" -c 'import sys; sys.exit(not (3, 10) <= sys.version_info < (3, 14))' 2>/dev/null; \
	  then command -v "$$name"; break; fi; done

# $(call make_venv,folder,packages): with uv if it is there, else with venv and pip.
define make_venv
	if ! $(1)/bin/python -c '' 2>/dev/null; then rm -rf $(1); fi; \
	python="$$($(FIND_PYTHON))"; \
	if command -v uv >/dev/null; then \
	  [ -d $(1) ] || uv venv --quiet --python "$${python:->=3.10,<3.14}" $(1); \
	  uv pip install --quiet --python $(1)/bin/python $(2); \
	elif [ -n "$$python" ]; then \
	  [ -d $(1) ] || "$$python" -m venv $(1); \
	  $(1)/bin/python -m pip install --quiet --disable-pip-version-check $(2); \
	else \
	  echo "no Python from 3.10 to 3.13 found: install one, or uv, or say make PYTHON=/path/to/python" >&2; exit 1; \
	fi
endef

.PHONY: help setup setup-oldest fmt lint types rooms test test-pure test-cpu test-sim test-oldest docs sim \
	demo demo-small bench bench-small ci clean

help: ## show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

setup: $(STAMP) ## make .venv with everything for work on autoplace

$(STAMP): pyproject.toml
	@$(call make_venv,$(VENV),-e '.[$(EXTRAS)]')
	@touch $@

setup-oldest: $(OLDEST_STAMP) ## make .venv-tf218 with the oldest TensorFlow that is tested

$(OLDEST_STAMP): pyproject.toml
	@$(call make_venv,$(OLDEST),-e '.[$(OLDEST_EXTRAS)]' '$(OLDEST_TF)')
	@touch $@

fmt: setup ## format the code
	@$(VENV)/bin/ruff format .
	@$(VENV)/bin/ruff check --fix-only --quiet .

lint: setup ## check style
	@$(VENV)/bin/ruff format --check .
	@$(VENV)/bin/ruff check .

types: setup ## check types
	@$(VENV)/bin/mypy

rooms: setup ## check which room imports which
	@$(VENV)/bin/lint-imports --no-cache

test: setup ## run all tests that can run here
	@$(PY) tests/sets.py

test-pure: setup ## run the tests that need no framework
	@$(PY) tests/sets.py pure

test-cpu: setup ## run the tests that need TensorFlow
	@$(PY) tests/sets.py cpu contract golden

test-sim: setup ## run the tests on the simulated device
	@$(PY) tests/sets.py sim

test-oldest: setup-oldest ## run the tests with a framework on the oldest TensorFlow
	@$(OLDEST_PY) tests/sets.py cpu contract sim

docs: setup ## write the generated pages of docs/
	@$(PY) docs/make_errors.py

sim: setup ## build the simulated device
	@$(PY) -m autoplace.sim

demo: setup ## train three models on each device and as planned; build/demo/report.html
	@$(VENV)/bin/autoplace demo --out build/demo

demo-small: setup ## the smallest model of the demo
	@$(VENV)/bin/autoplace demo --models dnn9 --out build/demo-small

BENCHMARKS := steps overhead solver

bench: setup ## run the benchmarks; build/bench/*.json
	@for name in $(BENCHMARKS); do $(PY) benchmarks/$$name.py --out build/bench/$$name.json; done

bench-small: setup ## run the benchmarks briefly
	@for name in $(BENCHMARKS); do $(PY) benchmarks/$$name.py --small --out build/bench-small/$$name.json; done

# In this order, so that the last line is what the tests say.
ci: ## everything that the server checks
	@$(MAKE) setup
	@$(MAKE) lint
	@$(MAKE) types
	@$(MAKE) rooms
	@$(MAKE) bench-small
	@$(MAKE) demo-small
	@$(MAKE) test-oldest
	@$(MAKE) test

clean: ## remove what was built, the environments included
	rm -rf build dist $(VENV) $(OLDEST) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
