# Every target works in an empty clone. Environments are made on first use and again when setup.cfg changes.
PYTHON ?= python3
BIN := .venv/bin
DEMO := .venv-demo/bin/attnbench
# Sound, and neither in the grid nor published.
UNMEASURED := sigmoid(q) @ (sigmoid(k).T @ v)

.PHONY: help demo demo-train test test-all check readme clean

help:
	@echo "make demo        query, rank and search the table (base install, no torch)"
	@echo "make demo-train  measure one graph live (installs torch)"
	@echo "make test        the tests, under 8 minutes;  make test-all  also the slow ones"
	@echo "make check       ruff, mypy, import-linter"
	@echo "make readme      write the generated parts of README.md, docs/ and the notebook's outputs again"

.venv-demo/.installed: setup.cfg pyproject.toml
	@echo "Installing attnbench without torch into .venv-demo ..."
	$(PYTHON) -m venv .venv-demo
	.venv-demo/bin/python -m pip install --quiet --disable-pip-version-check -e .
	@touch $@

.venv/.installed: setup.cfg pyproject.toml constraints.txt
	@echo "Installing attnbench with torch and the development tools into .venv (a few minutes) ..."
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[nn,dev]'
	@touch $@

demo: .venv-demo/.installed
	@echo; echo "1. What was measured of one formula?"
	$(DEMO) query "softmax(q) @ (softmax(k, axis=-2).T @ v)"
	@echo; echo "2. Which ten are best?"
	$(DEMO) top
	@echo; echo "3. How well does a search do against random draws?"
	$(DEMO) search --budget 100
	@echo; echo "4. How well do zero-cost proxies rank?"
	$(DEMO) tau
	@echo; echo "5. Not in the table? Train exactly that row, here (needs torch and Fashion-MNIST):"
	@echo "    make demo-train        or: pip install 'attnbench[nn]'; attnbench measure \"$(UNMEASURED)\""

demo-train: .venv/.installed
	$(BIN)/attnbench measure "$(UNMEASURED)"

test: .venv/.installed
	$(BIN)/python -m pytest -n 2 --durations 10

test-all: .venv/.installed
	$(BIN)/python -m pytest -n 2 --durations 20 -m "not gpu and not network"

check: .venv/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

readme: .venv/.installed
	$(BIN)/python -m builders readme
	$(BIN)/python -m builders notebook

clean:
	rm -rf .venv .venv-demo build dist *.egg-info
