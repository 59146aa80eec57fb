/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ACKWISE_POLICY_TACK_H
#define ACKWISE_POLICY_TACK_H

#include "../types.h"

#define AW_TACK_SUMMARY "in work"
#define AW_TACK_SOURCE "in work"
#define AW_TACK_NEEDS AW_CAP_HOLD
#define AW_TACK_PARAMS(P)

struct aw_tack_state {
	aw_u32 unused;
};

AW_FN struct aw_verdict aw_tack_step(struct aw_tack_state *s, const struct aw_cfg *c,
				     const struct aw_event *e)
{
	(void)s;
	(void)c;
	(void)e;
	return aw_send();
}

#endif

#ifdef AW_POLICY
AW_POLICY(TACK, tack, "tack")
#endif
