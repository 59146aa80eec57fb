#!/bin/busybox sh
# shellcheck shell=dash
# The first process of a machine that scripts/test-kernels or scripts/bench-device boots. Runs one test after
# the other, each with a time of its own, looks that nothing is left, and switches the machine off.
#
# The words after `--` on the kernel's command line are the tests. `refused`: `ackwise attach` has to say
# that this kernel is too old; `unfit`: that it was built without what programs take. `spoil` leaves what
# `left` and `log` have to find. `queue` and `rate:ARM:TRACE` are benchmarks.
# What the tests look for may lie below /tmp, if they were built there.
/bin/busybox mkdir -p /sbin /proc /sys /dev /run /tmp
/bin/busybox --install -s /sbin
export PATH=/bin:/sbin LC_ALL=C RUST_BACKTRACE=0
# This shell prefers its own.
alias ip=/bin/ip tc=/bin/tc
# shellcheck source=scripts/kernels/judge.sh
. /judge.sh
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mount -t tmpfs tmpfs /run
mount -t bpf bpf /sys/fs/bpf
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mkdir -p /run/netns /dev/shm
ip link set lo up
# What is missing, a test says.
while read -r module; do
	insmod "$module" || echo "guest: insmod $module failed"
done </modules.list

# A test program. One that finds no test of that name has passed nothing.
tests() { # tests PROGRAM ARGUMENT…
	local status=0
	timeout -s KILL 300 "$@" --show-output >/tmp/tests 2>&1 || status=1
	cat /tmp/tests
	[ $status = 0 ] && grep -q '^test result: ok\. [1-9]' /tmp/tests
}

refused() { refuses 'this kernel .* lacks .* works on Linux'; }
unfit() { refuses 'this kernel .*\(interprets BPF programs\|has no types of its own\)'; }

refuses() { # refuses PATTERN
	ip link add veth0 type veth peer name veth1
	ip link set veth0 up
	timeout 30 ackwise attach veth0 >/tmp/said 2>&1
	echo "figure exit $?"
	sed 's/^/figure said /' /tmp/said
	ip link del veth0
	grep -q "$1" /tmp/said && [ "$(wc -l </tmp/said)" = 1 ]
}

spoil() {
	ip netns add spoilt
	echo 'BUG: a complaint that the test of test-kernels makes' >/dev/kmsg
}

# What sets a rate, on the rates of /traces/TRACE.
rate() { # rate ARM:TRACE
	local arm=${1%%:*} trace=${1#*:} found
	[ -e /dev/fd ] || ln -s /proc/self/fd /dev/fd
	found=$(measured_rate --boot "$arm" --rates "$(cat "/traces/$trace")" --autorate /cake-autorate) || return
	echo "figure rate $arm $trace $(echo "$found" | tail -n 1)"
}

say "release $(uname -r)"
for test; do
	case $test in
	refused | unfit | spoil | left | log) attempt "$test" "$test" ;;
	queue) attempt queue queue_cost ;;
	rate:*) attempt "$test" rate "${test#rate:}" ;;
	vectors) attempt vectors tests vectors --test-threads 1 ;;
	# The policies alone: the program that does it calls nothing back.
	replay) attempt replay tests vectors --exact the_kernel_says_what_the_vectors_say ;;
	*) attempt "$test" tests kernel --exact "$test" ;;
	esac
done
say "done"
reboot -f
