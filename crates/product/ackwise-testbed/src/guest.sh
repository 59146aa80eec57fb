#!/bin/sh
# The first program of a virtual machine that runs one test. Its root is the host's,
# read-only. The host's /proc still shows through: there this is the machine itself,
# which runs in its own directory.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export LC_ALL=C HOME=/run TMPDIR=/tmp
directory=$(readlink /proc/self/cwd)
mount -n -t proc proc /proc
mount -n -t sysfs sysfs /sys
mount -n -t devtmpfs devtmpfs /dev
mount -n -t bpf bpf /sys/fs/bpf
mount -n -t tmpfs tmpfs /run
mount -n -t tmpfs tmpfs /tmp
ln -s /proc/self/fd /dev/fd
mkdir -p /run/testbed
mount -n -t hostfs -o "$directory" hostfs /run/testbed
ip link set lo up
/bin/sh /run/testbed/command >/run/testbed/output 2>&1
echo $? >/run/testbed/status
sync
echo o >/proc/sysrq-trigger
sleep 1
