# SPDX-License-Identifier: Apache-2.0
#
# Every target is one script or one command, so that it can be read and run by hand.

# A cluster is used only if the command line of make names it: an exported
# KUBECONFIG, which many shells have for other work, never chooses a cluster.
ifeq ($(origin KUBECONFIG),command line)
up_kubeconfig = --kubeconfig "$$KUBECONFIG"
endif
ifeq ($(origin CLUSTER),command line)
up_cluster = --cluster "$$CLUSTER"
endif

ARGS =
PACKAGES = ./...
FUZZTIME = 30s
SEEDS = 1-3
DURATION = 3m
FLEET_SEEDS = 1
FLEET_DURATION = 10m
KILLS = 50
# Linters are pinned in a module of their own, outside of the product's go.mod.
tool = go tool -modfile=tools/go.mod

.DEFAULT_GOAL := help
.PHONY: help up test bench soak fleet-soak kills faults queues fuzz lint format generate

help: ## Print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo
	@echo 'Variables, on the command line of make:'
	@echo '  make up ARGS=--once                  end by itself after the table, in a folder of its own'
	@echo '  make up KUBECONFIG=FILE CLUSTER=NAME use this cluster (the environment never chooses one)'
	@echo '  make test PACKAGES=./internal/link   test these packages only'
	@echo '  make fuzz FUZZTIME=5m                how long each fuzz target runs'
	@echo '  make soak SEEDS=1-3 DURATION=3m      these seeds, each so long'
	@echo '  make fleet-soak FLEET_SEEDS=1 FLEET_DURATION=10m'
	@echo '  make kills SEEDS=1-3 KILLS=50        these seeds, each with so many kills'

up: ## Synchronize a real cluster into a store on this machine and show it; Ctrl-C ends it
	@exec scripts/quickstart.sh $(up_kubeconfig) $(up_cluster) $(ARGS)

test: ## Run every test, those against a real API server included
	@exec scripts/test.sh $(PACKAGES)

bench: ## Measure first sync and latency on this machine (ARGS go to each bench command)
	@exec scripts/bench.sh $(ARGS)

soak: ## Run the long runs, of a cluster and of a fleet, and append their figures to docs/results.md
	@scripts/soak.sh $(SEEDS) $(DURATION)
	@exec scripts/fleet-soak.sh $(FLEET_SEEDS) $(FLEET_DURATION)

fleet-soak: ## Run the long run of a fleet alone, for FLEET_SEEDS
	@exec scripts/fleet-soak.sh $(FLEET_SEEDS) $(FLEET_DURATION)

kills: ## Kill ingesters under load for SEEDS and append the figures to docs/results.md
	@exec scripts/ingest-kills.sh $(SEEDS) $(KILLS)

faults: ## Run the matrix of watch faults and write docs/faults.md
	CI=true go test -count=1 -run '^TestFaultMatrix$$' ./test/scenario -update

queues: ## Run the suite of the queues on real brokers and write docs/queue-results.md
	@exec scripts/queues.sh

fuzz: ## Run each fuzz target for FUZZTIME
	@exec scripts/fuzz.sh $(FUZZTIME) $(PACKAGES)

lint: ## Check formatting and run the linters; changes nothing
	@exec scripts/lint.sh $(PACKAGES)

format: ## Format all Go files
	$(tool) gofumpt -w .

generate: ## Make generated files again
	go generate ./...
