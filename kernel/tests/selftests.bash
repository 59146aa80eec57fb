#!/usr/bin/env bash
# Part of kernel/tests/run: the parts `selftests` and `packetdrill`, tests that
# others wrote. They come from the kernel's source and from packetdrill's.
# shellcheck disable=SC2154 # here, work, image, stock: of run
set -euo pipefail

# The newest packetdrill that expects the struct tcp_info of 6.12. The hash names
# the content, wherever it comes from.
packetdrill_commit=f88d6e64ffbee1c893e60d33c043f8ec9027f642
packetdrill_origin=${ACKWISE_PACKETDRILL:-https://github.com/google/packetdrill}
# Those of its scripts in which a receiver has a say.
packetdrill_about='blocking close ecn eor epoll gro inq ioctl limited_transmit md5 mss nagle
	notsent_lowat sack sendfile shutdown splice syscall_bad_arg tcp_info ts_recent user_timeout validate'
policies=(none adaptive 'every-n:n=16,warm=0')

# tools/testing/selftests/net of the source that kernel/build unpacked.
selftests_source() {
	local cache tree
	cache=$(dirname "$work")
	tree=${ACKWISE_LINUX_TREE:-$cache/source/$(cat "$cache/source/current" 2>/dev/null || true)}
	[ -f "$tree/tools/testing/selftests/net/tcp_inq.c" ] ||
		die "there is no kernel source in $tree" \
			"kernel/build unpacks it when it builds; or name a tree in ACKWISE_LINUX_TREE"
	printf '%s\n' "$tree/tools/testing/selftests"
}

selftests_compile() {
	local cc=${CC:-gcc} from name libraries
	from=$(selftests_source)
	rm -rf "$work/selftests/net" "$work/selftests/source"
	mkdir -p "$work/selftests/net"
	# Shorter than they are: 500 connections of 10,000, and 32 MiB of 32 GiB.
	mkdir -p "$work/selftests/source"
	cp "$from"/net/{tcp_inq,tcp_mmap,tcp_fastopen_backup_key,reuseport_addr_any,reuseport_dualstack}.c \
		"$from"/net/{reuseaddr_conflict,bind_wildcard,bind_timewait,sk_bind_sendto_listen}.c \
		"$from"/net/{sk_connect_zero_addr,sk_so_peek_off,so_netns_cookie}.c "$work/selftests/source/"
	sed -i 's/1ULL << 35/1ULL << 25/; s/n_loops = 10000/n_loops = 500/' "$work"/selftests/source/*.c
	[ -e /usr/include/openssl/pem.h ] || rm "$work/selftests/source/tcp_mmap.c"
	for name in "$work"/selftests/source/*.c; do
		libraries=()
		[ "$(basename "$name")" != tcp_mmap.c ] || libraries=(-lpthread -lcrypto)
		"$cc" -O2 -w -D_GNU_SOURCE "-I$from" "-I$from/net" -o "$work/selftests/net/$(basename "$name" .c)" \
			"$name" "${libraries[@]}"
	done
	cp "$from"/net/{tcp_fastopen_backup_key,reuseport_addr_any,in_netns}.sh "$work/selftests/net/"
}

# Runs what selftests-guest.sh knows; results go to $work/selftests/results.
selftests_run() { # selftests_run IMAGE KIND POLICY
	cp "$here/selftests-guest.sh" "$work/selftests/guest.sh"
	printf 'here=%q kind=%q policy=%q\n' "$work/selftests" "$2" "$3" >"$work/selftests/params"
	boot "$1" quiet -- "$work/selftests/guest.sh" "$work/selftests/params"
	if [ "$(exited)" != 0 ]; then
		cat "$work/console" >&2
		die "the guest did not finish ($2, $3); its console is above"
	fi
	sed -n 's/^result //p' "$work/console" >"$work/selftests/results"
}

passed() { # passed PREFIX: N of M
	printf '%d of %d' "$(grep -c "^pass $1" "$work/selftests/results" || true)" \
		"$(grep -cE "^(pass|fail) $1" "$work/selftests/results" || true)"
}

# 0 if there are results of PREFIX, and none failed.
all_passed() {
	grep -q "^pass $1" "$work/selftests/results" && ! grep -q "^fail $1" "$work/selftests/results" && echo 0 || echo 1
}

selftests_failures() {
	grep -aA 6 '^result fail' "$work/console" | grep -aE '^(result fail|    )' | sed 's/^/# /' || true
}

selftests() {
	local policy
	selftests_compile
	for policy in "${policies[@]}"; do
		selftests_run "$image" net "$policy"
		selftests_failures
		ok "$(all_passed '')" "selftests, $policy: $(passed '') pass"
	done
	[ -e "$work/selftests/net/tcp_mmap" ] || {
		number=$((number + 1))
		echo "ok $number selftests: tcp_mmap # SKIP it needs libssl-dev"
	}
}

packetdrill_compile() {
	local from tree=$work/packetdrill
	from=$(selftests_source)
	command -v python3 >/dev/null 2>&1 || die "packetdrill's scripts need python3"
	if [ "$(git -C "$tree" rev-parse HEAD 2>/dev/null)" != "$packetdrill_commit" ]; then
		rm -rf "$tree"
		git init -q "$tree"
		git -C "$tree" fetch -q --depth 1 "$packetdrill_origin" "$packetdrill_commit" ||
			die "packetdrill could not be fetched from $packetdrill_origin (above: why)" \
				"ACKWISE_PACKETDRILL names a clone that has commit $packetdrill_commit"
		git -C "$tree" checkout -q FETCH_HEAD
	fi
	"${CC:-gcc}" -O2 -Wall -Wextra -c -o "$work/times.o" "$here/times.c"
	(cd "$tree/gtests/net/packetdrill" && ./configure && make CFLAGS='-O1 -w' packetdrill \
		packetdrill-ext-libs="-lpthread -lrt -ldl -Wl,--wrap=times $work/times.o") >"$work/packetdrill.log" 2>&1 || {
		tail -n 20 "$work/packetdrill.log" >&2
		die "packetdrill does not compile; it needs flex and bison"
	}
	mkdir -p "$work/selftests"
	rm -rf "$work/selftests/"{packetdrill,kernel,google}
	cp "$tree/gtests/net/packetdrill/packetdrill" "$work/selftests/"
	mkdir "$work/selftests/google"
	cp -r "$tree/gtests/net/tcp" "$tree/gtests/net/common" "$work/selftests/google/"
	cp -r "$from/net/packetdrill" "$work/selftests/kernel"
	(
		cd "$work/selftests" || exit
		find kernel -name '*.pkt' -printf '%p v4\n%p v6\n' | sort
		# shellcheck disable=SC2086 # words
		(cd google/tcp && find $packetdrill_about -name '*.pkt' -printf 'google/tcp/%p v4\n') | sort
	) >"$work/selftests/scripts"
}

# The kernel's scripts have to pass. Of packetdrill's own, written for kernels of
# many years, those that pass without the series.
packetdrill() {
	local policy
	packetdrill_compile
	selftests_run "$stock" packetdrill none
	selftests_failures
	ok "$(all_passed kernel/)" "packetdrill, without the series: $(passed kernel/) of the kernel's scripts pass"
	# 49 of 56 with 6.12.107; the others expect the queues or timers of another kernel.
	ok "$([ "$(grep -c '^pass google/' "$work/selftests/results")" -ge 40 ] && echo 0 || echo 1)" \
		"packetdrill, without the series: $(passed google/) of packetdrill's scripts pass"
	grep google/ "$work/selftests/results" >"$work/selftests/without"
	for policy in "${policies[@]}"; do
		selftests_run "$image" packetdrill "$policy"
		ok "$(all_passed kernel/)" "packetdrill, $policy: $(passed kernel/) of the kernel's scripts pass"
		grep google/ "$work/selftests/results" | diff "$work/selftests/without" - >"$work/selftests/differ" || true
		sed 's/^/# /' "$work/selftests/differ"
		[ ! -s "$work/selftests/differ" ] || selftests_failures
		ok "$([ -s "$work/selftests/differ" ] && echo 1 || echo 0)" \
			"packetdrill, $policy: $(passed google/) of packetdrill's scripts pass, those that do without the series"
	done
}
