/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * tack: the ACK clock of TACK (Li et al., SIGCOMM 2020),
 *
 *   f = min( bw / (L MSS),  beta / RTTmin )
 *
 * An ACK is sent if it covers L full segments. Once the path holds beta L MSS or
 * more (bw RTTmin; then the second term is the smaller one), the last ACK must also
 * have been sent at least RTTmin / beta ago. bw is the largest delivery rate of the
 * last theta round trips, sampled from the acknowledged bytes over times of
 * RTTmin / beta. The rest of TACK (packet numbers, pacing) needs its own sender, and is
 * left out.
 */
#ifndef ACKWISE_POLICY_TACK_H
#define ACKWISE_POLICY_TACK_H

#include "../types.h"
#include "../windowed_minmax.h"

#define AW_TACK_SUMMARY "at most beta ACKs per minimum round trip, each for at least L segments"
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

/**
 * struct aw_tack_state - the current sample (vars), and the rate (stats)
 * @sent_us: when an ACK was last sent
 * @pending: bytes that the last candidate covered, if it was held
 * @since_us: when the current rate sample began
 * @bytes: bytes acknowledged in that sample
 * @rate: largest delivery rate of theta to 2 theta round trips, bytes/s
 * @window_us: when the window of @rate began
 * @valid: not 0 once an ACK has been a candidate
 */
struct aw_tack_state {
	/* vars */
	aw_u32 sent_us;
	aw_u32 pending;
	aw_u32 since_us;
	aw_u32 bytes;
	/* stats */
	struct aw_windowed_max rate;
	aw_u32 window_us;
	aw_u32 valid;
};

/* Counts what a candidate acknowledges. A sample of at least a period gives a rate. */
AW_FN void aw_tack_rate(struct aw_tack_state *s, const struct aw_cfg *c, const struct aw_event *e,
			aw_u32 now, aw_u32 period)
{
	aw_u32 took = now - s->since_us, age = now - s->window_us;
	aw_u32 rtt = aw_min(e->min_rtt_us, 10000000);
	aw_u32 span = rtt * c->param[AW_TACK_theta];
	aw_u64 rate;

	s->bytes += e->bytes > s->pending ? e->bytes - s->pending : 0;
	if (took < period)
		return;
	if (age >= span) {
		aw_windowed_max_rotate(&s->rate, age - span >= span);
		s->window_us = now;
	}
	rate = aw_div64((aw_u64)s->bytes * 1000000, took);
	aw_windowed_max_add(&s->rate, rate > ~0U ? ~0U : (aw_u32)rate);
	s->since_us = now;
	s->bytes = 0;
}

AW_FN struct aw_verdict aw_tack_ack(struct aw_tack_state *s, const struct aw_cfg *c,
				    const struct aw_event *e, aw_u32 now)
{
	aw_u32 segments = c->param[AW_TACK_L], beta = c->param[AW_TACK_beta];
	/* At least 1 us, because a sample is divided by its time. */
	aw_u32 period = aw_max(aw_div32(e->min_rtt_us, beta), 1);
	aw_u64 bdp, enough = (aw_u64)beta * segments * e->mss * 1000000;

	if (!s->valid) {
		s->valid = 1;
		s->since_us = s->window_us = now;
		return aw_send();
	}
	/* Without an MSS or an RTT, ACKs are sent by count only. */
	if (e->min_rtt_us)
		aw_tack_rate(s, c, e, now, period);
	if (e->flags & AW_A_MUST_SEND)
		return aw_send();
	if (e->segments < segments)
		return aw_hold(e->hold_us);
	bdp = (aw_u64)s->rate.max * e->min_rtt_us;
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
