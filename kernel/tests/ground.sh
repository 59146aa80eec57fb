#!/bin/bash
# In the guest: three namespaces s, r, d in a row, r a router: s has 10.0.1.1, d 10.0.2.1.
# For those that source it.

lay_ground() {
	local n x link address i=1

	# Otherwise they follow from the memory that the image leaves, page by page.
	sysctl -qw net.ipv4.tcp_mem='5000 7000 10000'
	for n in s r d; do
		ip netns add $n
		ip netns exec $n sysctl -qw net.ipv6.conf.all.disable_ipv6=1 \
			net.ipv4.tcp_no_metrics_save=1
		ip -n $n link set lo up
	done
	ip -n s link add sr type veth peer name rs netns r
	ip -n d link add dr type veth peer name rd netns r
	for x in s:sr:10.0.1.1 r:rs:10.0.1.2 r:rd:10.0.2.2 d:dr:10.0.2.1; do
		IFS=: read -r n link address <<<"$x"
		ip -n "$n" link set "$link" address 02:00:00:00:00:0$i
		ip netns exec "$n" ethtool -K "$link" tso off gso off gro off >/dev/null
		ip -n "$n" addr add "$address/24" dev "$link"
		ip -n "$n" link set "$link" up
		i=$((i + 1))
	done
	ip netns exec r sysctl -qw net.ipv4.ip_forward=1
	ip -n s route add default via 10.0.1.2
	ip -n d route add default via 10.0.2.2
}
