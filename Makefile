# make run   builds Airlock, sets this machine up and starts the service
# make test  does its own set-up, then checks everything

SHELL       := /bin/bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS   += --no-print-directory

GO      ?= go
CACHE   := $(CURDIR)/.cache

# Compiled packages without the path of this folder are reused by every clone on the machine.
# Without cgo, the tests share them with the release binary; the race detector needs cgo.
export GOFLAGS     := $(filter-out -trimpath,$(shell $(GO) env GOFLAGS)) -trimpath
export CGO_ENABLED := 0

VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
COMMIT  := $(shell git rev-parse HEAD 2>/dev/null)
DATE    := $(shell TZ=UTC git log -1 --date=format-local:%Y-%m-%dT%H:%M:%SZ --format=%cd 2>/dev/null)
LDFLAGS := -s -w -X main.version=$(VERSION) -X main.commit=$(COMMIT) -X main.date=$(DATE)

# The data directory of the tests, with the Python packages. It is kept between runs.
AIRLOCK_TEST_DATA ?= $(CACHE)/data
export AIRLOCK_TEST_DATA

# CPythons of other systems: they differ in internals that zygotes change.
AIRLOCK_TEST_PYTHONS ?= $(CACHE)/pythons
export AIRLOCK_TEST_PYTHONS

GOLANGCI_VERSION := v2.15.0
GOLANGCI         := $(CACHE)/golangci-lint-$(GOLANGCI_VERSION)

# The last version whose modules every proxy has: later versions also build packages for Windows.
NFPM_VERSION := v2.45.2
NFPM         := $(CACHE)/nfpm-$(NFPM_VERSION)

# The S3 server of the tests.
VERSITYGW_VERSION := v1.8.0
VERSITYGW         := $(CACHE)/versitygw-$(VERSITYGW_VERSION)

ACTIONLINT_VERSION := v1.7.12
ACTIONLINT         := $(CACHE)/actionlint-$(ACTIONLINT_VERSION)

HELM_VERSION        := v4.3.1
HELM                := $(CACHE)/helm-$(HELM_VERSION)
KUBECONFORM_VERSION := v0.8.0
KUBECONFORM         := $(CACHE)/kubeconform-$(KUBECONFORM_VERSION)
# Its module has the OpenAPI document from which the schemas are made.
KUBERNETES_VERSION  := v1.37.2
# These have the definitions of the custom resources that the chart may have.
KEDA_VERSION        := v2.21.0
PROMETHEUS_OPERATOR := v0.85.0
SCHEMAS             := $(CACHE)/kubernetes-$(KUBERNETES_VERSION)-$(KEDA_VERSION)-$(PROMETHEUS_OPERATOR)

.DEFAULT_GOAL := help

.PHONY: help
help: ## this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## bin/airlock
	@GO='$(GO)' scripts/build-progress env CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=false -ldflags '$(LDFLAGS)' -o bin/airlock ./cmd/airlock

.PHONY: gvisor
gvisor: # bin/airlock-gvisor, which makes sandboxes with a kernel of their own
	@echo '== airlock-gvisor'
	@GO='$(GO)' scripts/build-gvisor bin/airlock-gvisor

.PHONY: run
run: build ## set up this machine, then serve on 127.0.0.1:8000; PACKAGES=onyx,librechat for those applications
	@bin/airlock setup --then-serve $(if $(PACKAGES),--packages '$(PACKAGES)')
	@exec bin/airlock serve

# Tools and clients are built or downloaded first, because the tests would only wait for
# them. The tests of services, sandboxes and pages wait most of the time, so the tests of
# packages and the checks run at the same time. The executor's tests do not run beside hostile
# programs, which would make them exceed their time limits. One that fails does not stop the others.
.PHONY: test
test: ## all checks: format, lint, tests with the race detector, fuzz seeds, end to end
	@$(MAKE) test-deps
	@$(MAKE) test-data
	@rm -f '$(TIMES)' '$(TIMES).failed'
	@$(MAKE) -j2 clients pythons $(GOLANGCI) $(VERSITYGW) gvisor
	@$(MAKE) -k -j3 -o build -o gvisor pages services sandbox unit lint editor-check view-check viewers-check || failed=$$?; \
		scripts/test-report --summary '$(TIMES)'; exit $${failed:-0}
	@echo '== all is well'

.PHONY: test-deps
test-deps: # Debian packages that the tests need
	@echo '== dependencies'
	@scripts/test-deps

# A test that uses a client says why if it cannot be installed. Tests of their own install the slow ones.
SLOW_CLIENTS := e2e/agents/install e2e/frameworks/install e2e/litellm/install e2e/openwebui/install
.PHONY: clients
clients: # clients of other applications, for the end-to-end tests
	@echo '== clients'
	@for script in $(filter-out $(SLOW_CLIENTS),$(wildcard e2e/*/install e2e/browser/*/install)); do $$script '$(CACHE)'/$$(basename $$(dirname $$script)) || true; done
	@e2e/jupyter/install '$(CACHE)/jupyterlab' jupyterlab.txt || true

# A test that needs one of them says why if it cannot be fetched.
.PHONY: pythons
pythons: # the CPythons of Debian's suites, 60 MB each
	@scripts/test-pythons '$(AIRLOCK_TEST_PYTHONS)' || true

.PHONY: test-data
test-data: build # a data directory with the Python packages
	@echo '== Python packages for the sandbox'
	@AIRLOCK_DATA='$(AIRLOCK_TEST_DATA)' bin/airlock setup --packages current,onyx --live 3.13

# The set librechat takes 2 GB, and virtual environments of all sets 4 GB more, so
# `make test` leaves them out. This target regenerates the answers of the version tests,
# compares them with the committed ones, and runs the tests that need all sets.
.PHONY: test-packages
test-packages: build ## all package sets: programs behave as in plain virtual environments
	@AIRLOCK_DATA='$(AIRLOCK_TEST_DATA)' bin/airlock setup --packages current,onyx,librechat
	@for set in current onyx librechat; do \
		scripts/version-answers $$set '$(CACHE)/answers.txtar'; \
		cmp '$(CACHE)/answers.txtar' e2e/testdata/versions-$$set-$$(/usr/bin/python3 -c 'import sys; print("3.%d" % sys.version_info[1])').txtar; \
	done
	@AIRLOCK_TEST_PACKAGES=all $(GO) test -count=1 -v -run 'TestVersions|TestSetOf|TestLibreChatPackages' ./e2e

# Each root takes 1.5 GB and some minutes, the machine half an hour. SYSTEMS are the suites.
.PHONY: test-systems test-machine
test-systems: build ## minimal roots of Debian 12, 13 and sid: setup, Python's tests, warm starts; needs root, debootstrap
	@GO='$(GO)' AIRLOCK_TEST_DATA= scripts/test-systems '$(CACHE)/systems' $(SYSTEMS)
test-machine: build ## Debian 13 in an emulator: control groups of version 2, systemd, the package's unit; after test-systems
	@GO='$(GO)' scripts/test-machine '$(CACHE)/systems'

# IMAGES are some of stats, onyx, node, r, old and musl. They take 5 GB, and some minutes of downloads once.
.PHONY: test-images
test-images: build ## images made of Debian's packages and a Containerfile, used from the command line; needs root, buildah
	@scripts/test-images '$(CACHE)/images' $(IMAGES)

# Calls of the system take several times as long there, and hostile programs mostly make such. Live sessions are
# tried there too, but for tests of what differs: who can kill whom, and FIFOs among files.
SHARED := ^Test(Abuse|AbuseOfShells|FilesAsProgramsSeeThem|R)$$
.PHONY: test-gvisor
test-gvisor: build gvisor test-data ## hostile programs that have a kernel of their own; 1,000 runs, 200 kills
	@export AIRLOCK_TEST_EXECUTOR='$(CURDIR)/bin/airlock'; $(call go-test,-count=1 -run '$(HOSTILE)' -- ./internal/sandbox/gvisor); \
		export AIRLOCK_TEST_WALL=gvisor; $(call go-test,-count=1 -skip '$(SHARED)' -- ./internal/live)
	@$(MAKE) -o build -o gvisor soak-gvisor

.PHONY: soak-gvisor
soak-gvisor: build gvisor # 1,000 runs and 200 kills of executors, kernels and file servers leave nothing
	@export AIRLOCK_TEST_SOAK=all AIRLOCK_TEST_EXECUTOR='$(CURDIR)/bin/airlock'; \
		$(call go-test,-count=1 -v -run '^TestNothingIsLeft' -- ./internal/sandbox/gvisor)

# All languages and extras take some 3 GB of Debian packages.
.PHONY: test-languages
test-languages: build ## all 13 languages in the sandbox, and LibreOffice
	@AIRLOCK_DATA='$(AIRLOCK_TEST_DATA)' bin/airlock setup --languages all --extras office
	@AIRLOCK_NO_SKIP=1 AIRLOCK_TEST_LANGUAGES=all $(GO) test -count=1 -v -run 'TestLanguages|$(EXTRAS)' ./internal/sandbox/linux

# ARGS=-update-frameworks writes the examples and their outputs into docs/frameworks.md, FRAMEWORKS names some.
FRAMEWORKS ?= all
.PHONY: test-frameworks
test-frameworks: build test-data ## the examples of docs/frameworks.md with their frameworks, which take 2 GB
	@AIRLOCK_NO_SKIP=1 AIRLOCK_TEST_FRAMEWORKS='$(FRAMEWORKS)' AIRLOCK_TEST_BINARY='$(CURDIR)/bin/airlock' \
		$(GO) test -count=1 -v -timeout 60m -run '^TestFrameworks' ./e2e $(ARGS)

# AGENTS are some of claude, codex, gemini and opencode. They take 1.2 GB.
.PHONY: test-agents
test-agents: build test-data ## agents for a terminal use run_code, asked by a scripted model; AGENTS=codex,gemini for some
	@AIRLOCK_TEST_AGENTS='$(or $(AGENTS),all)' AIRLOCK_TEST_BINARY='$(CURDIR)/bin/airlock' $(GO) test -count=1 -v -run '^TestTerminalAgents$$' ./e2e

.PHONY: test-litellm
test-litellm: build test-data ## LiteLLM's code interpreter and containers; it takes 500 MB
	@AIRLOCK_TEST_LITELLM=all AIRLOCK_TEST_BINARY='$(CURDIR)/bin/airlock' $(GO) test -count=1 -v -run '^TestLiteLLM$$' ./e2e

.PHONY: test-openwebui
test-openwebui: build test-data ## Open WebUI's code interpreter and terminal, set up by deploy/compose; it takes 630 MB
	@AIRLOCK_TEST_OPENWEBUI=all AIRLOCK_TEST_BINARY='$(CURDIR)/bin/airlock' $(GO) test -count=1 -v -run '^TestOpenWebUI$$' ./e2e

.PHONY: vet
vet: ## go vet, which lint includes
	@echo '== vet'
	@$(GO) vet ./...

# What other programs import, without SDKs and databases that others keep portable. The binary is for Linux; see decision 0098.
LIBRARIES := ./client ./pytool ./assist/reply ./assist/workspace ./assist/assignment ./assist/provider ./assist/provider/local

.PHONY: lint
lint: $(GOLANGCI) ## tracked files, names in documents, modules, format, golangci-lint with import rules
	@echo '== tracked files'
	@scripts/check-tree
	@echo '== modules'
	@$(GO) mod tidy -diff
	@echo '== format'
	@$(GOLANGCI) fmt --diff
	@echo '== lint'
	@$(GOLANGCI) run --allow-parallel-runners
	@$(GO) vet -tags ablation ./internal/trick ./internal/sandbox/guest
	@echo '== libraries on other systems'
	@for os in darwin windows; do GOOS=$$os $(GO) build $(LIBRARIES); done
	@echo '== generated code'
	@$(call PROTO_BUILD,$(CACHE)/proto)
	@cmp '$(CACHE)/proto/envd.pb.go' $(PROTO_DIR)/envd.pb.go || { echo '$(PROTO_DIR)/envd.pb.go differs from its source: run `make proto`' >&2; exit 1; }

# The generated messages are committed, so that building Airlock needs no compiler of protobuf (decision 0090).
PROTO_DIR   := internal/dialect/e2b/envd
PROTO_BUILD  = mkdir -p '$1' && $(GO) run -C scripts/protogen . '$(CURDIR)/$(PROTO_DIR)/envd.proto' '$1'
.PHONY: proto
proto: ## generates the messages of E2B's envd, from internal/dialect/e2b/envd
	@$(call PROTO_BUILD,$(CURDIR)/$(PROTO_DIR))

# As root no test of the sandbox may be skipped. Each set of tests is one go test.
TIMES    := $(CACHE)/times
as-root   = if [ "$$(id -u)" = 0 ]; then export AIRLOCK_NO_SKIP=$${AIRLOCK_NO_SKIP:-1}; fi
go-test   = $(as-root); GO='$(GO)' scripts/test-report '$(TIMES)' $(1)
race-test = export CGO_ENABLED=1; $(call go-test,$(RACE) $(1))

# The race detector watches all concurrent code of this module. It skips SQLite's own code,
# which is translated from C, has a lock for each connection, and would take longer than all
# else. It must skip no package that instantiates generic types of sync or sync/atomic: the
# linker keeps one copy of a sync.Map's methods, and with theirs nothing that they order is watched.
# It skips tests with large texts and files, which have one goroutine and would take ten
# times as long.
RACE     := -race '-gcflags=modernc.org/sqlite/lib=-race=false'
LARGE    := ^TestLarge

# A package is concurrent if it starts goroutines, or has locks or channels.
packages   = $(GO) list -f '.{{slice .Dir (len .Module.Dir)}}' ./... | grep -v -e /internal/sandbox/ -e /e2e -e /bench/soak | sort
concurrent = grep -rlE --include='*.go' --exclude='*_test.go' '^\s*go (func|[a-z.]+\()|\.Go\(|"sync(/atomic)?"|\bchan ' $$($(packages)) | \
	xargs -n 1 dirname | grep -v /bench/soak | sort -u

# The databases and journals of tests would wait for the disk at each commit, so they are
# in memory if there is enough. Builds stay on disk. The go command reads that from its
# environment file: as a variable it would reach the tests, and disable cached results.
in-memory = if [ "$$(df --output=avail /dev/shm 2>/dev/null | tail -n 1)" -gt 4000000 ]; then \
	settings=$$($(GO) env GOENV); { cat "$$settings" 2>/dev/null || true; echo "GOTMPDIR=$${TMPDIR:-/tmp}"; } > '$(CACHE)/goenv'; \
	export GOENV='$(CACHE)/goenv' TMPDIR=/dev/shm; fi

.PHONY: unit
unit: build gvisor ## tests of all packages that start no service: race detector where there is concurrency, fuzz seeds
	@echo '== tests (race detector where there is concurrency, fuzz seeds)'
	@$(in-memory); export AIRLOCK_TEST_EXECUTOR='$(CURDIR)/bin/airlock'; $(call race-test,-skip '$(LARGE)' -- $$($(concurrent)))
	@$(in-memory); $(call go-test,-- $$(comm -23 <($(packages)) <($(concurrent))))
	@$(in-memory); $(call go-test,-run '$(LARGE)' -- $$(grep -rl --include='*_test.go' 'func TestLarge' $$($(concurrent)) | xargs -n 1 dirname | sort -u))

# These tests run programs in a sandbox. They do without the race detector, with which the
# executor takes four times as long to start. Many hostile programs only wait for their
# limit, so more of them run at once than there are processors.
HOSTILE  := ^Test(Hostile|Protections)
PROGRAMS := ^Test(Behaves|Compiler|EchoLast|Languages|Lean|NothingIsLeft|Package|Plot|ShowPlots)

# Tests of what make test-languages installs.
EXTRAS := ^TestOffice$$

# Most tests of the executor wait, one after the other: two halves take half of the time. The race detector,
# which doubles what they compute, is for the first half; make test-long has it for the second.
FIRST := ^Test[A-N]

SECOND := $(PROGRAMS)|$(HOSTILE)|$(FIRST)|$(EXTRAS)

.PHONY: sandbox hostile programs executor-1 executor-2
sandbox: export AIRLOCK_TEST_EXECUTOR = $(CURDIR)/bin/airlock
sandbox: build gvisor ## tests of the sandbox: programs, then the rest with the race detector
	@MAKEFLAGS=--no-print-directory $(MAKE) GO='$(GO)' -j2 hostile programs
	@MAKEFLAGS=--no-print-directory $(MAKE) GO='$(GO)' -j2 executor-1 executor-2
hostile:
	@echo '== sandbox: hostile programs'
	@$(call go-test,-parallel 4 -run '$(HOSTILE)' -- $$($(GO) list ./internal/sandbox/... | grep -v /gvisor$$))
programs:
	@echo '== sandbox: programs'
	@$(call go-test,-run '$(PROGRAMS)' -- ./internal/sandbox/...)
executor-1:
	@echo '== sandbox: executor'
	@$(call race-test,-run '$(FIRST)' -skip '$(PROGRAMS)|$(HOSTILE)|$(EXTRAS)' -- ./internal/sandbox/...)
executor-2:
	@$(call go-test,-parallel 4 -skip '$(SECOND)' -- ./internal/sandbox/...)

# These tests start the release binary. Results are not cached, because go test does not
# know its sources. Most tests start a service of their own and wait, so more run at once
# than there are processors.
e2e-test = export AIRLOCK_TEST_BINARY='$(CURDIR)/bin/airlock'; $(call go-test,-count=1 -p 1 -parallel 4 $(1))

# Failures in a cluster are detected after seconds, and a soak needs its time. So do packages that are built and
# installed whole, and most of JupyterLab.
LONG     := ^Test(Cluster(Worker|Database|Bucket|Node|Held|Failover|Clock)|Soak$$|PythonWheel|NpmPackages|PublicPackages|JupyterLab.)

.PHONY: e2e
e2e: services pages ## the real binary, driven as a user would: terminal, HTTP, browser

.PHONY: services
services: build gvisor # the end-to-end tests in a terminal and over HTTP
	@echo '== end to end: terminal, HTTP'
	@$(call e2e-test,-skip '$(LONG)' -- $$($(GO) list ./e2e/... ./bench/soak | grep -v -e /browser))

# Tests of pages use the machine one after the other, and mostly wait: two halves take half of the time.
PAGES := ^Test[A-L]

.PHONY: pages pages-1 pages-2
pages: build gvisor # the end-to-end tests in a browser
	@echo '== end to end: browser'
	@MAKEFLAGS=--no-print-directory $(MAKE) GO='$(GO)' -j2 pages-1 pages-2
pages-1:
	@$(call e2e-test,-run '$(PAGES)' -skip '$(LONG)' -- ./e2e/browser/...)
pages-2:
	@$(call e2e-test,-skip '$(PAGES)|$(LONG)' -- ./e2e/browser/...)

.PHONY: test-long
test-long: build gvisor $(VERSITYGW) ## more tests in CI: failures of cluster nodes, networks and clocks; packages; a short soak
	@$(MAKE) test-deps test-data clients
	@rm -f '$(TIMES)' '$(TIMES).failed'
	@$(call e2e-test,-run '$(LONG)' -- ./e2e/... ./bench/soak)
	@export AIRLOCK_TEST_EXECUTOR='$(CURDIR)/bin/airlock'; $(call race-test,-parallel 4 -skip '$(SECOND)' -- ./internal/sandbox/...)

# QUICK=1 does not write the document; a full run takes about sixteen minutes and does. ARGS are
# further options: ARGS='-only gvisor' measures one section, and writes its part of the document.
# Each run leaves a file for benchstat in bench/out.
.PHONY: bench
bench: build gvisor ## speed beside alternatives: table, docs/performance.md; QUICK=1 for an estimate
	@scripts/bench-deps '$(CACHE)/bench'
	@$(MAKE) test-data
	@$(GO) build -o '$(CACHE)/bench/bench' ./bench
	@$(MAKE) pythons
	@'$(CACHE)/bench/bench' -runtimes '$(AIRLOCK_TEST_DATA)/runtimes' -pythons '$(AIRLOCK_TEST_PYTHONS)' -go-judge '$(CACHE)/bench/go-judge' -jupyter '$(CACHE)/bench/jupyter/bin/python' \
		$(if $(QUICK),-quick,-doc docs/performance.md) $(ARGS)

# Services with all tricks and without one take turns, on about twenty tricks. ARGS='-only code,groups' measures some.
.PHONY: bench-ablation
bench-ablation: ## what each trick of warm starts, cells, records and HTTP pays; table in docs/performance.md
	@$(MAKE) test-data
	@$(GO) build -tags ablation -ldflags '$(LDFLAGS)' -o '$(CACHE)/bench/airlock-ablation' ./cmd/airlock
	@$(GO) build -o '$(CACHE)/bench/bench' ./bench
	@'$(CACHE)/bench/bench' -ablation -airlock '$(CACHE)/bench/airlock-ablation' -runtimes '$(AIRLOCK_TEST_DATA)/runtimes' \
		$(if $(QUICK),-quick,$(if $(ARGS),,-doc docs/performance.md)) $(ARGS)

# It stores a million rows in a temporary folder, some 3 GB with those of PostgreSQL.
# QUICK=1 takes 100,000 rows and does not write the document.
.PHONY: bench-growth
bench-growth: build ## speed with a million runs and files, 1,000 clients, load beyond the most; curves in docs
	@$(MAKE) test-data
	@$(GO) build -o '$(CACHE)/bench/bench' ./bench
	@command -v pg_virtualenv >/dev/null && in='pg_virtualenv -o fsync=off -o max_wal_size=4GB' || in=env; \
		$$in sh -c 'exec "$$0" -growth -runtimes "$(AIRLOCK_TEST_DATA)/runtimes" \
		$${PGPORT:+-database "postgres://$$PGUSER:$$PGPASSWORD@$$PGHOST:$$PGPORT/postgres?sslmode=disable"} \
		$(if $(QUICK),-quick,-doc docs/performance.md) $(ARGS)' '$(CACHE)/bench/bench'

# Debian's PostgreSQL, versitygw, two apis and two workers, on loopback.
CLUSTER = $(GO) build -o '$(CACHE)/cluster' ./bench/cluster && '$(CACHE)/cluster' -runtimes '$(AIRLOCK_TEST_DATA)/runtimes'
.PHONY: cluster
cluster: build $(VERSITYGW) test-data ## two apis, two workers, PostgreSQL and a bucket on this machine, until Ctrl-C
	@$(CLUSTER) run

# KILLS is the number of nodes to kill, 60 by default; KILLS=0 only measures, ONLY=kills
# only kills.
.PHONY: cluster-faults
cluster-faults: build $(VERSITYGW) test-data ## effects of failures of nodes, database and bucket; table in docs/cluster.md
	@[ '$(ONLY)' = kills ] || { $(CLUSTER) -doc docs/cluster.md faults; }
	@[ '$(KILLS)' = 0 ] || { $(CLUSTER) -kills '$(or $(KILLS),60)' -doc docs/cluster.md kills; }

.PHONY: cluster-bench
cluster-bench: build $(VERSITYGW) test-data ## print(1) through api and worker beside one service; table in docs/cluster.md
	@$(CLUSTER) -doc docs/cluster.md bench

# FORMER is the commit of the nodes that are replaced, one by one, under load.
.PHONY: cluster-upgrade
cluster-upgrade: build $(VERSITYGW) test-data ## a rolling upgrade from FORMER=HEAD~20
	@dir=$$(mktemp -d) && trap 'git worktree remove --force "$$dir/tree"; rm -rf "$$dir"' EXIT && \
		git worktree add -q --detach "$$dir/tree" '$(or $(FORMER),HEAD~20)' && \
		(cd "$$dir/tree" && CGO_ENABLED=0 $(GO) build -o '$(CACHE)/airlock-former' ./cmd/airlock) && \
		{ $(CLUSTER) -former '$(CACHE)/airlock-former' -from "$$(git -C "$$dir/tree" rev-parse --short HEAD)" -doc docs/cluster.md upgrade; }

# The clients send the requests that are recorded.
.PHONY: e2b-recordings
e2b-recordings: build # regenerates internal/dialect/e2b/testdata
	@export AIRLOCK_TEST_BINARY='$(CURDIR)/bin/airlock'; $(GO) test -count=1 -run TestE2BExchanges ./e2e -args -record

.PHONY: shots
shots: build test-data ## pictures of every page in each look, in e2e/browser/out
	@AIRLOCK_TEST_BINARY='$(CURDIR)/bin/airlock' $(GO) test -count=1 -parallel 4 ./e2e/browser -shots

.PHONY: picture
picture: build test-data ## regenerates docs/run-page.png, the picture in the README
	@AIRLOCK_TEST_BINARY='$(CURDIR)/bin/airlock' $(GO) test -count=1 -v -run '^TestPicture$$' ./e2e/browser -picture

.PHONY: terminal-picture
terminal-picture: build test-data ## regenerates docs/terminal.svg: commands typed at a terminal, and what they show
	@[ -e '$(CACHE)/terminal/bin/rich' ] || { python3 -m venv --clear '$(CACHE)/terminal' && \
		'$(CACHE)/terminal/bin/pip' install -q --disable-pip-version-check pyte==0.8.2 rich==15.0.0 && \
		touch '$(CACHE)/terminal/bin/rich'; }
	@AIRLOCK_DATA='$(AIRLOCK_TEST_DATA)' scripts/terminal-picture '$(CACHE)/terminal/bin/python' \
		'$(CURDIR)/bin/airlock' '$(CURDIR)/docs/terminal.svg'

# DURATION is 10m by default, and hours are better. A successful soak of ten minutes or longer is written into docs/soak.md.
SOAK = $(MAKE) test-data && $(GO) build -o '$(CACHE)/soak' ./bench/soak && \
	'$(CACHE)/soak' -binary '$(CURDIR)/bin/airlock' -runtimes '$(AIRLOCK_TEST_DATA)/runtimes' -doc docs/soak.md -runs '$(or $(RUNS),0)'
.PHONY: soak
soak: build ## the real service under honest and hostile load for DURATION=10m: what grew, what is left
	@$(SOAK) -duration '$(or $(DURATION),10m)'

# NUMBER=deadline measures one number, RUNS=200 with fewer runs or kills. What was measured in full is written into
# docs/soak.md.
.PHONY: numbers
numbers: build ## promises about hostile code, measured, each with its bound (takes half an hour)
	@$(SOAK) -number '$(or $(NUMBER),all)'

# The bundle of the page's editor is committed, so that building Airlock needs no npm.
EDITOR_DIR    := internal/web/editor
EDITOR_BUNDLE := internal/web/static/editor.js
EDITOR_BUILD   = rm -rf '$(CACHE)/editor' && mkdir -p '$(CACHE)/editor' && \
	cp $(EDITOR_DIR)/main.js $(EDITOR_DIR)/package.json $(EDITOR_DIR)/package-lock.json '$(CACHE)/editor' && \
	(cd '$(CACHE)/editor' && npm ci --ignore-scripts --no-audit --no-fund --silent) && \
	$(GO) run github.com/evanw/esbuild/cmd/esbuild '$(CACHE)/editor/main.js' --bundle --minify --format=esm --target=es2022 \
		--charset=utf8 --legal-comments=none --log-level=warning \
		'--banner:js=/* CodeMirror 6. Copyright (C) Marijn Haverbeke and others. MIT License: https://codemirror.net/license */' --outfile='$(1)'

.PHONY: editor
editor: ## bundles the page's editor, from internal/web/editor
	@$(call EDITOR_BUILD,$(EDITOR_BUNDLE))

.PHONY: editor-check
editor-check: # compares the committed bundle with its sources
	@echo '== editor bundle'
	@$(call EDITOR_BUILD,$(CACHE)/editor/editor.js)
	@cmp '$(CACHE)/editor/editor.js' $(EDITOR_BUNDLE) || { echo '$(EDITOR_BUNDLE) differs from its sources in $(EDITOR_DIR): run `make editor`' >&2; exit 1; }

# The bundle of libraries that draw charts in the view of an MCP host is committed, too.
VIEW_DIR   := internal/dialect/mcp/view
VIEW_BUILD  = rm -rf '$(CACHE)/view' && mkdir -p '$(CACHE)/view' && \
	cp $(VIEW_DIR)/charts.js $(VIEW_DIR)/package.json $(VIEW_DIR)/package-lock.json '$(CACHE)/view' && \
	(cd '$(CACHE)/view' && npm ci --ignore-scripts --no-audit --no-fund --silent) && \
	$(GO) run github.com/evanw/esbuild/cmd/esbuild '$(CACHE)/view/charts.js' --bundle --minify --format=iife --target=es2022 \
		--charset=utf8 --legal-comments=none --log-level=error \
		'--banner:js=/* Plotly.js (MIT), (C) Plotly, Inc. Vega, Vega-Lite (BSD-3-Clause), (C) University of Washington Interactive Data Lab and others; D3 (ISC), (C) Mike Bostock */' | \
	gzip -9 -n > '$(1)'

.PHONY: view
view: ## bundles the libraries of the MCP view, from internal/dialect/mcp/view
	@$(call VIEW_BUILD,$(VIEW_DIR)/charts.js.gz)

.PHONY: view-check
view-check: # compares the committed bundle with its sources
	@echo '== view bundle'
	@$(call VIEW_BUILD,$(CACHE)/view/charts.js.gz)
	@zcat '$(CACHE)/view/charts.js.gz' | cmp - <(zcat $(VIEW_DIR)/charts.js.gz) || { echo '$(VIEW_DIR)/charts.js.gz differs from its sources: run `make view`' >&2; exit 1; }

# The bundles of the notebook's viewers are committed too, compressed (decision 0115).
VIEWERS_DIR  := internal/web/viewers
VIEWERS      := html plotly vega katex terminal widget grid
VIEWERS_BUILD = rm -rf '$(CACHE)/viewers' && mkdir -p '$(CACHE)/viewers' && cp $(VIEWERS_DIR)/*.js* '$(CACHE)/viewers' && \
	(cd '$(CACHE)/viewers' && npm ci --ignore-scripts --no-audit --no-fund --silent) && \
	for one in $(VIEWERS); do case $$one in katex | terminal | grid) format=esm ;; *) format=iife ;; esac; \
		$(GO) run github.com/evanw/esbuild/cmd/esbuild "$(CACHE)/viewers/$$one.js" --bundle --minify --format=$$format --target=es2022 \
			--charset=utf8 --legal-comments=inline --log-level=error --loader:.css=text --outfile="$(CACHE)/viewers/out/$$one.js" || exit 1; done

.PHONY: viewers
viewers: ## bundles the notebook's viewers, from internal/web/viewers
	@$(VIEWERS_BUILD)
	@for one in $(VIEWERS); do gzip -9nc "$(CACHE)/viewers/out/$$one.js" > "$$(ls internal/*/static/viewer-$$one.js.gz)"; done

.PHONY: viewers-check
viewers-check: # compares the committed viewers with their sources
	@echo '== viewers'
	@$(VIEWERS_BUILD)
	@for one in $(VIEWERS); do gzip -dc internal/*/static/viewer-$$one.js.gz | cmp - "$(CACHE)/viewers/out/$$one.js" || \
		{ echo "viewer-$$one.js.gz differs from its sources in $(VIEWERS_DIR): run \`make viewers\`" >&2; exit 1; }; done

# It needs an idle machine.
.PHONY: page-bench
page-bench: build ## measures the page in Chromium; table in docs/page.md
	@$(as-root); AIRLOCK_TEST_BINARY='$(CURDIR)/bin/airlock' $(GO) test -count=1 -v -run 'TestPageNumbers' ./e2e/browser -numbers '$(CURDIR)/docs/page.md'

.PHONY: generate-javascript
generate-javascript: ## the types of client/javascript, from openapi.yaml
	@e2e/javascript/install '$(CACHE)/javascript'
	@cd client/javascript && PATH='$(CACHE)/javascript/node_modules/.bin':"$$PATH" npm run --silent generate

.PHONY: generate-python
generate-python: ## what is generated in client/python, from openapi.yaml and the client with async
	@e2e/python/install '$(CACHE)/python'
	@cd client/python && PATH='$(CACHE)/python/env/bin':"$$PATH" python generate.py '$(CURDIR)/internal/dialect/native/openapi.yaml'

# Builds are reproducible. ARCHITECTURES=amd64 builds one of the two.
.PHONY: dist
dist: $(NFPM) ## a release in dist/: archives, deb, rpm, wheels, npm packages, components, checksums
	@e2e/python/install '$(CACHE)/python'
	@e2e/javascript/install '$(CACHE)/javascript'
	@export NODE_MODULES='$(CACHE)/javascript/node_modules' PATH='$(CACHE)/python/env/bin':"$$PATH"; GO='$(GO)' DIST='$(or $(DIST),dist)' ARCHITECTURES='$(or $(ARCHITECTURES),amd64 arm64)' \
		scripts/dist '$(NFPM)' '$(VERSION)' '$(COMMIT)' '$(DATE)' '$(LDFLAGS)'

# BASE is a Debian image, FULL=1 builds the image with all languages and package sets,
# DOCKER is the command with its options. The image has this machine's architecture.
# Onyx's packages are locked for CPython 3.11 and 3.12; Debian 12 is the newest with one.
DOCKER   ?= docker
BASE     ?= $(if $(FULL),debian:12-slim)
ALL_SETS := current,onyx,librechat
.PHONY: image
image: build gvisor ## the container image airlock, or airlock:full with FULL=1
	@rm -rf '$(CACHE)/image' && mkdir -p '$(CACHE)/image' && cp bin/airlock bin/airlock-gvisor '$(CACHE)/image'
	@$(DOCKER) build -f deploy/Dockerfile $(if $(BASE),--build-arg 'BASE=$(BASE)') \
		$(if $(FULL),--build-arg LANGUAGES=all --build-arg PACKAGES=$(ALL_SETS)) \
		--build-arg 'VERSION=$(VERSION)' --build-arg 'COMMIT=$(COMMIT)' --build-arg 'DATE=$(DATE)' \
		-t airlock:$(if $(FULL),full,latest) $(ARGS) '$(CACHE)/image'

.PHONY: compose-check
compose-check: ## checks the compose files with Docker Compose
	@scripts/check-compose

.PHONY: chart-check
chart-check: $(HELM) $(KUBECONFORM) $(SCHEMAS) ## checks the Helm chart with Helm and the schemas of Kubernetes
	@scripts/check-chart '$(HELM)' '$(KUBECONFORM)' '$(SCHEMAS)'

.PHONY: metrics-check
metrics-check: ## checks alerts and dashboard with promtool
	@scripts/check-metrics '$(CACHE)'

.PHONY: workflows-check
workflows-check: $(ACTIONLINT) ## checks the workflows with actionlint
	@$(ACTIONLINT)

.PHONY: image-full
image-full: ## the container image airlock:full: 13 languages, all sets of packages
	@$(MAKE) image FULL=1

.PHONY: fmt
fmt: $(GOLANGCI) ## format the Go files
	@$(GOLANGCI) fmt

.PHONY: lock
lock: ## locks the Python and npm packages in their newest versions
	@scripts/lock-python
	@scripts/lock-node

.PHONY: clean
clean: ## removes built files; downloaded tools and packages stay in .cache
	@rm -rf bin dist

# The linter is not a dependency of the module, so that its version is independent.
$(GOLANGCI):
	@echo '== golangci-lint $(GOLANGCI_VERSION): built once, this takes some minutes'
	@mkdir -p '$(CACHE)/tools'
	@GOFLAGS= GOBIN='$(CACHE)/tools' $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_VERSION)
	@mv '$(CACHE)/tools/golangci-lint' '$@'

# nfpm builds debs and rpms.
$(NFPM):
	@echo '== nfpm $(NFPM_VERSION): built once'
	@mkdir -p '$(CACHE)/tools'
	@GOFLAGS= GOBIN='$(CACHE)/tools' $(GO) install github.com/goreleaser/nfpm/v2/cmd/nfpm@$(NFPM_VERSION)
	@mv '$(CACHE)/tools/nfpm' '$@'

$(VERSITYGW):
	@echo '== versitygw $(VERSITYGW_VERSION): built once'
	@mkdir -p '$(CACHE)/tools'
	@GOFLAGS= GOBIN='$(CACHE)/tools' $(GO) install github.com/versity/versitygw/cmd/versitygw@$(VERSITYGW_VERSION)
	@mv '$(CACHE)/tools/versitygw' '$@'

.PHONY: versitygw
versitygw: $(VERSITYGW) # the S3 server of the tests

$(ACTIONLINT):
	@echo '== actionlint $(ACTIONLINT_VERSION): built once'
	@mkdir -p '$(CACHE)/tools'
	@GOFLAGS= GOBIN='$(CACHE)/tools' $(GO) install github.com/rhysd/actionlint/cmd/actionlint@$(ACTIONLINT_VERSION)
	@mv '$(CACHE)/tools/actionlint' '$@'

$(HELM):
	@echo '== helm $(HELM_VERSION): built once, this takes some minutes'
	@mkdir -p '$(CACHE)/tools'
	@GOFLAGS= GOBIN='$(CACHE)/tools' $(GO) install helm.sh/helm/v4/cmd/helm@$(HELM_VERSION)
	@mv '$(CACHE)/tools/helm' '$@'

$(KUBECONFORM):
	@echo '== kubeconform $(KUBECONFORM_VERSION): built once'
	@mkdir -p '$(CACHE)/tools'
	@GOFLAGS= GOBIN='$(CACHE)/tools' $(GO) install github.com/yannh/kubeconform/cmd/kubeconform@$(KUBECONFORM_VERSION)
	@mv '$(CACHE)/tools/kubeconform' '$@'

$(SCHEMAS):
	@echo '== schemas of Kubernetes $(KUBERNETES_VERSION): made once'
	@rm -rf '$@.new'
	@dir=$$(cd '$(CACHE)' && GOFLAGS= $(GO) mod download -json k8s.io/kubernetes@$(KUBERNETES_VERSION) | sed -n 's/.*"Dir": "\(.*\)".*/\1/p') && \
		scripts/kubernetes-schemas "$$dir/api/openapi-spec/swagger.json" '$@.new'
	@dir() { (cd '$(CACHE)' && GOFLAGS= $(GO) mod download -json "$$1" | sed -n 's/.*"Dir": "\(.*\)".*/\1/p'); } && \
		scripts/kubernetes-crd-schemas '$@.new' \
			"$$(dir github.com/kedacore/keda/v2@$(KEDA_VERSION))/config/crd/bases/keda.sh_scaledobjects.yaml" \
			"$$(dir github.com/prometheus-operator/prometheus-operator@$(PROMETHEUS_OPERATOR))/example/prometheus-operator-crd/monitoring.coreos.com_servicemonitors.yaml"
	@mv '$@.new' '$@'
