# `make help` lists the targets. `make test` and `make demo` are the two that a
# newcomer needs; both set up and build first.

SHELL      := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# A build should not make the machine's owner, or a measurement, wait.
NICE       ?= nice -n 5
CARGO      ?= cargo
# Property tests take the same walk each time; another seed takes another.
export PROPTEST_RNG_SEED ?= 1
TARGET_DIR := $(or $(CARGO_TARGET_DIR),target)
ACKWISE    := $(TARGET_DIR)/release/ackwise
LAB        := $(TARGET_DIR)/release/ackwise-lab
REPORT     ?= report
FUZZ_SECONDS ?= 20

PREFIX     ?= /usr/local
DESTDIR    ?=
UNITDIR    ?= /usr/lib/systemd/system
SYSUSERSDIR ?= /usr/lib/sysusers.d

C_FILES    = $(shell git ls-files 'policy/*.[ch]' 'bpf/*.[ch]' 'policy/*.def')
# Shell scripts, and parts of such, by their first line.
SHELL_FILES = $(shell git grep -lE '^\#( shellcheck shell=|! ?(/usr/bin/env bash|/bin/(ba)?sh|/sbin/openrc-run))' -- scripts .ci policy bpf kernel packaging crates)

# A build takes the debug information of line tables only, as the profiles say.
export CARGO_TERM_COLOR ?= auto

.PHONY: python test-python test-plots test-openwrt test-openrc test-luci test-metrics test-nix calibrate calibrate-virtual help setup build build-ackwise build-lab demo demo-full demo-sim demo-tunnel test test-accecn conform test-foreign desktop test-desktop fuzz check tables stress lint \
	try test-try docs fmt bench install install-lab uninstall clean reproducible dist test-packages test-kernels \
	test-openwrt-boot

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## install the Debian packages that are missing (root only if there are any)
	@scripts/setup

# At once: alone, each of them asks for other features of half of the crates, which are then compiled twice.
build: setup ## build both programs, optimised
	$(NICE) $(CARGO) build --release --locked -p ackwise -p ackwise-lab

build-ackwise: setup ## build ackwise, the operator's command
	$(NICE) $(CARGO) build --release --locked -p ackwise

build-lab: setup ## build ackwise-lab, the researcher's command
	$(NICE) $(CARGO) build --release --locked -p ackwise-lab

demo: build-lab ## two minutes on this kernel: a thin uplink with and without `adaptive`, cubic and BBR (root)
	@mkdir -p $(REPORT)
	$(LAB) run scenarios/asymmetric.toml --on live --arm baseline --arm adaptive --cc cubic,bbr \
		--duration 20s --output $(REPORT)/demo.json --html $(REPORT)/demo.html

demo-full: build-lab ## the full matrix of the same scenario: four policies, three congestion controls, 15 minutes (root)
	@mkdir -p $(REPORT)
	$(LAB) run scenarios/asymmetric.toml --on live \
		--output $(REPORT)/asymmetric.json --html $(REPORT)/asymmetric.html

demo-sim: build-lab ## a few seconds on the simulator: a table, and a page with plots
	@mkdir -p $(REPORT)
	$(LAB) run scenarios/first-look.toml --html $(REPORT)/first-look.html

demo-tunnel: build-lab ## eight downloads over a thin uplink, with and without an ACK tunnel, on this kernel (root)
	$(LAB) tunnel-demo

test: setup ## set up, build, run the tests and some minutes of fuzzing (root)
	@[ "$$(id -u)" = 0 ] || { echo "make test: namespaces and BPF need root; 'make check' runs what does not" >&2; exit 1; }
	$(NICE) kernel/build um
	$(NICE) kernel/build um --config kernel/config/netfilter.config --as netfilter
	@scripts/setup --python
	$(MAKE) build
	env -u FUZZ_SECONDS CARGO=$(CARGO) $(NICE) scripts/test-workspace "scripts/test-kernels --ends" \
		"make test-python" "kernel/tests/run kunit wire storm series selftests" scripts/tables \
		policy/check.sh scripts/peers/test-simplemux
	$(NICE) scripts/fuzz $(FUZZ_SECONDS)

# Packages whose integration tests need no root.
ROOTLESS := ackwise-config ackwise-policy ackwise-queue ackwise-scenario ackwise-report ackwise-tunnel

calibrate: setup ## 1,000 simulated experiments of each kind: how often `ackwise ab` is wrong, how soon it finds harm
	ACKWISE_EXPERIMENTS=1000 $(NICE) $(CARGO) test --release --locked -p ackwise-sim --test calibration -- \
		--nocapture --test-threads 1

# What calibrate-virtual is told, e.g. ABV="--experiments 100 --seed 2 --format json".
ABV ?=

calibrate-virtual: setup ## the same with the program itself, on Linux in virtual time: hours; goes on where it was ended (ABV="--experiments 100 --format json")
	$(NICE) kernel/build um
	$(NICE) $(CARGO) bench --locked -p ackwise --bench ab_virtual -- $(ABV)

fuzz: setup ## every fuzz target for FUZZ_SECONDS each; with FUZZ_SEED=0 another walk each time (root)
	$(NICE) scripts/fuzz $(FUZZ_SECONDS)

test-accecn: setup ## AccECN end to end, on Linux 7: builds that kernel once, as long as 6.12 takes
	$(NICE) kernel/build um --kernel 7
	$(NICE) $(CARGO) test --locked -p ackwise-engines --features linux-7 --test virtual_accecn -- --show-output

conform: build-lab ## judge every ACK filter that docs/conformance.md names: builds three kernels once, then some minutes
	$(NICE) kernel/build um
	$(NICE) kernel/build um --kernel 7
	$(NICE) kernel/build um --config kernel/config/netfilter.config --as netfilter
	@mkdir -p $(REPORT)
	$(LAB) conform --all --pcap $(REPORT)/conform --html $(REPORT)/conform.html

# Unit tests that load BPF programs.
ROOTED := delay::tests echo::tests

check: ## the tests that need no root, in under three minutes
	$(NICE) $(CARGO) test --workspace --exclude ackwise-python --locked --lib --bins -- $(ROOTED:%=--skip %)
	$(NICE) $(CARGO) test --locked $(ROOTLESS:%=-p %) --tests
	$(NICE) $(CARGO) test --locked -p ackwise-conform --test mutants --test queues
	$(NICE) $(CARGO) test --locked -p ackwise --test arguments --test lab --test tunnel
	$(NICE) $(CARGO) test --locked -p ackwise-lab --test arguments --test radio --test reproduce --test shards --test sim --test tunnel_bench --test conform
	policy/check.sh

tables: build-lab ## run what the tables of README and docs/ name, and compare (minutes)
	scripts/tables --virtual

test-foreign: ## policies, codec and configuration on s390x, armv7 and powerpc (by qemu-user)
	$(NICE) scripts/test-foreign

desktop: ## ackwise, ackwise-lab and the Python package, for Windows and macOS, cross-built, in target/desktop and target/python (fetches zig once; six release builds)
	@$(NICE) scripts/desktop
	@scripts/setup --python
	@$(NICE) scripts/test-python --wheel windows
	@$(NICE) scripts/test-python --wheel macos

test-desktop: setup ## their tests and programs by Wine, compared with Linux; for macOS they are built, and not run
	@$(NICE) scripts/desktop --test
	@$(NICE) scripts/test-python --wine

stress: ## the live suites five times on a machine that stress-ng keeps busy (root)
	scripts/stress

lint: setup ## formatting, clippy, shellcheck, lengths, layers, circles, words, links, the manual, units, and the freestanding check of policy/
	@$(CARGO) clippy --version >/dev/null 2>&1 && $(CARGO) fmt --version >/dev/null 2>&1 || \
		{ echo "make lint: needs clippy and rustfmt, which Debian's cargo-web lacks: install Rust from https://rustup.rs" >&2; exit 1; }
	$(CARGO) fmt --all --check
	$(NICE) $(CARGO) clippy --workspace --all-targets --all-features --locked -- -D warnings
	clang-format-19 --dry-run -Werror $(C_FILES)
	shellcheck --external-sources $(SHELL_FILES)
	$(NICE) scripts/bindings --check
	scripts/lint-functions --self-test
	scripts/lint-words --self-test
	scripts/lint-links --self-test
	scripts/lint-functions
	scripts/lint-layers
	scripts/lint-circles
	scripts/lint-words
	scripts/lint-links
	scripts/lint-manual
	scripts/lint-units
	scripts/lint-dependencies
	$(NICE) scripts/lint-supply
	scripts/tables --self-test
	policy/check.sh
	policy/fuzz/mutants.sh --check

python: ## build the wheel of the Python package into target/python/wheels
	@scripts/setup --python
	@$(NICE) scripts/test-python --wheel

test-python: build ## install the wheel of the Python package in clean environments and test it (some minutes)
	@scripts/setup --python
	$(NICE) kernel/build um
	$(NICE) scripts/test-python

try: setup ## build the page that analyses a capture in the browser: target/try/index.html
	@$(NICE) scripts/try

test-try: setup build-ackwise ## drop captures on that page in headless Chromium
	@$(NICE) scripts/try --test

test-plots: setup ## plots with more series than colours in headless Chromium: no two series look the same
	@scripts/setup --browser
	@$(NICE) scripts/test-plots

docs: ## build the book of docs/ into target/book (mdbook is installed once if it is missing)
	@scripts/docs

fmt: ## format Rust and C in place
	$(CARGO) fmt --all
	clang-format-19 -i $(C_FILES)

bench: build ## cost per packet, and the ratios that `adaptive` must reach (root)
	$(NICE) $(CARGO) bench --locked -p ackwise-datapath
	$(NICE) $(CARGO) bench --locked -p ackwise-gateway
	$(NICE) $(CARGO) bench --locked -p ackwise-tunnel
	$(LAB) tunnel-bench
	if dir=$$(scripts/peers/simplemux); then PATH="$$dir:$$PATH"; fi; \
		$(NICE) $(CARGO) bench --locked -p ackwise-tunneld --bench end_to_end
	scripts/bench-virtual $(LAB)
	scripts/bench-gateway $(LAB)
	scripts/bench-lines $(LAB)
	scripts/bench-ten-flows $(LAB)
	scripts/bench-rate $(LAB) --seeds 2
	scripts/bench-device $(LAB)
	scripts/bench-slow $(LAB)
	scripts/bench-sim $(LAB)
	scripts/bench-analyze $(ACKWISE)
	$(MAKE) python
	scripts/bench-sweep
	REPORT=$(REPORT) scripts/bench $(LAB)

test-kernels: setup ## boot every minor version of Linux that Debian has, those of aarch64, armv7 and s390x too, and run ackwise there: docs/kernels.md (QEMU without KVM; a quarter of an hour on two cores, and the builds for the other machines)
	$(NICE) scripts/test-kernels --self-test
	$(NICE) scripts/test-kernels

test-openwrt: build-ackwise ## the service of packaging/openwrt in BusyBox's ash
	@scripts/setup --dist
	@scripts/test-openwrt $(ACKWISE)

test-openwrt-boot: setup ## the package for OpenWrt on an emulated router: BusyBox, a kernel of Debian's, stand-ins for procd and uci (QEMU without KVM; a build for release and five minutes)
	@scripts/setup --dist
	@$(NICE) scripts/test-openwrt-boot

test-openrc: build-ackwise ## the service of packaging/openrc under Debian's OpenRC, in namespaces (root; downloads OpenRC once)
	@$(NICE) scripts/test-openrc $(ACKWISE)

test-luci: build-ackwise ## the pages of packaging/openwrt for LuCI in headless Chromium, with stand-ins for LuCI (root)
	@scripts/setup --browser
	@$(NICE) scripts/test-luci $(ACKWISE)

reproducible: setup ## build ackwise twice, in two directories, and compare the two byte by byte (two release builds)
	$(NICE) scripts/reproducible

dist: ## static programs for x86_64, aarch64, armv7, mips and mipsel, packages, images and checksums in target/dist (fetches zig, nfpm and the sources of Rust's library once; seven builds with link-time optimisation)
	@$(NICE) scripts/dist

test-nix: ## the flake and its module for NixOS, evaluated with stand-ins for nixpkgs, and read by `nix flake check`; nothing is built
	@scripts/setup --nix
	@scripts/test-nix

test-metrics: build-ackwise ## alert rules and the pages of all daemons, by promtool; the board, by Grafana's SDK (root)
	@scripts/setup --metrics
	@scripts/test-metrics $(ACKWISE)

test-packages: ## install what `make dist` made in a clean Debian 12 and 13, use it, purge it; have rpm do so in an empty root; run the image for containers; look at the rest (root, two minutes)
	@$(NICE) scripts/test-packages

# systemd reads its units again, where it runs and they are its own.
RELOAD_UNITS = [ -n "$(DESTDIR)" ] || [ ! -d /run/systemd/system ] || systemctl daemon-reload
UNITS = ackwise@ ackwise-gateway@ ackwise-tunnel@

install: build-ackwise ## install ackwise with its systemd units and completions under PREFIX
	install -D -s -m 0755 $(ACKWISE) $(DESTDIR)$(PREFIX)/bin/ackwise
	install -d $(DESTDIR)$(UNITDIR) $(DESTDIR)/etc/ackwise
	for unit in $(UNITS); do \
		sed 's|/usr/local/bin/|$(PREFIX)/bin/|' packaging/systemd/$$unit.service \
			> $(DESTDIR)$(UNITDIR)/$$unit.service || exit; \
	done
	install -D -m 0644 packaging/sysusers.d/ackwise.conf $(DESTDIR)$(SYSUSERSDIR)/ackwise.conf
	[ -n "$(DESTDIR)" ] || systemd-sysusers $(SYSUSERSDIR)/ackwise.conf
	$(RELOAD_UNITS)
	install -D -m 0644 packaging/ackwise.toml $(DESTDIR)/etc/ackwise/ackwise.toml.example
	install -d $(DESTDIR)$(PREFIX)/share/bash-completion/completions
	$(ACKWISE) completions bash > $(DESTDIR)$(PREFIX)/share/bash-completion/completions/ackwise
	install -d $(DESTDIR)$(PREFIX)/share/man/man8 $(DESTDIR)$(PREFIX)/share/man/man5
	$(ACKWISE) man $(DESTDIR)$(PREFIX)/share/man/man8
	version=$$($(ACKWISE) --version) && for page in 8/ackwise.8 5/ackwise.toml.5; do \
		sed "s/@VERSION@/$${version##* }/" packaging/man/ackwise/$${page#*/} \
			> $(DESTDIR)$(PREFIX)/share/man/man$$page || exit; \
	done

install-lab: build-lab ## install ackwise-lab with its completions and ackwise-scenario(5) under PREFIX
	install -D -s -m 0755 $(LAB) $(DESTDIR)$(PREFIX)/bin/ackwise-lab
	install -d $(DESTDIR)$(PREFIX)/share/bash-completion/completions
	$(LAB) completions bash > $(DESTDIR)$(PREFIX)/share/bash-completion/completions/ackwise-lab
	install -d $(DESTDIR)$(PREFIX)/share/man/man5
	version=$$($(LAB) --version) && sed "s/@VERSION@/$${version##* }/" packaging/man/ackwise-lab/ackwise-scenario.5 \
		> $(DESTDIR)$(PREFIX)/share/man/man5/ackwise-scenario.5

uninstall: ## stop the units, and remove what install and install-lab put there; /etc/ackwise stays
	[ -n "$(DESTDIR)" ] || [ ! -d /run/systemd/system ] || systemctl stop $(UNITS:%='%*.service')
	rm -f $(DESTDIR)$(PREFIX)/bin/ackwise $(DESTDIR)$(PREFIX)/bin/ackwise-lab \
		$(DESTDIR)$(UNITDIR)/ackwise@.service \
		$(DESTDIR)$(UNITDIR)/ackwise-gateway@.service \
		$(DESTDIR)$(UNITDIR)/ackwise-tunnel@.service \
		$(DESTDIR)$(SYSUSERSDIR)/ackwise.conf \
		$(DESTDIR)$(PREFIX)/share/bash-completion/completions/ackwise \
		$(DESTDIR)$(PREFIX)/share/bash-completion/completions/ackwise-lab \
		$(DESTDIR)$(PREFIX)/share/man/man5/ackwise-scenario.5 \
		$(DESTDIR)$(PREFIX)/share/man/man5/ackwise.toml.5 \
		$(DESTDIR)$(PREFIX)/share/man/man8/ackwise.8 $(DESTDIR)$(PREFIX)/share/man/man8/ackwise-*.8
	$(RELOAD_UNITS)

clean: ## remove what was built and reported
	$(CARGO) clean
	rm -rf $(REPORT)
