/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ACKWISE_POLICY_ADAPTIVE_H
#define ACKWISE_POLICY_ADAPTIVE_H

#include "../types.h"

#define AW_ADAPTIVE_SUMMARY "in work"
#define AW_ADAPTIVE_SOURCE "in work"
#define AW_ADAPTIVE_NEEDS AW_CAP_HOLD
#define AW_ADAPTIVE_PARAMS(P)

struct aw_adaptive_state {
	aw_u32 unused;
};

AW_FN struct aw_verdict aw_adaptive_step(struct aw_adaptive_state *s, const struct aw_cfg *c,
				     const struct aw_event *e)
{
	(void)s;
	(void)c;
	(void)e;
	return aw_send();
}

#endif

#ifdef AW_POLICY
AW_POLICY(ADAPTIVE, adaptive, "adaptive")
#endif
