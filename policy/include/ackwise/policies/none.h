/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* none: every ACK leaves. The other policies are measured against it. */
#ifndef ACKWISE_POLICY_NONE_H
#define ACKWISE_POLICY_NONE_H

#include "../types.h"

#define AW_NONE_SUMMARY "every ACK leaves"
#define AW_NONE_SOURCE "the stock stack"
#define AW_NONE_NEEDS 0
#define AW_NONE_PARAMS(P)

struct aw_none_state {
	aw_u32 unused;
};

AW_FN struct aw_verdict aw_none_step(struct aw_none_state *s, const struct aw_cfg *c,
				     const struct aw_event *e)
{
	(void)s;
	(void)c;
	(void)e;
	return aw_send();
}

#endif

#ifdef AW_POLICY
AW_POLICY(NONE, none, "none")
#endif
