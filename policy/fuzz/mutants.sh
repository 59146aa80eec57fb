#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Do the fuzzers find what they look for? Each line of mutants.txt is a fault that is put
# into a copy of policy/include. The fuzzers of this directory run on the copy until one finds
# the fault, for at most INPUTS (200000) inputs, the same each time: first parse if the fault
# is in the parser, else contract. With --bpf (root) the test that compares the BPF programs
# with native code runs as well, with the fault on the native side; it must also find each
# fault that mutants.txt does not mark with `native`. Fails if a fault is not found. Takes
# some five minutes, or half an hour with --bpf.
#
#	policy/fuzz/mutants.sh 200000 --bpf		# CLANG=clang-19 ONLY='a part of what is wrong'
#	policy/fuzz/mutants.sh --check			# only that each fault can be put in
set -euo pipefail
cd "$(dirname "$0")"
inputs=${1:-200000}
stale=0
while IFS=@ read -r file from _; do
	[[ $file != \#* && -n $file ]] || continue
	grep -qF -- "$from" "../include/ackwise/$file" && continue
	echo "mutants.txt: $file has no '$from'" >&2
	stale=1
done <mutants.txt
[ $stale = 0 ] || exit 1
[ "$inputs" != --check ] || exit 0
bpf=${2:-}
clang=${CLANG:-clang-19}
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

# Runs a fuzzer. Returns 0 if it finds the fault.
fuzz() {
	"$clang" -std=gnu11 -g -O1 -w -I"$out/include" -fsanitize=fuzzer,address,undefined \
		-fno-sanitize-recover=all "$1.c" -o "$out/$1" || exit 1
	mkdir -p "$out/corpus"
	local status=0
	"$out/$1" -seed=1 -runs="$inputs" -max_len=1024 -artifact_prefix="$out/" \
		-print_final_stats=1 "$out/corpus" "corpus/$1" >"$out/log" 2>&1 || status=$?
	rm -rf "$out/corpus"
	if [ $status = 0 ]; then
		echo -n " $1 -"
		return 1
	fi
	grep -qE "^$1: |runtime error|ERROR: AddressSanitizer" "$out/log" || {
		echo " $1 did not run:"
		tail -n 20 "$out/log"
		exit 1
	}
	echo -n " $1 FOUND by input $(sed -n 's/^stat::number_of_executed_units: *//p' "$out/log")"
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
		return 1
	elif grep -q 'by the model\|of the model\|the model reads' "$out/log"; then
		echo -n " differential FOUND"
	else
		echo " differential did not run:"
		tail -n 20 "$out/log"
		exit 1
	fi
}

missed=0
tried=0
while IFS=@ read -r file from to what only; do
	[[ $file != \#* && -n $file && $what = *"${ONLY:-}"* ]] || continue
	rm -rf "$out/include"
	cp -r ../include "$out/include"
	FROM=$from TO=$to perl -0pi -e 's/\Q$ENV{FROM}\E/$ENV{TO}/' "$out/include/ackwise/$file"
	case $file in
	tcp.h) order=(parse contract) ;;
	*) order=(contract parse) ;;
	esac
	tried=$((tried + 1))
	echo -n "$what:"
	fuzz "${order[0]}" || fuzz "${order[1]}" || missed=$((missed + 1))
	if [[ $bpf = --bpf && $only != native ]]; then
		differential || missed=$((missed + 1))
	fi
	echo
done <mutants.txt
# The next build takes the policies themselves.
[[ $bpf != --bpf ]] || touch ../src/shim.c
echo "$tried faults; not found: $missed"
[[ $missed = 0 && $tried != 0 ]]
