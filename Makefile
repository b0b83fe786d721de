# `make help` says what there is. Everything here can be typed by hand as well.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
PACKAGES = $(shell source scripts/paths.sh && echo "$${packages[@]}")
.PHONY: help install companions demo million release wheel dist web test cluster-test full fuzz bench lint fmt docs clean

help: ## List the targets
	@awk -F ': .*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

install: ## Install the Debian packages that are missing
	@scripts/install-debian.sh

companions: install ## Build what `steplake serve`, `publish` and `fetch` run, beside steplake itself
	cargo build --release --locked $(PACKAGES)
	cargo build --release --locked --package steplake-remote

demo: install ## Build, then record, dedup, verify and query a first lake
	cargo build --release --locked
	@scripts/demo.sh

million: install ## Record a million unique states of the demo's programs, into ./million (about 40 minutes)
	cargo build --release --locked
	@scripts/million.sh

release: install ## Build a dataset to publish, of STATES states (1000000), in ./release
	cargo build --release --locked
	@scripts/release.sh $(STATES)

wheel: install ## Build the Python package into target/wheels
	@scripts/wheel.sh

dist: install ## Build what is given away, fully optimised, in twice the time: the wheel, the programs
	@scripts/wheel.sh dist
	cargo build --profile dist --locked $(PACKAGES)
	cargo build --profile dist --locked --package steplake-remote
	@source scripts/paths.sh; strip "$$target"/dist/steplake{,-worker,-flight,-gym,-explore,-remote}

web: ## Build the explorer's page, web/dist, from its sources
	@scripts/web.sh

test: install ## Run every test
	@scripts/install-debian.sh libgrpc++-dev libprotobuf-dev protobuf-compiler protobuf-compiler-grpc
	cargo test --locked --no-run $(PACKAGES)
	@scripts/bounded.sh 180 cargo test --locked $(PACKAGES)
	@scripts/test-readers.sh
	@scripts/test-serve.sh
	@scripts/test-web.sh
	@scripts/test-compiler-gym.sh
	@scripts/test-service-example.sh
	@scripts/test-remote.sh
	@scripts/test-cuda.sh
	@scripts/test-graph.sh
	@scripts/test-walkthrough.sh
	@scripts/test-python.sh

cluster-test: install ## Run the tests of steplake-cluster, which builds Ballista (another 10 CPU minutes)
	@scripts/test-cluster.sh

full: test cluster-test ## Run every test, and what takes too long for every change (20 minutes more)
	@scripts/test-dynamic.sh
	@TORCH=yes scripts/test-python.sh
	@READS=10000 SPARK=yes scripts/test-readers.sh
	cargo bench --locked --bench identity
	@scripts/wheel.sh dist
	@source scripts/paths.sh; scripts/test-wheel.sh "$$target"/wheels/*.whl 3.11 3.12 3.13

fuzz: ## Fuzz every target for TIME seconds (60): wants cargo-fuzz, and nightly Rust for AddressSanitizer
	@scripts/fuzz.sh

bench: install ## Measure against the targets of docs/PERFORMANCE.md
	cargo bench --profile dist --locked --bench limits
	cargo bench --profile dist --locked --bench identity
	cargo bench --profile dist --locked --bench dedup
	cargo bench --profile dist --locked --bench loops
	cargo bench --profile dist --locked --bench queries
	@scripts/bench-python.sh

lint: ## Check format, lints, docs, licences and duplicate versions
	cargo fmt --all --check
	cargo clippy --locked $(PACKAGES) --all-targets -- --deny warnings
	cargo clippy --locked --package steplake-cuda --package steplake-python --all-targets -- --deny warnings
	cargo clippy --locked --package steplake-remote --all-targets -- --deny warnings
	RUSTDOCFLAGS="--deny warnings" cargo doc --locked --no-deps $(PACKAGES)
	RUSTDOCFLAGS="--deny warnings" cargo doc --locked --no-deps --package steplake-remote
	scripts/cargo-deny.sh --workspace --locked check licenses bans sources
	scripts/check-duplicates.sh

fmt: ## Format the code
	cargo fmt --all

docs: install ## Build the documentation of the code, of Rust and of Python
	cargo doc --locked --no-deps
	@scripts/docs-python.sh

clean: ## Remove steplake's own build products, keep those of its dependencies
	cargo clean $(PACKAGES) --package steplake-remote
