#!/bin/sh
# Called by cargo instead of rustc (see run.sh): coverage for this crate, random numbers
# that repeat, and libFuzzer for the two programs. Build scripts and macros, which run
# while it builds, are those without --target.
set -eu
rustc=$1
shift
case " $* " in
*" --target "*) ;;
*) exec "$rustc" "$@" ;;
esac
set -- "$@" --cfg fuzzing --cfg 'getrandom_backend="custom"'
case ${CARGO_CRATE_NAME:-} in
ackwise_tunnel | fuzz_*)
	set -- "$@" -C passes=sancov-module \
		-C llvm-args=-sanitizer-coverage-level=4 \
		-C llvm-args=-sanitizer-coverage-inline-8bit-counters \
		-C llvm-args=-sanitizer-coverage-pc-table \
		-C llvm-args=-sanitizer-coverage-trace-compares \
		-C codegen-units=1
	;;
esac
case ${CARGO_CRATE_NAME:-} in
fuzz_*) set -- "$@" -C linker="$FUZZ_CLANG" -C link-arg=-fsanitize=fuzzer ;;
esac
exec "$rustc" "$@"
