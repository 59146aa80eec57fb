/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * tack: the ACK clock of TACK (Li et al., SIGCOMM 2020),
 *
 *   f = min( bw / (L MSS),  beta / RTTmin )
 *
 * so an ACK leaves if it covers L full segments and, once the path holds
 * beta L MSS or more (bw RTTmin: the second term is then the smaller one), if
 * the last one left at least RTTmin / beta ago. bw is the largest delivery rate
 * of the last theta round trips, sampled from the acknowledged bytes over times
 * of RTTmin / beta. Only the clock is TACK's: the rest of it (ACKs in packet
 * numbers, pacing) needs the sender.
 */
#ifndef ACKWISE_POLICY_TACK_H
#define ACKWISE_POLICY_TACK_H

#include "../types.h"

#define AW_TACK_SUMMARY "beta ACKs per minimum round trip, L segments at least in each"
#define AW_TACK_SOURCE "TACK (Li et al., SIGCOMM 2020) §4; draft-li-quic-optimizing-ack"
#define AW_TACK_NEEDS (AW_CAP_HOLD | AW_READS_TIME)
#define AW_TACK_PARAMS(P) \
	P(0, L, "segments", 2, 1, 64, "full segments that an ACK covers at least") \
	P(1, beta, "ACKs", 4, 2, 64, "ACKs per minimum round trip at most") \
	P(2, theta, "RTTs", 10, 1, 100, "how long a delivery rate counts")

#define P(i, name, unit, def, min, max, what) AW_TACK_##name = i,
enum aw_tack_param {
	AW_TACK_PARAMS(P)
};
#undef P

struct aw_tack_state {
	aw_u32 sent_us;	 /* when an ACK last left */
	aw_u32 pending;	 /* bytes of the last candidate, if it was held */
	aw_u32 since_us; /* when the running rate sample began */
	aw_u32 bytes;	 /* acknowledged in it */
	aw_u32 now_max;	 /* largest rate since bucket_us, bytes/s */
	aw_u32 old_max;	 /* and of the bucket before */
	aw_u32 bucket_us;
	aw_u32 valid;
};

/* The maximum over theta to 2 theta round trips, in two buckets. */
AW_FN void aw_tack_rate(struct aw_tack_state *s, const struct aw_cfg *c, const struct aw_event *e,
			aw_u32 now, aw_u32 period)
{
	aw_u32 took = now - s->since_us, age = now - s->bucket_us;
	aw_u32 rtt = aw_min(e->min_rtt_us, 10000000);
	aw_u32 span = rtt * c->param[AW_TACK_theta];
	aw_u64 rate;

	s->bytes += e->bytes > s->pending ? e->bytes - s->pending : 0;
	if (took < period)
		return;
	if (age >= span) {
		s->old_max = age - span >= span ? 0 : s->now_max;
		s->now_max = 0;
		s->bucket_us = now;
	}
	rate = aw_div64((aw_u64)s->bytes * 1000000, took);
	s->now_max = aw_max(s->now_max, rate > ~0U ? ~0U : (aw_u32)rate);
	s->since_us = now;
	s->bytes = 0;
}

AW_FN struct aw_verdict aw_tack_ack(struct aw_tack_state *s, const struct aw_cfg *c,
				    const struct aw_event *e, aw_u32 now)
{
	aw_u32 segments = c->param[AW_TACK_L], beta = c->param[AW_TACK_beta];
	/* Of a microsecond at least: a sample needs some time to divide by. */
	aw_u32 period = aw_max(aw_div32(e->min_rtt_us, beta), 1);
	aw_u64 bdp, enough = (aw_u64)beta * segments * e->mss * 1000000;

	if (!s->valid) {
		s->valid = 1;
		s->since_us = s->bucket_us = now;
		return aw_send();
	}
	/* Without MSS or RTT there is no clock; counting is left. */
	if (e->min_rtt_us)
		aw_tack_rate(s, c, e, now, period);
	if (e->flags & AW_A_MUST_SEND)
		return aw_send();
	if (e->segments < segments)
		return aw_hold(e->hold_us);
	bdp = (aw_u64)aw_max(s->now_max, s->old_max) * e->min_rtt_us;
	if (e->mss && e->min_rtt_us && bdp >= enough && now - s->sent_us < period)
		return aw_hold(e->hold_us);
	return aw_send();
}

AW_FN struct aw_verdict aw_tack_step(struct aw_tack_state *s, const struct aw_cfg *c,
				     const struct aw_event *e)
{
	aw_u32 now = (aw_u32)e->now_us;
	struct aw_verdict v = aw_send();

	if (e->kind == AW_EV_DATA)
		return v;
	if (e->kind == AW_EV_ACK)
		v = aw_tack_ack(s, c, e, now);
	if (v.kind == AW_SEND) {
		s->sent_us = now;
		s->pending = 0;
	} else {
		s->pending = e->bytes;
	}
	return v;
}

#endif

#ifdef AW_POLICY
AW_POLICY(TACK, tack, "tack")
#endif
