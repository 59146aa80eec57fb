/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * All policies behind one step. The list is policies.def; nothing here names a
 * policy except the includes.
 */
#ifndef ACKWISE_POLICY_H
#define ACKWISE_POLICY_H

#include "types.h"

/* First pass: the definitions. */
#include "policies.def"

enum aw_policy {
#define AW_POLICY(IDENT, ident, name) AW_POLICY_##IDENT,
#include "policies.def"
#undef AW_POLICY
	AW_POLICIES
};

union aw_policy_state {
#define AW_POLICY(IDENT, ident, name) struct aw_##ident##_state ident;
#include "policies.def"
#undef AW_POLICY
	aw_u64 raw[AW_POLICY_STATE / 8];
};

AW_ASSERT(sizeof(union aw_policy_state) == AW_POLICY_STATE, "a policy's state is one cache line");

/* State starts as zeroes. An unknown policy sends: fail open. */
AW_FN struct aw_verdict aw_policy_step(union aw_policy_state *s, const struct aw_cfg *c,
				       const struct aw_event *e)
{
	switch (c->policy) {
#define AW_POLICY(IDENT, ident, name) \
	case AW_POLICY_##IDENT: \
		return aw_##ident##_step(&s->ident, c, e);
#include "policies.def"
#undef AW_POLICY
	default:
		return aw_send();
	}
}

#endif
