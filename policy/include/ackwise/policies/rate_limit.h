/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * rate-limit: searches for the lowest ACK rate that does not slow the sender
 * (Statkus 2021). An ACK leaves when it covers more than max(1, r) segments.
 *
 *   opening:  during the first `start` in-order segments every ACK leaves
 *   probing:  each `window` of segments is timed. If it took no longer than the
 *             shortest one so far, r grows by one, up to min(r_max, rwnd / 3 MSS)
 *   holding:  if it took longer, r falls by one, and stays for `hold` windows;
 *             the longer time replaces the shortest one
 *   reset:    data out of order, or repeated data: back to opening
 *
 * The printed listing differs from the paper's prose: it never applies its own
 * bound, and forgets the shortest time. docs/policies/rate-limit.md lists the
 * differences and what was chosen.
 */
#ifndef ACKWISE_POLICY_RATE_LIMIT_H
#define ACKWISE_POLICY_RATE_LIMIT_H

#include "../types.h"

#define AW_RATE_LIMIT_SUMMARY "raises segments per ACK while throughput holds"
#define AW_RATE_LIMIT_SOURCE "Statkus et al. 2021, with its listing's errors corrected"
#define AW_RATE_LIMIT_NEEDS (AW_CAP_HOLD | AW_CAP_SEE_DATA | AW_READS_TIME)
#define AW_RATE_LIMIT_PARAMS(P) \
	P(0, start, "segments", 2000, 0, 10000000, \
	  "in-order segments before limiting; 0: (W+2)(W+1)/2-1 of the window W in segments") \
	P(1, window, "segments", 0, 0, 10000000, "segments that are timed together; 0: as start") \
	P(2, r_max, "segments", 64, 1, 256, "upper bound of r, besides a third of the window") \
	P(3, r_min, "segments", 1, 1, 64, "lower bound of r once limiting began") \
	P(4, hold, "windows", 2, 0, 64, "windows without a probe after backing off") \
	P(5, slack, "1/1000", 50, 0, 1000, "how much longer a window may take and not be slower")

#define P(i, name, unit, def, min, max, what) AW_RATE_LIMIT_##name = i,
enum aw_rate_limit_param {
	AW_RATE_LIMIT_PARAMS(P)
};
#undef P

/* 64 KiB in segments of 1448 bytes, used if the window is not known. */
#define AW_RATE_LIMIT_W_UNKNOWN 45
#define AW_RATE_LIMIT_W_MAX 65000 /* (W+2)(W+1)/2 fits 32 bits */

struct aw_rate_limit_state {
	aw_u32 start;	 /* length of the opening in segments; 0 if not set yet */
	aw_u32 seen;	 /* segments of the opening so far */
	aw_u32 count;	 /* segments of the current window */
	aw_u32 begin_us; /* when the current window began */
	aw_u32 best_us;	 /* the time that a window should take; 0 if not known yet */
	aw_u32 r;
	aw_u32 hold; /* windows until the next probe */
};

/* Segments sent while a window grows by one a round from 2 to W + 1. */
AW_FN aw_u32 aw_rate_limit_start(const struct aw_cfg *c, const struct aw_event *e)
{
	aw_u32 w = aw_div32(e->rcv_wnd, e->mss);

	if (c->param[AW_RATE_LIMIT_start])
		return c->param[AW_RATE_LIMIT_start];
	w = w ? aw_min(w, AW_RATE_LIMIT_W_MAX) : AW_RATE_LIMIT_W_UNKNOWN;
	return (w + 2) * (w + 1) / 2 - 1;
}

AW_FN void aw_rate_limit_window(struct aw_rate_limit_state *s, const struct aw_cfg *c,
				const struct aw_event *e, aw_u32 length)
{
	aw_u32 now = (aw_u32)e->now_us, r_min = c->param[AW_RATE_LIMIT_r_min];
	/* A third of the receive window. An unknown window allows no growth. */
	aw_u32 limit = aw_min(c->param[AW_RATE_LIMIT_r_max],
			      e->mss < 1U << 24 ? aw_div32(e->rcv_wnd, 3 * e->mss) : 0);
	aw_u64 took = (aw_u64)(now - s->begin_us) * length, bar;

	/* Aggregated data may exceed the window: scale the time to its length. */
	took = aw_div64(took, s->count);
	took = took ? took : 1;
	s->begin_us = now;
	s->count = 0;
	limit = aw_max(limit, r_min);
	s->r = aw_min(s->r, limit);
	if (!s->best_us) {
		s->best_us = (aw_u32)took;
		s->r = r_min;
		return;
	}
	if (s->hold) {
		s->hold--;
		return;
	}
	bar = s->best_us + aw_div64((aw_u64)s->best_us * c->param[AW_RATE_LIMIT_slack], 1000);
	if (took <= bar) {
		s->r = aw_min(s->r + 1, limit);
		s->best_us = aw_min(s->best_us, (aw_u32)took);
	} else {
		s->r = aw_max(s->r ? s->r - 1 : 0, r_min);
		s->hold = c->param[AW_RATE_LIMIT_hold];
		s->best_us = (aw_u32)took;
	}
}

AW_FN void aw_rate_limit_data(struct aw_rate_limit_state *s, const struct aw_cfg *c,
			      const struct aw_event *e)
{
	aw_u32 length;

	if (e->flags & (AW_D_OUT_OF_ORDER | AW_D_FILLS_GAP)) {
		s->start = s->seen = s->count = s->r = s->hold = s->best_us = 0;
		return;
	}
	if (!s->start)
		s->start = aw_rate_limit_start(c, e);
	if (s->seen < s->start) {
		s->seen += aw_min(e->segments, s->start - s->seen);
		s->begin_us = (aw_u32)e->now_us;
		return;
	}
	length = c->param[AW_RATE_LIMIT_window];
	length = length ? length : s->start;
	s->count += aw_min(e->segments, 1U << 24);
	if (s->count >= length)
		aw_rate_limit_window(s, c, e, length);
}

AW_FN struct aw_verdict aw_rate_limit_step(struct aw_rate_limit_state *s, const struct aw_cfg *c,
					   const struct aw_event *e)
{
	if (e->kind == AW_EV_DATA)
		aw_rate_limit_data(s, c, e);
	if (e->kind != AW_EV_ACK || (e->flags & AW_A_MUST_SEND))
		return aw_send();
	/* r is 0 until the first window has been timed. */
	if (!s->r || e->segments > s->r)
		return aw_send();
	return aw_hold(e->hold_us);
}

#endif

#ifdef AW_POLICY
AW_POLICY(RATE_LIMIT, rate_limit, "rate-limit")
#endif
