# Needs Python >= 3.10 with pip, and make; everything else is set up by the target that needs it.
# The work is in noxfile.py: these targets make `.venv` and call its sessions.

# What .ci/run runs, in its order: the longest first, so that no core waits for another at the end.
# `servers` goes on beside them; `e2e` comes when it is likely to be done.
CHECKS := frameworks-newest frameworks-oldest coverage otel-oldest test processes prove beside \
  upstream hcs docs e2e types wheel redis rollout site demo configs minimal lint
TARGETS := $(filter-out demo,$(CHECKS)) frameworks frameworks-between pythons paths matrix e2e-full redcode dojo bench bench-adapters bench-collector fuzz mutants canary locks viewers pictures kills demo-console

CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/otelhooks
NOX = .venv/bin/python -m nox --session

# A private uv goes first on the path; it is installed where there is none, or one too old.
export PATH := $(CACHE)/uv/bin:$(PATH)
# Never another Python than those of this machine, never an environment that happens to be active.
export UV_PYTHON_DOWNLOADS := never
unexport VIRTUAL_ENV
# uv trusts the certificates of the system, as pip does, so that it works behind a TLS proxy. The
# second name is what older releases call it.
export UV_SYSTEM_CERTS ?= 1
export UV_NATIVE_TLS ?= 1
# Tests start Python hundreds of times: without byte code on disk, each compiles its libraries again.
export UV_COMPILE_BYTECODE := 1
unexport PYTHONDONTWRITEBYTECODE
export PIP_ROOT_USER_ACTION := ignore
export PIP_DISABLE_PIP_VERSION_CHECK := 1

# Make or update an environment: $(1) its folder, $(2) its lock, $(3) further packages, $(4) words for
# what is installed and how. It is made again when its lock or pyproject.toml changes.
define environment
if [ "$$(cat $(1)/otelhooks-ready 2>/dev/null)" = "$$(cat pyproject.toml $(2) | cksum)" ] \
	&& $(1)/bin/python -c "import otelhooks" 2>/dev/null && command -v uv >/dev/null; then :; else set -e; \
	python=; for each in "$$PYTHON" python3.13 python3.12 python3.11 python3.10 python3 python; do \
		if [ -n "$$each" ] && $$each -c 'import sys; sys.exit(sys.version_info < (3, 10))' \
			2>/dev/null; then python=$$each; break; fi; \
	done; \
	if [ -z "$$python" ]; then \
		echo 'error: there is no Python 3.10 or newer on the path' >&2; \
		echo 'hint: name one: `make PYTHON=/path/to/python3 ...`' >&2; exit 1; \
	fi; \
	echo "setup: making $(1) with $$($$python --version) from $(2)$(4)"; \
	if ! uv pip install --help 2>/dev/null | grep -q -e --group; then \
		$$python -m pip install --quiet --upgrade --target "$(CACHE)/uv" 'uv>=0.9,<1'; \
	fi; \
	if ! $(1)/bin/python -c '' 2>/dev/null; then \
		uv venv --quiet --clear --python "$$(command -v $$python)" $(1); \
	fi; \
	uv pip sync --quiet --python $(1) $(2); \
	uv pip install --quiet --python $(1) --no-deps --editable . $(3); \
	cat pyproject.toml $(2) | cksum > $(1)/otelhooks-ready; fi
endef

.PHONY: help setup demo check clean env adapter stack servers $(TARGETS)

help: ## show this list
	@sed -n 's/^\([a-z0-9-]*\):.*## /\1\t/p' Makefile | sort | expand -t 20

setup: ## make or update .venv from tests/locks/dev.txt
	@$(call environment,.venv,tests/locks/dev.txt,--editable docs/coming-from/checker)

# Without byte code for what is never imported: that would take longer than all of the rest.
demo: export UV_COMPILE_BYTECODE := 0
demo: ## real agents of three frameworks under a policy, in the terminal
	@$(call environment,.venv-demo,tests/locks/demo.txt,, (once))
	@.venv-demo/bin/python -m otelhooks demo

test: ## the fast tests, on every core
processes: ## tests that start processes: commands, forks, workers, signals
configs: ## files that servers start from: collector, compose, dashboards; and `make stack`
lint: ## ruff: rules and format
types: ## pyright: strict inside, complete outside
matrix: ## examples of five systems beside the frameworks that play them, as a table
paths: ## the contract by framework, path and version, as a table, and the README's rows
frameworks: ## each adapter against the newest and oldest version of its framework
frameworks-newest: ## of these the newest
frameworks-oldest: ## of these the oldest, where something has changed since they were green here
frameworks-between: ## of these the versions between, likewise
coverage: ## fast tests and processes with the newest Python here; they take every branch of hooks and policy
beside: ## agents that others trace as well: Logfire, OpenInference, Traceloop, OpenTelemetry's own
redis: ## limits that processes share, with a real Redis server
rollout: ## real web servers are told to stop by a signal, and nothing is lost
hcs: ## the audit trail on a Hedera topic, with consensus nodes on loopback
upstream: ## the tests of google-antigravity's hooks, policy and records, against ours
otel-oldest: ## fast tests and processes with the oldest Python here, OpenTelemetry 1.38 and every other lower bound
pythons: ## fast tests and processes on each Python here that none of the checks has
wheel: ## the built wheel has every file, and its commands work in another folder
minimal: ## the bare package imports and denies
docs: ## every block of README and docs, and the commands of the guide
site: ## the documentation as a site, in the user's cache; a broken link or anchor fails
e2e: ## real agents through collector, trace store, metrics and alerts, every hop looked at
e2e-full: ## fleets of collectors with Kafka between them, and what is left when a part of one fails
viewers: ## what Phoenix and MLflow show of a run, and our site, through Chromium, which must be installed
prove: ## `doctor --prove` with the frameworks of the demo, and with all that can be installed together
bench: ## each budget beside its figure
bench-adapters: ## what each newer adapter adds, beside what others trace its framework with
bench-collector: ## what a span costs in each collector configuration, beside a bare collector
redcode: ## what the pack `shell` says to RedCode's scripts and to ours: `make redcode REDCODE=/path`
dojo: ## AgentDojo replayed without a model: attacks, tasks and questions under policy files
fuzz: ## some twenty minutes of made-up texts for the loaders of policy files
mutants: ## whether tests notice small changes to the code that decides and records
canary: ## seats, proof and contract with the newest release of every framework, locked or not
kills: ## kill -9 of the console and of waiting programs 200 times, at random points around an answer
demo-console: ## an agent and the console, watched and answered in Chromium, with pictures of each step
pictures: ## draw the pictures of README and docs from real runs, where those show something new
locks: ## resolve every file in tests/locks anew

# What follows the name of a session.
WORDS_redcode := -- "$(REDCODE)"

# A session has the name of its target but for these.
SESSION_types := typing
SESSION_frameworks-newest := frameworks --keywords 'frameworks and latest'
SESSION_frameworks-oldest := frameworks --keywords 'frameworks and oldest'
SESSION_frameworks-between := frameworks --keywords 'frameworks and between'
SESSION_bench-adapters := bench_adapters
SESSION_bench-collector := bench_collector
SESSION_demo-console := demo_console
SESSION_e2e-full := e2e_full
SESSION_otel-oldest := otel_oldest
SESSION_pythons := unit

$(TARGETS): setup
	@$(NOX) $(or $(SESSION_$@),$@) $(WORDS_$@)

stack: setup ## collector, Jaeger, Prometheus, Alertmanager, built from source, until Ctrl-C
	@exec .venv/bin/python -m tests.e2e.stack

servers: setup ## build the servers of `make stack` and `make e2e`, where the cache has none
	@nice -n 10 .venv/bin/python -m tests.e2e.stack --build

env: setup ## make the environment of one lock, `make env LOCK=demo`, and print its Python
	@$(NOX) "env($(LOCK))"

adapter: setup ## lay out the files of an adapter, `make adapter NAME=haystack DISTRIBUTION=haystack-ai`
	@.venv/bin/python -m tests.new_adapter "$(NAME)" "$(DISTRIBUTION)"

check: ## all that .ci/run runs
	@bash .ci/run

clean: ## remove .venv, the environments in the user's cache, and what tools left here
	rm -rf .venv .venv-demo .coverage .hypothesis .nox .pytest_cache .ruff_cache build dist "$(CACHE)/envs"
	find otelhooks tests -name __pycache__ -type d -prune -exec rm -rf {} +

# For .ci/run: one list of checks, kept here.
.PHONY: print-checks
print-checks:
	@echo $(CHECKS)
