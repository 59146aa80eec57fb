/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * hop: one ACK for each window of the sender, and a timer that adapts to losses. On a
 * path of radio hops an ACK costs nearly as much as a data frame at each hop, and
 * contends with the data. So the best time for an ACK is when the whole window has
 * arrived and the path is silent.
 *
 *   window   The sender writes its congestion window into the window field of its data.
 *            A field of `max_window` segments or more is no such hint. Then the window
 *            is estimated as what came before the last pause; it grows by one segment
 *            every few windows, and halves after a loss.
 *   the end  PSH says that the sender has no more data, so the ACK leaves.
 *   timer    missing segments * smoothed gap * patience, in case a segment was lost.
 *            Data beyond a hole after the timer show that one was lost: patience falls.
 *            Data in order show that the timer was too short: patience grows. With an
 *            estimated window this holds only if they come before the ACK could have
 *            been answered; otherwise they are the answer, and the window was what had come.
 *   hops     Their number gives the time that an ACK takes: no wait is shorter, and no
 *            answer comes sooner.
 */
#ifndef ACKWISE_POLICY_HOP_H
#define ACKWISE_POLICY_HOP_H

#include "../arrivals.h"

#define AW_HOP_SUMMARY "one ACK per sender window (announced or estimated), with an adaptive timer"
#define AW_HOP_SOURCE "ackwise; after Chen et al. 2008 (TCP-DCA) and 2009 (TCP-TDA)"
#define AW_HOP_NEEDS (AW_CAP_HOLD | AW_CAP_SEE_DATA | AW_READS_TIME)
#define AW_HOP_PARAMS(P) \
	P(0, patience, "1/8 gap", 24, 1, 4096, "wait for each missing segment, at first") \
	P(1, min_patience, "1/8 gap", 12, 1, 4096, "and at least") \
	P(2, max_patience, "1/8 gap", 512, 1, 4096, "and at most") \
	P(3, max_window, "segments", 64, 1, 1024, "largest window that is believed") \
	P(4, per_hop, "us", 5000, 0, 500000, "time that an ACK takes a hop: shortest wait") \
	P(5, first, "us", 20000, 1, 500000, "the wait, for each hop, until a gap is known") \
	P(6, probe, "windows", 3, 1, 1024, "whole ones until a guess is tried one larger")

#define P(i, name, unit, def, min, max, what) AW_HOP_##name = i,
enum aw_hop_param {
	AW_HOP_PARAMS(P)
};
#undef P

#define AW_HOP_UNKNOWN 10 /* assumed hops if the number is not known */

struct aw_hop_state {
	struct aw_arrivals arrivals;
	aw_u32 hops;	 /* hops of the newest data; 0 if not known */
	aw_u32 pending;	 /* segments that the last candidate covered, if it was held */
	aw_u32 patience; /* eighths of a gap; 0 before the first event */
	aw_u32 guess;	 /* estimate of the sender's window, segments */
	aw_u32 whole;	 /* full windows since the estimate changed */
	aw_u16 flags;	 /* enum aw_hop_flag */
	aw_u16 gave_up;	 /* segments that had come when the timer ended; 0 if it did not */
	aw_u32 gave_up_us;
};

enum aw_hop_flag {
	AW_HOP_TOLD = 1 << 0, /* the newest data had a window hint */
	AW_HOP_PUSH = 1 << 1, /* the newest data had PSH */
	AW_HOP_LOSS = 1 << 2, /* the newest data left a hole or filled one */
};

/* The window of the sender's hint, segments; 0 without a hint. */
AW_FN aw_u32 aw_hop_told(const struct aw_cfg *c, const struct aw_event *e)
{
	aw_u32 wnd = e->mss ? aw_div32(e->peer_wnd, e->mss) : 0;

	if (!e->mss || !e->peer_wnd || wnd >= c->param[AW_HOP_max_window])
		return 0;
	return aw_max(wnd, 1);
}

AW_FN aw_u32 aw_hop_hops(const struct aw_hop_state *s)
{
	return s->hops ? s->hops : AW_HOP_UNKNOWN;
}

/* Learns from data after the timer ended. An answer takes 1.5 times as long as an ACK. */
AW_FN void aw_hop_learn(struct aw_hop_state *s, const struct aw_cfg *c, const struct aw_event *e,
			int loss)
{
	aw_u32 since = (aw_u32)e->now_us - s->gave_up_us;
	aw_u32 answer = aw_hop_hops(s) *
			(c->param[AW_HOP_per_hop] + (c->param[AW_HOP_per_hop] >> 1));

	if (loss)
		s->patience -= s->patience >> 2;
	else if ((s->flags & AW_HOP_TOLD) || since < answer)
		s->patience += (s->patience >> 1) + 1;
	else
		s->guess = s->gave_up;
	s->patience = aw_max(aw_min(s->patience, c->param[AW_HOP_max_patience]),
			     c->param[AW_HOP_min_patience]);
	s->whole = 0;
	s->gave_up = 0;
}

AW_FN void aw_hop_data(struct aw_hop_state *s, const struct aw_cfg *c, const struct aw_event *e)
{
	int loss = e->flags & (AW_D_OUT_OF_ORDER | AW_D_FILLS_GAP);

	if (s->gave_up)
		aw_hop_learn(s, c, e, loss);
	/* A loss halves the window (RFC 5681 equation 4). */
	if (loss && !(s->flags & AW_HOP_LOSS)) {
		s->guess = aw_max(s->guess >> 1, 1);
		s->whole = 0;
	}
	s->flags = (aw_hop_told(c, e) ? AW_HOP_TOLD : 0) | (loss ? AW_HOP_LOSS : 0) |
		   (e->flags & AW_D_PSH ? AW_HOP_PUSH : 0);
	s->hops = e->hops;
	aw_arrivals_data(&s->arrivals, e);
}

/* How long to wait for the missing segments, us. */
AW_FN aw_u32 aw_hop_wait(const struct aw_hop_state *s, const struct aw_cfg *c,
			 const struct aw_event *e, aw_u32 missing)
{
	aw_u32 hops = aw_hop_hops(s);
	aw_u64 us = (aw_u64)s->arrivals.gap_us * missing * s->patience >> 3;

	if (!s->arrivals.gap_us)
		us = (aw_u64)hops * c->param[AW_HOP_first];
	if (us < (aw_u64)hops * c->param[AW_HOP_per_hop])
		us = (aw_u64)hops * c->param[AW_HOP_per_hop];
	if (!us)
		us = 1;
	return us > e->hold_us ? e->hold_us : (aw_u32)us;
}

AW_FN struct aw_verdict aw_hop_step(struct aw_hop_state *s, const struct aw_cfg *c,
				    const struct aw_event *e)
{
	aw_u32 held = s->pending, step, limit;

	if (!s->patience) {
		s->patience = c->param[AW_HOP_patience];
		s->guess = 1;
	}
	if (e->kind == AW_EV_DATA) {
		aw_hop_data(s, c, e);
		return aw_send();
	}
	s->pending = 0;
	if (e->kind != AW_EV_ACK) {
		aw_arrivals_pause(&s->arrivals);
		s->gave_up = aw_min(held, 0xffff);
		s->gave_up_us = (aw_u32)e->now_us;
		return aw_send();
	}
	step = e->segments > held ? e->segments - held : 0;
	limit = s->flags & AW_HOP_TOLD ? aw_hop_told(c, e) : s->guess;
	limit = aw_min(limit, c->param[AW_HOP_max_window]);
	if (e->flags & AW_A_MUST_SEND || s->flags & AW_HOP_PUSH)
		return aw_send();
	if (e->segments >= limit || step > limit - e->segments) {
		/* The next gap is a round trip, so it is not counted. */
		aw_arrivals_pause(&s->arrivals);
		if (++s->whole >= c->param[AW_HOP_probe]) {
			s->guess = aw_min(s->guess + 1, c->param[AW_HOP_max_window]);
			s->whole = 0;
		}
		return aw_send();
	}
	s->pending = e->segments;
	return aw_hold(aw_hop_wait(s, c, e, limit - e->segments));
}

#endif

#ifdef AW_POLICY
AW_POLICY(HOP, hop, "hop")
#endif
