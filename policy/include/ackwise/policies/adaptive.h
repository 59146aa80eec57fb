/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * adaptive: as few ACKs as the sender can do with, and no fewer.
 *
 * An ACK is sent if the last one was sent at least T ago, if it covers max_segments
 * segments, or if it covers 1 / window_share of the receiver's window. Otherwise it is
 * held.
 *
 *   RTT = max(srtt, min_rtt)
 *   D   = the longest hold that the contract grants
 *
 *   state           T                                 hold
 *   STARTUP         0; with a queue, see below        D
 *   SHARED          0: every ACK is sent
 *   STEADY          min(RTT / acks_per_rtt, D / 2)    D
 *   BUFFERBLOAT     min(RTT / acks_per_rtt, D)        D
 *   LOSS_RECOVERY   half of what it otherwise is      D
 *   RANDOM_LOSS     a quarter of STEADY's             2 T
 *
 * While the CPU is short of time (AW_A_BUSY), T is at least min(busy_us, D), or half or a
 * quarter of that after a loss, and an ACK covers up to four times as much of the window, but
 * at most half of it. Each ACK that is not sent leaves time for data, and on a short path none
 * would be withheld otherwise.
 *
 * In STARTUP an ACK covers up to 8 segments while the RTT is 2 ms or more above its minimum and
 * others do not fill the link. On a thin uplink it is the ACKs that wait. HyStart mistakes their
 * queue for one of data, from 4 ms on, and leaves slow start far below the rate of the line.
 *
 *                |
 *                V
 *             STARTUP  <-------------- a pause of idle_us and of 4 srtt, in any state
 *                |  the rate has not grown for `plateau` rounds and start_segments were
 *                |  acknowledged; or after 64 segments srtt >= 2 min_rtt, or >= 9/8 min_rtt
 *                |  and min_rtt + 25 ms, unless others fill the link
 *                V
 *    +------> STEADY  <------------------>  BUFFERBLOAT  <----+
 *    |           |      srtt > 9/8 min_rtt       |            |
 *    |           +---------------+---------------+            |
 *    |                           | a loss                     |
 *    |           +---------------+---------------+            |
 *    |           | no queue stood                | a queue    | one RTT after
 *    |           V                               V   stood    | the repair
 *    +----- RANDOM_LOSS  <--------------> LOSS_RECOVERY ------+----> STEADY
 *     after          srtt > 9/8 min_rtt
 *     after_loss_rtts
 *
 *   any state after STARTUP  <--------->  SHARED
 *             a queue that others fill, for 30 s after it was last seen
 *
 * There is a queue while srtt > 9/8 min_rtt. It keeps the path busy while an ACK waits, so
 * that a path with random loss is in RANDOM_LOSS only without a queue; with one it is in
 * LOSS_RECOVERY for one RTT, and then in BUFFERBLOAT. A loss that came while there was a
 * queue was that queue's overflow, and counts for one RTT only.
 *
 * aw_adaptive_phase_now() computes the state from what is remembered (`filled`, a queue
 * that others fill, the last loss and its cause) and from the current RTT. A loss during
 * STARTUP is remembered as well, and counts when STARTUP is over.
 *
 * The number of ACKs follows the sender: a window of W segments keeps acks_per_rtt
 * ACKs a round trip however large W is, and a window smaller than that keeps them
 * all. HyStart needs eight samples a round (RFC 9406 §4.2); TACK's analysis needs two
 * ACKs, and its authors chose four (SIGCOMM 2020 §4). T follows the smoothed RTT, so
 * that a congested ACK path slows its own ACKs down.
 *
 * Limits: a host that sees only one leg of the round trip measures a shorter RTT and
 * keeps more ACKs than needed; with an RTT below about 1 ms nothing is gained unless
 * the CPU is busy. docs/policies/adaptive.md has the measurements behind the constants.
 */
#ifndef ACKWISE_POLICY_ADAPTIVE_H
#define ACKWISE_POLICY_ADAPTIVE_H

#include "../types.h"

#define AW_ADAPTIVE_SUMMARY "as many ACKs per round trip as the sender's clock needs"
#define AW_ADAPTIVE_SOURCE "ackwise; after RFC 3449 §4, RFC 9406 §4.2, TACK (SIGCOMM 2020)"
#define AW_ADAPTIVE_NEEDS (AW_CAP_HOLD | AW_READS_TIME | AW_READS_BUSY)
#define AW_ADAPTIVE_PARAMS(P) \
	P(0, acks_per_rtt, "ACKs", 9, 2, 64, "ACKs that are sent in one round trip") \
	P(1, max_segments, "segments", 32, 2, 1024, "most segments that one ACK covers") \
	P(2, plateau, "rounds", 3, 1, 32, "rounds without growth that end the startup") \
	P(3, start_segments, "segments", 800, 10, 1000000, \
	  "unless a queue ends it, the startup lasts at least this many segments") \
	P(4, window_share, "", 16, 2, 64, "an ACK covers at most this fraction of the window") \
	P(5, idle_us, "us", 200000, 1000, 60000000, "a pause after which the flow starts again") \
	P(6, after_loss_rtts, "RTT", 64, 1, 1024, "round trips that a loss is remembered") \
	P(7, busy_us, "us", 2000, 0, 25000, "time between ACKs while the CPU is busy")

#define P(i, name, unit, def, min, max, what) AW_ADAPTIVE_##name = i,
enum aw_adaptive_param {
	AW_ADAPTIVE_PARAMS(P)
};
#undef P

/* A rate that grows by a quarter per round is still a startup's (BBR draft, full pipe: 25 %). */
#define AW_ADAPTIVE_GROWTH_SHIFT 2
/* A round is no shorter than this, because of coarse clocks and aggregated bursts. */
#define AW_ADAPTIVE_ROUND_MIN_US 2000
/* A pause is longer than idle_us, and than this many smoothed RTTs. */
#define AW_ADAPTIVE_PAUSE_RTTS 4
/* Where a loss is remembered for a number of RTTs, each counts as at most this, us. */
#define AW_ADAPTIVE_RTT_MAX_US 4000000
/* No ACK is withheld for this long, us, after a queue that others fill was last seen. */
#define AW_ADAPTIVE_SHARED_US 30000000
/* A startup lasts for at least this many segments, even with a queue. */
#define AW_ADAPTIVE_STARTUP_MIN_SEGMENTS 64
/* A startup ends with a queue as long as the path, or as long as this, us, and an eighth of it. */
#define AW_ADAPTIVE_STARTUP_QUEUE_US 25000
/* With a queue of this many us an ACK of the startup covers more segments. It is half of
 * HyStart's MIN_RTT_THRESH (RFC 9406 §4.2), since the smoothed RTT lags. */
#define AW_ADAPTIVE_STARTUP_THIN_US 2000
/* Segments that it covers then: larger bursts may overflow a short queue before the downlink. */
#define AW_ADAPTIVE_STARTUP_SEGMENTS 8
/* There is a queue if the RTT exceeds its minimum by more than this fraction: an eighth. */
#define AW_ADAPTIVE_QUEUE_SHIFT 3
/* On a busy CPU an ACK covers 2^this times as much of the window. */
#define AW_ADAPTIVE_BUSY_WINDOW_SHIFT 2
/* Assumed if the RTT is not known: a short one, which keeps more ACKs. */
#define AW_ADAPTIVE_RTT_UNKNOWN_US 4000

/* The states; the diagram above shows the transitions. */
enum aw_adaptive_phase {
	AW_ADAPTIVE_STARTUP,	   /* the sender may still be probing for bandwidth */
	AW_ADAPTIVE_SHARED,	   /* others fill the uplink's queue: thinning loses to them */
	AW_ADAPTIVE_STEADY,	   /* acks_per_rtt ACKs a round trip */
	AW_ADAPTIVE_BUFFERBLOAT,   /* a standing queue: fewer ACKs drain it */
	AW_ADAPTIVE_LOSS_RECOVERY, /* a loss was repaired within the last RTT */
	AW_ADAPTIVE_RANDOM_LOSS,   /* goodput is proportional to 1/RTT, so ACKs wait less */
};

/* The cause that is assumed for the remembered loss. */
enum aw_adaptive_loss {
	AW_ADAPTIVE_LOSS_NONE = 0,
	AW_ADAPTIVE_LOSS_RANDOM = 1,   /* there was no queue: random loss of the path */
	AW_ADAPTIVE_LOSS_OVERFLOW = 2, /* there was a queue, which overflowed */
};

/**
 * struct aw_adaptive_state - the current round (vars), and what is remembered (stats)
 * @sent_us: when an ACK was last sent
 * @rcvd_us: when an ACK was last a candidate
 * @loss_us: when a loss was last under repair
 * @round_us: when the current round of the startup began
 * @round_bytes: bytes acknowledged in that round
 * @pending: bytes that the last candidate covered, if it was held
 * @peak: largest delivery rate of a round, bytes per 1024 us
 * @started: segments acknowledged in the startup, up to start_segments
 * @filled: not 0 once the startup is over
 * @flat: rounds since the rate last grew by a quarter, up to 255
 * @valid: not 0 once an ACK has been a candidate
 * @loss: enum aw_adaptive_loss
 * @shared_us: when a queue that others fill was last seen; 0: not recently
 */
struct aw_adaptive_state {
	/* vars */
	aw_u32 sent_us;
	aw_u32 rcvd_us;
	aw_u32 loss_us;
	aw_u32 round_us;
	aw_u32 round_bytes;
	aw_u32 pending;
	/* stats */
	aw_u32 peak;
	aw_u32 started;
	aw_u8 filled, flat, valid, loss;
	aw_u32 shared_us;
};

AW_ASSERT(sizeof(struct aw_adaptive_state) == 40, "aw_adaptive_state");

AW_FN aw_u32 aw_adaptive_rtt(const struct aw_event *e)
{
	if (!e->min_rtt_us)
		return AW_ADAPTIVE_RTT_UNKNOWN_US;
	return aw_max(e->srtt_us, e->min_rtt_us);
}

/*
 * Is there a queue on the path? It keeps the path busy while an ACK waits. On a thin uplink it
 * is the queue of the ACKs themselves.
 */
AW_FN int aw_adaptive_queue(const struct aw_event *e)
{
	return e->srtt_us > e->min_rtt_us + (e->min_rtt_us >> AW_ADAPTIVE_QUEUE_SHIFT);
}

AW_FN enum aw_adaptive_phase aw_adaptive_phase_now(const struct aw_adaptive_state *s,
						   const struct aw_event *e, aw_u32 now, aw_u32 rtt)
{
	if (!s->filled)
		return AW_ADAPTIVE_STARTUP;
	if (s->shared_us)
		return AW_ADAPTIVE_SHARED;
	if (s->loss == AW_ADAPTIVE_LOSS_RANDOM && !aw_adaptive_queue(e))
		return AW_ADAPTIVE_RANDOM_LOSS;
	if (s->loss && now - s->loss_us <= rtt)
		return AW_ADAPTIVE_LOSS_RECOVERY;
	if (aw_adaptive_queue(e))
		return AW_ADAPTIVE_BUFFERBLOAT;
	return AW_ADAPTIVE_STEADY;
}

/* The power of two by which T is shorter after a loss. */
AW_FN aw_u32 aw_adaptive_sooner(enum aw_adaptive_phase phase)
{
	return phase == AW_ADAPTIVE_RANDOM_LOSS ? 2 : phase == AW_ADAPTIVE_LOSS_RECOVERY;
}

AW_FN int aw_adaptive_busy(const struct aw_event *e)
{
	return !!(e->flags & AW_A_BUSY);
}

/*
 * The upper bound of T. Without a queue it is half of D, so that ACKs are sent in response to
 * segments and not by timers: an ACK that is late makes the next look early, and a sender that
 * measures delivery rates (BBR) mistakes that for bandwidth. With a queue it is all of D,
 * because the queue does more harm.
 */
AW_FN aw_u32 aw_adaptive_most(const struct aw_event *e)
{
	return e->hold_us >> !aw_adaptive_queue(e);
}

/* The lower bound of T, which overrides the upper one: on a busy CPU all ACKs are late. */
AW_FN aw_u32 aw_adaptive_least(const struct aw_cfg *c, const struct aw_event *e)
{
	return aw_adaptive_busy(e) ? aw_min(c->param[AW_ADAPTIVE_busy_us], e->hold_us) : 0;
}

/* An ACK covers at most the window divided by this. */
AW_FN aw_u32 aw_adaptive_share(const struct aw_cfg *c, const struct aw_event *e)
{
	aw_u32 share = c->param[AW_ADAPTIVE_window_share];

	return aw_adaptive_busy(e) ? aw_max(share >> AW_ADAPTIVE_BUSY_WINDOW_SHIFT, 2) : share;
}

/* T of a state, us. */
AW_FN aw_u32 aw_adaptive_interval(enum aw_adaptive_phase phase, const struct aw_cfg *c,
				  const struct aw_event *e, aw_u32 rtt)
{
	aw_u32 interval = aw_min(aw_div32(rtt, c->param[AW_ADAPTIVE_acks_per_rtt]),
				 aw_adaptive_most(e));

	return aw_max(interval, aw_adaptive_least(c, e)) >> aw_adaptive_sooner(phase);
}

/* Is `waited` at least T? Compares with aw_adaptive_interval() without a division. */
AW_FN int aw_adaptive_due(enum aw_adaptive_phase phase, const struct aw_cfg *c,
			  const struct aw_event *e, aw_u32 rtt, aw_u32 waited)
{
	aw_u64 past = ((aw_u64)waited + 1) << aw_adaptive_sooner(phase);

	return aw_adaptive_least(c, e) < past &&
	       (aw_adaptive_most(e) < past || rtt < c->param[AW_ADAPTIVE_acks_per_rtt] * past);
}

/*
 * Is there a queue that ends a startup? It is as long as the path or, on a long path, 25 ms
 * and an eighth of the path: there the uplink is full of ACKs before they have doubled the
 * RTT. While others fill the link that queue cannot be seen.
 */
AW_FN int aw_adaptive_startup_queue(const struct aw_event *e)
{
	aw_u32 min = e->min_rtt_us;
	aw_u32 queue = aw_max(min >> AW_ADAPTIVE_QUEUE_SHIFT, AW_ADAPTIVE_STARTUP_QUEUE_US);

	if (!min || (e->flags & AW_A_OTHERS))
		return 0;
	return e->srtt_us >= min + aw_min(min, queue);
}

/* Is an ACK of the startup sent at once? Every one is, unless a queue may be one of ACKs. */
AW_FN int aw_adaptive_startup_due(const struct aw_event *e)
{
	aw_u32 min = e->min_rtt_us;

	return !min || (e->flags & AW_A_OTHERS) || e->srtt_us < min + AW_ADAPTIVE_STARTUP_THIN_US ||
	       e->segments >= AW_ADAPTIVE_STARTUP_SEGMENTS;
}

/* Counts a candidate of the startup, and ends the startup if the rate no longer grows. */
AW_FN void aw_adaptive_round(struct aw_adaptive_state *s, const struct aw_cfg *c,
			     const struct aw_event *e, aw_u32 now)
{
	aw_u32 len = aw_max(e->min_rtt_us ? e->min_rtt_us : AW_ADAPTIVE_RTT_UNKNOWN_US,
			    AW_ADAPTIVE_ROUND_MIN_US);
	aw_u32 start_segments = c->param[AW_ADAPTIVE_start_segments];
	aw_u32 took = now - s->round_us, rate;

	s->round_bytes += e->bytes > s->pending ? e->bytes - s->pending : 0;
	s->started = aw_min(s->started + e->segments, start_segments);
	/*
	 * Either slow start has filled the path, or its ACKs fill the uplink, and a sender
	 * without HyStart would learn of its overshoot late.
	 */
	if (s->started >= AW_ADAPTIVE_STARTUP_MIN_SEGMENTS && aw_adaptive_startup_queue(e))
		s->filled = 1;
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
	if (s->flat >= c->param[AW_ADAPTIVE_plateau] && s->started >= start_segments)
		s->filled = 1;
}

/* Notes a loss and its cause, and forgets them after after_loss_rtts round trips. */
AW_FN void aw_adaptive_note_loss(struct aw_adaptive_state *s, const struct aw_cfg *c,
				 const struct aw_event *e, aw_u32 now, aw_u32 rtt)
{
	aw_u32 memory = c->param[AW_ADAPTIVE_after_loss_rtts] * aw_min(rtt, AW_ADAPTIVE_RTT_MAX_US);

	if (e->flags & AW_A_RECOVERY) {
		/*
		 * The cause is that of the first loss, because its repair drains the queue. A
		 * loss more than a round trip after an overflow has a cause of its own.
		 */
		if (!s->loss || (s->loss == AW_ADAPTIVE_LOSS_OVERFLOW && now - s->loss_us > rtt))
			s->loss = aw_adaptive_queue(e) ? AW_ADAPTIVE_LOSS_OVERFLOW
						       : AW_ADAPTIVE_LOSS_RANDOM;
		s->loss_us = now;
	} else if (s->loss && now - s->loss_us > memory) {
		s->loss = AW_ADAPTIVE_LOSS_NONE;
	}
}

/*
 * Remembers a queue that others fill. It is not forgotten when it runs dry for a moment, nor
 * when the ACKs that pass push the others aside.
 */
AW_FN void aw_adaptive_note_shared(struct aw_adaptive_state *s, const struct aw_event *e,
				   aw_u32 now)
{
	if (AW_UNLIKELY(e->flags & AW_A_SHARED))
		s->shared_us = aw_max(now, 1);
	else if (AW_UNLIKELY(s->shared_us) && now - s->shared_us > AW_ADAPTIVE_SHARED_US)
		s->shared_us = 0;
}

AW_FN void aw_adaptive_restart(struct aw_adaptive_state *s, aw_u32 now)
{
	s->filled = 0;
	s->flat = 0;
	s->peak = 0;
	s->started = 0;
	s->round_us = now;
	s->round_bytes = 0;
}

AW_FN struct aw_verdict aw_adaptive_ack(struct aw_adaptive_state *s, const struct aw_cfg *c,
					const struct aw_event *e, aw_u32 now)
{
	aw_u32 rtt = aw_adaptive_rtt(e);
	/* During a pause the event's RTT grows to four times what it was before. */
	aw_u32 idle = aw_max(c->param[AW_ADAPTIVE_idle_us],
			     aw_max(rtt, AW_ADAPTIVE_PAUSE_RTTS * e->min_rtt_us));
	enum aw_adaptive_phase phase;

	if (!s->valid || now - s->rcvd_us > idle) {
		s->valid = 1;
		aw_adaptive_restart(s, now);
	}
	s->rcvd_us = now;
	if (!s->filled)
		aw_adaptive_round(s, c, e, now);
	aw_adaptive_note_loss(s, c, e, now, rtt);
	aw_adaptive_note_shared(s, e, now);
	phase = aw_adaptive_phase_now(s, e, now, rtt);
	if ((e->flags & AW_A_MUST_SEND) || phase == AW_ADAPTIVE_SHARED)
		return aw_send();
	if (phase == AW_ADAPTIVE_STARTUP ? aw_adaptive_startup_due(e)
					 : aw_adaptive_due(phase, c, e, rtt, now - s->sent_us))
		return aw_send();
	if (e->segments >= c->param[AW_ADAPTIVE_max_segments])
		return aw_send();
	if (e->rcv_wnd && e->rcv_wnd < aw_adaptive_share(c, e) * (e->bytes + 1ULL))
		return aw_send();
	if (AW_UNLIKELY(phase == AW_ADAPTIVE_RANDOM_LOSS))
		return aw_hold(2 * aw_adaptive_interval(phase, c, e, rtt));
	return aw_hold(e->hold_us);
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
