/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * dca: delayed cumulative ACK (Chen, Gerla, Lee and Sanadidi 2008). An ACK covers
 *
 *   up to 3 hops     the sender's congestion window
 *   up to 9 hops     the congestion window, but at most 5 segments
 *   more hops        the congestion window, but at most 3 segments
 *
 * It leaves earlier when the missing segments should have come at the mean gap. The
 * sender writes its congestion window into the window field of its data, so data may
 * flow in one direction only. The number of hops is read from the TTL of the data.
 */
#ifndef ACKWISE_POLICY_DCA_H
#define ACKWISE_POLICY_DCA_H

#include "../arrivals.h"

#define AW_DCA_SUMMARY \
	"one ACK per announced congestion window, or for fewer segments on longer paths"
#define AW_DCA_SOURCE "Chen, Gerla, Lee and Sanadidi 2008 (TCP-DCA), as in Ayadi 2013"
#define AW_DCA_NEEDS (AW_CAP_HOLD | AW_CAP_SEE_DATA | AW_READS_TIME)
#define AW_DCA_PARAMS(P) \
	P(0, near, "hops", 3, 0, 255, "up to so many only the congestion window counts") \
	P(1, far, "hops", 9, 0, 255, "up to so many: mid") \
	P(2, mid, "segments", 5, 1, 64, "most segments that an ACK covers then") \
	P(3, last, "segments", 3, 1, 64, "and on longer paths") \
	P(4, max_segments, "segments", 64, 1, 1024, \
	  "and on short ones, whatever the sender tells") \
	P(5, kappa, "1/10 gap", 2, 0, 100, "tolerance of the timer, beyond what is missing") \
	P(6, first, "us", 200000, 1000, 500000, "the timer until a gap is known")

#define P(i, name, unit, def, min, max, what) AW_DCA_##name = i,
enum aw_dca_param {
	AW_DCA_PARAMS(P)
};
#undef P

struct aw_dca_state {
	struct aw_arrivals arrivals;
	aw_u32 hops;	/* hops of the newest data; 0 if none were seen */
	aw_u32 pending; /* segments that the last candidate covered, if it was held */
};

/* How many segments an ACK covers. An unknown congestion window sets no limit. */
AW_FN aw_u32 aw_dca_limit(const struct aw_dca_state *s, const struct aw_cfg *c,
			  const struct aw_event *e)
{
	aw_u32 limit = c->param[AW_DCA_last], cwnd;

	if (s->hops <= c->param[AW_DCA_far])
		limit = c->param[AW_DCA_mid];
	if (s->hops && s->hops <= c->param[AW_DCA_near])
		limit = c->param[AW_DCA_max_segments];
	cwnd = e->mss ? aw_div32(e->peer_wnd, e->mss) : 0;
	if (e->mss && e->peer_wnd)
		limit = aw_min(limit, cwnd);
	return aw_max(limit, 1);
}

AW_FN struct aw_verdict aw_dca_step(struct aw_dca_state *s, const struct aw_cfg *c,
				    const struct aw_event *e)
{
	aw_u32 step, limit;

	if (e->kind == AW_EV_DATA) {
		aw_arrivals_data(&s->arrivals, e);
		s->hops = e->hops;
		return aw_send();
	}
	step = e->segments > s->pending ? e->segments - s->pending : 0;
	s->pending = 0;
	if (e->kind != AW_EV_ACK) {
		aw_arrivals_pause(&s->arrivals);
		return aw_send();
	}
	limit = aw_dca_limit(s, c, e);
	if ((e->flags & AW_A_MUST_SEND) || e->segments >= limit || step > limit - e->segments)
		return aw_send();
	s->pending = e->segments;
	if (!s->arrivals.gap_us)
		return aw_hold(aw_min(e->hold_us, c->param[AW_DCA_first]));
	return aw_hold(aw_arrivals_wait(&s->arrivals, limit - e->segments, c->param[AW_DCA_kappa],
					e->hold_us));
}

#endif

#ifdef AW_POLICY
AW_POLICY(DCA, dca, "dca")
#endif
