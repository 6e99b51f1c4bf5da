# A fresh machine needs make and Python >= 3.11; the first target called sets up the rest.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/ready

# Files of the paper's data sets, if they lie beside this checkout.
ifneq ($(wildcard ../shared/data/.),)
export DALD_DATA ?= $(abspath ../shared/data)
endif

# Tests start Python anew many times: what it compiles is kept, whatever the environment says.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo check test test-next lint pytest wheel bench peers fuzz notebooks docs clean

help:  ## show this help
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(READY)  ## solve the paper's problems and check the answers
	$(BIN)/dald demo

check: $(READY)  ## between two edits: style, who may import whom, the first case of each fast test
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/lint-imports --no-cache
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/pytest -q -n 2 --dist worksteal -m "not slow"

test: lint pytest wheel docs  ## everything CI runs: lint, tests, the wheel and the manual

lint: $(READY)  ## style (ruff), types (pyright), and who may import whom (import-linter)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	PYRIGHT_PYTHON_IGNORE_WARNINGS=1 $(BIN)/pyright
	$(BIN)/lint-imports --no-cache

pytest: $(READY)  ## tests and doctests, in two processes of one thread each
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist worksteal

# pyproject.toml bounds cvxpy by what the tests passed with last: this says whether to move the bound.
test-next:  ## the tests with the newest cvxpy, releases to come included, in .venv-next
	$(PYTHON) -m venv --clear .venv-next
	.venv-next/bin/python -m pip install -qq --upgrade pip
	.venv-next/bin/pip install -qq --editable ".[all]" --group dev
	.venv-next/bin/pip install -qq --upgrade --pre cvxpy
	.venv-next/bin/python -c 'import cvxpy; print("cvxpy", cvxpy.__version__)'
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 .venv-next/bin/pytest -n 2 --dist worksteal

# The wheel is built from the sdist, installed into a venv of its own and used from elsewhere. The
# dependencies are those of .venv, by a .pth line: Python reads no .pth files in a folder named by
# another .pth line, so the editable install there stays unseen.
wheel: $(READY)  ## build the wheel and use it away from this checkout
	rm -rf dist
	$(BIN)/python -m build --quiet --no-isolation
	$(BIN)/check-wheel-contents --toplevel dald_model dist/*.whl
	@set -e; elsewhere=$$(mktemp -d); trap 'rm -rf "$$elsewhere"' EXIT; \
	purelib='import sysconfig; print(sysconfig.get_path("purelib"))'; \
	$(BIN)/python -m venv --without-pip "$$elsewhere"; \
	$(BIN)/pip --python "$$elsewhere/bin/python" install --quiet --no-deps dist/*.whl; \
	$(BIN)/python -c "$$purelib" > "$$("$$elsewhere/bin/python" -c "$$purelib")/dependencies.pth"; \
	cd "$$elsewhere"; \
	bin/python -c 'import dald_model, dald_model.models, dald_model.solvers; print(dald_model.__file__)' \
	| grep "^$$elsewhere/"; \
	bin/dald --help > /dev/null

# Ratios hold on any machine, times on this one. FULL=1 adds 1,000 clients: AIO takes minutes each.
bench: $(READY)  ## speed, memory and rounds against cvxpy, as tables (minutes)
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 FULL=$(FULL) $(BIN)/python -m tests.benchmarks

# Peers that this environment lacks get one of their own below build/peers, from pinned requirements.
peers: $(READY)  ## other packages on the same tasks, judged from outside (minutes)
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m tests.benchmarks.peers --record
	$(BIN)/python -m tests.manual.numbers

# A seed draws always the same model; without SEED a random first seed is drawn and printed.
FUZZ ?= 10000
fuzz: $(READY)  ## many random models against the all-in-one solve (an hour; FUZZ=500: minutes)
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m tests.fuzz --units 10 --count $(FUZZ) $(if $(SEED),--seed $(SEED))

notebooks: $(READY)  ## run the notebooks again and keep what they show
	$(BIN)/python -m tests.test_notebooks

# Without internet: formulas are MathML, and nothing is looked up elsewhere. A warning is an error.
docs: $(READY)  ## build the manual: build/manual/index.html
	$(BIN)/python -m pip install -qq --group docs
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/sphinx-build -q -W --keep-going notebooks/manual build/manual
	@echo build/manual/index.html

clean:  ## remove everything make made, the environments included
	rm -rf .venv .venv-next build dist notebooks/manual/made *.egg-info .coverage .hypothesis .pytest_cache .ruff_cache
	find . -name __pycache__ -prune -exec rm -rf {} +

$(READY): pyproject.toml | $(BIN)/pip
	@echo "Installing dald_model and its tools into .venv: about a minute ..."
	@$(BIN)/python -m pip install -qq --upgrade pip
	@$(BIN)/python -m pip install -qq --editable ".[all]" --group dev
	@touch $@

$(BIN)/pip:
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("dald_model needs Python >= 3.11; \
	$(PYTHON) is %d.%d. Name another: make PYTHON=python3.12" % sys.version_info[:2])'
	@$(PYTHON) -m venv .venv
