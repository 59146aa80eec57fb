/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * police: a token bucket on the ACKs of each flow (Pavilanskas 2010: CIR and
 * CBS of a policer on a bridge).
 *
 *   tokens = min(CBS, tokens + CIR dt); an ACK leaves if they cover its length
 *
 * The paper's policer drops ACKs that exceed the rate, which may lose a flow's
 * last ACK. Here such an ACK is held: the next one replaces it, and if none comes
 * it leaves at the deadline. ACKs that leave without the policy's consent (those
 * of the contract, and held ones at their deadline) take tokens too, but never
 * more than there are.
 */
#ifndef ACKWISE_POLICY_POLICE_H
#define ACKWISE_POLICY_POLICE_H

#include "../types.h"

#define AW_POLICE_SUMMARY "limits each flow's ACKs to a byte rate (token bucket)"
#define AW_POLICE_SOURCE "Pavilanskas 2010, fig. 3 (CIR, CBS); RFC 3449 §5.2.1"
#define AW_POLICE_NEEDS (AW_CAP_HOLD | AW_READS_TIME)
#define AW_POLICE_PARAMS(P) \
	P(0, cir, "bytes/s", 12500, 1, 1250000000, \
	  "committed information rate of one flow's ACKs") \
	P(1, cbs, "bytes", 5000, 40, 1000000000, "committed burst size, the depth of the bucket") \
	P(2, overhead, "bytes", 0, 0, 256, "bytes of the link counted on top of each IP packet")

#define P(i, name, unit, def, min, max, what) AW_POLICE_##name = i,
enum aw_police_param {
	AW_POLICE_PARAMS(P)
};
#undef P

#define AW_POLICE_SECOND_US 1000000

struct aw_police_state {
	aw_u32 tokens;	/* bytes */
	aw_u32 part;	/* a fraction of a token, in millionths of a byte */
	aw_u32 last_us; /* when tokens were last added */
	aw_u32 valid;	/* 1 once the bucket has been filled */
};

AW_FN void aw_police_refill(struct aw_police_state *s, const struct aw_cfg *c, aw_u32 now)
{
	aw_u32 cbs = c->param[AW_POLICE_cbs];
	aw_u64 more, bytes;

	if (!s->valid) {
		s->valid = 1;
		s->tokens = cbs;
		s->last_us = now;
		return;
	}
	more = (aw_u64)(now - s->last_us) * c->param[AW_POLICE_cir] + s->part;
	bytes = aw_div64(more, AW_POLICE_SECOND_US);
	s->last_us = now;
	if (s->tokens >= cbs || bytes >= cbs - s->tokens) {
		s->tokens = cbs;
		s->part = 0;
	} else {
		s->tokens += (aw_u32)bytes;
		s->part = (aw_u32)(more - bytes * AW_POLICE_SECOND_US);
	}
}

AW_FN struct aw_verdict aw_police_step(struct aw_police_state *s, const struct aw_cfg *c,
				       const struct aw_event *e)
{
	aw_u32 len = e->len + c->param[AW_POLICE_overhead];

	if (e->kind == AW_EV_DATA)
		return aw_send();
	aw_police_refill(s, c, (aw_u32)e->now_us);
	if (e->kind != AW_EV_ACK || (e->flags & AW_A_MUST_SEND)) {
		s->tokens -= aw_min(s->tokens, len);
		return aw_send();
	}
	if (s->tokens < len)
		return aw_hold(e->hold_us);
	s->tokens -= len;
	return aw_send();
}

#endif

#ifdef AW_POLICY
AW_POLICY(POLICE, police, "police")
#endif
