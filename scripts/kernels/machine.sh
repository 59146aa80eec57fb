# shellcheck shell=bash
# For scripts that boot kernels of Debian's in an emulated machine (QEMU without KVM): fetches a kernel,
# puts an initramfs together, boots it, and reads what the guest found (scripts/kernels/judge.sh). The
# script that reads this file makes $top, a directory of its own, and kills $machine when it ends early.
# shellcheck disable=SC2034,SC2154 # that script reads variables, and sets some

cache=${XDG_CACHE_HOME:-$HOME/.cache}/ackwise/kernels
mirror=${ACKWISE_DEBIAN_MIRROR:-http://deb.debian.org/debian}
security=${ACKWISE_DEBIAN_SECURITY_MIRROR:-http://deb.debian.org/debian-security}
keyring=${ACKWISE_DEBIAN_KEYRING:-/usr/share/keyrings/debian-archive-keyring.gpg}
suites='bullseye bookworm bookworm-backports trixie trixie-backports forky sid'
security_suites='bullseye-security bookworm-security trixie-security'
modules='tun veth sch_ingress cls_bpf sch_cake'
# What Debian calls the machine, and its kernel for it. Of other machines than this `--machine` names one.
arch=x86_64 debian=amd64 flavour=cloud-amd64
other_machines='aarch64 armv7 s390x'
seconds=3600 update=no
machine=

say() { printf '%s: %s\n' "${0##*/}" "$*" >&2; }
complain() { # complain LINE…
	local line
	for line; do
		say "$line"
	done
}
die() {
	complain "$@"
	exit 1
}
usage() {
	complain "$@"
	exit 2
}

# Debian's kernels for s390x have no JIT, and 6.1 has no types of its own: what attaches is refused, and the
# rest is interpreted. From 6.12 on they find checksums wrong in the QEMU of Debian 12, even with nothing
# attached, so that nothing arrives whose checksum was taken by software.
choose_machine() {
	case $arch in
	x86_64) ;;
	s390x)
		debian=s390x flavour=s390x suites='bookworm bookworm-backports' security_suites=
		modules="$modules virtio_console"
		target=s390x-unknown-linux-gnu compiler=s390x-linux-gnu-gcc
		;;
	aarch64)
		debian=arm64 flavour=cloud-arm64 suites='bookworm trixie' security_suites=
		modules="$modules virtio_pci virtio_console"
		target=aarch64-unknown-linux-gnu compiler=aarch64-linux-gnu-gcc
		;;
	armv7)
		debian=armhf flavour=armmp-lpae suites='bookworm trixie' security_suites=
		modules="$modules virtio_pci virtio_console"
		target=armv7-unknown-linux-gnueabihf compiler=arm-linux-gnueabihf-gcc
		;;
	*) usage "--machine: there is $other_machines, and no '$arch'" ;;
	esac
	[ "$arch" = x86_64 ] || cache=$cache/$arch
	# Raise the number when fetch() makes something else of the same packages.
	recipe="1 $modules"
}

# --- packages -----------------------------------------------------------------

aptly() {
	local tool=$1 state=$cache/apt
	shift
	"$tool" -qq -o Dir::Etc::sourcelist="$state/debian.sources" -o Dir::Etc::sourceparts=/dev/null \
		-o Dir::State="$state" -o Dir::State::status="$state/status" -o Dir::Cache="$state/cache" \
		-o APT::Sandbox::User="$(id -un)" -o APT::Architecture="$debian" -o APT::Architectures::="$debian" \
		-o Acquire::Languages=none -o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false \
		-o Dir::Cache::pkgcache=pkgcache.bin -o Dir::Cache::srcpkgcache=srcpkgcache.bin \
		-o APT::Update::Error-Mode=any "$@"
}

# Reads the lists of the suites. Then $cache/index has their packages, the oldest first: MINOR PACKAGE
# VERSION SUITE.
lists_are_read=no
read_lists() {
	local state=$cache/apt names
	[ $lists_are_read = no ] || return 0
	command -v apt-get >/dev/null 2>&1 || die "the kernels come from Debian by apt-get, which is not here"
	[ -f "$keyring" ] || die "there is no $keyring to check the packages' signatures with" \
		"apt-get install debian-archive-keyring, or set ACKWISE_DEBIAN_KEYRING"
	rm -rf "$state"
	mkdir -p "$state/lists/partial" "$state/cache/archives/partial"
	: >"$state/status"
	printf 'Types: deb\nURIs: %s\nSuites: %s\nComponents: main\nSigned-By: %s\n\n' \
		"$mirror" "$suites" "$keyring" \
		${security_suites:+"$security" "$security_suites" "$keyring"} >"$state/debian.sources"
	say "reading the lists of $mirror"
	aptly apt-get update || die "the lists of $mirror and $security could not be read (above: why)" \
		"ACKWISE_DEBIAN_MIRROR and ACKWISE_DEBIAN_SECURITY_MIRROR name others"
	# What has no patch level in its name only depends on another package.
	mapfile -t names < <(aptly apt-cache pkgnames linux-image- |
		grep -E "^linux-image-[0-9]+\.[0-9]+\.[0-9].*-$flavour\$")
	[ ${#names[@]} -gt 0 ] || die "$mirror has no package linux-image-…-$flavour"
	# A line: PACKAGE | VERSION | URI SUITE/COMPONENT MACHINE Packages
	aptly apt-cache madison "${names[@]}" | awk '{
		split($3, number, ".")
		sub("/.*", "", $6)
		print number[1] "." number[2], $1, $3, $6
	}' | sort -u -k 1,1V -k 3,3V >"$cache/index.part"
	mv "$cache/index.part" "$cache/index"
	lists_are_read=yes
}

# Puts a module of $stage/all into $stage/archive, after those that it needs.
take_module() { # take_module NAME
	local name=$1 file target=$stage/archive/modules/$1.ko needed
	[ ! -f "$target" ] || return 0
	# It may be a part of the kernel.
	! grep -qrs --include=modules.builtin "/$name\.ko$" "$stage/all" || return 0
	file=$(find "$stage/all" -name "${name//_/[-_]}.ko" -o -name "${name//_/[-_]}.ko.xz")
	[ -n "$file" ] || die "$package $version has no module $name"
	if [[ $file == *.xz ]]; then
		xz --decompress --stdout "$file" >"$target"
	else
		cp "$file" "$target"
	fi
	for needed in $(tr '\0' '\n' <"$target" | sed -n 's/^depends=//p' | tr ',-' ' _'); do
		take_module "$needed"
	done
	echo "/modules/$name.ko" >>"$stage/archive/modules.list"
}

# Whether $cache/MINOR is whole, and as fetch() makes it now.
kept() { # kept MINOR
	[ -f "$cache/$1/sums" ] && [ "$(cat "$cache/$1/recipe")" = "$recipe" ] &&
		(cd "$cache/$1" && sha256sum --status --check sums 2>/dev/null)
}

# Sees that $cache/MINOR has vmlinuz, the modules as an archive, and a line in `package`. Suites keep
# packages for a while whose parts they no longer have: then an older one is taken. 3, and the reason in
# $lacks, if there is none.
fetch() { # fetch MINOR
	local minor=$1 line package version suite stage one module parts chosen='' lacking=''
	! kept "$minor" || [ "$update" = yes ] || return 0
	read_lists
	grep -q "^$minor " "$cache/index" || {
		lacks="Debian's suites have no Linux $minor; they have $(cut -d ' ' -f 1 "$cache/index" | uniq | xargs)"
		return 3
	}
	while read -r line; do
		! kept "$minor" || [ "$line" != "$(cat "$cache/$minor/package")" ] || return 0
		read -r _ package version suite <<<"$line"
		# Newer ones have kernel and modules in packages of their own.
		mapfile -t parts < <(aptly apt-cache show "$package=$version" | sed -n '/^Depends:/{s/,/\n/g;p}' |
			grep -oE "linux-(binary|modules)-[^ ]*" | sed "s/\$/=$version/")
		if aptly apt-get --print-uris download "$package=$version" "${parts[@]}" >/dev/null 2>"$top/why"; then
			chosen=$line
			break
		fi
		lacking=${lacking:-$package $version: $(head -n 1 "$top/why")}
	done < <(grep "^$minor " "$cache/index" | tac)
	[ -n "$chosen" ] || {
		lacks="no package of Linux $minor is to be had: $lacking"
		return 3
	}
	say "fetching $package $version from $suite"
	stage=$top/stage
	rm -rf "$stage"
	mkdir -p "$stage/all"
	(cd "$stage" && aptly apt-get download "$package=$version" "${parts[@]}") ||
		die "the package $package $version could not be fetched (above: why)"
	for one in "$stage"/*.deb; do
		# What a module is found in, or needs, is below these.
		dpkg-deb --fsys-tarfile "$one" | tar -xf - -C "$stage/all" --wildcards --no-anchored \
			'vmlinuz*' modules.builtin kernel/net kernel/drivers/{net,char,virtio} kernel/lib 2>"$stage/tar" ||
			grep -q 'Not found in archive' "$stage/tar" || die "$package $version: $(cat "$stage/tar")"
	done
	mkdir -p "$stage/kept" "$stage/archive/modules"
	one=$(find "$stage/all" -name 'vmlinuz*' -type f | head -n 1)
	[ -n "$one" ] || die "$package $version has no vmlinuz"
	: >"$stage/archive/modules.list"
	for module in $modules; do
		take_module "$module"
	done
	printf '%s\n' "$recipe" >"$stage/kept/recipe"
	printf '%s\n' "$line" >"$stage/kept/package"
	if ! { cp "$one" "$stage/kept/vmlinuz" && archive "$stage/archive" >"$stage/kept/modules.cpio" &&
		(cd "$stage/kept" && sha256sum vmlinuz modules.cpio package recipe >sums) &&
		rm -rf "${cache:?}/$minor" && mv "$stage/kept" "$cache/$minor"; }; then
		die "$cache/$minor could not be written (above: why)"
	fi
	rm -rf "$stage"
}

# --- the machine --------------------------------------------------------------

archive() { # archive DIRECTORY: as an initramfs
	(cd "$1" && find . -mindepth 1 -print0 | sort -z | cpio --null --create --format newc --owner 0:0 --quiet)
}

# A program, where the machine finds it, with its libraries.
put() { # put SOURCE TARGET
	local library
	[ -f "$1" ] || die "$1 is not there: scripts/setup installs what is missing"
	mkdir -p "$root$(dirname "$2")"
	strip --strip-debug -o "$root$2" "$1"
	chmod 755 "$root$2"
	for library in $(ldd "$1" 2>/dev/null | grep -oE '/[^ ]+'); do
		[ -e "$root$library" ] || install -D "$library" "$root$library"
	done
}

# Boots a kernel. What it found is in $found, a line each; see scripts/kernels/judge.sh. An instruction
# lasts a nanosecond there, and idle time nothing here. One CPU: two would wait for each other in turns.
boot() { # boot MINOR TEST…
	local minor=$1 status=0 emulator=$arch cpu=max arguments
	shift
	mkdir -p "$cache/consoles"
	cat "$top/programs.cpio" "$cache/$minor/modules.cpio" >"$top/initramfs-$minor"
	: >"$found"
	case $arch in
	# What the newest have beyond these is slow to emulate.
	aarch64) cpu=cortex-a72 ;;
	armv7) cpu=cortex-a15 emulator=arm ;;
	esac
	arguments=(-nodefaults -no-user-config -no-reboot -display none
		-icount 'shift=0,align=off,sleep=off' -rtc 'base=2026-01-01T00:00:00,clock=vm' -seed 1
		-cpu "$cpu" -smp 1 -m 1024 -kernel "$cache/$minor/vmlinuz" -initrd "$top/initramfs-$minor"
		-serial "file:$top/console-$minor")
	case $arch in
	x86_64)
		arguments+=(-machine 'pc,accel=tcg,usb=off,hpet=off' -serial "file:$found"
			-append "console=ttyS0 quiet panic=-1 tsc=reliable results=/dev/ttyS1 -- $*")
		;;
	s390x)
		arguments+=(-machine 's390-ccw-virtio,accel=tcg' -chardev "file,id=found,path=$found"
			-device virtio-serial-ccw -device 'virtconsole,chardev=found'
			-append "console=ttyS1 quiet panic=-1 results=/dev/hvc0 -- $*")
		;;
	aarch64 | armv7)
		arguments+=(-machine 'virt,accel=tcg' -chardev "file,id=found,path=$found"
			-device virtio-serial-pci -device 'virtconsole,chardev=found'
			-append "console=ttyAMA0 quiet panic=-1 results=/dev/hvc0 -- $*")
		;;
	esac
	timeout --kill-after 5 "$seconds" "qemu-system-$emulator" "${arguments[@]}" </dev/null >"$top/qemu-$minor" 2>&1 &
	machine=$!
	wait "$machine" || status=$?
	machine=
	rm "$top/initramfs-$minor"
	# Another run may be at the same kernel.
	[ ! -f "$top/console-$minor" ] || mv "$top/console-$minor" "$cache/consoles/$minor"
	# The serial port is a terminal.
	sed -i 's/\r$//' "$found"
	case $status in
	0) grep -qx 'done' "$found" || echo "ended early" >>"$found" ;;
	124 | 137) echo "ended not within $seconds s" >>"$found" ;;
	*) echo "ended by an error of QEMU: $(tail -n 1 "$top/qemu-$minor")" >>"$found" ;;
	esac
}

# --- what it found ------------------------------------------------------------

result() { # result TEST: passed, failed, or nothing
	awk -v test="$1" '$1 == "test" && $2 == test { print $3 }' "$found"
}

# Why a kernel did not do what it must, or nothing.
fault() { # fault TEST…
	local test faults=()
	for test; do
		case $(result "$test") in
		passed) ;;
		failed) faults+=("$test failed") ;;
		*)
			faults+=("$test not reached: the machine $(grep '^ended' "$found" || echo 'ended')")
			break
			;;
		esac
	done
	[ ${#faults[@]} -eq 0 ] || printf '%s\n' "${faults[@]}" | paste -sd ';' | sed 's/;/; /g'
}
