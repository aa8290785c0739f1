# make run   builds Airlock, sets this machine up and starts the service
# make test  does its own set-up, then checks everything

SHELL       := /bin/bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS   += --no-print-directory

GO      ?= go
CACHE   := $(CURDIR)/.cache
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
COMMIT  := $(shell git rev-parse HEAD 2>/dev/null)
DATE    := $(shell TZ=UTC git log -1 --date=format-local:%Y-%m-%dT%H:%M:%SZ --format=%cd 2>/dev/null)
LDFLAGS := -s -w -X main.version=$(VERSION) -X main.commit=$(COMMIT) -X main.date=$(DATE)

# Where the tests find the Python packages. It is kept between runs.
AIRLOCK_TEST_DATA ?= $(CACHE)/data
export AIRLOCK_TEST_DATA

GOLANGCI_VERSION := v2.15.0
GOLANGCI         := $(CACHE)/golangci-lint-$(GOLANGCI_VERSION)

# The last one whose modules every proxy has: later ones also make packages for Windows.
NFPM_VERSION := v2.45.2
NFPM         := $(CACHE)/nfpm-$(NFPM_VERSION)

ACTIONLINT_VERSION := v1.7.12
ACTIONLINT         := $(CACHE)/actionlint-$(ACTIONLINT_VERSION)

.DEFAULT_GOAL := help

.PHONY: help
help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 20

.PHONY: build
build: ## bin/airlock
	@GO='$(GO)' scripts/build-progress env CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=false -ldflags '$(LDFLAGS)' -o bin/airlock ./cmd/airlock

.PHONY: run
run: build ## set up this machine, then serve on 127.0.0.1:8000; PACKAGES=onyx,librechat for those applications
	@bin/airlock setup --then-serve $(if $(PACKAGES),--packages '$(PACKAGES)')
	@exec bin/airlock serve

# Tests of services, browsers and sandboxes wait much: meanwhile the processors are
# for those of packages and for the checks.
.PHONY: test
test: ## everything: format, vet, lint, tests with the race detector, fuzz seeds, end to end
	@$(MAKE) test-deps
	@$(MAKE) test-data
	@rm -f '$(TIMES)'
	@$(MAKE) -j4 -o build clients e2e sandbox unit vet lint editor-check view-check
