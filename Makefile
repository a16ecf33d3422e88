# Two commands for everybody: `make run` starts the house, `make test` tests it. Both set up what they need.
# Python 3.11 or newer is all they ask for; uv is used when it is there.

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
UP     ?=
PYTEST ?=
JOBS   ?= 2

.DEFAULT_GOAL := help
.PHONY: help run test test-nightly lint format types imports migrations check deploy-check openapi lock lock-check bench deps-debian setup setup-dev clean

help: ## what there is to do
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: setup ## start the house (UP="--port 9000 --no-demo" for options of osmo-admin up)
	@exec $(BIN)/osmo-admin up $(UP)

test: setup-dev ## run every test; says at its end what could not run and how to get it
	@$(BIN)/python -m pytest -n $(JOBS) --dist worksteal $(PYTEST)

test-nightly: setup-dev ## the long ones too, with larger samples
	@$(BIN)/python -m pytest -n $(JOBS) --dist worksteal --nightly $(PYTEST)

lint: setup-dev ## ruff: rules and format
	@$(BIN)/ruff check . && $(BIN)/ruff format --check .

format: setup-dev ## ruff: mend what can be mended
	@$(BIN)/ruff check --fix . ; $(BIN)/ruff format .

types: setup-dev ## mypy, strict
	@$(BIN)/mypy

imports: setup-dev ## which room may import which
	@$(BIN)/lint-imports

migrations: setup-dev ## no model change without its migration
	@$(BIN)/python manage.py makemigrations --check --dry-run

deploy-check: setup-dev ## a production configuration must pass Django's and our own checks without a warning
	@OSMO_SECURE=true OSMO_PUBLIC_URL=https://osmo.example OSMO_ALLOWED_HOSTS=osmo.example \
	 OSMO_SECRET_KEY=$$($(BIN)/python -c 'import secrets; print(secrets.token_urlsafe(48))') \
	 DATABASE_URL= OSMO_ADMIN_HOME= $(BIN)/python manage.py check --deploy --fail-level WARNING

openapi: setup-dev ## write docs/openapi.yaml
	@$(BIN)/python manage.py spectacular --file docs/openapi.yaml

openapi-check: setup-dev
	@mkdir -p artifacts && $(BIN)/python manage.py spectacular --file artifacts/openapi.yaml \
	 && diff -u docs/openapi.yaml artifacts/openapi.yaml || { echo "docs/openapi.yaml is stale: make openapi"; exit 1; }

lock: setup-dev ## pin every dependency anew (UPGRADE=--upgrade takes newer versions)
	@./scripts/lock $(BIN)/uv $(UPGRADE)

lock-check: setup-dev
	@./scripts/lock $(BIN)/uv --check

check: lint types imports migrations openapi-check lock-check deploy-check ## all quick checks

bench: setup-dev ## measure; JSON on standard output
	@$(BIN)/python -m bench

deps-debian: ## what the tests would like on Debian: PostgreSQL, Chromium, etcd
	apt-get update && apt-get install -y --no-install-recommends chromium etcd-server postgresql

clean: ## remove what make made (never your data)
	rm -rf $(VENV) artifacts .pytest_cache .mypy_cache .ruff_cache .hypothesis

# A stamp is newer than its lock exactly when the environment holds what the lock says.
setup: $(VENV)/.installed
setup-dev: $(VENV)/.installed-dev

$(VENV)/.installed: requirements.lock pyproject.toml
	@PYTHON="$(PYTHON)" ./scripts/setup-venv "$(VENV)" requirements.lock
	@touch $@

$(VENV)/.installed-dev: requirements-dev.lock pyproject.toml
	@PYTHON="$(PYTHON)" ./scripts/setup-venv "$(VENV)" requirements-dev.lock
	@touch $@ $(VENV)/.installed
