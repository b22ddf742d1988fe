# Every task is one line here; `make` lists those that you call. ARGS passes options on: make test ARGS="-k setup".
VENV ?= .venv
PYTHON ?= $(or $(shell command -v python3 2>/dev/null),$(shell command -v python 2>/dev/null),$(error No Python was found. Install Python 3.11 or newer (https://www.python.org/downloads/) and run the command again))
RUN = "$(VENV)/bin/python"
SETUP = "$(PYTHON)" tools/bootstrap.py --venv "$(VENV)" $(if $(TORCH),--torch "$(TORCH)")
# What belongs to one lesson. Its answers are judged and its files looked at, whatever the other finds.
BOOKS = $(or $(wildcard notebooks/*_$(LESSON).ipynb notebooks/*/*_$(LESSON).ipynb),$(error There is no lesson "$(LESSON)". Say it without its number: LESSON=detach. There are $(notdir $(basename $(wildcard notebooks/solutions/*.ipynb)))))
STYLED = $(if $(LESSON),course_utils/lessons/$(LESSON) tests/lessons/right/$(LESSON).py $(BOOKS),.)
TESTS = tests/lessons tests/test_lessons_are_fresh.py tests/test_readme.py tests/test_weight.py $(BOOKS)
# Hundreds of processes import the course. Where no byte code may be kept, each of them compiles it again.
export PYTHONDONTWRITEBYTECODE =
.DEFAULT_GOAL := help
.PHONY: help lab fresh check test nightly lessons book environment tools

help:  ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "make %-11s %s\n", $$1, $$2}' Makefile
lab: environment  ## learn: set everything up, fill my_notebooks/, open JupyterLab
	@$(RUN) -m course_utils lab $(ARGS)
fresh: environment  ## a lesson as it was, your file kept beside it: make fresh LESSON=03_detach
	@$(RUN) -m course_utils fresh "$(LESSON)"
check: tools  ## while you work, 45 s: style, quick tests; 20 s for one lesson: make check LESSON=detach
	@$(RUN) -m ruff check -q $(STYLED) && $(RUN) -m ruff format --check --force-exclude $(STYLED); style=$$?; \
		$(RUN) -m pytest $(if $(LESSON),-k $(LESSON) $(TESTS),--tier check tests) $(ARGS) && exit $$style
test: tools  ## before a push, 5 min: everything CI runs: types, package, notebooks, browser
	@$(RUN) -m pytest $(ARGS)
nightly: tools  ## every test, 20 rounds of each answer, every lesson in the browser, the long sweeps
	@$(RUN) -m pytest --tier nightly $(ARGS)
	@$(RUN) -m benchmarks.memory_sweep
lessons: tools  ## write what is made: headings, check cells, learner notebooks, README's table
	@$(RUN) -m course_utils.authoring build
book:  ## the course as a site in build/book/, to read without JupyterLab
	@$(SETUP) --extra book
	@$(RUN) -m tools.book $(ARGS)
environment:
	@$(SETUP)
tools:
	@$(SETUP) --extra dev
