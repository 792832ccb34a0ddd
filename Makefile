# Everything a developer of Chiplog runs. `make help` lists it.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# Downloads and builds are kept here, by content; nothing in it is ever needed.
export XDG_CACHE_HOME ?= $(HOME)/.cache
CACHE := $(XDG_CACHE_HOME)/chiplog
export PIP_CACHE_DIR := $(CACHE)/pip
export PIP_DISABLE_PIP_VERSION_CHECK := 1

# The tests start hundreds of processes: without kept bytecode each compiles everything again.
unexport PYTHONDONTWRITEBYTECODE

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
LOCK := requirements/dev.lock
LOCK_3_13 := requirements/dev-3.13.lock
COMPILE := $(BIN)/pip-compile --quiet --generate-hashes --allow-unsafe --strip-extras \
	--no-emit-index-url --no-emit-find-links --no-emit-trusted-host

.PHONY: help
help: ## Show this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  \033[1m%-14s\033[0m %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# ---- working on the code: no root, no cluster --------------------------------

.PHONY: setup
setup: $(VENV)/.done ## Make .venv with exactly what the lock names

$(VENV)/.done: $(LOCK) $(LOCK_3_13) pyproject.toml core/chiplog_core/version.py
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit(0 if (3, 11) <= v < (3, 14) else "Chiplog needs Python 3.11, 3.12 or 3.13 (PYTHON=...), this is %d.%d" % v)'
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || { echo "setup: this Python makes no virtual environments: apt-get install python3-venv"; exit 2; }
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/pip install --quiet --require-hashes --requirement $(LOCK) --requirement $(LOCK_3_13)
	@$(BIN)/pip install --quiet --no-deps --no-build-isolation --no-index --editable .
	@touch $@

.PHONY: check
check: static unit coverage ## Format, lint, types, import contracts, generated files, unit tests, branches of core

.PHONY: static
static: setup ## What is known without running the code: all of check but its tests
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	@$(MAKE) generated

.PHONY: generated
generated: setup ## Whether the generated files are what their sources say
	$(BIN)/python crds/generate.py --check
	$(BIN)/python charts/generate.py --check
	$(BIN)/python docs/generate.py --check

.PHONY: unit
unit: setup ## The unit tests, in a random order: ORDER=seed repeats one
	$(BIN)/pytest -p randomly $(if $(ORDER),--randomly-seed=$(ORDER)) --numprocesses=auto --dist=worksteal -m "not change and not clients and not cluster and not compat and not dist and not main and not platform and not security and not sim and not spark and not transactions"

.PHONY: coverage
coverage: setup ## Whether core's tests reach every branch of core; a list of what they do not
	$(BIN)/python core/uncovered.py

.PHONY: fmt
fmt: setup ## Format the code and mend what the linter can mend
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

.PHONY: generate
generate: setup ## Write the generated files anew (CRDs, charts, docs)
	$(BIN)/python crds/generate.py
	$(BIN)/python charts/generate.py
	$(BIN)/python docs/generate.py

.PHONY: docs
docs: setup ## The documentation as a site, in site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

.PHONY: dist
dist: setup ## What a release is made of, in dist/: wheel, sources, charts, definitions, SBOM, checksums
	@$(BIN)/python -m e2e.release dist

.PHONY: lock
lock: setup ## Resolve the dependencies of pyproject.toml anew
	$(COMPILE) --extra operator --extra broker --extra cli --extra spark --extra dev --output-file $(LOCK) pyproject.toml
	@for image in broker cli operator spark; do \
		$(BIN)/python -c 'import sys, tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"][sys.argv[1]], sep="\n")' $$image > requirements/$$image.in; \
		$(COMPILE) --no-annotate --constraint $(LOCK) --output-file requirements/$$image.lock requirements/$$image.in; \
		rm requirements/$$image.in; \
	done

# ---- with real programs: clients, and a cluster (CLUSTER=local, kind or current) --

.PHONY: cluster-up
cluster-up: setup ## Start the Kubernetes that the tests run on
	@$(BIN)/python -m e2e.cluster up

.PHONY: cluster-down
cluster-down: setup ## Stop it: nothing of it runs or is mounted; FORGET=1 also deletes what it stored
	@$(BIN)/python -m e2e.cluster down $(if $(FORGET),--forget)

.PHONY: images
images: setup ## Build the images that changed and load them into the nodes (SPARK=1: the Spark jobs' too); prints where their SBOMs are
	@$(BIN)/python -m e2e.cluster images $(if $(SPARK),--spark)

.PHONY: tools
tools: setup ## Put kubectl, helm and promtool into .tools/bin
	@$(BIN)/python -m e2e.cluster tools .tools/bin

.PHONY: kafka-tools
kafka-tools: setup ## Put kafka-topics.sh and the others like it into .tools/bin (needs Java)
	@$(BIN)/python -m e2e.kafka .tools/bin

.PHONY: e2e
e2e: setup ## Run the end-to-end tests; LANE=main, clients, cluster … for one lane, FULL=1 for long forms
	@LANE="$(LANE)" FULL="$(FULL)" $(BIN)/python -m e2e.lanes

.PHONY: demo
demo: setup ## From nothing to a running cluster with a topic, records and a killed leader; leaves it running
	@$(BIN)/python -m e2e.demo

.PHONY: docs-test
docs-test: setup ## Type the tutorial into a new cluster, compare what it prints (WRITE=1: into the page)
	@$(BIN)/python -m e2e.docs_test $(if $(WRITE),--write)

.PHONY: failover
failover: setup ## Long form: 30 leaders killed by force on Kubernetes, and 30 of Apache Kafka beside
	FULL=1 $(BIN)/pytest -s -m main e2e/main/tests/test_failover.py

.PHONY: bench
bench: setup ## Measure against Apache Kafka and print the ratios (BENCH=--quick for the short form)
	$(BIN)/python -m e2e.bench $(BENCH)

.PHONY: durability
durability: setup ## Long form: 20 kills under load, 50 power cuts by crash image
	CRASHES=20 POWER_CUTS=50 $(BIN)/pytest -s -m clients e2e/clients/tests/test_crash.py e2e/clients/tests/test_power_cut.py

.PHONY: compat
compat: setup ## Run Kafka's own integration tests against a broker, and compare with the list; continues where it stopped (COMPAT='Producer*' for some classes, WRITE=1 to write the list)
	$(BIN)/python -m e2e.compat $(if $(WRITE),--write) $(if $(FRESH),--fresh) $(if $(COMPAT),'$(COMPAT)')

.PHONY: chaos
chaos: setup ## Long form: every kind of fault for five minutes on Kubernetes (CHAOS=one,another), a table
	FULL=1 CHAOS="$(CHAOS)" $(BIN)/pytest -s -m main e2e/chaos

.PHONY: hostile
hostile: setup ## Attacks at full size on a small broker, and what another client notices, a table (HOSTILE=part of a name)
	$(BIN)/python -m e2e.hostile $(if $(HOSTILE),"$(HOSTILE)")

.PHONY: power-cut
power-cut: setup ## Long form: 200 power cuts of all three brokers at once, 100 more just after a device failed
	FULL=1 $(BIN)/pytest -s -m clients e2e/chaos/tests/test_power_cut.py e2e/chaos/tests/test_power_cut_devices.py

.PHONY: damages
damages: setup ## Long form: 100 flipped bits and cut files, on one replica at a time
	FULL=1 $(BIN)/pytest -s -m clients e2e/chaos/tests/test_damages.py

.PHONY: sim
sim: setup ## Simulate whole clusters under faults (SEEDS=20, FROM=1; FROM=4000001 for moves of replicas, FROM=5000001 with upkeep, FROM=6000001 with users); seeds that fail are kept
	$(BIN)/python -m e2e.sim --seeds $(or $(SEEDS),20) --from $(or $(FROM),1) --kept

.PHONY: sim-groups
sim-groups: setup ## The same for consumer groups only, for so many simulated hours (HOURS=50, FROM=1)
	$(BIN)/python -m e2e.sim --group-hours $(or $(HOURS),50) --from $(or $(FROM),1)

.PHONY: sim-mutants
sim-mutants: setup ## Every planted bug, with the seeds needed to see it (at most 300)
	$(BIN)/python -m e2e.sim.mutants

.PHONY: mutants
mutants: setup ## Mutate the rooms that carry the rules by machine; goes on where it stopped (ROOM=isr for one)
	@$(BIN)/python -m e2e.mutants $(if $(ROOM),--room $(ROOM))

.PHONY: sim-test
sim-test: setup ## Long form: 100 seeds, those that failed once, one of each planted bug, and what the seeds reach
	FULL=1 $(BIN)/pytest --numprocesses=auto --dist=worksteal -m sim e2e/sim

.PHONY: plans
plans: setup ## Long form: every prefix of the plans of small clusters, and the times of large ones, a table
	$(BIN)/python core/plans.py

.PHONY: spark-throughput
spark-throughput: setup ## What 1, 2 and 4 splits of a partition bring to Spark jobs, a table (MEGABYTES=200)
	$(BIN)/python -m e2e.spark.throughput $(MEGABYTES)

.PHONY: fuzz
fuzz: setup ## Long form: a million mutated frames, a million to a broker (logins, ACLs, TLS), 1,000 random messages of each API and version
	CHIPLOG_FUZZ_FRAMES=1000000 CHIPLOG_CODEC_MESSAGES=1000 $(BIN)/pytest --timeout=1800 wire/tests/protocol broker-image/tests/fuzz

.PHONY: test
test: ## Everything, short forms: what CI runs
	@bash .ci/stages setup static unit e2e
