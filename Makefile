# Every target sets up what it needs: a virtual environment with pinned packages, the models.
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
PIP := $(PY) -m pip install --quiet --disable-pip-version-check

.PHONY: help demo test media fuzz chaos soak check bench lock clean python ffmpeg

help:  ## This list
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | sort

demo: $(VENV)/.run models  ## Swap the face in a clip through real Kafka; leaves demo/out.mp4 and demo/out.png
	$(PY) -m demo.run

JOBS ?= 2
test: $(VENV)/.dev models ffmpeg  ## All tests but the slow ones, on embedded brokers and real media files; JOBS=2
	$(PY) -m pytest -n $(JOBS) --dist loadfile

media: $(VENV)/.dev models ffmpeg  ## Every file of the case log through the whole pipeline
	$(PY) -m pytest tests/media -m "not soak"

COUNT ?= 5000
fuzz: $(VENV)/.dev ffmpeg  ## Damaged files through ingest; COUNT=5000
	$(PY) -m tests.media.fuzz $(COUNT)

KILLS ?= 60
SEED ?= 1
MINUTES ?= 60
GROUP ?= consumer
chaos: $(VENV)/.dev models  ## Kill everything, lose nothing; KILLS=60 SEED=1 MINUTES=60 GROUP=consumer|share
	$(PY) -m tests.chaos --kills $(KILLS) --seed $(SEED) --minutes $(MINUTES) --group $(GROUP)

soak: $(VENV)/.dev models ffmpeg  ## Memory and what is in flight, for some 20 minutes
	$(PY) -m pytest tests/soak -m soak -s

check: $(VENV)/.dev  ## Lint, types, layers
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports

bench: $(VENV)/.dev models  ## Ratios and rates of docs/performance.md
	$(PY) -m tests.bench

lock: $(VENV)/.dev  ## Pin the newest allowed versions
	$(PIP) uv
	$(VENV)/bin/uv pip compile -q --universal --generate-hashes --no-header --no-annotate \
	    --extra all pyproject.toml -o requirements/run.lock
	$(VENV)/bin/uv pip compile -q --universal --generate-hashes --no-header --no-annotate \
	    --extra dev -c requirements/run.lock pyproject.toml -o requirements/dev.lock

clean:  ## Remove the environment and what the demo left
	rm -rf $(VENV) demo/out.* demo/clip.mp4 demo/.data

.PHONY: models
models:
	@$(VENV)/bin/facestream models pull >/dev/null

$(VENV)/.run: requirements/run.lock pyproject.toml | python
	$(PYTHON) -m venv $(VENV)
	$(PIP) --require-hashes -r requirements/run.lock
	$(PIP) --no-deps -e .
	@touch $@

$(VENV)/.dev: requirements/dev.lock pyproject.toml | $(VENV)/.run
	$(PIP) --require-hashes -r requirements/dev.lock
	@touch $@

python:
	@$(PYTHON) -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "facestream needs Python 3.11 or later with venv. On Debian and Ubuntu:" >&2; \
	  echo "    apt-get install -y python3 python3-venv make" >&2; exit 1; }

ffmpeg:
	@command -v ffmpeg >/dev/null && command -v ffprobe >/dev/null || { \
	  echo "The media tests make their files with ffmpeg. On Debian and Ubuntu:" >&2; \
	  echo "    apt-get install -y ffmpeg" >&2; exit 1; }
