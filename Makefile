# The two main targets: `make run` starts OSMO Admin, `make test` tests it. Both install what they need.
# Python 3.11 or newer is the only requirement; uv is used when it is installed.

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
UP     ?=
PYTEST ?=
STATUS ?=
PART   ?=
JOBS   ?= 2

# The certified OpenID provider of the tests.
OIDC := tests/support/oidc_provider_npm

# Of `make check-history`.
OPERATIONS ?= 2000
FAULTS     ?= 40
SEED       ?=
PLANT      ?=
OUT        ?=

# Of `make mutation`.
PACKAGES ?= pools/domain scheduling/domain pools/services scheduling/services
MODULES  ?= 8
SAMPLE   ?= 40

.DEFAULT_GOAL := help
.PHONY: help run test test-nightly check-history lint format types imports words migrations check deploy-check openapi openapi-check reference client lock lock-check audit mutation bench bench-check deps-debian setup setup-dev setup-test clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: setup ## start OSMO Admin (UP="--port 9000 --no-demo" for options of osmo-admin up)
	@exec $(BIN)/osmo-admin up $(UP)

# With STATUS the exit code goes to that file: after a failed recipe make's own message would follow pytest's summary.
test: setup-test ## run every test; names at the end the tests whose tools are missing
	@$(BIN)/python -m pytest -n $(JOBS) --dist worksteal $(PYTEST)$(if $(STATUS),; echo $$? > $(STATUS))

test-nightly: setup-test ## run the long tests and the larger samples, in parts (PART=faults runs one of them)
	@failed=; for part in $(or $(PART),$$($(BIN)/python -m tests.support.nightly_parts)); do \
	 echo "::: $$part"; $(BIN)/python -m pytest -n $(JOBS) --dist worksteal --nightly --part $$part -o timeout=3600 $(PYTEST) \
	 || failed="$$failed $$part"; done; [ -z "$$failed" ] || { echo "::: FAILED:$$failed"; exit 1; }

check-history: setup-dev ## check a history under faults (SEED=7 OPERATIONS=10000 FAULTS=200 PLANT=lock OUT=folder)
	@$(BIN)/python -m tests.history.run --operations $(OPERATIONS) --faults $(FAULTS) \
	 $(if $(SEED),--seed $(SEED)) $(if $(PLANT),--plant $(PLANT)) $(if $(OUT),--out $(OUT))

lint: setup-dev ## check rules and format with ruff
	@$(BIN)/ruff check . && $(BIN)/ruff format --check .

format: setup-dev ## fix with ruff what can be fixed
	@$(BIN)/ruff check --fix . ; $(BIN)/ruff format .

types: setup-dev ## check types with mypy, strict
	@$(BIN)/mypy

imports: setup-dev ## check which package imports which
	@$(BIN)/lint-imports

words: ## check that no banished word is used (scripts/check-words)
	@$(PYTHON) scripts/check-words

migrations: setup-dev ## check that each model change has its migration
	@$(BIN)/python manage.py makemigrations --check --dry-run

deploy-check: setup-dev ## check a production configuration with Django's and our own checks
	@env -u OSMO_ENVTEST OSMO_SECURE=true OSMO_PUBLIC_URL=https://osmo.example OSMO_ALLOWED_HOSTS=osmo.example \
	 OSMO_SECRET_KEY=$$($(BIN)/python -c 'import secrets; print(secrets.token_urlsafe(48))') \
	 DATABASE_URL= OSMO_ADMIN_HOME= $(BIN)/python manage.py check --deploy --fail-level WARNING

openapi: setup-dev ## write docs/openapi.yaml
	@$(BIN)/python manage.py spectacular --file docs/openapi.yaml

openapi-check: setup-dev ## check that docs/openapi.yaml is current
	@mkdir -p artifacts && $(BIN)/python manage.py spectacular --file artifacts/openapi.yaml \
	 && diff -u docs/openapi.yaml artifacts/openapi.yaml || { echo "docs/openapi.yaml is stale: make openapi"; exit 1; }

reference: setup-dev ## write the generated pages of docs/ (its README names them) and deploy/osmo-admin.env
	@$(BIN)/python -m scripts.reference.client > docs/client.md
	@$(BIN)/python -m scripts.reference.error_codes > docs/error-codes.md
	@$(BIN)/python -m scripts.reference.numbers > docs/numbers.md
	@$(BIN)/python -m bench.report docs/performance.json > docs/performance.md
	@env -u OSMO_SECURE $(BIN)/python -m scripts.reference.settings deploy/osmo-admin.env > docs/settings.md

client: setup-dev ## build the typed Python client from docs/openapi.yaml, into dist/
	@cd client && "$(abspath $(BIN))/python" -m hatchling build -t wheel -d "$(CURDIR)/dist"

lock: setup-dev ## write the lock files again (UPGRADE=--upgrade takes newer versions)
	@./scripts/lock $(BIN)/uv $(UPGRADE)

lock-check: setup-dev ## check that the lock files are current
	@./scripts/lock $(BIN)/uv --check

audit: setup-dev ## look up known vulnerabilities of the locked packages (needs the internet)
	@./scripts/audit $(BIN)/uv

check: lint types imports words migrations openapi-check lock-check deploy-check ## run all quick checks

mutation: setup-dev ## change the code in small ways and see whether tests notice (PACKAGES, MODULES, SAMPLE, SEED)
	@nice -n 10 $(BIN)/python scripts/mutation $(PACKAGES) --modules $(MODULES) --sample $(SAMPLE) $(if $(SEED),--seed $(SEED))

bench: setup-dev ## measure; JSON on standard output
	@$(BIN)/python -m bench

bench-check: setup-dev ## measure again; fails if a ratio lost more than a quarter (many minutes; nightly)
	@$(BIN)/python -m bench.check $(FRESH)

deps-debian: ## install the tools of the tests on Debian: PostgreSQL, Chromium, etcd, Node.js, PgBouncer, Prometheus, slapd
	apt-get update && apt-get install -y --no-install-recommends chromium etcd-server nodejs npm pgbouncer postgresql prometheus slapd

clean: ## remove everything that make built (never your data)
	rm -rf $(VENV) artifacts .pytest_cache .mypy_cache .ruff_cache .hypothesis

# A stamp is newer than its lock file exactly when the environment holds the locked versions.
setup: $(VENV)/.installed
setup-dev: $(VENV)/.installed-dev
setup-test: setup-dev $(VENV)/bin/helm $(OIDC)/node_modules/.package-lock.json

$(VENV)/.installed: requirements.lock pyproject.toml
	@PYTHON="$(PYTHON)" ./scripts/setup-venv "$(VENV)" requirements.lock
	@touch $@

$(VENV)/.installed-dev: requirements-dev.lock pyproject.toml
	@PYTHON="$(PYTHON)" ./scripts/setup-venv "$(VENV)" requirements-dev.lock
	@touch $@ $(VENV)/.installed

# Where helm or npm is missing and cannot be installed, the tests name it at the end.
$(VENV)/bin/helm: scripts/get-helm | setup-dev
	@command -v helm >/dev/null || [ "$$(uname -sm)" != "Linux x86_64" ] || ./scripts/get-helm $(BIN) $(BIN)/uv

$(OIDC)/node_modules/.package-lock.json: $(OIDC)/package-lock.json
	@! command -v npm >/dev/null || npm ci --prefix $(OIDC) --no-audit --no-fund --loglevel=error >&2
