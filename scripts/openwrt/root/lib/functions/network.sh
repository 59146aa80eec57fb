# shellcheck shell=dash disable=SC3043,SC2034 # OpenWrt's ash has local; eval reads what is set
# Stands in for OpenWrt's /lib/functions/network.sh, which asks netifd. The interfaces that are up are the
# files of /var/run/netifd; each has the name of its device.

network_get_device() { # network_get_device VARIABLE INTERFACE
	local got
	got=$(cat "/var/run/netifd/$2" 2>/dev/null) || return 1
	eval "$1=\$got"
}
