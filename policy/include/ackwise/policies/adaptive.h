/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * adaptive: as few ACKs as the sender can do with, and no fewer.
 *
 *   starting:  every ACK leaves, until the delivery rate has stopped growing
 *              for `plateau` rounds (one round = one minimum RTT) and there were
 *              `start_segments`, or until a queue has doubled the RTT
 *   steady:    an ACK leaves if the last one left T ago, T = RTT / acks_per_rtt,
 *              or if it covers max_segments, or 1/window_share of the window
 *   swollen:   a queue has doubled the RTT: T up to the hold bound, to drain it
 *   easy:      after a loss, for wary_rtts round trips: T is a quarter while no
 *              queue stands on the path, for then each wait lengthens the RTT and
 *              goodput goes with its inverse; over a queue, half for one RTT. What
 *              was lost over a queue was its overflow, and is forgotten after that
 *   idle:      after a pause longer than an RTO the flow starts anew
 *
 * So the number of ACKs follows the sender: a window of W segments keeps
 * acks_per_rtt ACKs a round trip however large W is, and a window smaller than
 * that keeps them all. Eight samples a round are what HyStart asks for
 * (RFC 9406 §4.2); TACK's analysis (SIGCOMM 2020 §4) needs two, and sets four.
 * T is taken from the smoothed RTT, so a congested ACK path slows itself down.
 */
#ifndef ACKWISE_POLICY_ADAPTIVE_H
#define ACKWISE_POLICY_ADAPTIVE_H

#include "../types.h"

#define AW_ADAPTIVE_SUMMARY "as many ACKs per round trip as the sender's clock needs"
#define AW_ADAPTIVE_SOURCE "ackwise; after RFC 3449 §4, RFC 9406 §4.2, TACK (SIGCOMM 2020)"
#define AW_ADAPTIVE_NEEDS (AW_CAP_HOLD | AW_READS_TIME)
#define AW_ADAPTIVE_PARAMS(P) \
	P(0, acks_per_rtt, "ACKs", 9, 2, 64, "ACKs that leave in one round trip") \
	P(1, max_segments, "segments", 32, 2, 1024, "most segments that one ACK covers") \
	P(2, plateau, "rounds", 3, 1, 32, "rounds without growth that end the start") \
	P(3, start_segments, "segments", 800, 10, 1000000, \
	  "first segments of a flow, whose ACKs all pass") \
	P(4, window_share, "", 16, 2, 64, "an ACK covers at most this fraction of the window") \
	P(5, idle_us, "us", 200000, 1000, 60000000, "a pause that makes the flow start anew") \
	P(6, wary_rtts, "RTT", 64, 1, 1024, "round trips that a loss is remembered")

/* A growth of a quarter per round is still a start (BBR draft, full pipe: 25 %). */
#define AW_ADAPTIVE_GROWTH_SHIFT 2
/* A round is no shorter: clocks and bursts of aggregation. */
#define AW_ADAPTIVE_ROUND_MIN_US 2000
/* The smoothed RTT counts up to this multiple of the minimum. */
#define AW_ADAPTIVE_RTT_SPAN 4
/* A start lasts for so many segments at least, even over a standing queue. */
#define AW_ADAPTIVE_STARTUP_MIN_SEGMENTS 64
/* A queue stands if the RTT is above its minimum by this share: an eighth. */
#define AW_ADAPTIVE_QUEUE_SHIFT 3
/* RTT unknown: act as on a short path, which keeps more ACKs. */
#define AW_ADAPTIVE_RTT_UNKNOWN_US 4000

enum aw_adaptive_phase {
	AW_ADAPTIVE_START = 0,
	AW_ADAPTIVE_STEADY = 1
};

enum aw_adaptive_loss {
	AW_ADAPTIVE_NO_LOSS = 0,
	AW_ADAPTIVE_LOSS = 1,
	AW_ADAPTIVE_OVERFLOW = 2 /* a queue stood */
};

struct aw_adaptive_state {
	aw_u32 sent_us;	    /* when an ACK last left */
	aw_u32 rcvd_us;	    /* when one was last a candidate */
	aw_u32 repair_us;   /* when a loss was last under repair */
	aw_u32 round_us;    /* when the round began */
	aw_u32 round_bytes; /* acknowledged in it */
	aw_u32 pending;	    /* bytes of the last candidate not yet counted as left */
	aw_u32 peak;	    /* best rate of a round, bytes per 1024 us */
	aw_u32 started;	    /* segments acknowledged, saturating */
	aw_u8 phase, flat, valid, repaired;
};

AW_FN aw_u32 aw_adaptive_rtt(const struct aw_event *e)
{
	if (!e->min_rtt_us)
		return AW_ADAPTIVE_RTT_UNKNOWN_US;
	return aw_min(aw_max(e->srtt_us, e->min_rtt_us), AW_ADAPTIVE_RTT_SPAN * e->min_rtt_us);
}

/* Has a queue doubled the RTT? On a thin uplink it is that of the ACKs themselves. */
AW_FN int aw_adaptive_swollen(const struct aw_event *e)
{
	return e->min_rtt_us && (e->srtt_us >> 1) >= e->min_rtt_us;
}

/*
 * T. Never more than half the hold bound, so that an ACK leaves with the segment
 * that it answers and not with a timer: one that leaves late makes the next look
 * early, and a sender that measures delivery (BBR) takes that for bandwidth. Where
 * the RTT is swollen, the queue is the greater evil.
 */
AW_FN aw_u32 aw_adaptive_interval(const struct aw_cfg *c, const struct aw_event *e, aw_u32 rtt)
{
	return aw_min(aw_div32(rtt, c->param[0]), e->hold_us >> !aw_adaptive_swollen(e));
}

/* Does a queue stand on the path? It absorbs what an ACK waits. */
AW_FN int aw_adaptive_queue(const struct aw_event *e)
{
	return e->srtt_us > e->min_rtt_us + (e->min_rtt_us >> AW_ADAPTIVE_QUEUE_SHIFT);
}

/* Has the delivery rate stopped growing? Counts the bytes of one candidate. */
AW_FN void aw_adaptive_round(struct aw_adaptive_state *s, const struct aw_cfg *c,
			     const struct aw_event *e, aw_u32 now)
{
	aw_u32 len = aw_max(e->min_rtt_us ? e->min_rtt_us : AW_ADAPTIVE_RTT_UNKNOWN_US,
			    AW_ADAPTIVE_ROUND_MIN_US);
	aw_u32 took = now - s->round_us, rate;

	s->round_bytes += e->bytes > s->pending ? e->bytes - s->pending : 0;
	s->started = aw_min(s->started + e->segments, c->param[3]);
	/*
	 * A queue as long as the path: the start is over, or its ACKs are what
	 * queues. A sender without HyStart then learns of its overshoot late.
	 */
	if (s->started >= AW_ADAPTIVE_STARTUP_MIN_SEGMENTS && aw_adaptive_swollen(e))
		s->phase = AW_ADAPTIVE_STEADY;
	if (took < len)
		return;
	rate = (aw_u32)aw_div64((aw_u64)s->round_bytes << 10, took);
	if (rate > s->peak + (s->peak >> AW_ADAPTIVE_GROWTH_SHIFT)) {
		s->peak = rate;
		s->flat = 0;
	} else if (s->flat < 255) {
		s->flat++;
	}
	s->round_us = now;
	s->round_bytes = 0;
	if (s->flat >= c->param[2] && s->started >= c->param[3])
		s->phase = AW_ADAPTIVE_STEADY;
}

/* A loss, and how long it is remembered. */
AW_FN void aw_adaptive_loss(struct aw_adaptive_state *s, const struct aw_cfg *c,
			    const struct aw_event *e, aw_u32 now, aw_u32 rtt)
{
	if (e->flags & AW_A_RECOVERY) {
		/* Another one without a queue is the path's; what the first drained is not. */
		if (!s->repaired ||
		    (s->repaired == AW_ADAPTIVE_OVERFLOW && now - s->repair_us > rtt))
			s->repaired = aw_adaptive_queue(e) ? AW_ADAPTIVE_OVERFLOW
							   : AW_ADAPTIVE_LOSS;
		s->repair_us = now;
	} else if (s->repaired && now - s->repair_us > c->param[6] * rtt) {
		s->repaired = AW_ADAPTIVE_NO_LOSS;
	}
}

AW_FN void aw_adaptive_restart(struct aw_adaptive_state *s, aw_u32 now)
{
	s->phase = AW_ADAPTIVE_START;
	s->flat = 0;
	s->peak = 0;
	s->started = 0;
	s->round_us = now;
	s->round_bytes = 0;
}

AW_FN struct aw_verdict aw_adaptive_ack(struct aw_adaptive_state *s, const struct aw_cfg *c,
					const struct aw_event *e, aw_u32 now)
{
	aw_u32 rtt = aw_adaptive_rtt(e), interval = aw_adaptive_interval(c, e, rtt);
	aw_u32 idle = aw_max(c->param[5], AW_ADAPTIVE_RTT_SPAN * aw_max(e->srtt_us, rtt));
	aw_u32 hold = e->hold_us;

	if (!s->valid || now - s->rcvd_us > idle) {
		s->valid = 1;
		aw_adaptive_restart(s, now);
	}
	s->rcvd_us = now;
	if (s->phase == AW_ADAPTIVE_START)
		aw_adaptive_round(s, c, e, now);
	aw_adaptive_loss(s, c, e, now, rtt);
	if ((e->flags & AW_A_MUST_SEND) || s->phase == AW_ADAPTIVE_START)
		return aw_send();
	if (s->repaired == AW_ADAPTIVE_LOSS && !aw_adaptive_queue(e)) {
		interval >>= 2;
		hold = 2 * interval;
	} else if (s->repaired && now - s->repair_us <= rtt) {
		interval >>= 1;
	}
	if (now - s->sent_us >= interval || e->segments >= c->param[1])
		return aw_send();
	if (e->rcv_wnd && e->bytes >= aw_div32(e->rcv_wnd, c->param[4]))
		return aw_send();
	return aw_hold(hold);
}

AW_FN struct aw_verdict aw_adaptive_step(struct aw_adaptive_state *s, const struct aw_cfg *c,
					 const struct aw_event *e)
{
	aw_u32 now = (aw_u32)e->now_us;
	struct aw_verdict v = aw_send();

	if (e->kind == AW_EV_DATA)
		return v;
	if (e->kind == AW_EV_ACK)
		v = aw_adaptive_ack(s, c, e, now);
	if (v.kind == AW_SEND) {
		s->sent_us = now;
		s->pending = 0;
	} else {
		s->pending = e->bytes;
	}
	return v;
}

#endif

#ifdef AW_POLICY
AW_POLICY(ADAPTIVE, adaptive, "adaptive")
#endif
