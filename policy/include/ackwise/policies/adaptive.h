/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * adaptive: as few ACKs as the sender can do with, and no fewer.
 *
 * An ACK is sent if the last one was sent T ago, or if it covers max_segments, or
 * the window_share-th part of the receiver's window. Otherwise it is held.
 *
 *   RTT = max(srtt, min_rtt)
 *   D   = the longest hold that the contract grants
 *
 *   state           T                                 hold
 *   STARTUP         0; over a queue, see below        D
 *   SHARED          0: every ACK is sent
 *   STEADY          min(RTT / acks_per_rtt, D / 2)    D
 *   BUFFERBLOAT     min(RTT / acks_per_rtt, D)        D
 *   LOSS_RECOVERY   half of what it would be          D
 *   RANDOM_LOSS     a quarter of STEADY's             2 T
 *
 * While the CPU is short of time (AW_A_BUSY), T is no shorter than busy_us or D, whichever
 * is the less, and an ACK covers up to four times as much of the window, half of it at
 * most. Each ACK that is not sent leaves time for data, and on a short path none would be
 * withheld otherwise.
 *
 * In STARTUP an ACK is held for up to 8 segments while the RTT is 2 ms or more above its minimum
 * and nobody else fills the link. On a thin uplink it is the ACKs that wait. HyStart takes their
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
 * A queue stands while srtt > 9/8 min_rtt. It absorbs what an ACK waits, so that a
 * path that loses counts as RANDOM_LOSS only without one; over a queue it counts as
 * LOSS_RECOVERY for one RTT, and then as STEADY or BUFFERBLOAT. A loss that was found
 * over a queue was its overflow, and is forgotten.
 *
 * aw_adaptive_phase_now() computes the state from what is remembered (`filled`, and
 * the cause of the last loss) and from the RTT of the moment. A loss during STARTUP is
 * remembered as well, and counts when STARTUP is over.
 *
 * The number of ACKs follows the sender: a window of W segments keeps acks_per_rtt
 * ACKs a round trip however large W is, and a window smaller than that keeps them
 * all. HyStart asks for eight samples a round (RFC 9406 §4.2); TACK's analysis needs
 * two and sets four (SIGCOMM 2020 §4). T is taken from the smoothed RTT, so that a
 * congested ACK path slows itself down.
 *
 * Limits: on a path that this host sees in one direction only, the RTT is taken for
 * shorter than it is, and more ACKs are kept; with an RTT below about 1 ms nothing is
 * gained unless the CPU is busy. docs/policies/adaptive.md has the measurements behind
 * the constants.
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
	  "first segments of a flow, at least so many of which are its startup") \
	P(4, window_share, "", 16, 2, 64, "an ACK covers at most this fraction of the window") \
	P(5, idle_us, "us", 200000, 1000, 60000000, "a pause that makes the flow start anew") \
	P(6, after_loss_rtts, "RTT", 64, 1, 1024, "round trips that a loss is remembered") \
	P(7, busy_us, "us", 2000, 0, 25000, "time between ACKs while the CPU is busy")

#define P(i, name, unit, def, min, max, what) AW_ADAPTIVE_##name = i,
enum aw_adaptive_param {
	AW_ADAPTIVE_PARAMS(P)
};
#undef P

/* A growth of a quarter per round is still a startup (BBR draft, full pipe: 25 %). */
#define AW_ADAPTIVE_GROWTH_SHIFT 2
/* A round is no shorter than this, because of clocks and of bursts of aggregation. */
#define AW_ADAPTIVE_ROUND_MIN_US 2000
/* So many smoothed RTTs without an ACK, and idle_us, are a pause. */
#define AW_ADAPTIVE_PAUSE_RTTS 4
/* What is remembered for a number of RTTs takes none of them for longer, us. */
#define AW_ADAPTIVE_RTT_MAX_US 4000000
/* So long, us, no ACK is withheld after a queue was seen that others fill. */
#define AW_ADAPTIVE_SHARED_US 30000000
/* A startup lasts for so many segments at least, even over a standing queue. */
#define AW_ADAPTIVE_STARTUP_MIN_SEGMENTS 64
/* And until a queue stands of so many us, or one as long as the path. */
#define AW_ADAPTIVE_STARTUP_QUEUE_US 25000
/* Of so many us an ACK of the startup covers more segments: half of HyStart's MIN_RTT_THRESH
 * (RFC 9406 §4.2), since the smoothed RTT comes late. */
#define AW_ADAPTIVE_STARTUP_THIN_US 2000
/* So many: more of them would come as bursts to a queue before the downlink that may be short. */
#define AW_ADAPTIVE_STARTUP_SEGMENTS 8
/* A queue stands if the RTT is above its minimum by this share: an eighth. */
#define AW_ADAPTIVE_QUEUE_SHIFT 3
/* An ACK of a busy CPU covers so many powers of two more of the window. */
#define AW_ADAPTIVE_BUSY_WINDOW_SHIFT 2
/* If the RTT is not known: act as on a short path, which keeps more ACKs. */
#define AW_ADAPTIVE_RTT_UNKNOWN_US 4000

/* The diagram above says how one follows the other. */
enum aw_adaptive_phase {
	AW_ADAPTIVE_STARTUP,	   /* the sender may still be probing for bandwidth */
	AW_ADAPTIVE_SHARED,	   /* others fill the uplink's queue: thinning loses to them */
	AW_ADAPTIVE_STEADY,	   /* acks_per_rtt ACKs a round trip */
	AW_ADAPTIVE_BUFFERBLOAT,   /* a queue stands: fewer ACKs drain it */
	AW_ADAPTIVE_LOSS_RECOVERY, /* a loss was repaired within the last RTT */
	AW_ADAPTIVE_RANDOM_LOSS,   /* the path loses: goodput goes with 1/RTT, so wait less */
};

/* What the remembered loss is taken for. */
enum aw_adaptive_loss {
	AW_ADAPTIVE_LOSS_NONE = 0,
	AW_ADAPTIVE_LOSS_RANDOM = 1,   /* no queue stood: the path loses */
	AW_ADAPTIVE_LOSS_OVERFLOW = 2, /* a queue stood, and overflowed */
};

/**
 * struct aw_adaptive_state - the running round (vars), and what is remembered (stats)
 * @sent_us: when an ACK was last sent
 * @rcvd_us: when an ACK was last a candidate
 * @loss_us: when a loss was last under repair
 * @round_us: when the running round of the startup began
 * @round_bytes: bytes acknowledged in that round
 * @pending: bytes that the last candidate covered, if it was held
 * @peak: largest delivery rate of a round, bytes per 1024 us
 * @started: segments acknowledged in the startup, up to start_segments
 * @filled: not 0 once the startup is over
 * @flat: rounds since the rate last grew by a quarter, up to 255
 * @valid: not 0 once an ACK was a candidate
 * @loss: enum aw_adaptive_loss
 * @shared_us: when a queue was last seen that others fill; 0: not of late
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
 * Does a queue stand on the path? It absorbs the time that an ACK waits. On a thin uplink it
 * is that of the ACKs themselves.
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

/* After a loss T is shorter, by so many powers of two. */
AW_FN aw_u32 aw_adaptive_sooner(enum aw_adaptive_phase phase)
{
	return phase == AW_ADAPTIVE_RANDOM_LOSS ? 2 : phase == AW_ADAPTIVE_LOSS_RECOVERY;
}

AW_FN int aw_adaptive_busy(const struct aw_event *e)
{
	return !!(e->flags & AW_A_BUSY);
}

/*
 * The longest T. It is at most half the hold bound, so that an ACK is sent with the segment
 * that it answers and not with a timer: one that is late makes the next look early, and a
 * sender that measures delivery (BBR) takes that for bandwidth. In a bufferbloated path the
 * queue is the greater evil.
 */
AW_FN aw_u32 aw_adaptive_most(const struct aw_event *e)
{
	return e->hold_us >> !aw_adaptive_queue(e);
}

/* The shortest T, which goes before: on a busy CPU all ACKs are late. */
AW_FN aw_u32 aw_adaptive_least(const struct aw_cfg *c, const struct aw_event *e)
{
	return aw_adaptive_busy(e) ? aw_min(c->param[AW_ADAPTIVE_busy_us], e->hold_us) : 0;
}

/* An ACK covers the window divided by so many at most. */
AW_FN aw_u32 aw_adaptive_share(const struct aw_cfg *c, const struct aw_event *e)
{
	aw_u32 share = c->param[AW_ADAPTIVE_window_share];

	return aw_adaptive_busy(e) ? aw_max(share >> AW_ADAPTIVE_BUSY_WINDOW_SHIFT, 2) : share;
}

/* T. */
AW_FN aw_u32 aw_adaptive_interval(enum aw_adaptive_phase phase, const struct aw_cfg *c,
				  const struct aw_event *e, aw_u32 rtt)
{
	aw_u32 interval = aw_min(aw_div32(rtt, c->param[AW_ADAPTIVE_acks_per_rtt]),
				 aw_adaptive_most(e));

	return aw_max(interval, aw_adaptive_least(c, e)) >> aw_adaptive_sooner(phase);
}

/* Is `waited` T or more? The same without a division. */
AW_FN int aw_adaptive_due(enum aw_adaptive_phase phase, const struct aw_cfg *c,
			  const struct aw_event *e, aw_u32 rtt, aw_u32 waited)
{
	aw_u64 past = ((aw_u64)waited + 1) << aw_adaptive_sooner(phase);

	return aw_adaptive_least(c, e) < past &&
	       (aw_adaptive_most(e) < past || rtt < c->param[AW_ADAPTIVE_acks_per_rtt] * past);
}

/*
 * Is there a queue that ends a startup? One as long as the path, or, on a long path, of 25 ms
 * and an eighth of it: a queue of ACKs there is full before it has doubled the RTT. Nothing
 * is known of it while others fill the link.
 */
AW_FN int aw_adaptive_startup_queue(const struct aw_event *e)
{
	aw_u32 min = e->min_rtt_us;
	aw_u32 queue = aw_max(min >> AW_ADAPTIVE_QUEUE_SHIFT, AW_ADAPTIVE_STARTUP_QUEUE_US);

	if (!min || (e->flags & AW_A_OTHERS))
		return 0;
	return e->srtt_us >= min + aw_min(min, queue);
}

/* Is an ACK of the startup sent at once? Every one is while no queue can be one of ACKs. */
AW_FN int aw_adaptive_startup_due(const struct aw_event *e)
{
	aw_u32 min = e->min_rtt_us;

	return !min || (e->flags & AW_A_OTHERS) || e->srtt_us < min + AW_ADAPTIVE_STARTUP_THIN_US ||
	       e->segments >= AW_ADAPTIVE_STARTUP_SEGMENTS;
}

/* Counts a candidate of the startup, and ends it when the rate has stopped growing. */
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
	 * The startup is over, or its ACKs are what queues. A sender without HyStart would then
	 * learn of its overshoot late.
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
		 * The cause is that of the first loss, whose repair drains the queue. Another
		 * one, a round trip after an overflow, has a cause of its own.
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
 * when the ACKs that pass have pushed the others aside.
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
