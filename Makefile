# The front door. Everything below sets up what it needs in .venv; only Python >= 3.11 and make are assumed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PEERS := .venv-peers
OLDEST := .venv-oldest
CHECKED := src tests benchmarks tools paper
OLDEST_COMPILED := tests/search/test_golden.py tests/search/test_against_reference.py tests/test_jit.py
# The oldest numba rounds a logarithm's last digit otherwise, and after 1900 iterations a tie comes out otherwise.
OLDEST_ROUNDS := tests/search/test_golden.py::test_the_tree_is_as_it_was[log]
OLDEST_INTERPRETED := tests/risk tests/models tests/formats tests/exact tests/planners tests/cli tests/evaluation tests/domains $(wildcard tests/*.py)
SOURCES := $(shell find src -name '*.py')
# numba does not notice an edit in another file: the cache is keyed on a hash of all sources.
CACHE_KEY := $(shell cat $(SOURCES) | cksum | cut -d' ' -f1)
export NUMBA_CACHE_DIR := $(CURDIR)/.cache/numba/$(CACHE_KEY)
PYTEST := $(BIN)/python -m pytest
# The tests of a file need the same kernels: in two processes each would compile them. Large files are early by their names.
BOTH_CORES := -n 2 --dist loadfile --no-loadscope-reorder

.PHONY: help plan test test-interpreted test-bounds test-slow test-oldest lint format types layers docs docs-serve docs-publish bench study study-large \
	peers paper build release-check check clean

help: ## show the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 20

plan: $(VENV)/package.stamp ## a risk-averse decision: where to go first in grid-mdp
	@$(BIN)/tailwise plan grid-mdp --beta 0.1 --seed 0

test: $(VENV)/dev.stamp $(VENV)/package.stamp ## the whole test suite, on the installed package
	$(PYTEST) $(BOTH_CORES) -q -m "not slow"
	$(PYTEST) $(BOTH_CORES) -q --doctest-modules src/tailwise --import-mode=importlib -p no:cacheprovider

test-interpreted: $(VENV)/dev.stamp $(VENV)/package.stamp ## the fast part without compilation, with coverage
	NUMBA_DISABLE_JIT=1 $(PYTEST) $(BOTH_CORES) -q -m "not slow and not compiled" --cov --cov-report=
	@mkdir -p .cache
	@$(BIN)/python -m coverage report --skip-covered --sort=cover > .cache/coverage.txt; floor=$$?; tail -40 .cache/coverage.txt; exit $$floor

# Interpreted, NumPy checks every index: left to check are the tests that run compiled only.
test-bounds: $(VENV)/dev.stamp $(VENV)/package.stamp ## kernels with bounds checks
	NUMBA_BOUNDSCHECK=1 NUMBA_CACHE_DIR=$(NUMBA_CACHE_DIR)-bounds $(PYTEST) $(BOTH_CORES) -q -m "compiled and not slow" tests/search tests/planners tests/bandits tests/theory
	NUMBA_BOUNDSCHECK=1 NUMBA_CACHE_DIR=$(NUMBA_CACHE_DIR)-bounds $(PYTEST) $(BOTH_CORES) -q -m "not slow" tests/bindings

test-slow: $(VENV)/dev.stamp $(VENV)/package.stamp ## long studies
	$(PYTEST) -q -m slow

test-oldest: $(OLDEST)/package.stamp ## the fast part on the oldest supported versions (PYTHON=python3.11, the oldest Python)
	NUMBA_CACHE_DIR=$(NUMBA_CACHE_DIR)-oldest $(OLDEST)/bin/python -m pytest $(BOTH_CORES) -q -m "not slow" $(OLDEST_COMPILED) --deselect "$(OLDEST_ROUNDS)"
	NUMBA_DISABLE_JIT=1 $(OLDEST)/bin/python -m pytest $(BOTH_CORES) -q -m "not slow and not compiled" $(OLDEST_INTERPRETED)

lint: $(VENV)/dev.stamp ## style, spelling, and the files that describe the package
	$(BIN)/ruff check $(CHECKED)
	$(BIN)/ruff format --check $(CHECKED)
	$(BIN)/codespell $(CHECKED) docs $(wildcard *.md)
	$(BIN)/validate-pyproject pyproject.toml
	$(BIN)/sp-repo-review .

format: $(VENV)/dev.stamp ## rewrite in house style
	$(BIN)/ruff format $(CHECKED)
	$(BIN)/ruff check --fix $(CHECKED)

types: $(VENV)/dev.stamp $(VENV)/package.stamp ## mypy, strict
	$(BIN)/mypy

layers: $(VENV)/dev.stamp $(VENV)/package.stamp ## imports point one way
	$(BIN)/lint-imports

docs: $(VENV)/dev.stamp $(VENV)/package.stamp ## build the documentation, strict
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet --site-dir site

docs-serve: $(VENV)/dev.stamp $(VENV)/package.stamp ## documentation on localhost
	$(BIN)/mkdocs serve

docs-publish: $(VENV)/dev.stamp $(VENV)/package.stamp ## put the documentation of VERSION beside those of others, on the branch gh-pages
	@test -n "$(VERSION)" || { echo "say make docs-publish VERSION=1.2.3"; exit 1; }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check "mike>=2.1"
	PATH="$(CURDIR)/$(BIN):$$PATH" NO_MKDOCS_2_WARNING=1 $(BIN)/mike deploy --update-aliases $(PUSH) $(VERSION) latest
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/mike set-default $(PUSH) latest

paper: $(VENV)/package.stamp ## compute the numbers of paper/paper.md again, and write them into it
	$(BIN)/python paper/paper_numbers.py --write

build: $(VENV)/release.stamp ## sdist and wheel into dist/, looked through
	$(BIN)/python tools/release_check.py metadata build

release-check: $(VENV)/release.stamp ## all that must hold before a release (QUICK=1, STEPS="build wheel"); docs/releasing.md
	$(BIN)/python tools/release_check.py $(if $(QUICK),--quick) $(STEPS)

bench: $(VENV)/dev.stamp $(VENV)/package.stamp ## measure speed; JSON into .cache/bench
	$(BIN)/python benchmarks/run.py --out .cache/bench

study: $(VENV)/dev.stamp $(VENV)/package.stamp ## regret of the searches on problems drawn from 18 families; hours
	$(BIN)/python benchmarks/study.py --picture docs/pictures/study.svg

study-large: $(VENV)/dev.stamp $(VENV)/package.stamp ## closed-loop risk on four large problems; half an hour
	$(BIN)/python benchmarks/large_problems.py

peers: $(PEERS)/package.stamp ## tailwise beside its peers: docs/peers.md and its pictures; half an hour; goes on where it stopped
	$(PEERS)/bin/python benchmarks/peers/run.py

check: lint types layers docs test test-interpreted test-bounds ## everything that CI runs

clean: ## remove what make built
	rm -rf $(VENV) $(PEERS) $(OLDEST) .cache site build dist .coverage .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache

$(VENV)/base.stamp: pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "tailwise needs Python >= 3.11, this is " + sys.version.split()[0] + "; say make PYTHON=...")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing tailwise and what it needs into $(VENV) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check .
	@touch $@

$(VENV)/dev.stamp: $(VENV)/base.stamp
	@echo "installing the development tools into $(VENV) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check ".[dev]"
	@touch $@

$(VENV)/release.stamp: $(VENV)/base.stamp
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check ".[release]"
	@touch $@

$(VENV)/package.stamp: $(VENV)/base.stamp $(SOURCES)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --force-reinstall .
	@rm -rf .cache/numba
	@touch $@

$(OLDEST)/base.stamp: pyproject.toml constraints/oldest.txt
	@test -x $(OLDEST)/bin/python || $(PYTHON) -m venv $(OLDEST)
	@echo "installing the oldest supported versions into $(OLDEST) ..."
	@$(OLDEST)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints/oldest.txt \
		".[gym,arrow,prism,rddl,excel,pandas,yaml,bench,report,explore,test]"
	@touch $@

$(OLDEST)/package.stamp: $(OLDEST)/base.stamp $(SOURCES)
	@$(OLDEST)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --force-reinstall .
	@touch $@

# PyTorch and gymcts may be missing: the page then says so. gymcts pins an old matplotlib, which it needs for drawing only.
$(PEERS)/base.stamp: pyproject.toml
	@test -x $(PEERS)/bin/python || $(PYTHON) -m venv $(PEERS)
	@echo "installing tailwise and its peers into $(PEERS) ..."
	@$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check ".[peers]"
	@$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps gymcts || echo "gymcts: not installed"
	@$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check "torch==2.13.0" "stable-baselines3>=2.3" || echo "stable-baselines3: not installed"
	@touch $@

$(PEERS)/package.stamp: $(PEERS)/base.stamp $(SOURCES)
	@$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --force-reinstall .
	@touch $@
