/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ACKWISE_POLICY_RATE_LIMIT_H
#define ACKWISE_POLICY_RATE_LIMIT_H

#include "../types.h"

#define AW_RATE_LIMIT_SUMMARY "in work"
#define AW_RATE_LIMIT_SOURCE "in work"
#define AW_RATE_LIMIT_NEEDS AW_CAP_HOLD
#define AW_RATE_LIMIT_PARAMS(P)

struct aw_rate_limit_state {
	aw_u32 unused;
};

AW_FN struct aw_verdict aw_rate_limit_step(struct aw_rate_limit_state *s, const struct aw_cfg *c,
				     const struct aw_event *e)
{
	(void)s;
	(void)c;
	(void)e;
	return aw_send();
}

#endif

#ifdef AW_POLICY
AW_POLICY(RATE_LIMIT, rate_limit, "rate-limit")
#endif
