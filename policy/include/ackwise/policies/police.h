/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ACKWISE_POLICY_POLICE_H
#define ACKWISE_POLICY_POLICE_H

#include "../types.h"

#define AW_POLICE_SUMMARY "in work"
#define AW_POLICE_SOURCE "in work"
#define AW_POLICE_NEEDS AW_CAP_HOLD
#define AW_POLICE_PARAMS(P)

struct aw_police_state {
	aw_u32 unused;
};

AW_FN struct aw_verdict aw_police_step(struct aw_police_state *s, const struct aw_cfg *c,
				     const struct aw_event *e)
{
	(void)s;
	(void)c;
	(void)e;
	return aw_send();
}

#endif

#ifdef AW_POLICY
AW_POLICY(POLICE, police, "police")
#endif
