# Everything a person types: each target does its own set-up into .venv and is quick the second time.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
ARGS ?=
# one more than there are processors here: for a third of their time tests wait for other processes
WORKERS ?= 3
MINUTES ?= 30
# Tests start some two hundred processes of Python: each would compile every module where bytecode is not kept.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: setup java lint test coverage search quickstart bench docs wheel clean

$(VENV)/.ready: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Gamay needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) --version)"; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { echo "Cannot make a virtual environment. On Debian: apt-get install python3-venv"; exit 1; }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[quickstart,spark-connect,pandas,polars,geo,vector,zookeeper,kafka,protobuf,grpc,cbor,bson,s3]' --group dev --group bench
	@touch $@

setup: $(VENV)/.ready

java:
	@$(PYTHON) tools/check_java.py

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Kernels first: on a new machine each process that a test starts would compile them all. Each run is the same run: the order of
# sets is fixed as well.
test: lint java
	$(BIN)/gamay warmup
	PYTHONHASHSEED=0 $(BIN)/python -m pytest --numprocesses $(WORKERS) --dist loadfile $(ARGS)

# By hand, no gate: which lines the tests run, as a table and in build/coverage. Kernels are compiled, so their lines are left out.
coverage: setup java
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --group coverage
	$(BIN)/gamay warmup
	PYTHONHASHSEED=0 $(BIN)/python -m pytest --numprocesses $(WORKERS) --dist loadfile --cov=gamay --cov-report=term:skip-covered --cov-report=html:build/coverage $(ARGS)

# The random search: other seeds at every run, each failure with the command that repeats it.
search: setup java
	$(BIN)/gamay warmup
	$(BIN)/python tools/search.py --minutes $(MINUTES)

quickstart: setup java
	$(BIN)/gamay quickstart $(if $(filter-out --%,$(firstword $(ARGS))),,batch) $(ARGS)

bench: setup
	$(BIN)/python -m benchmarks.compare $(ARGS)

# The site of the documentation, into build/site; a broken link ends it.
docs: setup
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --group docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "build/site/index.html"

# A wheel with compiled kernels, into dist.
wheel: setup
	$(BIN)/python -m tools.wheel $(ARGS)

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache
