#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Compiles everything in include/ and options/ for every kind of environment, and fails when one of
# them would need something from a library: a kernel has no memset to give to a
# BPF program, and a 32-bit one no 64-bit division.
#
#	policy/check.sh		# CC_GCC=gcc CC_CLANG=clang-19 NM=nm
set -eu
cd "$(dirname "$0")"
gcc=${CC_GCC:-gcc}
clang=${CC_CLANG:-clang-19}
nm=${NM:-nm}
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
failed=0

check() {
	name=$1
	shift
	if ! "$@" -std=gnu11 -O2 -Iinclude -ffreestanding -fno-pic -Wall -Wextra -Werror \
		-c src/all.c -o "$out/all.o"; then
		echo "$name: does not compile" >&2
		failed=1
		return
	fi
	undefined=$($nm -u "$out/all.o")
	if [ -n "$undefined" ]; then
		printf '%s: needs from a library:\n%s\n' "$name" "$undefined" >&2
		failed=1
		return
	fi
	echo "$name: ok"
}

for cc in "$gcc" "$clang"; do
	check "$cc x86-64" "$cc" -mgeneral-regs-only
	check "$cc i386" "$cc" -m32 -mgeneral-regs-only
done
check "$clang bpf" "$clang" -target bpf -mcpu=v3 -g
exit $failed
