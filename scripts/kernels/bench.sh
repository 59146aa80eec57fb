#!/bin/busybox sh
# shellcheck shell=dash
# The first process of a machine that scripts/bench-device boots: runs one benchmark after the other, and
# switches the machine off. The words after `--` on the kernel's command line are what is to be done.
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
mount -t tmpfs tmpfs /tmp
mount -t bpf bpf /sys/fs/bpf
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mkdir -p /run/netns /dev/shm
ln -s /proc/self/fd /dev/fd
ln -s /run /var/run
ip link set lo up
while read -r module; do
	insmod "$module" || echo "guest: insmod $module failed"
done </modules.list

# What sets a rate on a trace; a name is of an arm and a trace: /traces/NAME has the rates.
rate() { # rate ARM TRACE
	local found
	found=$(measured_rate --boot "$1" --rates "$(cat "/traces/$2")" --autorate /cake-autorate) || return
	echo "figure rate $1 $2 $(echo "$found" | tail -n 1)"
}

say "release $(uname -r)"
for bench; do
	case $bench in
	queue) attempt queue queue_cost ;;
	rate:*)
		what=${bench#rate:}
		attempt "$bench" rate "${what%%:*}" "${what#*:}"
		;;
	esac
done
say "done"
reboot -f
