/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * dda: dynamic delayed ACK (Altman and Jiménez 2003). The number of segments that
 * one ACK covers grows with the number of the segment:
 *
 *   d = 1 up to segment l1, 2 up to l2, 3 up to l3, then 4
 *
 * So ACKs of the first, small windows do not wait for segments that the sender may
 * not send yet. The paper's sender has a window of four segments.
 */
#ifndef ACKWISE_POLICY_DDA_H
#define ACKWISE_POLICY_DDA_H

#include "../types.h"

#define AW_DDA_SUMMARY "segments per ACK grow with the segment's number, up to four"
#define AW_DDA_SOURCE "Altman and Jiménez 2003 (TCP-DDA), as in Ayadi 2013"
#define AW_DDA_NEEDS AW_CAP_HOLD
#define AW_DDA_PARAMS(P) \
	P(0, l1, "segments", 2, 0, 1000000, "from this segment on an ACK covers two") \
	P(1, l2, "segments", 5, 0, 1000000, "from this one on three") \
	P(2, l3, "segments", 9, 0, 1000000, "from this one on four") \
	P(3, timeout, "us", 100000, 1000, 500000, "longest that an ACK waits") \
	P(4, restart, "", 0, 0, 1, "1: after a loss d starts at one again")

#define P(i, name, unit, def, min, max, what) AW_DDA_##name = i,
enum aw_dda_param {
	AW_DDA_PARAMS(P)
};
#undef P

struct aw_dda_state {
	aw_u32 seen;	/* segments covered so far, saturating */
	aw_u32 pending; /* segments that the last candidate covered, if it was held */
};

AW_FN aw_u32 aw_dda_d(const struct aw_dda_state *s, const struct aw_cfg *c)
{
	aw_u32 d = 1;

	d += s->seen >= c->param[AW_DDA_l1];
	d += s->seen >= c->param[AW_DDA_l2];
	d += s->seen >= c->param[AW_DDA_l3];
	return d;
}

AW_FN struct aw_verdict aw_dda_step(struct aw_dda_state *s, const struct aw_cfg *c,
				    const struct aw_event *e)
{
	aw_u32 step, d;

	if (e->kind == AW_EV_DATA)
		return aw_send();
	step = e->segments > s->pending ? e->segments - s->pending : 0;
	s->pending = 0;
	if (e->kind != AW_EV_ACK)
		return aw_send();
	if ((e->flags & AW_A_RECOVERY) && c->param[AW_DDA_restart])
		s->seen = 0;
	s->seen = aw_min(s->seen + aw_min(step, 1U << 16), 1U << 30);
	d = aw_dda_d(s, c);
	/* As in every-n: send if the next ACK, with the same step, would cover more than d. */
	if ((e->flags & AW_A_MUST_SEND) || e->segments >= d || step > d - e->segments)
		return aw_send();
	s->pending = e->segments;
	return aw_hold(aw_min(e->hold_us, c->param[AW_DDA_timeout]));
}

#endif

#ifdef AW_POLICY
AW_POLICY(DDA, dda, "dda")
#endif
