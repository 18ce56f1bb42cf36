# Every command of the platform. `make up` needs only Python >= 3.11, Node >= 20 and make.

SHELL := /bin/bash
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

PYTHON := .venv/bin/python

.PHONY: help setup setup-dev frontend up demo test test-long lint format proto api-schema config-table bench chaos

help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 22

setup: frontend ## Install the locked dependencies and build the front end, where either changed
	@.ci/install.sh requirements.lock

setup-dev: frontend
	@.ci/install.sh requirements-dev.lock

frontend:
	@frontend/build.sh

up: setup ## Start the whole platform on this machine; Ctrl-C stops it (ARGS=--ephemeral)
	@exec $(PYTHON) manage.py up $(ARGS)

demo: setup ## Like `up`, with simulated engines that make real calls
	@exec $(PYTHON) manage.py up --demo $(ARGS)

test: setup-dev ## Run every test that takes seconds (ARGS="-k word" narrows it)
	@.ci/test_packages.sh
	@$(PYTHON) -m pytest -m "not long and not bench" $(ARGS)

test-long: setup-dev ## Run the tests that take minutes
	@.ci/test_packages.sh long
	@$(PYTHON) -m pytest -m "long and not bench" $(ARGS)

lint: setup-dev ## Check style, types, import rules and everything generated
	@.ci/lint.sh

format: setup-dev ## Rewrite Python sources in the house style
	@$(PYTHON) -m ruff check --fix .
	@$(PYTHON) -m ruff format .

proto: setup-dev ## Generate kvcm_platform/pb from proto/
	@$(PYTHON) proto/generate.py

api-schema: setup-dev ## Generate the OpenAPI document and the front end's types from the REST API
	@$(PYTHON) manage.py spectacular --validate --format openapi-json --file frontend/src/api/schema.json
	@cd frontend && npm run --silent api-types

config-table: setup-dev ## Generate docs/configuration.md from the typed environment
	@$(PYTHON) -m kvcm_platform.supervisor.configuration_table docs/configuration.md

bench: setup-dev ## Run the benchmarks: medians and ratios, nothing fails
	@$(PYTHON) -m pytest tests/bench -m bench -q -s $(ARGS)

chaos: setup-dev ## Kill processes under load, then compare usage with a recount
	@$(PYTHON) -m pytest -m chaos $(ARGS)
