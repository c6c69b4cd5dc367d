# Everything a developer or a new user runs. `make` alone shows this list.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
DEMO_RUN ?= demo_run
# Processes that share the tests, more than two cores have as some wait for a child; TEST_PROCESSES=0: one.
TEST_PROCESSES ?= 3
# An interpreter with transformers, diffusers, timm, torch_geometric, ...: what is not there is skipped.
LIBRARIES ?= $(abspath $(BIN)/python)

.DEFAULT_GOAL := help
.PHONY: help env dev-env demo test check plain release real-models pictures docs format bench clean

help: ## Show this list
	@awk -F':.*## ' '/^[a-z-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

env: $(VENV)/.installed ## Make the virtual environment (torch's CPU build, textual, the test tools)

$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 10) else "Inspector needs Python 3.10 or newer; try make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[test]'
	touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[test,dev]'
	touch $@

dev-env: $(VENV)/.installed-dev ## The same with linters, type checker and benchmark tools

demo: env ## Capture the softmax example and the same in eager, say how they compare, and open it
	@rm -rf $(DEMO_RUN)
	$(BIN)/inspector capture --baseline -o $(DEMO_RUN) -- $(BIN)/python sample_runs/softmax/softmax.py
	$(BIN)/inspector explain $(DEMO_RUN)
	@if [ -t 0 ] && [ -t 1 ]; then $(BIN)/inspector open $(DEMO_RUN); \
	else echo "on a terminal this would now open it: inspector open $(DEMO_RUN)"; fi

test: env ## Run all tests
	@# Some hundred commands are started: none shall compile its modules anew where Python keeps nothing.
	@$(BIN)/python -m compileall -q inspector
	$(BIN)/python -m pytest -n $(TEST_PROCESSES) --dist worksteal $(PYTEST_ARGS)

check: dev-env ## Lint, format, types, import contracts, declared dependencies
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/deptry inspector

real-models: dev-env ## Run programs that use real libraries through every command (hours; LIBRARIES=python with them)
	$(BIN)/python benchmarks/real_models.py --python $(LIBRARIES)

plain: ## Install the wheel alone, without torch and with each extra, and run every command shown (half an hour)
	$(PYTHON) tests/plain_install.py $(PLAIN_ARGS)

release: ## Build and check what would be published, then `make plain` (an hour)
	$(PYTHON) tests/release.py
	$(MAKE) plain

pictures: env ## Draw the pictures of the docs anew, from the sample runs
	$(BIN)/python docs/tools/pictures.py

docs: $(VENV)/.installed-docs ## Build the documentation into build/docs, for reading without a network
	$(BIN)/python docs/tools/commands.py
	$(BIN)/mkdocs build --strict --quiet
	@echo "open build/docs/index.html"

$(VENV)/.installed-docs: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[test,docs]'
	touch $@

format: dev-env ## Format and fix what can be fixed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

BENCHMARKS := linkage fusion fusion_pane tlparse_parity replay_kernels recorder speed

bench: dev-env ## Print the figures of benchmarks/ (half an hour), and what it leaves out
	@for name in $(BENCHMARKS); do echo "== benchmarks/$$name.py"; $(BIN)/python benchmarks/$$name.py || exit 1; done
	@echo "== left out"; sed -n '/^## Left out/,/^|/s/^    //p' benchmarks/README.md

clean: ## Remove what make made, the environment included
	rm -rf $(VENV) $(DEMO_RUN) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache
