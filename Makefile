# The one door for people and CI. `make help` lists it.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help run build test tidy fmt lint unit memcheck release deb package-test sim conformance fuzz bench clean tools tools-test

CARGO ?= cargo
# Passed on to the demo: make run ARGS="--rate 20 --members 2000"
ARGS ?=
# Seeds of the simulation; a failure prints its seed.
SIM_SEEDS ?= 200
# Of the property tests: the same run every time. Others are a number away: make unit PROPTEST_RNG_SEED=2
export PROPTEST_RNG_SEED ?= 1
# Seconds per fuzz target.
FUZZ_SECONDS ?= 10
BINARY = $(or $(CARGO_TARGET_DIR),target)/release/guildhall

help: ## What there is
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: tools ## Build and run the demo on 127.0.0.1:8080 (ARGS="--rate 20 …")
	$(CARGO) build --release --locked -p guildhall
	exec $(BINARY) demo --listen 127.0.0.1:8080 $(ARGS)

build: tools ## Build everything, unoptimised
	$(CARGO) build --workspace --locked

# Cheap checks first, so that a typo does not wait for the compiler's optimiser.
test: tools-test ## Every check and every test, from a fresh clone
	$(MAKE) --no-print-directory tidy
	$(MAKE) --no-print-directory fmt
	$(MAKE) --no-print-directory lint
	$(MAKE) --no-print-directory unit
	$(MAKE) --no-print-directory memcheck
	$(MAKE) --no-print-directory sim
	$(MAKE) --no-print-directory conformance
	$(MAKE) --no-print-directory fuzz
	@echo "make test: everything passed"

tidy: ## Do cited sections, decisions and files exist? Do dependencies point downwards?
	$(call need,python3,Install Python 3.10 or later.)
	tools/tidy

fmt: tools ## Is everything formatted? (cargo fmt --all does it)
	$(CARGO) fmt --all --check

lint: tools ## Clippy, warnings denied
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings

unit: tools ## Unit, integration and process tests
	$(CARGO) test --workspace --locked

# AddressSanitizer comes with the pinned toolchain. It watches the Rust side of the C interfaces, and what both allocate; C code
# is not instrumented: a compiler of another family takes constants of zstd for the stack.
memcheck: tools ## The tests of slab and codec under AddressSanitizer
	RUSTC_BOOTSTRAP=1 RUSTFLAGS="-Zsanitizer=address" CFLAGS="-fno-sanitize=all" \
	CARGO_TARGET_DIR=$(or $(CARGO_TARGET_DIR),target)/asan \
	$(CARGO) test --locked --target $$(rustc -vV | sed -n 's/^host: //p') -p guildhall-slab -p guildhall-codec --lib --test it

sim: tools ## A guild and its sessions under seeded faults, SIM_SEEDS times
	$(CARGO) run --release --locked -p guildhall-sim --bin sim -- --seeds $(SIM_SEEDS)

release: tools ## The optimised binary
	$(CARGO) build --release --locked -p guildhall

conformance: tools-test release ## Real client libraries against the release build
	conformance/run --server $(BINARY)
	conformance/readers/run --server $(BINARY)
	conformance/snippets --server $(BINARY)
	conformance/own-client --server $(BINARY)
	conformance/deflate --server $(BINARY)
	conformance/backend-api/run --server $(BINARY)
	conformance/metrics/run --server $(BINARY)
	$(CARGO) build --release --locked -p guildhall-net --example ws_echo
	conformance/autobahn/run --echo $(dir $(BINARY))examples/ws_echo

deb: release ## A Debian package of it (needs cargo-deb)
	$(CARGO) deb -p guildhall --no-build

package-test: release ## Install, start, upgrade, remove: as root, on a machine without guildhall
	packaging/test

fuzz: tools-test ## Each fuzz target for FUZZ_SECONDS
	fuzz/run.sh $(FUZZ_SECONDS)

bench: tools release ## CPU and bytes per delivery, against a plain send()
	$(BINARY) bench sockets --connections 5000
	$(BINARY) bench sockets --connections 1000 --mode zlib
	$(BINARY) bench sockets --connections 1000 --mode zstd
	$(BINARY) bench sockets --connections 5000 --mode prepared
	$(BINARY) bench broadcast

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
