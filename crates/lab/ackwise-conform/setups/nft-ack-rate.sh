# The form in which rules against ACKs are copied between OpenWrt set-ups: packets below 100
# bytes with the ACK flag are dropped by chance, once their connection sends more than a rate.
# The rates are those that such scripts derive for an uplink of 400 kbit/s at 10 Mbit/s down.
nft -f - <<'RULES'
table inet acks {
	set xfst { typeof ct id . ct direction; flags dynamic, timeout; timeout 5m; }
	set fast { typeof ct id . ct direction; flags dynamic, timeout; timeout 5m; }
	set med { typeof ct id . ct direction; flags dynamic, timeout; timeout 5m; }
	set slow { typeof ct id . ct direction; flags dynamic, timeout; timeout 5m; }
	chain drop995 { numgen random mod 1000 ge 995 return; drop; }
	chain drop95 { numgen random mod 1000 ge 950 return; drop; }
	chain drop50 { numgen random mod 1000 ge 500 return; drop; }
	chain forward {
		type filter hook forward priority 0; policy accept;
		meta length < 100 tcp flags & ack == ack add @xfst { ct id . ct direction limit rate over 5000/second } jump drop995
		meta length < 100 tcp flags & ack == ack add @fast { ct id . ct direction limit rate over 500/second } jump drop95
		meta length < 100 tcp flags & ack == ack add @med { ct id . ct direction limit rate over 100/second } jump drop50
		meta length < 100 tcp flags & ack == ack add @slow { ct id . ct direction limit rate over 50/second } jump drop50
	}
}
RULES
