# Thin verbs over the go command. "make" alone lists them. Nothing here is
# needed to build or test: every verb is one or two plain go commands.

GO ?= go
FOR ?= 60s
NIGHT ?= 8h
BENCHTIME ?= 1s

# Packages without a command of their own to measure.
BENCHES = ./debugcheck ./impls/... ./oracle/... ./fuzz/...

# The core is plain Go; these targets have no C compiler to ask.
CROSS = darwin/arm64 windows/amd64 linux/arm64

.PHONY: help
help: ## list the verbs
	@awk -F ':.*## ' '/^[a-z][a-z-]*:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' Makefile

.PHONY: all
all: test race lint vet ## everything CI demands, but the fuzzing

.PHONY: fuzz
fuzz: ## the main job: replay the corpus and fuzz every target for FOR (60s)
	$(GO) run ./cmd/allocfuzz run --for $(FOR)

.PHONY: smoke
smoke: ## the main job for ten seconds
	$(GO) run ./cmd/allocfuzz run --for 10s

.PHONY: nightly
nightly: ## a night's work for NIGHT (8h): fuzz, explore, minimise, file regressions, thin
	$(GO) run ./cmd/allocfuzz nightly --for $(NIGHT)

.PHONY: libfuzzer
libfuzzer: ## every target under libFuzzer for FOR (60s) each, two processes (needs clang)
	$(GO) run ./cmd/fuzzers run -o out/libfuzzer -for $(FOR) -fork 2

.PHONY: real
real: ## libraries of malloc: fetch Debian's, unpacked in the cache, and fuzz all for FOR (60s)
	$(GO) run ./cmd/allocfuzz libs --fetch || true
	$(GO) run ./cmd/allocfuzz run --libs --for $(FOR)

.PHONY: explore
explore: ## the table of the historical races, searched (needs some minutes)
	@$(GO) run ./cmd/allocfuzz explore --rows

.PHONY: test
test: ## go vet and all tests, the checks of the repository among them
	$(GO) vet ./...
	$(GO) test ./...

.PHONY: test-docs
test-docs: ## the commands, tables and pages of the README and of docs
	$(GO) test -count=1 -run 'Readme|ChecksPage|DetectionTable|SubjectTable' ./cmd/allocfuzz

.PHONY: test-page
test-page: ## the report page in headless Chromium, which is installed where apt-get can
	@command -v chromium >/dev/null || apt-get install -y --no-install-recommends chromium || \
		echo "no chromium: the test is skipped"
	$(GO) test -count=1 -v -run 'Browser|Page|Hostile' ./fuzz/report

.PHONY: race
race: ## the short tests under the race detector (needs a C compiler)
	CGO_ENABLED=1 $(GO) test -race -short ./...

.PHONY: lint
lint: tidy ## gofmt, go vet, the repository's checks and golangci-lint where installed
	@unformatted=$$(gofmt -l .); if [ -n "$$unformatted" ]; then \
		echo "not formatted, run make fmt:"; echo "$$unformatted"; exit 1; fi
	$(GO) vet ./...
	@if command -v golangci-lint >/dev/null; then \
		echo golangci-lint run; golangci-lint run; \
	else echo "golangci-lint is not installed: its checks were left out"; fi
	@if command -v actionlint >/dev/null; then \
		echo actionlint; actionlint .github/workflows/*.yml; fi

.PHONY: stress
stress: ## real threads for FOR (60s), under the race detector where there is a C compiler
	@if command -v $$($(GO) env CC) >/dev/null; then \
		echo "$(GO) run -race ./cmd/allocfuzz stress --for $(FOR)"; \
		CGO_ENABLED=1 $(GO) run -race ./cmd/allocfuzz stress --for $(FOR); \
	else echo "no C compiler: without the race detector"; \
		$(GO) run ./cmd/allocfuzz stress --for $(FOR); fi

.PHONY: tidy
tidy: ## the repository's own checks: imports, sizes, texts, patches
	$(GO) run ./cmd/tidy

.PHONY: vet
vet: ## go vet for the other systems and processors
	@for target in $(CROSS); do \
		echo "go vet $$target"; \
		CGO_ENABLED=0 GOOS=$${target%/*} GOARCH=$${target#*/} $(GO) vet ./... || exit 1; \
	done

.PHONY: bench
bench: ## every benchmark, BENCHTIME (1s) each
	$(GO) test -run '^$$' -bench . -benchtime $(BENCHTIME) $(BENCHES)

.PHONY: cover
cover: ## statement coverage of all packages by all tests, into cover.html
	$(GO) test -short -coverpkg=./... -coverprofile=cover.out ./...
	$(GO) tool cover -html=cover.out -o cover.html
	$(GO) tool cover -func=cover.out | tail -n 1

.PHONY: fmt
fmt: ## format the Go sources and the programs
	gofmt -w .
	find corpus impls -name '*.prog' ! -path '*/testdata/bad/*' \
		-exec $(GO) run ./cmd/allocfuzz fmt -w {} +
