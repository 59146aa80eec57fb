/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * every-n: one ACK for n data segments. n is the delayed-ACK factor d of RFC 5681
 * §4.2 as a parameter. Full-sized segments are counted (RFC 1122 §4.2.3.2).
 *
 * An ACK leaves if the next one, with the same step, would cover more than n
 * segments. So n is not exceeded, whether the receiver acknowledges every segment or
 * every second one.
 */
#ifndef ACKWISE_POLICY_EVERY_N_H
#define ACKWISE_POLICY_EVERY_N_H

#include "../types.h"

#define AW_EVERY_N_SUMMARY "one ACK for n data segments, n fixed"
#define AW_EVERY_N_SOURCE "RFC 5681 §4.2; RFC 3449 §4.1 (delayed-ACK factor)"
#define AW_EVERY_N_NEEDS AW_CAP_HOLD
/* P(index, name, unit, default, min, max, what it is) */
#define AW_EVERY_N_PARAMS(P) \
	P(0, n, "segments", 8, 1, 256, "data segments that one ACK covers") \
	P(1, warm, "segments", 16, 0, 1000000, "first segments of a flow, whose ACKs all pass")

#define P(i, name, unit, def, min, max, what) AW_EVERY_N_##name = i,
enum aw_every_n_param {
	AW_EVERY_N_PARAMS(P)
};
#undef P

struct aw_every_n_state {
	aw_u32 seen;	/* segments covered so far, saturating at warm */
	aw_u32 pending; /* segments that the last candidate covered, if it was held */
};

AW_FN struct aw_verdict aw_every_n_step(struct aw_every_n_state *s, const struct aw_cfg *c,
					const struct aw_event *e)
{
	aw_u32 n = c->param[AW_EVERY_N_n], warm = c->param[AW_EVERY_N_warm], step;

	if (e->kind == AW_EV_DATA)
		return aw_send();
	if (e->kind != AW_EV_ACK) {
		s->pending = 0;
		return aw_send();
	}
	step = e->segments > s->pending ? e->segments - s->pending : 0;
	s->pending = 0;
	if (s->seen < warm) {
		s->seen = aw_min(warm, s->seen + aw_min(aw_max(step, 1), warm));
		return aw_send();
	}
	if ((e->flags & AW_A_MUST_SEND) || e->segments >= n || step > n - e->segments)
		return aw_send();
	s->pending = e->segments;
	return aw_hold(e->hold_us);
}

#endif

#ifdef AW_POLICY
AW_POLICY(EVERY_N, every_n, "every-n")
#endif
