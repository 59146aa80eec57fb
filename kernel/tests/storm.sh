#!/bin/bash
# In the guest, run by init: many flows from s over a router r to d, over paths that
# lose, reorder, repeat and mark; TAP. The only argument is where the programs are.
set -euo pipefail
export PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C NSTAT_HISTORY=/run/nstat
here=$1 number=0 failed=0
policies='none adaptive rate-limit:start=20 rate-limit-literal:start=20 every-n:n=16,warm=0'
turns="$policies every-n:n=2,warm=0 adaptive:acks_per_rtt=2 tack hop none"

ok() {
	number=$((number + 1))
	[ "$1" -eq 0 ] || failed=1
	printf '%s %d %s\n' "$([ "$1" -eq 0 ] && echo ok || echo 'not ok')" $number "$2"
}

# shellcheck source=kernel/tests/ground.sh
. "$here/ground.sh"
lay_ground
for n in s r d; do
	ip netns exec $n sysctl -qw net.ipv4.tcp_ecn=1 net.ipv4.tcp_comp_sack_nr=0
done
tc -n s qdisc add dev sr root netem delay 10ms reorder 2% 25% gap 3 loss 1% duplicate 2% limit 100000
tc -n r qdisc add dev rd root netem rate 50mbit loss 2% ecn limit 600
tc -n r qdisc add dev rs root netem delay 10ms reorder 2% loss 1% duplicate 2% limit 100000

# storm NAME MAX_US FLOWS COUNT BYTES POLICIES [TURNS]
storm() {
	local name=$1 longest=$2 flows=$3 count=$4 bytes=$5 policies=$6 turns=${7:-} \
		watching turning='' sinking sent=0 sunk=0 seen=0 line held
	ip netns exec d "$here/watch" dr "$longest" >/run/watch &
	watching=$!
	ip netns exec d "$here/storm" sink "$flows" "$count" "$bytes" "$policies" &
	sinking=$!
	if [ -n "$turns" ]; then
		ip netns exec d "$here/storm" turn "$turns" &
		turning=$!
	fi
	sleep 0.5
	ip netns exec s "$here/storm" send 10.0.2.1 "$flows" "$count" "$bytes" || sent=1
	[ $sent -eq 0 ] || kill -TERM $sinking
	wait $sinking || sunk=1
	[ -z "$turning" ] || { kill -TERM $turning && wait $turning; } || seen=1
	sleep 1
	kill -TERM $watching
	wait $watching || seen=1
	line=$(grep ^watched /run/watch || true)
	ok $((sent | sunk)) "$name: $((flows * count)) times $bytes bytes, every one of them right"
	grep '^#' /run/watch || true
	ok $seen "$name: the contract holds: ${line#watched }"
	held=$(ip netns exec d nstat -z TcpExtTCPAckPolicyHeld | awk '/Held/ { print $2 }')
	# It was a storm: each of its kinds came often, and ACKs were held in it.
	ok "$(awk -v held="$held" '{ exit !($7 > 200 && $9 > 50 && $11 > 30 && $13 > 50 && held > 200) }' \
		<<<"$line" && echo 0 || echo 1)" "$name: out of order, old, filling holes, marked; $held held"
}

echo 1..6
storm "each policy, with cubic, reno and bbr" 200000 15 1 600000 "$policies"
storm "sysctls and policies changed in flight" 500000 12 4 120000 "turn $turns" "$turns"
exit $failed
