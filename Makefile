# `make help` lists the targets. `make test` and `make demo` are the two that a
# newcomer needs; both set up and build first.

SHELL      := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# A build should not make the machine's owner, or a measurement, wait.
NICE       ?= nice -n 5
CARGO      ?= cargo
TARGET_DIR := $(or $(CARGO_TARGET_DIR),target)
ACKWISE    := $(TARGET_DIR)/release/ackwise
REPORT     ?= report
FUZZ_SECONDS ?= 60

PREFIX     ?= /usr/local
DESTDIR    ?=
UNITDIR    ?= /usr/lib/systemd/system

C_FILES    = $(shell git ls-files 'policy/*.[ch]' 'bpf/*.[ch]' 'policy/*.def')
# Shell scripts: by name, or by their first line.
SHELL_FILES = $(shell git grep -lE '^\#! ?(/usr/bin/env bash|/bin/(ba)?sh)' -- scripts .ci policy bpf kernel packaging crates)

# A build takes the debug information of line tables only, as the profiles say.
export CARGO_TERM_COLOR ?= auto

.PHONY: help setup build demo demo-tunnel test check lint fmt bench install uninstall clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## install the Debian packages that are missing (root only if there are any)
	@scripts/setup

build: setup ## build the command, optimised
	$(NICE) $(CARGO) build --release --locked -p ackwise

demo: build ## run scenarios/asymmetric.toml on this kernel: the table, and a page with plots (root)
	@mkdir -p $(REPORT)
	$(ACKWISE) run scenarios/asymmetric.toml --on live \
		--output $(REPORT)/asymmetric.json --html $(REPORT)/asymmetric.html
	@echo "The page: $(abspath $(REPORT))/asymmetric.html"

demo-tunnel: build ## eight downloads over a thin uplink, with and without an ACK tunnel, on this kernel (root)
	$(ACKWISE) tunnel demo

test: setup ## set up, build, run every test and some minutes of fuzzing (root)
	@[ "$$(id -u)" = 0 ] || { echo "make test: namespaces and BPF need root; 'make check' runs what does not" >&2; exit 1; }
	$(NICE) kernel/build um
	$(NICE) $(CARGO) build --release --locked -p ackwise
	$(NICE) $(CARGO) test --workspace --locked --no-fail-fast
	$(NICE) kernel/tests/run kunit wire storm selftests
	policy/check.sh
	policy/fuzz/run.sh $(FUZZ_SECONDS)
	$(NICE) crates/core/ackwise-tunnel/fuzz/run.sh $$(( $(FUZZ_SECONDS) / 2 ))

# Packages whose integration tests need no root.
ROOTLESS := ackwise-policy ackwise-queue ackwise-scenario ackwise-report ackwise-tunnel

check: ## the tests that need no root, in under three minutes
	$(NICE) $(CARGO) test --workspace --locked --lib --bins
	$(NICE) $(CARGO) test --locked $(ROOTLESS:%=-p %) --tests
	$(NICE) $(CARGO) test --locked -p ackwise --test arguments --test tunnel
	policy/check.sh

lint: setup ## formatting, clippy, shellcheck, and the freestanding check of policy/
	@$(CARGO) clippy --version >/dev/null 2>&1 && $(CARGO) fmt --version >/dev/null 2>&1 || \
		{ echo "make lint: needs clippy and rustfmt, which Debian's cargo-web lacks: install Rust from https://rustup.rs" >&2; exit 1; }
	$(CARGO) fmt --all --check
	$(NICE) $(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	clang-format-19 --dry-run -Werror $(C_FILES)
	shellcheck $(SHELL_FILES)
	$(NICE) scripts/bindings --check
	policy/check.sh

fmt: ## format Rust and C in place
	$(CARGO) fmt --all
	clang-format-19 -i $(C_FILES)

bench: build ## cost per packet, and the ratios that `adaptive` must reach (root)
	$(NICE) $(CARGO) bench --locked -p ackwise-datapath
	$(NICE) $(CARGO) bench --locked -p ackwise-gateway
	$(NICE) $(CARGO) bench --locked -p ackwise-tunnel
	$(ACKWISE) tunnel bench
	if dir=$$(scripts/peers/simplemux); then PATH="$$dir:$$PATH"; fi; \
		$(NICE) $(CARGO) bench --locked -p ackwise-tunneld --bench end_to_end
	scripts/bench-virtual $(ACKWISE)
	scripts/bench-gateway $(ACKWISE)
	scripts/bench-sim $(ACKWISE)
	REPORT=$(REPORT) scripts/bench $(ACKWISE)

install: build ## install the command and its systemd unit under PREFIX
	install -D -s -m 0755 $(ACKWISE) $(DESTDIR)$(PREFIX)/bin/ackwise
	install -d $(DESTDIR)$(UNITDIR) $(DESTDIR)/etc/ackwise
	for unit in ackwise@ ackwise-gateway@ ackwise-tunnel@; do \
		sed 's|/usr/local/bin/|$(PREFIX)/bin/|' packaging/systemd/$$unit.service \
			> $(DESTDIR)$(UNITDIR)/$$unit.service || exit; \
	done
	install -D -m 0644 packaging/ackwise.conf.example $(DESTDIR)/etc/ackwise/example.conf
	install -d $(DESTDIR)$(PREFIX)/share/bash-completion/completions
	$(ACKWISE) completions bash > $(DESTDIR)$(PREFIX)/share/bash-completion/completions/ackwise

uninstall: ## remove what install put there; /etc/ackwise stays
	rm -f $(DESTDIR)$(PREFIX)/bin/ackwise $(DESTDIR)$(UNITDIR)/ackwise@.service \
		$(DESTDIR)$(UNITDIR)/ackwise-gateway@.service \
		$(DESTDIR)$(UNITDIR)/ackwise-tunnel@.service \
		$(DESTDIR)$(PREFIX)/share/bash-completion/completions/ackwise

clean: ## remove what was built and reported
	$(CARGO) clean
	rm -rf $(REPORT)
