/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * tda: the timer sends the ACKs (B. Chen, Marsic, Shao and Miller 2009). An ACK
 * leaves half a second after the first segment that it covers, or with the 25th.
 * A sender whose congestion window is smaller would wait for the timer each time. So
 * it writes its window into the window field of its data, and the ACK leaves when
 * that many segments have arrived.
 */
#ifndef ACKWISE_POLICY_TDA_H
#define ACKWISE_POLICY_TDA_H

#include "../types.h"

#define AW_TDA_SUMMARY "one ACK per full window, or after half a second"
#define AW_TDA_SOURCE "B. Chen, Marsic, Shao and Miller 2009 (TCP-TDA), as in Ayadi 2013"
#define AW_TDA_NEEDS AW_CAP_HOLD
#define AW_TDA_PARAMS(P) \
	P(0, timeout, "us", 500000, 1000, 500000, "longest that an ACK waits") \
	P(1, window, "segments", 25, 1, 1024, "most segments that one ACK covers") \
	P(2, small, "segments", 25, 0, 1024, \
	  "a told congestion window below this is answered when it is full")

#define P(i, name, unit, def, min, max, what) AW_TDA_##name = i,
enum aw_tda_param {
	AW_TDA_PARAMS(P)
};
#undef P

struct aw_tda_state {
	aw_u32 pending; /* segments that the last candidate covered, if it was held */
};

AW_FN struct aw_verdict aw_tda_step(struct aw_tda_state *s, const struct aw_cfg *c,
				    const struct aw_event *e)
{
	aw_u32 limit = c->param[AW_TDA_window], step, cwnd;

	if (e->kind == AW_EV_DATA)
		return aw_send();
	step = e->segments > s->pending ? e->segments - s->pending : 0;
	s->pending = 0;
	if (e->kind != AW_EV_ACK)
		return aw_send();
	if (e->mss && e->peer_wnd) {
		cwnd = aw_max(aw_div32(e->peer_wnd, e->mss), 1);
		if (cwnd < c->param[AW_TDA_small])
			limit = aw_min(limit, cwnd);
	}
	if ((e->flags & AW_A_MUST_SEND) || e->segments >= limit || step > limit - e->segments)
		return aw_send();
	s->pending = e->segments;
	return aw_hold(aw_min(e->hold_us, c->param[AW_TDA_timeout]));
}

#endif

#ifdef AW_POLICY
AW_POLICY(TDA, tda, "tda")
#endif
