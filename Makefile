# `make help` says what there is. Everything here can be typed by hand as well.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help install demo million test fuzz bench lint fmt docs clean

help: ## List the targets
	@awk -F ': .*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

install: ## Install the Debian packages that are missing
	@scripts/install-debian.sh

demo: install ## Build, then record, seal, dedup, verify and query a first lake
	cargo build --release --locked
	@scripts/demo.sh

million: install ## Record a million unique states of the demo's programs, into ./million (about 40 minutes)
	cargo build --release --locked
	@scripts/million.sh

test: install ## Run every test
	cargo test --locked
	@scripts/test-readers.sh

fuzz: ## Fuzz every target for TIME seconds (60): wants nightly Rust and cargo-fuzz
	@for target in manifest frames sql parquet; do \
	  cargo +nightly fuzz run "$$target" -- -max_total_time=$${TIME:-60}; \
	done

bench: install ## Measure against the targets of docs/PERFORMANCE.md
	cargo bench --locked --bench limits
	cargo bench --locked --bench dedup
	cargo bench --locked --bench queries

lint: ## Check format, lints, docs, licences and duplicate versions
	cargo fmt --check
	cargo clippy --locked --all-targets -- --deny warnings
	RUSTDOCFLAGS="--deny warnings" cargo doc --locked --no-deps
	scripts/cargo-deny.sh --locked check licenses bans sources
	scripts/check-duplicates.sh

fmt: ## Format the code
	cargo fmt

docs: ## Build the documentation of the code
	cargo doc --locked --no-deps

clean: ## Remove steplake's own build products, keep those of its dependencies
	cargo clean --package steplake
