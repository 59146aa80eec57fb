# shellcheck shell=dash disable=SC3043,SC2034,SC2013 # OpenWrt's ash has local; eval reads what is set; lines are words
# Stands in for OpenWrt's /lib/functions.sh: reads /etc/config, and does what packages' scripts ask for.
# CONFIG is the file that was loaded.
UCI_CONFIG=${UCI_CONFIG:-/etc/config}

config_load() { # config_load PACKAGE
	CONFIG=$UCI_CONFIG/$1
	[ -f "$CONFIG" ]
}

# The values of an option, or those of a list, a line each.
config_values() { # config_values SECTION option|list NAME
	awk -v section="$1" -v kind="$2" -v name="$3" -F"'" '
		/^config / { now = $2 }
		{ split($1, word, " "); if (now == section && word[1] == kind && word[2] == name) print $2 }
	' "$CONFIG"
}

config_get() { # config_get VARIABLE SECTION OPTION [DEFAULT]
	local got
	got=$(config_values "$2" option "$3")
	eval "$1=\${got:-\${4:-}}"
}

config_get_bool() { config_get "$@"; }

config_foreach() { # config_foreach FUNCTION TYPE
	local one
	for one in $(awk -v type="$2" -F"'" '/^config / { split($1, word, " "); if (word[2] == type) print $2 }' "$CONFIG"); do
		"$1" "$one"
	done
}

config_list_foreach() { # config_list_foreach SECTION LIST FUNCTION
	local one
	for one in $(config_values "$1" list "$2"); do
		"$3" "$one"
	done
}

# The services of a package, from the list of its files that opkg keeps.
services_of() { # services_of SCRIPT
	local package=${1##*/}
	grep '^/etc/init\.d/' "/usr/lib/opkg/info/${package%.*}.list"
}

default_postinst() { # default_postinst SCRIPT ARGUMENT…
	local service
	for service in $(services_of "$1"); do
		[ "${PKG_UPGRADE:-}" = 1 ] || "$service" enable
		"$service" start
	done
}

default_prerm() { # default_prerm SCRIPT ARGUMENT…
	local service
	for service in $(services_of "$1"); do
		[ "${PKG_UPGRADE:-}" = 1 ] || "$service" disable
		"$service" stop
	done
}
