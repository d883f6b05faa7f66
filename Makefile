# What is started and checked by hand. `.ci/run` runs `make test` in a clean checkout.

SHELL := /bin/bash
TARGET_DIR := $(abspath $(or $(CARGO_TARGET_DIR),target))
# Two runs may share a build folder, so that each one tests a copy of the binary that it has built itself.
TESTED_BIN := $(abspath e2e/.bin/fermata)

# nextest gives each test a time limit (.config/nextest.toml).
HAS_NEXTEST := $(shell cargo nextest --version 2>/dev/null)
CARGO_TEST := $(if $(HAS_NEXTEST),cargo nextest run,cargo test)

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help run check test fmt lint doc deny unit counts fuzz examples e2e web browser release-rehearsal docs templates soak bench archive packages image tested-bin demo demo-where-npm-is

help:
	@echo 'make run      start the server; with no model API configured, the demo model answers'
	@echo 'make check    format, lints and the tests that need only Rust: run it while you work'
	@echo 'make test     every check, in this order: fmt lint doc deny unit counts fuzz examples docs e2e web browser release-rehearsal (each is a target, too)'
	@echo '              tests that need PostgreSQL or Redis are skipped if there is none (e2e/with-services says how it looks)'
	@echo 'make soak     a million random schedules of a run, in about ten minutes; each fuzz target for as long; crashes, a very long chat,'
	@echo '              MCP servers from npm and PyPI and the pages in WebKit, from e2e/'
	@echo 'make bench    what deltas, requests and runs that wait cost beside a byte proxy, nginx and the AI SDK, the hot paths alone, long chats, and how smooth the pages are'
	@echo 'make archive  a release of this platform, in target/archive; make packages and make image pack it for npm and as an image'
	@echo 'make docs     the documentation as a site, in docs/site/dist'

run: require-cargo demo-where-npm-is
	cargo run --profile quick --locked -p fermata-server --no-default-features --bin fermata

# Without Node and without services, so that it takes a minute once everything is built. nextest stops a test that hangs.
check: fmt lint
	$(CARGO_TEST) --workspace --exclude fermata-mcp --exclude fermata-protocol --locked
	$(CARGO_TEST) -p fermata-mcp -p fermata-protocol --lib --test heap --test logs --test protocol --locked

test: node_modules/.for-tests demo fmt lint doc deny unit counts fuzz examples docs e2e web browser release-rehearsal

fmt: require-cargo
	cargo fmt --all --check

lint: require-cargo
	cargo clippy --workspace --all-targets --locked -- -D warnings

doc: require-cargo
	RUSTDOCFLAGS='-D warnings' cargo doc --workspace --no-deps --locked

deny: require-cargo
	@if ! command -v cargo-deny >/dev/null; then \
		echo 'deny: cargo-deny is missing (cargo install --locked cargo-deny), so licences and advisories are not checked'; \
		[ "$$FERMATA_REQUIRE_SERVICES" != 1 ]; \
	else \
		set -ex; \
		cargo deny --log-level error check bans licenses sources; \
		if cargo deny --log-level off fetch db 2>/dev/null; then \
			cargo deny --log-level error check --disable-fetch advisories; \
		else \
			echo 'deny: advisories are skipped, because their database cannot be fetched from here'; \
		fi; \
	fi

# Property tests try the same inputs each time, so that a change is what makes one fail; make soak tries others.
unit: export PROPTEST_RNG_SEED ?= 1
unit: require-cargo crates/protocol/tests/npm/node_modules/.for-tests crates/mcp/tests/npm/node_modules/.for-tests
	e2e/with-services $(CARGO_TEST) --workspace --locked
ifneq ($(HAS_NEXTEST),)
	cargo test --workspace --doc --locked
endif

# The instructions that a delta, a turn, a call and a commit take, beside those in bench/hot-paths/counts.toml, which WRITE=1 writes. They are
# those of one architecture.
counts: require-cargo
	@if [ "$$(uname -sm)" != 'Linux x86_64' ]; then \
		echo 'counts: skipped, because the instructions of other machines are others'; \
	elif ! command -v valgrind >/dev/null; then \
		echo 'counts: valgrind is missing, so the instructions of the hot paths are not counted'; \
		[ "$$FERMATA_REQUIRE_SERVICES" != 1 ]; \
	else \
		set -ex; \
		cargo build --profile counts --locked -p fermata-hot-paths; \
		$(TARGET_DIR)/counts/fermata-hot-paths check $(if $(WRITE),--write) bench/hot-paths/counts.toml; \
	fi

# Each target for a few seconds, from its seeds on, and from what earlier rounds have found. Without cargo-fuzz and a nightly toolchain the
# tests of fuzz/ have to do, which are among the unit tests and try the same functions with random changes to the same seeds.
FUZZ_SECONDS ?= 10
# A build of a minute does for a few seconds; make soak makes a fast one.
FUZZ_PROFILE ?= --dev
FUZZ_TARGETS := $(sort $(basename $(notdir $(wildcard fuzz/fuzz_targets/*.rs))))
fuzz: export CARGO_PROFILE_RELEASE_LTO := off
fuzz: export CARGO_PROFILE_RELEASE_CODEGEN_UNITS := 16
fuzz: require-cargo
	@if cargo +nightly fuzz --version >/dev/null 2>&1; then \
		set -e; \
		for target in $(FUZZ_TARGETS); do \
			echo "fuzz: $$target, for $(FUZZ_SECONDS) seconds"; \
			mkdir -p $(TARGET_DIR)/fuzz-corpus/$$target; \
			cargo +nightly fuzz run $(FUZZ_PROFILE) --target-dir $(TARGET_DIR) --sanitizer none --features libfuzzer $$target \
				$(TARGET_DIR)/fuzz-corpus/$$target fuzz/seeds/$$target -- \
				-max_total_time=$(FUZZ_SECONDS) -timeout=20 -rss_limit_mb=2048 -max_len=65536 -verbosity=0 -print_final_stats=1; \
		done; \
	else \
		echo 'fuzz: skipped, because it needs a nightly toolchain and cargo-fuzz (cargo install cargo-fuzz)'; \
	fi

# With the demo model, whatever is set here: a check costs nothing.
examples: require-cargo
	env -u OPENAI_API_KEY -u OPENAI_BASE_URL cargo run -q --locked -p fermata-examples --bin conversation
	cargo run -q --locked -p fermata-examples --bin mounted -- --check

# The package for chat pages and the demo: lint, types, tests with every version of the AI SDK against the built binary.
web: node_modules/.for-tests tested-bin
	npm run --silent build -w fermata-chat
	npm run --silent lint --workspaces
	npm run --silent check --workspaces
	FERMATA_BIN=$(TESTED_BIN) npm run --silent test --workspaces

# The pages in Chromium and in Firefox, against the built binary.
browser: node_modules/.for-tests tested-bin
	npm run --silent build -w fermata-chat
	cd web-demo && FERMATA_BIN=$(TESTED_BIN) ./with-chromium ./with-firefox npm run --silent browser

# What `GET /` shows. The binary carries it, so it is built first. It needs only part of what the tests need.
demo: require-node web-demo/dist/index.html

demo-where-npm-is:
	@$(MAKE) --no-print-directory demo || echo 'The web demo could not be built, for the reason above: the server starts without it.'

DEMO := $(shell find packages/fermata-chat/src web-demo/src web-demo/registry web-demo/public web-demo/*.html web-demo/vite.config.ts -type f -not -path '*/tests/*' -not -path '*-tests/*')
NPM_CI := npm ci --prefer-offline --fetch-retries=5 --no-audit --no-fund --ignore-scripts --loglevel=error

web-demo/dist/index.html: package-lock.json $(DEMO)
	{ [ node_modules/.package-lock.json -nt package-lock.json ] || $(NPM_CI) --omit=dev; } && npm run --silent build -w fermata-web-demo

e2e: tested-bin
	cd e2e && npm run --silent check
	cd e2e && FERMATA_BIN=$(TESTED_BIN) ./with-services npm run --silent test
	@# On one core the server has another runtime. Only Linux has the program that chooses the core.
	$(if $(shell command -v taskset),cd e2e && FERMATA_BIN=$(TESTED_BIN) npm run --silent test:one-core)

tested-bin: require-cargo demo e2e/node_modules/.for-tests
	cargo build --locked -p fermata-server
	@mkdir -p $(dir $(TESTED_BIN)) && cp -f $(TARGET_DIR)/debug/fermata $(TESTED_BIN)

# By hand: a million schedules take a core about seven minutes, after a build of three. PROPTEST_CASES asks for another number.
soak: export PROPTEST_CASES ?= 1000000
soak: require-cargo tested-bin
	cargo test --profile soak --locked -p fermata-engine --lib -- every_schedule_keeps_the_invariants --nocapture
	PROPTEST_CASES=$$(( (PROPTEST_CASES + 49) / 50 )) cargo test --profile soak --locked -p fermata-engine --test instances -- \
		every_schedule_keeps_what_was_acknowledged --nocapture
	$(MAKE) --no-print-directory fuzz FUZZ_SECONDS=600 FUZZ_PROFILE=--release
	cd e2e && FERMATA_BIN=$(TESTED_BIN) ./with-services npm run --silent --if-present soak
	$(MAKE) --no-print-directory templates

# FERMATA_BIN names another binary to measure, such as the result of bench/build-release.
bench: export FERMATA_BIN ?= $(TARGET_DIR)/release/fermata
bench: require-cargo demo e2e/node_modules/.for-tests node_modules/.for-tests
	cargo bench --locked -p fermata-hot-paths
	cargo build --release --locked -p fermata-server
	cargo build --release --locked -p fermata-bench
	e2e/with-services sh -c '$(TARGET_DIR)/release/fermata-bench --server $$FERMATA_BIN $(if $(shell command -v nginx),--peers) $${FERMATA_TEST_POSTGRES_URL:+--postgres "$$FERMATA_TEST_POSTGRES_URL"}'
	cd e2e && npm run --silent bench
	cd web-demo && ./with-chromium npm run --silent bench

# What the log and the metrics of a release call its build.
BUILD = $(shell git rev-parse --short=12 HEAD 2>/dev/null)

# A release of this platform: an archive with the binary, its licences and an example of its settings, and a checksum.
archive: HOST = $(shell rustc -vV | sed -n 's/^host: //p')
archive: VERSION = $(shell cargo pkgid -p fermata-server | sed 's/.*[@\#]//')
archive: NAME = fermata-$(VERSION)-$(HOST)
archive: require-cargo demo
	rm -rf $(TARGET_DIR)/archive
	FERMATA_BUILD=$(BUILD) bench/build-release $(TARGET_DIR)/archive/$(NAME)/fermata
	release/archive $(TARGET_DIR)/archive/$(NAME)

# The npm packages of a release, with the binaries of the archives that are there.
packages: node_modules/.for-tests demo
	npm run --silent build -w fermata-chat
	node release/npm.mjs $(TARGET_DIR)/archive $(TARGET_DIR)/packages

# The container image of this machine's processor, from the archive. It needs Linux.
image: archive
	release/image $(TARGET_DIR)/archive $(TARGET_DIR)/image
	docker build -t ghcr.io/fermata-chat/fermata $(TARGET_DIR)/image

# Each step of a release that needs no host, with the binary under test, which is used in Chromium in the end.
release-rehearsal: node_modules/.for-tests tested-bin
	npm run --silent build -w fermata-chat
	cd web-demo && FERMATA_BIN=$(TESTED_BIN) ./with-chromium npm --prefix ../e2e run --silent rehearsal

# The documentation as a site, in docs/site/dist. A broken link fails.
docs: docs/site/node_modules/.for-tests
	cd docs/site && npm run --silent check && npm run --silent build

# Each template of `npm create fermata` is made, built and used in Chromium. It takes about three minutes.
templates: node_modules/.for-tests tested-bin
	npm run --silent build -w fermata-chat
	cd web-demo && FERMATA_BIN=$(TESTED_BIN) ./with-chromium npm --prefix ../e2e run --silent templates

# The packages of the pages share one folder.
node_modules/.for-tests: package.json package-lock.json packages/fermata-chat/package.json web-demo/package.json | require-node
	$(NPM_CI)
	@touch node_modules/.package-lock.json $@

%/node_modules/.for-tests: %/package.json %/package-lock.json | require-node
	cd $* && $(NPM_CI)
	@touch $*/node_modules/.package-lock.json $@

.PHONY: require-cargo require-node
require-cargo:
	@command -v cargo >/dev/null || { echo 'cargo is missing: install Rust, https://rustup.rs'; exit 1; }

require-node:
	@command -v npm >/dev/null || { echo 'npm is missing: install Node.js 20.19 or later'; exit 1; }
	@node -e 'const [a, b] = process.versions.node.split("."); process.exit(a > 20 || (a == 20 && b >= 19) ? 0 : 1)' || \
		{ echo 'Node.js is too old: install 20.19 or later'; exit 1; }
