#!/bin/busybox sh
# shellcheck shell=dash
# The first process of a machine that scripts/test-kernels boots. Runs one test after the other, each
# with a time of its own, looks that nothing is left, and switches the machine off. What it found goes
# to the device that the kernel's command line names as `results`, a line each:
#
#   release VERSION, test NAME passed|failed SECONDS, figure NAME VALUE, done
#
# The words after `--` on the kernel's command line are the tests. `refused`: `ackwise attach` has to say
# that this kernel is too old; `unfit`: that it was built without what programs take. `spoil` leaves what
# `left` and `log` have to find. Seconds are the machine's: a thousand million instructions, or a second of
# idling.
results=${results:-/dev/console}
# What the tests look for may lie below /tmp, if they were built there.
/bin/busybox mkdir -p /sbin /proc /sys /dev /run /tmp
/bin/busybox --install -s /sbin
export PATH=/bin:/sbin LC_ALL=C RUST_BACKTRACE=0
# This shell prefers its own.
alias ip=/bin/ip tc=/bin/tc
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mount -t tmpfs tmpfs /run
mount -t bpf bpf /sys/fs/bpf
mkdir -p /run/netns /dev/shm
ip link set lo up
# What is missing, a test says.
while read -r module; do
	insmod "$module" || echo "guest: insmod $module failed"
done </modules.list

say() {
	echo "$*" >"$results"
	echo "guest: $*"
}

seconds() {
	cut -d . -f 1 /proc/uptime
}

attempt() { # attempt NAME COMMAND…
	local name=$1 began status=passed
	shift
	began=$(seconds)
	echo "guest: $name begins"
	"$@" >"/tmp/$name" 2>&1 || status=failed
	cat "/tmp/$name"
	grep '^figure ' "/tmp/$name" >"$results"
	say "test $name $status $(($(seconds) - began))"
}

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

# After all of them: no program, link, device, queue discipline, namespace, process or control socket.
left() {
	local status=0
	nothing() {
		if grep .; then
			echo "left: $1"
			status=1
		fi
	}
	bpftool prog show >/tmp/rest 2>&1 || echo 'bpftool failed' >>/tmp/rest
	nothing 'a BPF program' </tmp/rest
	bpftool link show >/tmp/rest 2>&1 || echo 'bpftool failed' >>/tmp/rest
	nothing 'a BPF link' </tmp/rest
	ip -o link show | grep -vE '^[0-9]+: (lo|dummy0|tunl0|sit0|ifb[01]):' >/tmp/rest
	nothing 'a device' </tmp/rest
	tc qdisc show | grep -v noqueue >/tmp/rest
	nothing 'a queue discipline' </tmp/rest
	ip netns list >/tmp/rest
	nothing 'a namespace' </tmp/rest
	pidof ackwise ackwise-guard >/tmp/rest
	nothing 'a process' </tmp/rest
	find /run/ackwise -mindepth 1 >/tmp/rest 2>/dev/null
	nothing 'a file of /run/ackwise' </tmp/rest
	return $status
}

spoil() {
	ip netns add spoilt
	echo 'BUG: a complaint that the test of test-kernels makes' >/dev/kmsg
}

# The kernel's own complaints.
log() {
	# Some kernels warn when bounds that the verifier keeps contradict each other (decision 37).
	dmesg | grep -q 'REG INVARIANTS VIOLATION' && echo 'figure warns its verifier'
	dmesg | grep -E 'BUG:|WARNING:|Oops' | grep -v 'kernel/bpf/verifier.c.*reg_bounds_sanity_check' >/tmp/complaints
	cat /tmp/complaints
	[ ! -s /tmp/complaints ]
}

say "release $(uname -r)"
for test; do
	case $test in
	refused | unfit | spoil | left | log) attempt "$test" "$test" ;;
	vectors) attempt vectors tests vectors --test-threads 1 ;;
	# The policies alone: the program that does it calls nothing back.
	replay) attempt replay tests vectors --exact the_kernel_says_what_the_vectors_say ;;
	*) attempt "$test" tests kernel --exact "$test" ;;
	esac
done
say "done"
reboot -f
