# shellcheck shell=dash
# For the first process of a machine that is booted by scripts/kernels/machine.sh: runs one test after the
# other, and looks that nothing is left. What it found goes to the device that the kernel's command line
# names as `results`, a line each:
#
#   release VERSION, test NAME passed|failed SECONDS, figure NAME VALUE, done
#
# Seconds are the machine's: a thousand million instructions, or a second of idling.
results=${results:-/dev/console}

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
	"$@" >/tmp/said-by-test 2>&1 || status=failed
	cat /tmp/said-by-test
	grep '^figure ' /tmp/said-by-test >"$results"
	say "test $name $status $(($(seconds) - began))"
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

# The kernel's own complaints.
log() {
	# Some kernels warn when bounds that the verifier keeps contradict each other (decision 37).
	dmesg | grep -q 'REG INVARIANTS VIOLATION' && echo 'figure warns its verifier'
	dmesg | grep -E 'BUG:|WARNING:|Oops' | grep -v 'kernel/bpf/verifier.c.*reg_bounds_sanity_check' >/tmp/complaints
	cat /tmp/complaints
	[ ! -s /tmp/complaints ]
}
