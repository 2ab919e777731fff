# Everything runs inside .venv, at the versions that constraints.txt pins.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
EXTRA  := server or browser or cluster or install or long
SERVER := .venv-server

# A stamp is a file that says "this step is done"; a second make finds it and does nothing.
MADE   := $(VENV)/.made
CORE   := $(VENV)/.installed-core
DEV    := $(VENV)/.installed-dev
DEMO   := $(VENV)/.installed-demo
SERVED := $(SERVER)/.installed
EXTRAS := $(patsubst %,$(VENV)/.installed-%,ray browser docs frameworks dist wandb)

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: chromium help docs dist demo audit-demo check test coverage test-extra test-all test-matrix bench format clean

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  \1\t\2/' | expand -t 16

$(MADE):
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Dowse needs Python 3.11 or newer; set PYTHON=")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	touch $@

$(CORE): $(MADE) pyproject.toml constraints.txt
	$(PIP) -e .
	touch $@

$(DEV): $(MADE) pyproject.toml constraints.txt
	$(PIP) -e '.[dev]'
	touch $(CORE) $@

$(DEMO): $(MADE) pyproject.toml constraints.txt requirements-demo.txt
	$(PIP) -e '.[onnx]'
	$(PIP) --no-deps -r requirements-demo.txt
	touch $@

# An extra of pyproject.toml by its name.
$(EXTRAS): $(VENV)/.installed-%: $(MADE) pyproject.toml constraints.txt
	$(PIP) -e '.[$*]'
	touch $@

# The browser is the system's; Debian's packages where it has none.
chromium:
	{ command -v chromium && command -v chromedriver; } >/dev/null || \
	{ apt-get update --quiet && apt-get install --quiet --yes --no-install-recommends chromium chromium-driver; }

# mlserver pins packages of its own, so it lives apart; the tests start it from there.
$(SERVED): constraints-server.txt
	test -x $(SERVER)/bin/python || $(PYTHON) -m venv $(SERVER)
	$(SERVER)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints-server.txt torch numpy mlserver
	touch $@

demo: $(CORE) $(DEMO)  ## attack real photographs, draw the picture
	$(BIN)/dowse demo

audit-demo: $(CORE) $(DEMO)  ## how many queries does MobileNetV2 withstand? A page, within three minutes
	$(BIN)/dowse audit --target dowse:imagenet_mobilenetv2 --images demo:photographs --count 6 --name MobileNetV2 --workers 2 --out out/audit

docs: $(CORE) $(VENV)/.installed-docs  ## the documentation as a site in site/: open site/index.html, or serve it for its search
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build

dist: $(VENV)/.installed-dist  ## sdist and wheel, into dist/
	$(BIN)/python -m build --no-isolation

check: $(DEV)  ## formatting, lint, strict types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy --strict

test: $(DEV) $(DEMO) check  ## all that needs no server, browser or cluster
	OMP_NUM_THREADS=1 $(BIN)/pytest -m 'not ($(EXTRA))'

coverage: $(DEV) $(DEMO)  ## the tests of `make test`, which lines they reach, and the floor of pyproject.toml
	OMP_NUM_THREADS=1 $(BIN)/pytest -m 'not ($(EXTRA))' --cov=dowse

test-extra: $(DEV) $(DEMO) $(EXTRAS) $(SERVED) chromium  ## the rest
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 0 -m '$(EXTRA)'

test-all: test test-extra  ## test, then test-extra

# ONLY names settings (sse4, avx2, busy, rounding, ...), TESTS files or folders; docs/testing.md has the list.
test-matrix: $(DEV) $(DEMO)  ## test on every kind of machine that this one can play: ONLY=..., TESTS=...
	$(BIN)/python -m tests.matrix --only '$(ONLY)' $(TESTS)

bench: $(DEV) $(DEMO) $(VENV)/.installed-ray  ## the benchmarks
	$(BIN)/python -m benchmarks.run

format: $(DEV)  ## rewrite the files in the house style
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:  ## remove .venv, .venv-server and what the tools leave behind
	rm -rf $(VENV) $(SERVER) build dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
