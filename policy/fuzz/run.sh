#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Builds both fuzzers and runs each for SECONDS (60), from the seeds in corpus/.
# A finding fails the script; its input stays in the output directory. Every run has
# the same seed, so that a failure comes from the change at hand; FUZZ_SEED=0 uses
# another seed each time.
#
#	policy/fuzz/run.sh 300		# CLANG=clang-19 FUZZ_OUT=directory FUZZ_SEED=1
#	FUZZ_MERGE=1 policy/fuzz/run.sh 300	# and puts what is new into corpus/, minimised
set -eu
cd "$(dirname "$0")"
seconds=${1:-60}
clang=${CLANG:-clang-19}
out=${FUZZ_OUT:-$(mktemp -d)}
mkdir -p "$out"
echo "output: $out"
failed=0
for name in parse contract; do
	"$clang" -std=gnu11 -g -O1 -Wall -Wextra -Werror -I../include \
		-fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all \
		"$name.c" -o "$out/$name"
	mkdir -p "$out/corpus-$name"
	if ! "$out/$name" -seed="${FUZZ_SEED:-1}" -max_total_time="$seconds" -max_len=1024 -timeout=5 -print_final_stats=1 \
		-artifact_prefix="$out/$name-" "$out/corpus-$name" "corpus/$name" \
		>"$out/$name.log" 2>&1; then
		echo "$name: FOUND something" >&2
		tail -n 40 "$out/$name.log" >&2
		failed=1
		continue
	fi
	echo "$name: $(grep -E 'stat::number_of_executed_units' "$out/$name.log" | tr -s ' ')"
	if [ "${FUZZ_MERGE:-0}" = 1 ]; then
		mkdir -p "$out/merged-$name"
		"$out/$name" -set_cover_merge=1 -use_counters=0 -max_len=200 "$out/merged-$name" \
			"corpus/$name" "$out/corpus-$name" >"$out/$name-merge.log" 2>&1
		# Files with other names were written by hand, or found something once.
		find "corpus/$name" -type f -regextype posix-extended -regex '.*/[0-9a-f]{40}' -delete
		cp "$out/merged-$name"/* "corpus/$name/"
	fi
done
# Keep the output if its directory was named, or if something was found.
[ $failed = 1 ] || [ -n "${FUZZ_OUT:-}" ] || rm -rf "$out"
exit $failed
