PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
CLASSES := .cache/driver.jsa
PYTEST := $(BIN)/python -m pytest -q -n 2 --dist loadfile --no-loadscope-reorder
PIP := $(BIN)/python -m pip install -qq --disable-pip-version-check

# Both names, as old and new versions of pip differ: the tools that build packages are pinned too.
export PIP_CONSTRAINT := constraints.txt
export PIP_BUILD_CONSTRAINT := constraints.txt

# Tests start hundreds of Pythons: each would compile all modules again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help venv run fleet trading traffic hotels test test-all check docs bench bench-bursts bench-fleet bench-keyed bench-peers bench-scaling bench-state bench-stream soak campaign clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | while IFS='	' read -r name text; do printf 'make %-12s %s\n' "$$name" "$$text"; done

venv: $(READY) ## make or refresh the environment in .venv (the other targets do it too)

run: $(READY) ## a continuous skyline on a bursty, late stream on local Spark, live, with a picture, in out/
	@$(BIN)/skytide run --out out

fleet: $(READY) ## windows over 500 streams that come and go on local Spark, live, with a picture, in out/ (ARGS="--cabs": those of San Francisco)
	@$(BIN)/skytide fleet --out out $(ARGS)

trading: $(READY) ## a price to expect of each symbol of a trading day on local Spark, live, with a picture, in out/ (ARGS="--quotes": a real day)
	@$(BIN)/skytide trading --out out $(ARGS)

traffic: $(READY) ## where the cabs of a city are slow and queues end, on local Spark, live, with a map, in out/ (SKYTIDE_DATA: those of San Francisco)
	@$(BIN)/skytide traffic --out out $(ARGS)

hotels: $(READY) ## the skyline of 100,000 hotels on local Spark, with a picture, in out/
	@$(BIN)/skytide hotels --out out

test: $(READY) $(CLASSES) ## the tests, in two processes, but for the long ones
	@HYPOTHESIS_PROFILE=some $(PYTEST) -m "not long"

test-all: $(READY) $(CLASSES) ## all tests, with more examples, and with the long ones: clusters, killed jobs, demonstrations, benchmarks, the site
	@$(PYTEST)

check: $(READY) ## style, types, layers, doctests and fast tests
	@$(BIN)/ruff check --quiet
	@$(BIN)/ruff format --check --quiet
	@$(BIN)/mypy --no-error-summary
	@said=$$($(BIN)/lint-imports --no-logo) || { echo "$$said"; exit 1; }
	@HYPOTHESIS_PROFILE=quick $(PYTEST) -m "not slow"

docs: $(READY) ## the documentation as a site, in out/site, without network
	@$(BIN)/zensical build --strict
	@echo "out/site/index.html; to search it: $(BIN)/python -m http.server -d out/site"

bench: $(READY) ## queries on arrays and DataFrames against their peers
	@$(BIN)/python -m benchmarks

bench-bursts: $(READY) ## bursty streams with every way to split panes (about twenty minutes)
	@$(BIN)/python -m benchmarks.stream.bursts
	@$(BIN)/python -m benchmarks.stream.carried

bench-keyed: $(READY) ## operators on keys against Spark's own keyed state (about a quarter of an hour)
	@$(BIN)/python -m benchmarks.keyed

bench-fleet: $(READY) ## thousands of streams against a task a stream, one reader, and closed files (about ten minutes)
	@$(BIN)/python -m benchmarks.fleet

bench-peers: $(READY) ## the same stream on PyFlink, Bytewax, Pathway, Spark alone and a loop, each in .cache/peers (about twelve minutes; ARGS="--only flink")
	@$(BIN)/python -m benchmarks.peers $(ARGS)

bench-scaling: $(READY) ## all ways to size a query, on a real cluster (about an hour)
	@$(BIN)/python -m benchmarks.scaling

bench-state: $(READY) ## windows of hours and days, millions of keys and groups: what they cost, beside Spark's own windows (about an hour; ARGS="hour day")
	@$(BIN)/python -m benchmarks.state $(ARGS)

bench-stream: $(READY) ## continuous queries: the highest load they sustain, and their peers (about half an hour)
	@$(BIN)/python -m benchmarks.stream

soak: $(READY) ## ten minutes of a continuous query, then windows of hours, played fast: memory and files must not grow (ARGS="--minutes 0")
	@$(BIN)/python -m benchmarks.stream.soak $(ARGS)

campaign: $(READY) $(CLASSES) ## random jobs, 200 of whose processes are killed, against an oracle (about twenty minutes; ARGS="--kills 1000 --seed 7")
	@PYTHONPATH=tests $(BIN)/python -m campaign $(ARGS)

clean: ## remove the environment, results and caches
	@rm -rf .venv .cache out dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	@find src lab tests benchmarks -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true

$(CLASSES): $(READY)
	@echo "Getting Java's classes ready for tests ..."
	@$(BIN)/python tests/support/classes.py

$(READY): pyproject.toml lab/pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "skytide needs Python 3.11 or newer, and $(PYTHON) is $$($(PYTHON) --version 2>&1); say which to use: make PYTHON=python3.12"; exit 1; }
	@echo "Setting up .venv (the first time a few minutes, and 1.3 GB of disk) ..."
	@$(PYTHON) -m venv .venv
	@$(PIP) -e '.[bench,dev,docs]' -e lab
	@$(BIN)/python -c 'import sys; from skytide.spark.session.java import system_java; sys.exit(not system_java())' || { echo "No Java 17 or newer: adding one to .venv ..."; $(PIP) -e '.[java]'; }
	@touch $@
