/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * every-n: one ACK for n data segments, the delayed-ACK factor d of RFC 5681
 * §4.2 made a number. Bytes are counted, not packets: RFC 1122 §4.2.3.2 speaks
 * of full-sized segments.
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

struct aw_every_n_state {
	aw_u32 seen; /* segments covered so far, saturating at warm */
};

AW_FN struct aw_verdict aw_every_n_step(struct aw_every_n_state *s, const struct aw_cfg *c,
					const struct aw_event *e)
{
	aw_u32 n = c->param[0], warm = c->param[1];

	if (e->kind != AW_EV_ACK)
		return aw_send();
	if (s->seen < warm) {
		s->seen = aw_min(warm, s->seen + aw_max(e->segments, 1));
		return aw_send();
	}
	/* The next ACK covers one segment more at least: n is a ceiling. */
	return e->segments >= n ? aw_send() : aw_hold(e->hold_us);
}

#endif

#ifdef AW_POLICY
AW_POLICY(EVERY_N, every_n, "every-n")
#endif
