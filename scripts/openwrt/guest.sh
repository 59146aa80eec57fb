#!/bin/busybox sh
# shellcheck shell=dash disable=SC3043,SC2016 # BusyBox's ash has local; eval expands what is quoted
# The first process of a machine that scripts/test-openwrt-boot boots: a router whose user land is BusyBox,
# with stand-ins for OpenWrt's shell functions, procd, uci, opkg and netifd (root/). The words after `--` on
# the kernel's command line are the cases, in this order. A host behind lan0 downloads from one behind
# wan0.
/bin/busybox mkdir -p /proc /sys /dev /tmp /usr/bin /usr/sbin /etc/rc.d
/bin/busybox --install -s /bin
export PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C RUST_BACKTRACE=0
# What looks on is Debian's. The shell prefers its own, and what is tested finds none of them.
alias ip=/judge/ip tc=/judge/tc bpftool=/judge/bpftool ethtool=/judge/ethtool
# shellcheck source=scripts/kernels/judge.sh
. /judge.sh
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mount -t tmpfs tmpfs /tmp
mount -t bpf bpf /sys/fs/bpf
# As OpenWrt has it until 24.10: no /run.
rmdir /run 2>/dev/null
ln -s tmp /var
mkdir -p /var/run /var/log /var/lock
syslogd -O /var/log/messages
while read -r module; do
	insmod "$module" || echo "guest: insmod $module failed"
done </modules.list

# A host is a namespace without a name, since names of namespaces take a /run.
add_host() { # add_host DEVICE ADDRESS OF_HOST
	unshare -n sleep 1000000 &
	host=$!
	while [ "$(readlink /proc/$host/ns/net)" = "$(readlink /proc/self/ns/net)" ]; do
		sleep 0.1
	done
	ip link add "$1" type veth peer name eth0 netns $host
	ip addr add "$2/24" dev "$1"
	ethtool -K "$1" tso off gso off gro off >/dev/null
	on $host /judge/ethtool -K eth0 tso off gso off gro off >/dev/null
	on $host /judge/ip link set lo up
	on $host /judge/ip addr add "$3/24" dev eth0
	on $host /judge/ip link set eth0 up
	on $host /judge/ip route add default via "$2"
}
on() { # on HOST COMMAND…
	local host=$1
	shift
	nsenter -t "$host" -n "$@"
}
build_network() {
	ip link set lo up
	add_host lan0 192.168.1.1 192.168.1.2
	lan=$host
	ip link set lan0 up
	add_host wan0 203.0.113.1 203.0.113.2
	internet=$host
	echo 1 >/proc/sys/net/ipv4/ip_forward
	# What a client reads from has no end: at an end it would close its side, and the server would leave.
	mkfifo /tmp/silence
	exec 9<>/tmp/silence
	dd if=/dev/urandom of=/tmp/sent bs=64k count=64 2>/dev/null
}

want() { # want WHAT COMMAND…
	local what=$1
	shift
	"$@" || {
		echo "wanted: $what"
		return 1
	}
}

eventually() { # eventually WHAT COMMAND…
	local what=$1 tries=0
	shift
	until "$@" >/dev/null 2>&1; do
		tries=$((tries + 1))
		[ $tries -le 120 ] || {
			echo "a minute, and not yet: $what"
			return 1
		}
		sleep 0.5
	done
}

not() { ! "$@"; }
instance() { cat /var/run/procd/ackwise/instances/wan/pid; }
supervised() { kill -0 "$(cat /var/run/procd/ackwise/instances/wan/supervisor)" 2>/dev/null; }
counter() { # counter NAME
	ackwise status --format json | sed -n "s/^ *\"$1\": \([0-9]*\),*\$/\1/p" | head -n 1
}
policy() { ackwise status --format json | sed -n 's/^ *"policy": "\(.*\)",*$/\1/p' | head -n 1; }
is_up() { [ -n "$(counter withheld)" ]; }
is_gone() { [ -z "$(pidof ackwise ackwise-guard ackwise-loader)" ]; }
links() { bpftool link show | grep -o '^[0-9]*'; }
# The maps of what is attached, by their numbers and names.
attached_maps() {
	local program map
	for program in $(bpftool link show | sed -n 's/.* prog \([0-9]*\) .*/\1/p'); do
		for map in $(bpftool prog show id "$program" | sed -n 's/.* map_ids \([0-9,]*\).*/\1/p' | tr ',' ' '); do
			bpftool map show id "$map" | sed -n 's/^\([0-9]*\): .* name \([^ ]*\) .*/\1 \2/p'
		done
	done | sort -u
}
# All but their constants outlive a reload.
maps() { attached_maps | grep -v rodata; }
constants() { attached_maps | grep rodata; }
retransmissions() {
	on "$internet" /bin/busybox awk '$1 == "Tcp:" && $13 ~ /[0-9]/ { print $13 }' /proc/net/snmp
}

# The host behind wan0 sends /tmp/sent, in parts with pauses between them, since a file is a moment's work.
serve() { # serve PAUSE
	local part
	for part in $(seq 0 63); do
		dd if=/tmp/sent bs=64k count=1 skip="$part" 2>/dev/null
		usleep "$1"
	done | on "$internet" /bin/busybox nc -l -p 5001
}
downloads() { # downloads [PAUSE]: µs between the parts
	serve "${1:-0}" &
	eventually "the server listens" on "$internet" /bin/busybox sh -c 'netstat -ltn | grep -q :5001' || return
	on "$lan" /bin/busybox nc 203.0.113.2 5001 <&9 >/tmp/got
	want "the bytes that were sent" cmp /tmp/sent /tmp/got
}

thins() {
	local acks withheld
	acks=$(counter acks) withheld=$(counter withheld)
	downloads || return
	acks=$(($(counter acks) - acks)) withheld=$(($(counter withheld) - withheld))
	echo "figure withheld $withheld of $acks"
	want "withheld ACKs" [ $withheld -gt 0 ] && want "ACKs that leave" [ $withheld -lt $acks ]
}

nothing_attached() {
	[ -z "$(links)" ] && [ -z "$(bpftool prog show)" ] && [ -z "$(bpftool map show)" ] &&
		[ -z "$(find /sys/fs/bpf -mindepth 1)" ] &&
		[ "$(tc qdisc show | grep -vc noqueue)" = 0 ]
}

installed() {
	opkg install /ackwise.ipk || return
	[ ! -f /spoil ] || sed -i -f /spoil /etc/init.d/ackwise
	want "the program runs" ackwise --version &&
		want "it is enabled" [ -x /etc/rc.d/S95ackwise ] &&
		want "it is disabled at the end" [ -x /etc/rc.d/K10ackwise ] &&
		want "nothing runs" is_gone &&
		want "nothing is attached" nothing_attached
}

# It starts when the interface comes up, and ends when it goes down.
waits() {
	uci set ackwise.wan.enabled=1
	uci set ackwise.wan.guard=0
	uci set ackwise.wan.policy=every-n:n=4
	uci commit ackwise
	reload_config
	want "nothing runs before wan is up" is_gone &&
		want "it is said" grep -q 'is tried again when it comes up' /var/log/messages || return
	/sbin/ifup wan
	eventually "it runs" is_up || return
	want "no control socket in flash" [ "$(readlink -f /run/ackwise)" = /tmp/run/ackwise ] || return
	/sbin/ifdown wan
	eventually "it ends" is_gone && want "nothing is attached" nothing_attached || return
	/sbin/ifup wan
	eventually "it runs again" is_up
}

thinned() { thins; }

# Killed, it holds nothing, and comes back.
killed() {
	local before
	before=$(instance)
	kill -KILL "$before"
	eventually "nothing is attached" nothing_attached &&
		downloads &&
		want "nothing ran meanwhile" not instance || return
	eventually "it comes back" is_up &&
		want "it is another process" [ "$(instance)" != "$before" ] &&
		thins
}

# Killed again and again, it stays down after five attempts, until somebody starts it.
gave_up() {
	local kills=0
	/etc/init.d/ackwise restart
	eventually "it runs" is_up || return
	while supervised; do
		kill -KILL "$(instance)"
		kills=$((kills + 1))
		eventually "it is gone" is_gone &&
			eventually "it comes back, or stays down" eval 'is_up || not supervised' || return
	done
	echo "figure crashes $kills"
	want "six crashes" [ $kills = 6 ] &&
		want "it is said" grep -q 'crash loop' /var/log/instances &&
		want "nothing is attached" nothing_attached || return
	/etc/init.d/ackwise start
	eventually "it runs" is_up && thins
}

# Other parameters take no other process, and drop nothing that is held.
reloaded() {
	local process links maps constants flows resent withheld download
	process=$(instance) links=$(links) maps=$(maps) constants=$(constants)
	flows=$(counter flows_created) resent=$(retransmissions) withheld=$(counter withheld)
	uci set ackwise.wan.policy=every-n:n=8
	uci commit ackwise
	downloads 100000 &
	download=$!
	eventually "ACKs are withheld" eval '[ "$(counter withheld)" -gt '"$withheld"' ]' || return
	want "before: n=4" eval 'policy | grep -q "every-n:n=4\b"' || return
	reload_config
	eventually "after: n=8" eval 'policy | grep -q "every-n:n=8\b"' &&
		want "the download goes on" kill -0 $download || return
	withheld=$(counter withheld)
	wait $download || return
	want "ACKs are withheld afterwards" [ "$(counter withheld)" -gt "$withheld" ] &&
		want "the same process" [ "$(instance)" = "$process" ] &&
		want "the same attachment" [ "$(links)" = "$links" ] &&
		want "maps" eval '[ -n "$maps" ] && [ -n "$constants" ]' &&
		want "the same flows and slots" [ "$(maps)" = "$maps" ] &&
		want "other constants" [ "$(constants)" != "$constants" ] &&
		want "one flow for the download" [ "$(counter flows_created)" = $((flows + 1)) ] &&
		want "no ACK was lost" [ "$(counter lost)" = 0 ] &&
		want "nothing was sent again" [ "$(retransmissions)" = "$resent" ]
}

# Another policy, and a rate, take another process.
replaced() {
	local before
	before=$(instance)
	uci set ackwise.wan.policy=adaptive
	uci set ackwise.wan.up=20mbit
	uci commit ackwise
	reload_config
	eventually "another process" eval '[ "$(instance)" != '"$before"' ] && is_up' &&
		want "the policy" eval 'policy | grep -q adaptive' &&
		want "the queue" eval 'tc qdisc show dev wan0 | grep -q cake' &&
		downloads
}

stopped() {
	/etc/init.d/ackwise stop
	eventually "it ends" is_gone &&
		want "nothing is left" nothing_attached &&
		want "no control socket" [ -z "$(find /run/ackwise -mindepth 1)" ] &&
		downloads
}

# What procd does when the machine is switched off, and on again.
switched_off() {
	local service
	/etc/init.d/ackwise start
	eventually "it runs" is_up || return
	for service in /etc/rc.d/K*; do
		"$service" shutdown
	done
	eventually "it ends" is_gone && want "nothing is left" nothing_attached || return
	for service in /etc/rc.d/S*; do
		"$service" boot
	done
	eventually "it runs" is_up
}

# Over itself: the service is another process afterwards, and what was edited stays.
upgraded() {
	local before
	before=$(instance)
	opkg install /ackwise.ipk || return
	eventually "another process" eval '[ "$(instance)" != '"$before"' ] && is_up' &&
		want "what was edited stays" eval 'policy | grep -q adaptive'
}

removed() {
	opkg remove ackwise || return
	eventually "it ends" is_gone &&
		want "nothing is attached" nothing_attached &&
		want "no links" [ -z "$(ls /etc/rc.d)" ] &&
		want "no files" [ ! -e /usr/bin/ackwise ] && want "no service" [ ! -e /etc/init.d/ackwise ] &&
		want "what was edited stays" grep -q adaptive /etc/config/ackwise
}

nothing_left() {
	kill "$lan" "$internet"
	eventually "the hosts are gone" not ip link show wan0 &&
		left
}

build_network
reload_config
say "release $(uname -r)"
for test; do
	attempt "$test" "$test"
done
cat /var/log/messages /var/log/instances
say "done"
poweroff -f
