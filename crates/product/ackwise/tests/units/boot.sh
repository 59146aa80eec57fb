#!/bin/sh
# Boots systemd with the units of ackwise and nothing else, in the network namespace of the caller.
# It sees changed copies of what it would write to, and ends with this process.
#
#   boot.sh UNITS SYSUSERS PROGRAM CONFIGURATION
#
# The directories of the units and of the users, the program, and a directory that becomes
# /etc/ackwise. udev makes a device unit for each interface.
set -eu

if [ "${1:-}" != inside ]; then
	# A control group of its own, in a hierarchy that only this process has mounted.
	mount --make-rprivate /
	mount -t cgroup2 cgroup2 /mnt
	before=/mnt$(sed -n 's/^0:://p' /proc/self/cgroup)
	group=/mnt/ackwise-units-$$
	mkdir "$group"
	echo $$ >"$group/cgroup.procs"
	unshare --cgroup --pid --fork --kill-child --mount --mount-proc "$0" inside "$@" &
	booted=$!
	trap 'kill -9 $booted' TERM
	echo $$ >"$before/cgroup.procs"
	wait $booted || :
	# What it ran has been killed with its first process.
	while ! find "$group" -depth -type d -exec rmdir {} + 2>/dev/null; do
		sleep 0.1
	done
	exit
fi
units=$2 sysusers=$3 program=$4 configuration=$5

# All that is copied, before anything is hidden.
new=/mnt
mount -t tmpfs new $new
mkdir $new/etc $new/bin $new/system $new/sysusers
cp -a /etc/. $new/etc/
rm -rf $new/etc/systemd/system $new/etc/ackwise
mkdir $new/etc/systemd/system
cp -r "$configuration" $new/etc/ackwise
cp "$program" $new/bin/ackwise
cp /usr/lib/systemd/system/*.target /usr/lib/systemd/system/*.slice $new/system/
cp "$units"/*.service $new/system/
cp "$sysusers"/*.conf $new/sysusers/
# Where there is no journal, what the daemons say goes into a file.
for unit in ackwise@ ackwise-gateway@ ackwise-tunnel@; do
	mkdir $new/system/$unit.service.d
	printf '[Service]\nStandardOutput=append:/run/units.log\nStandardError=append:/run/units.log\n' \
		>$new/system/$unit.service.d/log.conf
done
mount --bind $new/etc /etc
mount --bind $new/bin /usr/local/bin
mkdir $new/rules
# shellcheck disable=SC2016 # udev expands the name
echo 'SUBSYSTEM=="net", KERNEL!="lo", TAG+="systemd", ENV{SYSTEMD_ALIAS}+="/sys/subsystem/net/devices/$name"' \
	>$new/rules/99-systemd.rules
mount --bind $new/rules /lib/udev/rules.d
mount --bind $new/system /usr/lib/systemd/system
systemd-sysusers $new/sysusers/*.conf
chown -R ackwise /etc/ackwise
# As udev makes it: for everybody (50-udev-default.rules).
mknod -m 0666 $new/tun c 10 200
mount --bind $new/tun /dev/net/tun
umount -R /sys/fs/cgroup 2>/dev/null || :
mount -t cgroup2 cgroup2 /sys/fs/cgroup
for directory in /run /tmp /var/tmp; do
	mount -t tmpfs tmpfs $directory
done

# A real udev, with the one rule that matters here (its 99-systemd.rules).
mkdir -p /run/udev
/lib/systemd/systemd-udevd --daemon
udevadm trigger --action=add --subsystem-match=net
udevadm settle

exec env container=ackwise-test /usr/lib/systemd/systemd --system --unit=multi-user.target \
	--log-target=console --show-status=0
