# shellcheck shell=dash disable=SC3043 # OpenWrt's ash has local
# Stands in for OpenWrt's /lib/functions/procd.sh. What a service says goes to files below $PROCD_NEW, a
# value a line: instances/NAME/{command,env,respawn,limits,…}, and `triggers`. procd_close_service then
# has procd make it so.
PROCD=${PROCD:-/var/run/procd}

procd_open_service() { # procd_open_service NAME
	PROCD_SERVICE=$1
	PROCD_NEW=$PROCD/$1.new
	rm -rf "$PROCD_NEW"
	mkdir -p "$PROCD_NEW/instances"
	: >"$PROCD_NEW/triggers"
}

procd_open_instance() { # procd_open_instance NAME
	PROCD_INSTANCE=$PROCD_NEW/instances/$1
	mkdir "$PROCD_INSTANCE"
}

procd_set_param() { # procd_set_param NAME VALUE…
	local name=$1
	shift
	printf '%s\n' "$@" >"$PROCD_INSTANCE/$name"
}

procd_append_param() { # procd_append_param NAME VALUE…
	local name=$1
	shift
	printf '%s\n' "$@" >>"$PROCD_INSTANCE/$name"
}

procd_close_instance() { PROCD_INSTANCE=; }

# A line of `triggers`: EVENT NAME COMMAND…
procd_add_reload_trigger() { # procd_add_reload_trigger PACKAGE…
	local package
	for package; do
		echo "config.change $package /etc/init.d/$PROCD_SERVICE reload" >>"$PROCD_NEW/triggers"
	done
}

procd_add_interface_trigger() { # procd_add_interface_trigger EVENT INTERFACE COMMAND…
	echo "$*" >>"$PROCD_NEW/triggers"
}

# What is not there any more ends, what is another starts again, and what has ended, or never ran, starts.
procd_close_service() {
	local running=$PROCD/$PROCD_SERVICE instance
	mkdir -p "$running/instances"
	mv "$PROCD_NEW/triggers" "$running/triggers"
	for instance in "$running"/instances/*; do
		[ ! -d "$instance" ] || [ -d "$PROCD_NEW/instances/${instance##*/}" ] || procd_end "$instance"
	done
	for instance in "$PROCD_NEW"/instances/*; do
		[ ! -d "$instance" ] || procd_run "$instance" "$running/instances/${instance##*/}"
	done
	rm -r "$PROCD_NEW"
}

procd_kill() { # procd_kill SERVICE
	local instance
	for instance in "$PROCD/$1"/instances/*; do
		[ ! -d "$instance" ] || procd_end "$instance"
	done
	rm -f "$PROCD/$1/triggers"
}

procd_supervised() { # procd_supervised INSTANCE
	[ -f "$1/supervisor" ] && kill -0 "$(cat "$1/supervisor")" 2>/dev/null
}

# procd waits for no process that it ends.
procd_end() { # procd_end INSTANCE
	! procd_supervised "$1" || kill -TERM "$(cat "$1/supervisor")"
	touch "$1/ending"
}

procd_same() { # procd_same INSTANCE OTHER
	local param
	for param in command env limits; do
		cmp -s "$1/$param" "$2/$param" || return
	done
}

procd_run() { # procd_run NEW RUNNING
	local param
	# One that ends first comes back as what is wanted now.
	while [ -f "$2/ending" ] && procd_supervised "$2"; do
		sleep 0.1
	done
	if procd_supervised "$2" && procd_same "$1" "$2"; then
		return
	fi
	mkdir -p "$2"
	for param in "$1"/*; do
		mv "$param" "$2"
	done
	if procd_supervised "$2"; then
		kill -USR1 "$(cat "$2/supervisor")"
		return
	fi
	rm -f "$2/ending"
	setsid /sbin/procd-instance "$2" </dev/null >/dev/null 2>&1 &
	echo $! >"$2/supervisor"
}
