# Everything here needs only Python 3.11 or newer, git, make and a package registry.
# The environment is .venv in this folder; another interpreter: make test PYTHON=/usr/bin/python3.12
# Some of the tests: make test PYTEST_ARGS='tests/unit -x'

SHELL := /bin/sh
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo console test check format bench docs clean FORCE

PYTHON ?=
PYTEST_ARGS ?= --numprocesses 3
PIP := .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-input

# A virtual environment works only where it was made: a checkout that was moved, or whose Python has gone, gets a new one.
STALE := $(shell [ ! -f .venv/.where ] || { [ "$$(cat .venv/.where)" = "$$(pwd -P)" ] && .venv/bin/python -c '' 2>/dev/null; } || echo FORCE)

help:
	@echo 'make demo    a gateway, a stand-in model and a batch of 200 requests, on this machine'
	@echo 'make console the web console into the package, when its sources changed'
	@echo 'make test    the whole test suite, on a PostgreSQL it starts by itself'
	@echo 'make check   format, lint, types (of the console too), who may import whom, generated files up to date'
	@echo 'make format  format the code'
	@echo 'make bench   the benchmarks (ten minutes); their figures and goals go to bench/results.md'
	@echo 'make docs    write the generated pages of docs/ and the types of the console again'
	@echo 'make clean   remove the environment, caches and the demo data kept in this folder'

# What the console is built of; pip's build hook compares them by content.
CONSOLE := hatch_build.py $(shell find console -type f -not -path 'console/node_modules/*' 2>/dev/null)

demo: $(if $(wildcard .venv/.dev),.venv/.dev,.venv/.runtime) .venv/.console
	@.venv/bin/python demo/run.py

console: .venv/.runtime .venv/.console

test: .venv/.dev .venv/.console
	.venv/bin/python -m pytest $(PYTEST_ARGS)

check: .venv/.dev
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .
	.venv/bin/mypy
	.venv/bin/lint-imports
	.venv/bin/python docs/generate.py --check
	.venv/bin/python console/generate.py --check

format: .venv/.dev
	.venv/bin/ruff format .
	.venv/bin/ruff check --fix .

bench: .venv/.dev
	.venv/bin/python -m bench $(BENCH_ARGS)

docs: .venv/.dev
	.venv/bin/python docs/generate.py
	.venv/bin/python console/generate.py

clean:
	rm -rf .venv .ebbtide console/node_modules src/ebbtide/api/console_files .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# An environment that was made here by hand is kept.
.venv/.where: $(STALE)
	@set -eu; \
	if [ ! -f $@ ] && grep -qF "$$(pwd -P)/.venv" .venv/bin/activate 2>/dev/null \
	    && .venv/bin/python -c 'import pip, sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	    pwd -P > $@; \
	    exit 0; \
	fi; \
	for python in "$(PYTHON)" python3 python3.14 python3.13 python3.12 python3.11; do \
	    [ -n "$$python" ] && "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && break; \
	    python=; \
	done; \
	if [ -z "$$python" ]; then \
	    echo "Ebbtide needs Python 3.11 or newer; python3 here is: $$(python3 --version 2>/dev/null || echo none)." >&2; \
	    echo "Install one (Debian, Ubuntu: apt install python3 python3-venv), or name it: make PYTHON=/path/to/python3" >&2; \
	    exit 1; \
	fi; \
	if ! "$$python" -c 'import ensurepip, venv' 2>/dev/null; then \
	    echo "$$python has no venv module. Debian, Ubuntu: apt install python3-venv" >&2; \
	    exit 1; \
	fi; \
	echo "Making .venv with $$("$$python" --version)"; \
	rm -rf .venv; \
	"$$python" -m venv .venv; \
	pwd -P > $@

.venv/.runtime: .venv/.where pyproject.toml
	@echo 'Installing ebbtide into .venv (the first time takes about a minute)'
	@$(PIP) --editable .
	@touch $@ .venv/.console

.venv/.dev: .venv/.where pyproject.toml
	@echo 'Installing ebbtide and its development tools into .venv (the first time takes a minute or two)'
	@$(PIP) --editable '.[dev]'
	@touch .venv/.runtime .venv/.console $@

.venv/.console: .venv/.where $(CONSOLE)
	@echo 'Building the web console'
	@$(PIP) --no-deps --editable .
	@touch $@
