# A policer on pure ACKs where they come in: what exceeds the rate is dropped, as on the bridge
# of Pavilanskas 2010. $IN is the interface at the receiver.
tc qdisc add dev "$IN" handle ffff: ingress
# ACK set, and none of SYN, FIN and RST; a header of 20 to 40 bytes and no more than that.
for words in 5 6 7 8 9 10; do
	v4=$((20 + 4 * words)) v6=$((4 * words))
	tc filter add dev "$IN" parent ffff: protocol ip prio 1 u32 \
		match u8 0x45 0xff at 0 match u8 6 0xff at 9 match u16 $v4 0xffff at 2 \
		match u8 $((words * 16)) 0xf0 at 32 match u8 0x10 0x17 at 33 \
		police rate 100kbit burst 600 conform-exceed drop/ok index 1
	tc filter add dev "$IN" parent ffff: protocol ipv6 prio 2 u32 \
		match u8 6 0xff at 6 match u16 $v6 0xffff at 4 \
		match u8 $((words * 16)) 0xf0 at 52 match u8 0x10 0x17 at 53 \
		police index 1
done
