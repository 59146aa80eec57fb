#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Do the fuzzers find what they look for? Each line of mutants.txt is a fault that is put
# into a copy of policy/include. Both fuzzers of this directory run on the copy for SECONDS
# (20); with --bpf the test that compares the BPF programs with native code runs as well, the
# fault being on the native side (root). Fails if a fault is found by none.
#
#	policy/fuzz/mutants.sh 20 --bpf		# CLANG=clang-19
set -euo pipefail
cd "$(dirname "$0")"
seconds=${1:-20}
bpf=${2:-}
clang=${CLANG:-clang-19}
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

fuzz() {
	"$clang" -std=gnu11 -g -O1 -w -I"$out/include" -fsanitize=fuzzer,address,undefined \
		-fno-sanitize-recover=all "$1.c" -o "$out/$1"
	mkdir -p "$out/corpus"
	if "$out/$1" -seed=1 -max_total_time="$seconds" -max_len=1024 -artifact_prefix="$out/" \
		"$out/corpus" "corpus/$1" >"$out/log" 2>&1; then
		echo -n " $1 -"
	else
		echo -n " $1 FOUND"
		found=1
	fi
	rm -rf "$out/corpus"
}

# The compiler that build scripts call looks into the copy first.
differential() {
	cat >"$out/cc" <<-END
		#!/bin/sh
		exec cc -I"$out/include" "\$@"
	END
	chmod +x "$out/cc"
	if CC=$out/cc cargo test --quiet --locked -p ackwise-datapath --test differential \
		>"$out/log" 2>&1; then
		echo -n " differential -"
	elif grep -q 'by the model\|of the model\|the model reads' "$out/log"; then
		echo -n " differential FOUND"
		found=1
	else
		echo " differential did not run:"
		tail -n 20 "$out/log"
		exit 1
	fi
	touch ../src/shim.c
}

missed=0
while IFS=@ read -r file from to what; do
	[[ $file != \#* && -n $file ]] || continue
	rm -rf "$out/include"
	cp -r ../include "$out/include"
	FROM=$from TO=$to perl -0pi -e 's/\Q$ENV{FROM}\E/$ENV{TO}/' "$out/include/ackwise/$file"
	if cmp -s "../include/ackwise/$file" "$out/include/ackwise/$file"; then
		echo "mutants.txt: $file has no '$from'" >&2
		exit 1
	fi
	found=0
	echo -n "$what:"
	fuzz parse
	fuzz contract
	if [[ $bpf = --bpf ]]; then differential; fi
	echo
	if [[ $found = 0 ]]; then missed=$((missed + 1)); fi
done <mutants.txt
echo "found by none: $missed"
[[ $missed = 0 ]]
