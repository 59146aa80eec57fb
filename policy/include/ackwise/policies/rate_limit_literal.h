/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * rate-limit-literal: the listing of Statkus 2021 as printed (lines 4796 to
 * 4843), including what contradicts the paper's prose. An ACK leaves if more
 * than r full segments are unacknowledged.
 *
 *	per data segment:
 *	  out of order        everything is reset, r = 0
 *	  first L segments    counted, nothing else
 *	  then, every L + 1   t2 = now
 *	      t2 - t1 <= delta  r += 1, without a bound
 *	      else              r -= 1 if r > 4
 *	      delta = t2 - t1, t1 = t2
 *
 * So r = 0 asks for an ACK per segment. The first interval counts from time 0 of
 * the clock. Each interval is compared with the one before, never with the
 * shortest one, so that r keeps growing. rate_limit.h is the algorithm that the
 * paper describes; docs/policies/rate-limit-literal.md compares the two.
 */
#ifndef ACKWISE_POLICY_RATE_LIMIT_LITERAL_H
#define ACKWISE_POLICY_RATE_LIMIT_LITERAL_H

#include "../types.h"

#define AW_RATE_LIMIT_LITERAL_SUMMARY \
	"the paper's listing as printed: grows without bound; only to reproduce the paper"
#define AW_RATE_LIMIT_LITERAL_SOURCE "Statkus et al. 2021, listing 4796-4843"
#define AW_RATE_LIMIT_LITERAL_NEEDS (AW_CAP_MAKE_ACKS | AW_CAP_SEE_DATA | AW_READS_TIME)
#define AW_RATE_LIMIT_LITERAL_PARAMS(P) \
	P(0, start, "segments", 2000, 0, 10000000, \
	  "segments before the first window, and in one; 0: (W+2)(W+1)/2-1 of the window W") \
	P(1, jiffy, "us", 4000, 1, 1000000, "tick of the clock that windows are timed with")

#define P(i, name, unit, def, min, max, what) AW_RATE_LIMIT_LITERAL_##name = i,
enum aw_rate_limit_literal_param {
	AW_RATE_LIMIT_LITERAL_PARAMS(P)
};
#undef P

/* 64 KiB in segments of 1448 bytes, used if the window is not known. */
#define AW_RATE_LIMIT_LITERAL_W_UNKNOWN 45
#define AW_RATE_LIMIT_LITERAL_W_MAX 65000 /* (W+2)(W+1)/2 fits 32 bits */
#define AW_RATE_LIMIT_LITERAL_MAX 64	  /* the bound that the listing never applies */

/* The names are the listing's, except r (ack_rate_val) and r_max (ack_rate_max). */
struct aw_rate_limit_literal_state {
	aw_u32 start_ack_lmt; /* 0 if not set yet */
	aw_u32 init_pkt_cnt;
	aw_u32 ack_pkt_cnt;
	aw_u32 r, r_max;
	aw_u32 reserved;
	aw_u64 ack_time_t1;    /* end of the last window, in ticks */
	aw_u64 ack_time_delta; /* length of the last window, in ticks */
};

/* tcp_ack_limit_init() of the listing: called once per connection, at its first data. */
AW_FN void aw_rate_limit_literal_init(struct aw_rate_limit_literal_state *s, const struct aw_cfg *c,
				      const struct aw_event *e)
{
	aw_u32 w = aw_div32(e->rcv_wnd, e->mss);

	w = w ? aw_min(w, AW_RATE_LIMIT_LITERAL_W_MAX) : AW_RATE_LIMIT_LITERAL_W_UNKNOWN;
	s->start_ack_lmt = c->param[AW_RATE_LIMIT_LITERAL_start];
	if (!s->start_ack_lmt)
		s->start_ack_lmt = (w + 2) * (w + 1) / 2 - 1;
	s->r_max = aw_min(AW_RATE_LIMIT_LITERAL_MAX, w / 3);
}

AW_FN void aw_rate_limit_literal_reset(struct aw_rate_limit_literal_state *s,
				       const struct aw_event *e)
{
	s->init_pkt_cnt = s->ack_pkt_cnt = s->r = 0;
	s->ack_time_t1 = s->ack_time_delta = 0;
	s->r_max = aw_min(AW_RATE_LIMIT_LITERAL_MAX,
			  e->mss < 1U << 24 ? aw_div32(e->rcv_wnd, 3 * e->mss) : 0);
}

AW_FN void aw_rate_limit_literal_window(struct aw_rate_limit_literal_state *s, aw_u64 t2)
{
	aw_u64 took = t2 - s->ack_time_t1;

	s->ack_pkt_cnt = 0;
	/* && binds first, and r_max is at most 64, so the second half is never true. */
	if (took <= s->ack_time_delta ||
	    (!s->ack_time_t1 && s->r_max > AW_RATE_LIMIT_LITERAL_MAX)) {
		s->r++;
	} else if (s->r > 4) {
		s->r--;
	}
	s->ack_time_delta = took;
	s->ack_time_t1 = t2;
}

/* The listing runs once for each buffer that arrives, whatever its length. */
AW_FN void aw_rate_limit_literal_data(struct aw_rate_limit_literal_state *s, const struct aw_cfg *c,
				      const struct aw_event *e)
{
	if (!s->start_ack_lmt)
		aw_rate_limit_literal_init(s, c, e);
	if (e->flags & AW_D_OUT_OF_ORDER)
		aw_rate_limit_literal_reset(s, e);
	if (s->init_pkt_cnt < s->start_ack_lmt) {
		s->init_pkt_cnt++;
		return;
	}
	if (s->ack_pkt_cnt > s->start_ack_lmt)
		aw_rate_limit_literal_window(
			s, aw_div64(e->now_us, c->param[AW_RATE_LIMIT_LITERAL_jiffy]));
	s->ack_pkt_cnt++;
}

AW_FN struct aw_verdict aw_rate_limit_literal_step(struct aw_rate_limit_literal_state *s,
						   const struct aw_cfg *c, const struct aw_event *e)
{
	if (e->kind == AW_EV_DATA)
		aw_rate_limit_literal_data(s, c, e);
	if (e->kind != AW_EV_ACK || (e->flags & AW_A_MUST_SEND))
		return aw_send();
	if (e->bytes > (aw_u64)s->r * e->mss)
		return aw_send();
	return aw_hold(e->hold_us);
}

#endif

#ifdef AW_POLICY
AW_POLICY(RATE_LIMIT_LITERAL, rate_limit_literal, "rate-limit-literal")
#endif
