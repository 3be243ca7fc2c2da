# Every target says of itself what it does: make help.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

GO        ?= go
BIN       := bin
LINT      := build/bin/golangci-lint
# Pinned: the same linter here and in CI.
LINT_VERSION := v2.12.2
ENGINE    := build/engine
FUZZTIME  ?= 30s
LISTEN    ?= 127.0.0.1:8080
RACE      := -race

.PHONY: help build agent run demo test unit contract e2e lint vet fmt soak bench fuzz image service-image readme clean generate

help: ## list the targets
	@awk 'BEGIN{FS=":.*## "} /^[a-z0-9-]+:.*## /{printf "  \033[1m%-14s\033[0m %s\n",$$1,$$2}' $(MAKEFILE_LIST)

build: agent ## build bin/sandboxd and bin/sandboxd-agent
	CGO_ENABLED=0 $(GO) build -trimpath -o $(BIN)/sandboxd ./cmd/sandboxd

agent: ## build the static program that is PID 1 in every box
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-s -w' -o $(BIN)/sandboxd-agent ./cmd/sandboxd-agent

run: build ## start the service for real use, on LISTEN (127.0.0.1:8080), data in build/data
	$(BIN)/sandboxd serve --listen $(LISTEN) --data build/data

demo: ## set up what is missing, build, and do the main job before your eyes
	@scripts/provision.sh demo
	@$(MAKE) --no-print-directory build
	@$(BIN)/sandboxd demo --repo .

unit: ## tests that need no engine and no runtime (under two minutes)
	$(GO) test $(RACE) -short ./api/... ./client/... ./runtime/... ./tools/... ./seccomp/... ./images/... ./sandbox ./sandbox/agent/... ./sandbox/agentproto/... ./sandbox/cgroup/... ./tests/arch/...

test: ## everything: provisions a Docker engine if none answers, then lint, unit, contract on both drivers, end to end
	@scripts/test.sh

lint: $(LINT) vet ## gofmt, vet, golangci-lint with the explicit list
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { echo "gofmt would change:"; gofmt -l $$(git ls-files '*.go'); exit 1; }
	GOLANGCI_LINT_CACHE=$(CURDIR)/build/lint-cache $(LINT) run ./...

vet:
	$(GO) vet ./...

$(LINT):
	GOBIN=$(CURDIR)/build/bin $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(LINT_VERSION)

generate: ## make generated files again (seccomp profiles)
	$(GO) generate ./...

image: ## build the base image sandboxd/base from this system's packages
	images/build.sh base

service-image: build ## build the service's image sandboxd/service (no registry needed)
	@mkdir -p build
	@cp -L /etc/ssl/certs/ca-certificates.crt build/ca-certificates.crt
	docker build --network none -q -t sandboxd/service -f images/service/Dockerfile .

readme: ## make the output that the README shows again
	scripts/readme.sh

soak: ## kill and crash trials in full number
	@SANDBOXD_SOAK=1 scripts/test.sh soak

bench: ## the benchmarks behind docs/performance.md, as ratios in one run
	@scripts/test.sh bench

fuzz: ## every fuzz target for FUZZTIME each (default 30s)
	@scripts/fuzz.sh $(FUZZTIME)

clean: ## remove what was built (stops an engine that tests started)
	-scripts/engine.sh stop $(ENGINE)
	rm -rf $(BIN) build
