# The one door for people and CI. `make help` lists it.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help where run chat chat-page dashboard dashboard-page deploy-test build check test test-long tidy commits fmt lint doc wasm unit memcheck release deb package-test sim conformance \
	packages conformance-setup conformance-libraries conformance-rehearsal conformance-readers conformance-examples conformance-documents \
	conformance-deflate conformance-backend-api conformance-metrics conformance-cluster faults rolling cluster conformance-autobahn build-tests build-suites build-release build-memcheck build-fuzz \
	build-bench fuzz bench bench-clients bench-cluster report lab-demo picture clean tools tools-test

CARGO ?= cargo
# Passed on to the demo: make run ARGS="--rate 20 --members 2000"
ARGS ?=
# Seeds of the simulation, and as many again that the commit chooses; a failure prints its seed.
SIM_SEEDS ?= 40
SIM_CHOSEN_BY ?= $(shell git rev-parse HEAD 2> /dev/null)
# Of the property tests: the same run every time. Others are a number away: make unit PROPTEST_RNG_SEED=2
export PROPTEST_RNG_SEED ?= 1
# Seconds per fuzz target, after its corpus.
FUZZ_SECONDS ?= 5
# make test STAGES="unit sim"; `tools/suite --list` names them. make test STAGES=--keep-going does not stop at a failure.
STAGES ?=
# The commit that `make check` and `make commits` compare with; origin/main if empty.
SINCE ?=
HOST = $(shell rustc -vV | sed -n 's/^host: //p')
# What `make run` builds: profile `quick` of Cargo.toml, and the system's allocator.
QUICK = $(or $(CARGO_TARGET_DIR),target)/quick/guildhall
BUILD_QUICK = $(CARGO) build --profile quick --locked -p guildhall
# What is shipped, measured and run for hours: profile `release`, and jemalloc.
BINARY = $(or $(CARGO_TARGET_DIR),target)/release/guildhall
BENCH = $(BINARY)-bench
# What the suites run against. `debug` is the build of the unit tests, whose arithmetic is checked. `release` is what is
# shipped, and takes the compiler another half hour on two cores: make test SUITE_BUILD=release
SUITE_BUILD ?= debug
export SUITE_BUILD
SUITE_BINARY = $(or $(CARGO_TARGET_DIR),target)/$(SUITE_BUILD)/guildhall

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-17s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

where: ## Which module decides it? Searches the headers of all (WORD="slow consumer")
	@tools/where $(WORD)

run: tools ## Build and run the demo on 127.0.0.1:8080 (ARGS="--rate 20 …")
	@[ -x $(QUICK) ] || echo "make: the first build takes some five minutes on two cores; later starts take seconds"
	$(BUILD_QUICK)
	exec $(QUICK) demo --listen 127.0.0.1:8080 $(ARGS)

build: tools ## Build everything, unoptimised
	$(CARGO) build --workspace --locked

check: tools ## Before a commit is handed in: formatting, rules, lints, the tests of the crates that changed
	tools/check $(SINCE)

# The order of the stages, and what runs side by side, is in tools/suite. Each stage is a target of this file.
test: tools-test ## Every check and every test, from a fresh clone; prints a table of durations
	tools/suite $(STAGES)

# What only repeats more often than `make test`; some five hours on two cores.
test-long: tools-test ## What repeats for hours: 2,000 seeds, ten minutes per fuzz target, an hour of faults, suites against the release build
	$(MAKE) --no-print-directory sim SUITE_BUILD=release SIM_SEEDS=2000
	$(MAKE) --no-print-directory fuzz FUZZ_SECONDS=600
	$(MAKE) --no-print-directory conformance SUITE_BUILD=release
	$(MAKE) --no-print-directory faults MINUTES=60

tidy: tools ## Do cited sections and files exist? Do dependencies point downwards? May they be distributed?
	$(call need,python3,Install Python 3.10 or later.)
	$(CARGO) fetch --quiet --locked --target $(HOST)
	python3 -m unittest discover -q -s tools
	python3 -m unittest discover -q -s bench/report
	tools/tidy

commits: ## Do the commits since origin/main have a subject and a body as CONTRIBUTING.md wants them?
	tools/commit-check $(SINCE)

fmt: tools ## Is everything formatted? (cargo fmt --all does it)
	$(CARGO) fmt --all --check

lint: tools ## Clippy, in the build of the tests; a warning is an error
	tools/unit --lint

doc: tools ## The pages of rustdoc, warnings denied: a link that leads nowhere is an error
	tools/doc

wasm: tools ## The crates below the line, built for a machine without sockets, threads or a clock
	tools/wasm

picture: ## Draw the crates in ARCHITECTURE.md again, from their manifests
	tools/crate-picture --write

unit: tools ## Unit, integration, process and documentation tests
	tools/unit

build-tests: tools
	tools/unit --no-run

# AddressSanitizer comes with the pinned toolchain. It watches the Rust side of the C interfaces, and what both allocate; C code
# is not instrumented: a compiler of another family takes constants of zstd for the stack.
memcheck: tools ## The tests of slab and codec under AddressSanitizer
	$(MEMCHECK)

build-memcheck: tools
	$(MEMCHECK) --no-run

MEMCHECK = RUSTC_BOOTSTRAP=1 RUSTFLAGS="-Zsanitizer=address" CFLAGS="-fno-sanitize=all" \
	CARGO_TARGET_DIR=$(or $(CARGO_TARGET_DIR),target)/asan \
	$(CARGO) test --locked --target $(HOST) -p guildhall-slab -p guildhall-codec --lib --test it

sim: build-suites ## A guild and its sessions under seeded faults, with SIM_SEEDS seeds and as many that the commit chooses
	$(dir $(SUITE_BINARY))sim --seeds $(SIM_SEEDS) $(addprefix --chosen-by ,$(SIM_CHOSEN_BY))

release: tools ## The binary as it is shipped: fully optimised, with jemalloc
	$(CARGO) build --release --locked -p guildhall --features guildhall/jemalloc

# The programs that the suites run. tools/suite has built them when it starts one.
build-suites: tools
	$(if $(SUITES_ARE_BUILT),,$(BUILD_$(SUITE_BUILD)))
BUILD_debug = tools/unit --no-run
BUILD_release = $(MAKE) --no-print-directory build-release

# One build for everything that runs optimised. The features of a dependency are the union over the packages of a command:
# a build of its own for each would compile what they share twice.
build-release: tools
	$(CARGO) build --release --locked -p guildhall -p guildhall-sim -p guildhall-net --bins --example ws_echo --features guildhall/jemalloc

conformance: ## Real client libraries against the server
	tools/suite $(filter conformance-%,$(shell tools/suite --list)) build-suites

packages: ## In CI: install the browser, Prometheus and PostgreSQL; NATS also elsewhere, with Go, into target/tools
	.ci/packages

conformance-setup: tools-test ## Install the client libraries and suites into conformance/.cache
	conformance/set-up

conformance-libraries: tools-test build-suites
	conformance/run --server $(SUITE_BINARY)

conformance-rehearsal: tools-test build-suites
	conformance/rehearsal/run --quick --server $(SUITE_BINARY)
	conformance/rehearsal/captures --server $(SUITE_BINARY)

conformance-readers: tools-test build-suites
	conformance/readers/run --server $(SUITE_BINARY)

conformance-examples: tools-test build-suites ## The clients and bots of examples/, in C, Java, Python, Rust and TypeScript
	conformance/examples --server $(SUITE_BINARY)
	conformance/bots --server $(SUITE_BINARY)

# The programs of docs/libraries.md and docs/your-own-client.md.
conformance-documents: tools-test build-suites
	conformance/snippets --server $(SUITE_BINARY)
	conformance/own-client --server $(SUITE_BINARY)

conformance-deflate: tools-test build-suites
	conformance/deflate --server $(SUITE_BINARY)

conformance-backend-api: tools-test build-suites
	conformance/backend-api/run --server $(SUITE_BINARY)

conformance-metrics: tools-test build-suites
	conformance/metrics/run --server $(SUITE_BINARY)

conformance-cluster: tools-test build-suites ## Three nodes on NATS and PostgreSQL while things fail; needs both servers
	python3 -m unittest discover -q -s conformance/cluster
	conformance/cluster/run --server $(SUITE_BINARY)
	conformance/cluster/faults --quick --mirrors 0 --server $(SUITE_BINARY)
	conformance/cluster/libraries --server $(SUITE_BINARY)
	conformance/cluster/libraries --drain --server $(SUITE_BINARY)

faults: build-release ## An hour of seeded faults on three nodes, NATS and PostgreSQL (MINUTES=60 SEED=1), then `rolling`
	conformance/cluster/faults --minutes $(or $(MINUTES),60) --seed $(or $(SEED),1) --server $(BINARY)
	$(MAKE) --no-print-directory rolling

# EARLIER: a commit; conformance/cluster/earlier-release has the default.
rolling: build-release ## Three nodes upgraded from an earlier release one after the other, killed, drained, rolled back: 2,000 clients
	earlier=$$(conformance/cluster/earlier $(EARLIER)) && \
	stay=$$(conformance/cluster/earlier --schema $(EARLIER) || echo --stay-upgraded) && \
	conformance/cluster/faults --in-turn --sessions 2000 --earlier $$earlier $$stay --server $(BINARY) && \
	conformance/cluster/libraries --installed --earlier $$earlier $$stay --server $(BINARY)

cluster: tools ## Build, and run three nodes on this machine with NATS, PostgreSQL and the demo community
	tools/nats-server --install > /dev/null
	$(BUILD_QUICK)
	exec conformance/cluster/demo --server $(QUICK)

deploy-test: build-suites ## The files in deploy/ by their linters, and the alert rules by promtool
	GUILDHALL=$(abspath $(SUITE_BINARY)) deploy/test

conformance-autobahn: tools-test build-suites
	conformance/autobahn/run --echo $(dir $(SUITE_BINARY))examples/ws_echo

chat: tools-test build-suites ## The chat page: its types, its embedded files, and its tests in Chromium
	cd web/chat && npm ci --silent --no-audit --no-fund && npm run --silent check && npm run --silent verify
	cd web/chat && GUILDHALL=$(abspath $(SUITE_BINARY)) npm run --silent test

chat-page: ## Build web/chat/dist again, after a change in web/chat
	cd web/chat && npm ci --silent --no-audit --no-fund && npm run --silent check && npm run --silent build

dashboard: tools-test build-suites ## The dashboard: its types, whether dist is up to date, and its tests in Chromium
	cd web/dashboard && npm ci --silent --no-audit --no-fund && npm run --silent check && npm run --silent verify
	cd web/dashboard && GUILDHALL=$(abspath $(SUITE_BINARY)) npm run --silent test

dashboard-page: ## Build web/dashboard/dist again, after a change in web/dashboard
	cd web/dashboard && npm ci --silent --no-audit --no-fund && npm run --silent check && npm run --silent build

# npm leaves a file behind when it has installed everything, so a second run without a network works.
SDK = sdk/typescript

sdk: sdk-setup ## The TypeScript SDK: its machines and codecs, its types, its sizes, its package
	cd $(SDK) && npm test

sdk-setup: tools-test
	cd $(SDK) && { cmp -s package-lock.json node_modules/.installed || \
		{ npm ci --no-audit --no-fund && cp package-lock.json node_modules/.installed; }; }

sdk-live: sdk-setup build-suites ## The TypeScript SDK against a server, in Node and in Chromium
	cd $(SDK) && GUILDHALL=$(abspath $(SUITE_BINARY)) npm run test:live
	cd $(SDK) && npm run --silent build
	PROGRAMS=$(abspath $(dir $(SUITE_BINARY))) node --test --test-reporter=spec bench/clients/smoke.test.mjs

deb: release ## A Debian package of it (needs cargo-deb)
	$(CARGO) deb -p guildhall --no-build

package-test: release ## Install, start, upgrade, remove: as root, on a machine without guildhall
	packaging/test

fuzz: tools-test ## Each fuzz target for FUZZ_SECONDS
	fuzz/run.sh $(FUZZ_SECONDS)

build-fuzz: tools-test
	fuzz/run.sh --build-only

bench: build-bench ## CPU and bytes per delivery, against a plain send()
	$(BENCH) sockets --connections 5000
	$(BENCH) sockets --connections 1000 --mode zlib
	$(BENCH) sockets --connections 1000 --mode zstd
	$(BENCH) sockets --connections 5000 --mode prepared
	$(BENCH) broadcast

bench-clients: build-bench sdk-setup ## Client libraries side by side: events per second (CHAT=texts.ndjson, TINY_DISCORD=clone); some 25 minutes
	cd $(SDK) && npm run --silent build
	npm ci --silent --no-audit --no-fund --prefix bench/clients
	node bench/clients/run.mjs --programs $(abspath $(dir $(BENCH))) $(if $(CHAT),--chat $(CHAT)) $(ARGS)

report: build-bench ## The published experiments, done again: docs/report/, some 20 minutes (CHAT=texts.ndjson); goes on where it was stopped
	bench/report/report.py $(if $(CHAT),--chat $(CHAT))

bench-cluster: build-bench ## Three nodes against one, on NATS and PostgreSQL: CPU, latency, a slow link, a killed owner
	tools/nats-server --install > /dev/null
	$(BENCH) cluster --nodes 3

lab-demo: build-release sdk-setup ## The lab on a demo with 500 clients of the SDK: record, train, serve, dark launch (CHAT=texts.ndjson); some 12 minutes
	cd $(SDK) && npm run --silent build
	node bench/lab-demo/run.mjs --guildhall $(BINARY) $(if $(CHAT),--chat $(CHAT)) $(ARGS)

build-bench: tools ## target/release/guildhall-bench, and the server that some benches start
	$(CARGO) build --release --locked -p guildhall -p guildhall-bench --features guildhall/jemalloc,guildhall-bench/jemalloc

clean: ## Remove what was built; the demo's data stays
	$(CARGO) clean
	rm -rf fuzz/target conformance/.cache

# $(call need,command,what to do)
define need
	@command -v $(1) > /dev/null || { echo "make: $(1) is missing. $(2)" >&2; exit 1; }
endef
# $(call at_least,command,what prints its version as one number,the least,what to do)
define at_least
	@v=$$($(2)) && [ "$$v" -ge $(3) ] || { echo "make: $(1) is too old. $(4)" >&2; exit 1; }
endef

tools:
	$(call need,$(CARGO),Install Rust from https://rustup.rs; rust-toolchain.toml picks the version.)
	$(call need,cc,Install a C and C++ compiler: build-essential on Debian and Ubuntu$(comma) Xcode's command line tools on macOS.)

tools-test: tools
	$(call need,c++,Install a C++ compiler: g++ on Debian and Ubuntu$(comma) Xcode's command line tools on macOS.)
	$(call need,node,Install Node 20 or later from https://nodejs.org.)
	$(call at_least,node,node -p 'process.versions.node.split(".")[0]',20,Install Node 20 or later from https://nodejs.org.)
	$(call need,npm,It comes with Node from https://nodejs.org$(comma) or as the package npm.)
	$(call need,python3,Install Python 3.10 or later.)
	$(call at_least,python3,python3 -c 'import sys; print(sys.version_info[0] * 100 + sys.version_info[1])',310,Install Python 3.10 or later.)

comma := ,
