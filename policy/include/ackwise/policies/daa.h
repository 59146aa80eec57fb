/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * daa: dynamic adaptive acknowledgment (de Oliveira and Braun 2005, 2007). The
 * receiver's delaying window dwin says how many segments an ACK covers:
 *
 *   a segment in order          dwin grows by 0.3, or by 1 after it has once been
 *                               at its maximum of 4
 *   a segment out of order, a
 *   filled hole, the timer      dwin = 2
 *   the timer ends              after 2 + kappa mean gaps without a segment
 *
 * The paper's sender has a window of four segments and five times the usual
 * retransmission timeout; the receiver does not depend on that.
 *
 * The paper's timer restarts with each segment, but an environment does not extend
 * a deadline. So each candidate asks for the time at which the paper's timer would
 * end if all missing segments but the last came at the mean gap.
 */
#ifndef ACKWISE_POLICY_DAA_H
#define ACKWISE_POLICY_DAA_H

#include "../arrivals.h"

#define AW_DAA_SUMMARY "segments per ACK grow while data come in order, in time with their gaps"
#define AW_DAA_SOURCE "de Oliveira and Braun 2005, 2007 (TCP-DAA), as in Ayadi 2013"
#define AW_DAA_NEEDS (AW_CAP_HOLD | AW_CAP_SEE_DATA | AW_READS_TIME)
#define AW_DAA_PARAMS(P) \
	P(0, dwin_max, "segments", 4, 1, 64, "most segments that one ACK covers") \
	P(1, mu, "1/10 segment", 3, 1, 10, \
	  "growth of dwin per segment, before it was at its most") \
	P(2, kappa, "1/10 gap", 2, 0, 100, "tolerance of the timer, beyond two gaps") \
	P(3, reset, "segments", 2, 1, 64, "dwin after a loss or a timer") \
	P(4, first, "us", 200000, 1000, 500000, "the timer until a gap is known")

#define P(i, name, unit, def, min, max, what) AW_DAA_##name = i,
enum aw_daa_param {
	AW_DAA_PARAMS(P)
};
#undef P

struct aw_daa_state {
	struct aw_arrivals arrivals;
	aw_u32 dwin;	/* tenths of segments; 0, before the first data, counts as one segment */
	aw_u32 maxed;	/* 1 after dwin has once been at its maximum */
	aw_u32 pending; /* segments that the last candidate covered, if it was held */
};

AW_FN void aw_daa_reset(struct aw_daa_state *s, const struct aw_cfg *c)
{
	s->dwin = 10 * aw_min(c->param[AW_DAA_reset], c->param[AW_DAA_dwin_max]);
}

AW_FN void aw_daa_data(struct aw_daa_state *s, const struct aw_cfg *c, const struct aw_event *e)
{
	aw_u32 most = 10 * c->param[AW_DAA_dwin_max];
	aw_u32 each = s->maxed ? 10 : c->param[AW_DAA_mu];

	aw_arrivals_data(&s->arrivals, e);
	if (e->flags & (AW_D_OUT_OF_ORDER | AW_D_FILLS_GAP)) {
		aw_daa_reset(s, c);
		return;
	}
	s->dwin = aw_min(aw_max(s->dwin, 10) + aw_min(e->segments, most) * each, most);
	if (s->dwin == most)
		s->maxed = 1;
}

AW_FN aw_u32 aw_daa_timer(const struct aw_daa_state *s, const struct aw_cfg *c,
			  const struct aw_event *e, aw_u32 limit)
{
	if (!s->arrivals.gap_us)
		return aw_min(e->hold_us, c->param[AW_DAA_first]);
	return aw_arrivals_wait(&s->arrivals, limit - e->segments + 1, c->param[AW_DAA_kappa],
				e->hold_us);
}

AW_FN struct aw_verdict aw_daa_step(struct aw_daa_state *s, const struct aw_cfg *c,
				    const struct aw_event *e)
{
	aw_u32 step, limit;

	if (e->kind == AW_EV_DATA) {
		aw_daa_data(s, c, e);
		return aw_send();
	}
	step = e->segments > s->pending ? e->segments - s->pending : 0;
	s->pending = 0;
	if (e->kind != AW_EV_ACK) {
		aw_daa_reset(s, c);
		aw_arrivals_pause(&s->arrivals);
		return aw_send();
	}
	if (e->flags & AW_A_MUST_SEND)
		return aw_send();
	limit = aw_max(aw_div32(s->dwin, 10), 1);
	if (e->segments >= limit || step > limit - e->segments)
		return aw_send();
	s->pending = e->segments;
	return aw_hold(aw_daa_timer(s, c, e, limit));
}

#endif

#ifdef AW_POLICY
AW_POLICY(DAA, daa, "daa")
#endif
