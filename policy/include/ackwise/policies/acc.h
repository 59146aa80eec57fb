/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * acc: ACK congestion control (RFC 3449 §4.3; Balakrishnan, Padmanabhan, Katz).
 * A queue on the ACK path marks ACKs with ECN, the data sender echoes the mark
 * in its data, and the receiver adapts its delayed-ACK factor d:
 *
 *   an echo, once a round trip       d = min(up d, d_max)
 *   a round trip without an echo     d = max(d - down, 1)
 *   an ACK leaves if it covers       min(d, half of what the sender may send)
 *
 * What the sender may send is estimated as what it sent in the last round trip,
 * but at most the window that it is offered. So at least two ACKs cover its
 * window. During the first round trip every ACK leaves.
 */
#ifndef ACKWISE_POLICY_ACC_H
#define ACKWISE_POLICY_ACC_H

#include "../types.h"

#define AW_ACC_SUMMARY "fewer ACKs while a queue marks them, as congestion control does with data"
#define AW_ACC_SOURCE "RFC 3449 §4.3 (ACK congestion control); Marhoon"
#define AW_ACC_NEEDS (AW_CAP_HOLD | AW_CAP_SEE_DATA | AW_READS_TIME)
#define AW_ACC_PARAMS(P) \
	P(0, d_max, "segments", 5, 1, 256, "most segments that one ACK covers") \
	P(1, up, "", 2, 2, 16, "what d is multiplied by at a mark") \
	P(2, down, "segments", 1, 1, 64, "what d loses in a round trip without one") \
	P(3, interval, "us", 100000, 1000, 500000, "longest that an ACK waits") \
	P(4, rtt_us, "us", 100000, 1000, 10000000, "the round trip, until it is known")

#define P(i, name, unit, def, min, max, what) AW_ACC_##name = i,
enum aw_acc_param {
	AW_ACC_PARAMS(P)
};
#undef P

/* At least this many ACKs cover the sender's window: ns-2's safety factor. */
#define AW_ACC_SHARE 2

enum aw_acc_flag {
	AW_ACC_VALID = 1 << 0,
	AW_ACC_RAISED = 1 << 1, /* up_us is set */
};

struct aw_acc_state {
	aw_u32 d;
	aw_u32 up_us;	 /* when d was last raised */
	aw_u32 down_us;	 /* when d was last raised or lowered */
	aw_u32 round_us; /* when the round trip began */
	aw_u32 round;	 /* segments that came in this round trip */
	aw_u32 flight;	 /* segments that came in the one before; 0 if there was none */
	aw_u32 pending;	 /* segments that the last candidate covered, if it was held */
	aw_u32 flags;
};

/* Counts the segments of a round trip. After a pause the mean over the pause is taken. */
AW_FN void aw_acc_round(struct aw_acc_state *s, const struct aw_event *e, aw_u32 now, aw_u32 rtt)
{
	aw_u32 took = now - s->round_us;

	if (took >= rtt) {
		s->flight = (aw_u32)aw_div64((aw_u64)s->round * rtt, took);
		s->flight = aw_max(s->flight, 1);
		s->round_us = now;
		s->round = 0;
	}
	if (s->round < 1U << 30)
		s->round += aw_min(e->segments, 1U << 16);
}

AW_FN void aw_acc_data(struct aw_acc_state *s, const struct aw_cfg *c, const struct aw_event *e,
		       aw_u32 now)
{
	aw_u32 rtt = e->srtt_us ? e->srtt_us : c->param[AW_ACC_rtt_us];
	aw_u32 down = c->param[AW_ACC_down];
	int settled;

	if (!(s->flags & AW_ACC_VALID)) {
		s->flags = AW_ACC_VALID;
		s->d = 1;
		s->down_us = s->round_us = now;
	}
	aw_acc_round(s, e, now, rtt);
	settled = !(s->flags & AW_ACC_RAISED) || now - s->up_us >= rtt;
	if (!settled)
		return;
	if (e->flags & AW_D_ACK_CE_ECHO) {
		s->d = aw_min(s->d * c->param[AW_ACC_up], c->param[AW_ACC_d_max]);
		s->up_us = s->down_us = now;
		s->flags |= AW_ACC_RAISED;
	} else if (now - s->down_us >= rtt) {
		s->d = s->d > down ? s->d - down : 1;
		s->down_us = now;
		/* Ignore up_us from now on, or it would be compared after the clock wraps. */
		s->flags &= ~AW_ACC_RAISED;
	}
}

/* Segments that an ACK may cover now. */
AW_FN aw_u32 aw_acc_limit(const struct aw_acc_state *s, const struct aw_event *e)
{
	aw_u32 may = s->flight;

	if (e->rcv_wnd && e->mss)
		may = aw_min(may, aw_div32(e->rcv_wnd, e->mss));
	return aw_max(aw_min(s->d, may / AW_ACC_SHARE), 1);
}

AW_FN struct aw_verdict aw_acc_step(struct aw_acc_state *s, const struct aw_cfg *c,
				    const struct aw_event *e)
{
	aw_u32 limit, step;

	if (e->kind == AW_EV_DATA) {
		aw_acc_data(s, c, e, (aw_u32)e->now_us);
		return aw_send();
	}
	step = e->segments > s->pending ? e->segments - s->pending : 0;
	s->pending = 0;
	if (e->kind != AW_EV_ACK || (e->flags & (AW_A_MUST_SEND | AW_A_RECOVERY)))
		return aw_send();
	/* Send if the next ACK, with the same step, would exceed the limit. */
	limit = aw_acc_limit(s, e);
	if (e->segments >= limit || step > limit - e->segments)
		return aw_send();
	s->pending = e->segments;
	return aw_hold(aw_min(e->hold_us, c->param[AW_ACC_interval]));
}

#endif

#ifdef AW_POLICY
AW_POLICY(ACC, acc, "acc")
#endif
