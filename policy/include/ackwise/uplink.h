/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Who fills the link that the ACKs leave by?
 *
 * If only ACKs wait before a thin uplink, thinning them shortens the queue. If other traffic
 * fills it, thinning does not, and a FIFO serves each flow in proportion to what it puts in:
 * a flow with fewer ACKs then loses to the others.
 *
 * The environment counts what leaves by the interface, in two totals: others, by
 * aw_uplink_others(), and the rest, which is pure ACKs of the flows that it tracks and short
 * packets of TCP. It calls aw_uplink_look() every AW_UPLINK_LOOK_US, and the result goes to
 * aw_flow.shared. An environment that cannot count leaves that 0, and policies decide as if
 * there was no other traffic.
 *
 * The sender of a short packet had no more to send. Most short packets of TCP are requests:
 * these wait for data, and data for ACKs, so that thinning the ACKs speeds them up. Short
 * packets that are not TCP may be ACKs of QUIC or of what a tunnel carries, which take the room
 * that thinned ACKs leave, so they count as others.
 */
#ifndef ACKWISE_UPLINK_H
#define ACKWISE_UPLINK_H

#include "windowed_minmax.h"

#define AW_UPLINK_LOOK_US 100000
/* Rates are means over 2^this looks, since a full packet fills a thin link for several. */
#define AW_UPLINK_MEAN_SHIFT 4
/* The largest rate counts for this many looks, 30 s, at least, and twice as many at most. */
#define AW_UPLINK_WINDOW 300
/* Others fill the link if they have this fraction of its largest rate: an eighth. */
#define AW_UPLINK_SHARE_SHIFT 3
/* Looks, 2 s, for which others count as present after they were seen: the queue holds them. */
#define AW_UPLINK_STAYS 20
/* Others need at least two full packets: one alone does not fill a link. */
#define AW_UPLINK_PACKETS_BYTES (2 * 1514)
/* A full packet is at least this long. IPv6's minimum MTU, 1280, leaves as much in a tunnel. */
#define AW_UPLINK_FULL_BYTES 1000

/**
 * struct aw_uplink - what has recently left by an interface
 * @rest: total bytes of the rest, as of the last look
 * @others: total bytes of others, as of the last look
 * @rest_rate: mean bytes of the rest between two looks, times 2^AW_UPLINK_MEAN_SHIFT
 * @others_rate: mean bytes of others, in the same unit
 * @largest: largest recent sum of both rates, which the link can carry
 * @looks: looks in the current window of @largest
 * @stays: looks for which others still count as present
 */
struct aw_uplink {
	aw_u64 rest;
	aw_u64 others;
	aw_u64 rest_rate;
	aw_u64 others_rate;
	struct aw_windowed_max largest;
	aw_u32 looks;
	aw_u32 stays;
};

AW_ASSERT(sizeof(struct aw_uplink) == 48, "aw_uplink");

/* How many bytes of a packet count as others'; the packet is no pure ACK of a tracked flow. */
AW_FN aw_u32 aw_uplink_others(aw_u32 bytes, aw_u32 is_tcp)
{
	return is_tcp && bytes < AW_UPLINK_FULL_BYTES ? 0 : bytes;
}

AW_FN aw_u64 aw_uplink_mean(aw_u64 mean, aw_u64 bytes)
{
	return mean - (mean >> AW_UPLINK_MEAN_SHIFT) + bytes;
}

/*
 * Takes the totals of an interface, AW_UPLINK_LOOK_US after the last call. Returns 0 or,
 * while others fill the link, the time in us that it takes to send two full packets: in a
 * queue that separates flows an ACK waits no longer.
 *
 * Others' bytes are compared with the largest recent rate, not with the rest's bytes:
 * ACKs that pass push the others aside, and the result would oscillate.
 */
AW_FN aw_u32 aw_uplink_look(struct aw_uplink *u, aw_u64 rest, aw_u64 others)
{
	aw_u64 sum;

	u->rest_rate = aw_uplink_mean(u->rest_rate, rest - u->rest);
	u->others_rate = aw_uplink_mean(u->others_rate, others - u->others);
	u->rest = rest;
	u->others = others;
	sum = u->rest_rate + u->others_rate;
	/* 32 bits are enough for 21 Gbit/s; a faster link is not thin. */
	aw_windowed_max_add(&u->largest, sum >> 32 ? 0xffffffffu : (aw_u32)sum);
	if (++u->looks >= AW_UPLINK_WINDOW) {
		aw_windowed_max_rotate(&u->largest, 0);
		u->looks = 0;
	}
	if (u->others_rate >= AW_UPLINK_PACKETS_BYTES &&
	    u->others_rate >= u->largest.max >> AW_UPLINK_SHARE_SHIFT)
		u->stays = AW_UPLINK_STAYS;
	else if (u->stays)
		u->stays--;
	if (!u->stays)
		return 0;
	return 1 + (aw_u32)aw_div64((aw_u64)AW_UPLINK_PACKETS_BYTES * AW_UPLINK_LOOK_US,
				    aw_max(u->largest.max >> AW_UPLINK_MEAN_SHIFT, 1));
}

#endif
