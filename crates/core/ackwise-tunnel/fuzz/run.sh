#!/bin/sh
# Builds both fuzzers and runs each for SECONDS (30), from the inputs in corpus/. A
# finding fails the script; its input stays in the output directory, and
# `cargo run -p ackwise-tunnel --example fuzz_<name> <file>` plays it again. Every run
# takes the same walk, so that a failure is one of the change at hand; FUZZ_SEED=0 takes
# another each time.
#
# It takes a stable Rust and clang's libFuzzer, no cargo-fuzz: that wants a nightly one for
# its sanitizers, and this crate forbids unsafe code, which is what they look at. Coverage
# is an LLVM pass that any rustc can be told to run; wrapper.sh does so for this crate only.
#
#	crates/core/ackwise-tunnel/fuzz/run.sh 300	# CLANG=clang-19 FUZZ_OUT=directory FUZZ_SEED=1
#	FUZZ_MERGE=1 …/run.sh 300		# and puts what is new into corpus/, minimised
set -eu
cd "$(dirname "$0")"
here=$(pwd)
seconds=${1:-30}
clang=${CLANG:-clang-19}
out=${FUZZ_OUT:-$(mktemp -d)}
root=$(cargo locate-project --workspace --message-format plain)
root=${root%/Cargo.toml}
mkdir -p "$out"
echo "output: $out"

host=$(rustc -vV | sed -n 's/^host: //p')
target=${CARGO_TARGET_DIR:-$root/target}/fuzz
CARGO_TARGET_DIR=$target \
RUSTC_WRAPPER=$here/wrapper.sh \
FUZZ_CLANG=$clang \
CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS=true \
CARGO_PROFILE_RELEASE_OVERFLOW_CHECKS=true \
	cargo build --release --locked --target "$host" -p ackwise-tunnel \
	--example fuzz_codec --example fuzz_session

failed=0
for name in codec session; do
	program=$target/$host/release/examples/fuzz_$name
	mkdir -p "$out/corpus-$name"
	if ! "$program" -seed="${FUZZ_SEED:-1}" -max_total_time="$seconds" -max_len=2048 \
		-timeout=10 -rss_limit_mb=1024 -print_final_stats=1 -use_value_profile=1 \
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
		"$program" -set_cover_merge=1 -use_counters=0 -max_len=300 "$out/merged-$name" "corpus/$name" \
			"$out/corpus-$name" >"$out/$name-merge.log" 2>&1
		# What was found or written by hand keeps its name.
		find "corpus/$name" -type f ! -name 'found-*' ! -name 'seed-*' -delete
		cp "$out/merged-$name"/* "corpus/$name/"
	fi
done
# What nobody asked for by name, and nothing was found in, is of no use.
[ $failed = 1 ] || [ -n "${FUZZ_OUT:-}" ] || rm -rf "$out"
exit $failed
