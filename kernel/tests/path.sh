#!/bin/bash
# In the guest, run by init: a transfer from s over a router r to d, one line of
# results. Parameters are variables, from the file whose path is the only argument.
set -euo pipefail
export PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C NSTAT_HISTORY=/run/nstat
rate=100mbit reverse=100mbit delay=20ms queue=200 cc=cubic bytes=10000000 repeat=1
rcvbuf=0 policy=none loss='' skip=0 hold_us='' hold_min_us='' hold_shift='' limit='' rmem=131072 here=''
# shellcheck source=/dev/null
. "$1"

# shellcheck source=kernel/tests/ground.sh
. "$(dirname "$0")/ground.sh"
lay_ground
for n in s r d; do
	ip netns exec $n sysctl -qw net.ipv4.tcp_rmem="4096 $rmem 1900000" \
		net.ipv4.tcp_wmem='4096 16384 1900000'
done
tc -n r qdisc add dev rd root tbf rate "$rate" burst 3200 limit $((queue * 1514))
tc -n r qdisc add dev rs root handle 1: netem delay "$delay" limit 100000
tc -n r qdisc add dev rs parent 1:1 tbf rate "$reverse" burst 1600 limit 60000
[ -z "$loss" ] || tc -n s qdisc add dev sr root netem loss "$loss" limit 100000
ip netns exec s sysctl -qw "net.ipv4.tcp_congestion_control=$cc"

# The setting is written by a shell of its own on any kernel, so that both have run
# as many programs.
# shellcheck disable=SC2016
ip netns exec d bash -c '
	cd /proc/sys/net/ipv4
	[ -e tcp_ack_policy ] || { [ "$1" = none ] && exit; echo "no tcp_ack_policy" >&2; exit 1; }
	echo "$1" >tcp_ack_policy
	[ -z "$2" ] || echo "$2" >tcp_ack_hold_us
	[ -z "$3" ] || echo "$3" >tcp_ack_hold_shift
	[ -z "$4" ] || echo "$4" >tcp_ack_limit
	[ -z "$5" ] || echo "$5" >tcp_ack_hold_min_us
' - "$policy" "$hold_us" "$hold_shift" "$limit" "$hold_min_us"

# From here on at the same moment, however long the boot took.
"$here/at" 20
ip netns exec r "$here/tap" rs 7000 "$skip" >/run/tap &
tap=$!
ip netns exec d "$here/xfer" sink 7000 "$repeat" "$rcvbuf" &
sleep 0.5
fct=
for ((i = 0; i < repeat; i++)); do
	fct+=${fct:+,}$(ip netns exec s "$here/xfer" send 10.0.2.1 7000 "$bytes")
done
sleep 1
kill -TERM $tap
wait
echo "result fct_us $fct $(cat /run/tap)"
for n in s d; do
	ip netns exec $n nstat -az | awk -v n=$n '!/^#/ && $2 != 0 { print "counter", n, $1, $2 }'
done
