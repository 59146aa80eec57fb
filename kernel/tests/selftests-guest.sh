#!/bin/bash
# In the guest, run by init: tests of others, in namespaces that have the policy.
# Parameters are variables, from the file whose path is the only argument:
#
#   here      the directory with net/, kernel/ and google/
#   policy    net.ipv4.tcp_ack_policy; none on a kernel that has no such thing
#   kind      net: programs of tools/testing/selftests/net
#             packetdrill: the scripts of $here/scripts, a path and a family each
#
# Each test is a line "result pass NAME" or "result fail NAME", and what it said.
set -uo pipefail
export PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C
here='' policy=none kind=''
# shellcheck source=/dev/null
. "$1"

# Tests write to /tmp, and the root is read-only.
mkdir -p /run/netns /run/here
mount --bind "$here" /run/here
mount -t tmpfs tmp /tmp
here=/run/here
sysctl -qw net.ipv4.tcp_mem='5000 7000 10000'
ip link set lo up

# Some of the tests make namespaces of their own.
setting=/proc/sys/net/ipv4/tcp_ack_policy
mkdir /tmp/bin
cat >/tmp/bin/ip <<-END
	#!/bin/bash
	$(command -v ip) "\$@" || exit
	[ "\$1 \$2" != "netns add" ] || exec $(command -v ip) netns exec "\$3" /tmp/bin/with_policy
END
cat >/tmp/bin/with_policy <<-END
	#!/bin/bash
	[ ! -e $setting ] || echo '$policy' >$setting || exit 1
	ip link set lo up
	exec "\${@:-true}"
END
chmod 755 /tmp/bin/ip /tmp/bin/with_policy
export PATH=/tmp/bin:$PATH

attempt() { # attempt NAME COMMAND…
	local name=$1
	shift
	if timeout 120 "$@" >/tmp/said 2>&1 </dev/null; then
		echo "result pass $name"
	else
		echo "result fail $name"
		tail -n 6 /tmp/said | cut -c 1-160 | sed 's/^/    /'
	fi
}

# A transfer whose receiver maps what arrives; -i: both ends hash it.
tcp_mmap() {
	local server status
	./tcp_mmap -s "$@" &
	server=$!
	sleep 0.1
	./tcp_mmap -H ::1 "$@"
	status=$?
	kill $server
	wait $server
	return $status
}
export -f tcp_mmap

net() {
	local test
	cd "$here/net" || exit 1
	for test in 'tcp_inq -4' 'tcp_inq -6' 'tcp_inq -4 -t 6' reuseport_dualstack reuseaddr_conflict \
		bind_wildcard bind_timewait sk_bind_sendto_listen sk_connect_zero_addr sk_so_peek_off \
		so_netns_cookie; do
		# shellcheck disable=SC2086 # words
		attempt "$test" unshare -n with_policy ./$test
	done
	attempt tcp_fastopen_backup_key.sh ./tcp_fastopen_backup_key.sh
	attempt reuseport_addr_any.sh unshare -n with_policy ./reuseport_addr_any.sh
	[ -e tcp_mmap ] || return 0
	# shellcheck disable=SC2086,SC2016 # words, of the inner shell
	for test in '-i' '-i -M 1000' '-i -z -M 4108'; do
		attempt "tcp_mmap $test" unshare -n with_policy bash -c 'tcp_mmap "$@"' - $test
	done
}

# shellcheck disable=SC2034 # by name, below
v4='--ip_version=ipv4 --local_ip=192.168.0.1 --gateway_ip=192.168.0.1 --netmask_ip=255.255.0.0
	--remote_ip=192.0.2.1 -D TFO_COOKIE=3021b9d889017eeb -D CODE=host_unreachable
	-D CMSG_LEVEL_IP=SOL_IP -D CMSG_TYPE_RECVERR=IP_RECVERR'
# shellcheck disable=SC2034
v6='--ip_version=ipv6 --mtu=1520 --local_ip=fd3d:0a0b:17d6::1 --gateway_ip=fd3d:0a0b:17d6:8888::1
	--remote_ip=fd3d:fa7b:d17d::1 -D TFO_COOKIE=c1d1e9742a47a9bc -D CMSG_LEVEL_IP=SOL_IPV6
	-D CMSG_TYPE_RECVERR=IPV6_RECVERR'

packetdrill() {
	local script family
	while read -r script family; do
		cd "$here/$(dirname "$script")" || exit 1
		# shellcheck disable=SC2086 # words
		attempt "$script $family" unshare -n with_policy "$here/packetdrill" --send_omit_free \
			${!family} "$(basename "$script")"
	done <"$here/scripts"
}

case $kind in
net | packetdrill) $kind ;;
*) exit 2 ;;
esac
