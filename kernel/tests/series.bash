#!/usr/bin/env bash
# Part of kernel/tests/run: what kernel/series writes for others to apply.
# shellcheck disable=SC2154 # here, work: of run
# What checkpatch.pl may say of a patch, by the patch's name:
# FILE_PATH_CHANGES: whoever merges the series names its maintainers.
# MACRO_ARG_UNUSED, TRAILING_SEMICOLON: lists as X macros (policies.def, AW_REASONS).
# OPEN_ENDED_LINE, PARENTHESIS_ALIGNMENT: TRACE_EVENT as every tracepoint is laid out.
# The headers are shared with eBPF and user space: types of their own, attributes and
# volatile as clang's BPF target needs them, initialisers inside macros.
allowed() {
	local always=FILE_PATH_CHANGES,MACRO_ARG_UNUSED,TRAILING_SEMICOLON
	case $1 in
	*-include-ackwise-*)
		echo "$always,COMPLEX_MACRO,NEW_TYPEDEFS,PREFER_DEFINED_ATTRIBUTE_MACRO,VOLATILE,MACRO_ARG_REUSE,MACRO_ARG_PRECEDENCE,LINE_SPACING,MULTIPLE_ASSIGNMENTS,CAMELCASE,SPACING,OPEN_ENDED_LINE,BLOCK_COMMENT_STYLE"
		;;
	*-tracepoint-*) echo "$always,OPEN_ENDED_LINE,PARENTHESIS_ALIGNMENT" ;;
	*-KUnit-*) echo "$always,MULTIPLE_ASSIGNMENTS" ;;
	*) echo "$always" ;;
	esac
}

# The files of kernel/patches that are in the source as it came, and that source.
pristine_files() { # pristine_files SOURCE TO
	local file
	sed -n 's,^--- a/\([^\t]*\).*,\1,p' "$here"/../patches/*.patch | sort -u | while read -r file; do
		[ ! -f "$1/$file" ] || install -D -m 644 "$1/$file" "$2/$file"
	done
}

series() {
	local cache source patch said bad=0 want=$work/series/want got=$work/series/got
	cache=${XDG_CACHE_HOME:-$HOME/.cache}/ackwise/kernel/source
	source=$cache/$(cat "$cache/current" 2>/dev/null || echo none)
	[ -f "$source/scripts/checkpatch.pl" ] || die "the kernel's source is not in $cache: kernel/build um puts it there"
	rm -rf "$work/series"
	mkdir -p "$want" "$got"
	"$here/../series" "$work/series/mail" >/dev/null
	ok "$(grep -L '^Subject: \[PATCH [0-9]*/[0-9]*\] ' "$work"/series/mail/*.patch | grep -c . || true)" \
		"series: each of $(find "$work/series/mail" -name '*.patch' | wc -l) letters is numbered"

	# As kernel/build makes the tree, and as git am does.
	pristine_files "$source" "$want"
	pristine_files "$source" "$got"
	for patch in "$here"/../patches/*.patch; do
		patch -s -p1 -d "$want" --no-backup-if-mismatch --fuzz=0 <"$patch"
	done
	mkdir -p "$want/include" "$want/net/ipv4"
	cp -r "$here/../../policy/include/ackwise" "$want/include/ackwise"
	cp -r "$here/../kunit" "$want/net/ipv4/ackwise_kunit"
	cp -r "$here/../../policy/vectors" "$want/net/ipv4/ackwise_kunit/vectors"
	(
		export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null
		export GIT_AUTHOR_NAME=test GIT_AUTHOR_EMAIL=test@example.invalid
		export GIT_COMMITTER_NAME=test GIT_COMMITTER_EMAIL=test@example.invalid
		cd "$got" || exit
		git init -q
		git add -A
		git commit -qm base
		git am -q --empty=drop "$work"/series/mail/*.patch
	) >&2
	rm -rf "$got/.git"
	diff -rq "$want" "$got" | sed 's/^/# /' || true
	ok "$(diff -rq "$want" "$got" >/dev/null && echo 0 || echo 1)" \
		"series: git am makes the tree that the tests are run on"

	for patch in "$work"/series/mail/*.patch; do
		[ "${patch##*/}" != 0000-cover-letter.patch ] || continue
		if ! said=$(cd "$work/series" && perl "$source/scripts/checkpatch.pl" --root="$source" --strict --terse --show-types \
			--ignore "$(allowed "${patch##*/}")" "$patch"); then
			printf '%s\n' "$said" | sed 's,^.*/series/mail/,# ,'
			bad=$((bad + 1))
		fi
	done
	ok "$bad" "series: checkpatch.pl --strict finds nothing but what is allowed"
}
