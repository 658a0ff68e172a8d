# Podwright's commands; CI calls the same ones. `make help` lists them.
SHELL := /bin/bash
PYTHON ?= $(shell ./.ci/find-python)
VENV ?= .venv
BIN := $(VENV)/bin
# The version of Kubernetes for all commands that start a control plane: make test KUBERNETES=1.35.4, or 1.35
ifdef KUBERNETES
export KUBERNETES_VERSION := $(KUBERNETES)
endif

.PHONY: help venv lock run demo cluster test test-fast test-changed lint format crds verify bench bench-core

help: ## list the commands
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 14

venv: $(BIN)/.ready ## set up .venv from the lock file

$(BIN)/.ready: requirements-dev.lock pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	$(BIN)/python -m compileall -q operator
	@touch $@

lock: ## pin all dependencies again (needs uv)
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header pyproject.toml --extra joint -o requirements.lock
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header pyproject.toml --group dev --group build -o requirements-dev.lock

# Each process has control planes of its own, and takes a whole file at a time. A test with one waits two thirds of its time, so four processes
# keep two cores busy.
test: WORKERS ?= 4
test-fast test-changed: WORKERS ?= 2
test: venv ## run all tests, on a real etcd and kube-apiserver (KUBERNETES=1.35: of that version, as in all that start them; WORKERS=0: in one process)
	$(BIN)/python -m pytest --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder $(ARGS)

# How many times the generated examples of make test
EXAMPLES ?= 0.2
FAST = PODWRIGHT_EXAMPLES=$(EXAMPLES) $(BIN)/python -m pytest --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder -m "not control_plane and not slow" -q
test-fast: venv ## run the tests that take seconds and need no control plane, with fewer generated examples (WORKERS=0: in one process)
	$(FAST) $(ARGS)

SINCE ?= main
test-changed: venv ## run those tests of make test-fast that import what has changed since the branch left SINCE=main
	@files=$$(PYTHONPATH=tests $(BIN)/python -m support.changed_tests $(SINCE)) && \
	  if test -z "$$files"; then echo "nothing has changed that a test imports"; else $(FAST) $(ARGS) $$files; fi

lint: venv ## check with ruff, mypy and import-linter
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: venv ## fix and format with ruff
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# --- the real control plane and the benchmark -------------------------------------------------------------
.PHONY: control-plane

control-plane: venv ## build etcd, kube-apiserver, kubectl, … with Go into the cache
	$(BIN)/python -m podwright.testing build
	PYTHONPATH=tests $(BIN)/python -m tests.e2e.upstream --build
	PYTHONPATH=tests $(BIN)/python -m support.conformance.oracle --build

cluster: venv ## start a real control plane, print its kubeconfig, run until Ctrl-C (ARGS="--nodes 20 --with kwok")
	@$(BIN)/python -m podwright.testing up $(ARGS)

.PHONY: faults
faults: venv ## run all fault tests, including the long ones, with their figures (ARGS="-k etcd")
	PODWRIGHT_FAULTS=all $(BIN)/python -m pytest tests/faults $(ARGS)

.PHONY: fuzz
fuzz: venv ## run the fuzz tests with far more cases than make test has (ARGS="-k mutated")
	PODWRIGHT_EXAMPLES=10 $(BIN)/python -m pytest --timeout 0 -m hypothesis tests/unit $(ARGS)
	PODWRIGHT_WAVES=100000 PODWRIGHT_HTTP_CASES=1000000 PODWRIGHT_GENERATED=100000 PODWRIGHT_GENERATED_POLICIES=5000 PODWRIGHT_CONFIGURATION_CASES=2000 PODWRIGHT_EXTENDER_CASES=300 PODWRIGHT_TREES=500 PODWRIGHT_CEL_CASES=200000 PODWRIGHT_CEL_EXPRESSIONS=100000 PODWRIGHT_ORACLE_CASES=50000 PODWRIGHT_SAMPLED_CASES=1 PODWRIGHT_RECLAIMS=1120 PODWRIGHT_REBALANCES=10000 $(BIN)/python -m pytest --timeout 0 \
	  tests/unit/kube/client/test_response.py tests/unit/engine/intake/test_generated_objects.py tests/unit/kube/policies/test_generated_policies.py \
	  tests/contract/test_kubeconfigs.py tests/conformance/test_configuration.py tests/conformance/test_cel.py tests/unit/core/cel_columns tests/conformance/test_oracle.py tests/conformance/test_explain.py tests/conformance/test_simulation.py tests/unit/simulator/test_redaction.py tests/integration/test_extender_oracle.py tests/integration/test_composite_conformance.py \
	  tests/hostile/test_memory.py tests/unit/core/preemption/test_reclaim_histories.py tests/unit/core/rebalance/test_plans_hold.py tests/unit/engine/rebalance/test_moves_hold.py $(ARGS)

.PHONY: conformance
conformance: venv ## compare 1,000 random cases of a new seed with kube-scheduler's own code (ARGS="--seed N" repeats a run)
	PYTHONPATH=tests $(BIN)/python -m support.conformance.oracle $(ARGS)

.PHONY: hostile
hostile: venv ## measure what hostile objects and policies cost, in process and side by side with kube-scheduler (ARGS=--help)
	PYTHONPATH=tests $(BIN)/python -m tests.hostile $(ARGS)
	PYTHONPATH=tests $(BIN)/python -m support.hostile.teams

.PHONY: e2e
e2e: venv ## run Kubernetes' own scheduling specs, with kube-scheduler and with Podwright (ARGS=--help)
	PYTHONPATH=tests $(BIN)/python -m tests.e2e.upstream $(ARGS)

bench: venv ## compare Podwright with kube-scheduler on a real control plane (ARGS=--help)
	$(BIN)/python -m benchmarks $(ARGS)

# The most important runs come first. Each line adds its runs to the result, even if another line failed. Repeating the command
# resumes it and retries the runs that failed.
PREPARED ?= $(HOME)/.cache/podwright/benchmarks
FULL = $(BIN)/python -m benchmarks --resume --output $(RESULT) --data $(PREPARED) --pairs 5
PAIR := --series podwright --series kube_scheduler
bench-full: venv ## measure everything that a release publishes, into RESULT=FILE; about an hour on two cores (ARGS=--prepare: only prepare)
	-$(FULL) --set full $(PAIR) --series null:2 $(ARGS)
	-$(FULL) --workload SchedulingBasic --size 1000Nodes --mode live --rate 50 --pods 1000 $(PAIR) --series null:1 $(ARGS)
	-$(FULL) --set start $(PAIR) --series null:1 $(ARGS)
	-$(FULL) --workload SchedulingBasic --size 1000Nodes --series podwright_kopf $(ARGS)
	-$(FULL) --set scale $(PAIR) --series null:1 $(ARGS)
	-$(FULL) --workload SchedulingBasic --size 1000Nodes --mode live $(PAIR) --series null:1 $(ARGS)
	test -n "$(ARGS)" || $(BIN)/python -m benchmarks.core.decisions --json $(RESULT:.json=-core.json)

bench-table: venv ## write the README's section on speed from the result that the README names, or from RESULT=FILE
	$(BIN)/python -m benchmarks.report $(RESULT) --readme README.md

.PHONY: profile bench-table bench-full
profile: venv ## profile the operator under a workload: flame graph and top functions (ARGS=--help)
	$(BIN)/python -m benchmarks.profiler $(ARGS)

# --- the CRDs ---------------------------------------------------------------------------------------------
crds: venv ## generate the CRDs from operator/podwright/api
	$(BIN)/python -m podwright.api.crd crds

.PHONY: image image-test
IMAGE ?= podwright
CONTAINERS ?= $(shell command -v podman || command -v buildah || echo docker)
image: ## build the image IMAGE=NAME from Debian's packages, or for a release from BASE=PYTHON-IMAGE@sha256:DIGEST
ifeq ($(BASE),)
	./.ci/build-image "$(IMAGE)" "$(PYTHON)"
else
	./.ci/check-base-image "$(BASE)"
	$(CONTAINERS) build -f Containerfile --build-arg BASE="$(BASE)" -t "$(IMAGE)" .
endif

image-test: venv ## run the image IMAGE=NAME without rights on a read-only root: the demo, and pods of a real control plane
	PODWRIGHT_IMAGE="$(IMAGE)" $(BIN)/python -m pytest tests/image $(ARGS)

.PHONY: options
options: venv ## generate docs/options.md from operator/podwright/kube/options/options.py
	$(BIN)/python -m podwright.cli.docs.options_page docs/options.md

verify: venv ## fail if a generated file is out of date
	$(BIN)/python -m podwright.api.crd --check crds
	$(BIN)/python -m podwright.cli.docs.options_page --check docs/options.md
	$(BIN)/python charts/generate.py --check
	$(BIN)/python -m podwright.cli.docs.strategy_pictures --check docs/strategies.md
	$(BIN)/python -m benchmarks.report --readme README.md --check

.PHONY: notebook
notebook: venv ## run the cells of docs/library.ipynb again
	$(BIN)/python tests/support/examples/notebook.py docs/library.ipynb

.PHONY: recording
recording: venv ## record docs/first-policy.svg, the recording in the README, on a real control plane
	PYTHONPATH=tests $(BIN)/python -m support.examples.recording docs/first-policy.svg

.PHONY: screenshots
screenshots: venv ## take the pictures in docs/page of the operator's page, in Chromium
	PYTHONPATH=tests $(BIN)/python -m support.page.screenshots docs/page

.PHONY: chart
chart: venv ## generate the Helm chart in charts/podwright from manifests
	$(BIN)/python charts/generate.py

bench-core: venv ## measure decisions per second of the core alone, in-process (ARGS=--help)
	$(BIN)/python -m benchmarks.core.decisions $(ARGS)
	$(BIN)/python -m benchmarks.core.devices
	$(BIN)/python -m benchmarks.core.queues

.PHONY: bench-scale bench-scale-api
bench-scale: venv ## measure large clusters: the core alone on 5,000 to 100,000 nodes with 10 pods each, in-process (8 minutes), then bench-scale-api
	$(BIN)/python -m benchmarks.core.decisions --nodes 5000 20000 50000 100000 --placed-per-node 10 --pods 3000 --json benchmarks/results/scale.json --chart benchmarks/results/scale.svg
	$(MAKE) bench-scale-api ARGS=

bench-scale-api: venv ## compare Podwright with kube-scheduler on an API server that serves 5,000 and 20,000 nodes without kubelets (ARGS="--resume --size 100000Nodes": also 100,000)
	$(BIN)/python -m benchmarks --set large --workload SchedulingBasic --pairs 3 $(PAIR) --series null:1 --output benchmarks/results/scale-api.json $(ARGS)

.PHONY: bench-start
bench-start: venv ## measure a start with 100,000 nodes and a million placed pods, from a server that generates its lists (ARGS="--nodes 10000")
	$(BIN)/python -m benchmarks.start_at_scale $(ARGS)

.PHONY: soak
soak: venv ## run an hour of churn on a real API server, and check that nothing grows (ARGS="--hours 12")
	$(BIN)/python -m benchmarks.soak $(ARGS)

.PHONY: bench-beside
bench-beside: venv ## measure how long ordinary pods wait beside hostile objects, in-process (ARGS=--help)
	PYTHONPATH=tests $(BIN)/python -m benchmarks.core.beside $(ARGS)

.PHONY: bench-kueue
bench-kueue: venv ## measure the admission check for Kueue on a real control plane: queues, kills, and what never fits (ARGS=--help)
	PYTHONPATH=tests $(BIN)/python -m benchmarks.kueue $(ARGS)

# --- the demo ---------------------------------------------------------------------------------------------
# A cluster is only touched if it is named on the command line: KUBECONFIG in the environment does not count.
CLUSTER := $(if $(filter command line,$(origin KUBECONFIG)),--kubeconfig "$(KUBECONFIG)")
.PHONY: picture strategies

demo: venv ## run the demo: policies place pods, in a sandbox or with KUBECONFIG=... on a cluster (ARGS=--help)
	@$(BIN)/podwright demo $(CLUSTER) $(ARGS)

picture: strategies ## record docs/demo.svg, the picture in the README, from a run of the demo, and draw docs/strategies and docs/gangs.svg
	$(BIN)/podwright demo --plain --picture docs/demo.svg
	$(BIN)/podwright simulate examples/gangs/racks.yaml --picture docs/gangs.svg --rack example.com/rack

strategies: venv ## draw the pictures of docs/strategies.md from simulations
	$(BIN)/python -m podwright.cli.docs.strategy_pictures docs/strategies.md
