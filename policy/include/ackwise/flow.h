/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * One flow: what the contract must remember, what a policy may know (MSS, windows,
 * RTT), and the policy's own state. "Data" travel from the data sender to the
 * receiver, "ACKs" the other way. An environment calls, for each segment of either
 * direction and in the order in which it receives them:
 *
 *   SYNs, and what follows them          aw_handshake_on_segment()
 *   the first pure ACK                   aw_flow_init()
 *   data direction                       aw_flow_on_data()
 *   ACK direction                        if aw_flow_releases() says so, the held ACK
 *                                        is sent first; then aw_flow_on_ack() decides
 *   a held ACK was sent after all        aw_flow_on_sent()
 *
 * If aw_flow_data_alone() says so, one segment of each direction may be handled at
 * the same time: then the data side writes data and, of the RTT, the far probe, what
 * the near leg found and the window of the minima; the ACK side writes everything else.
 *
 * Reading a clock is slow in some environments. They ask aw_flow_data_wants_clock()
 * and aw_flow_ack_wants_clock() first, and pass 0 for a time that was not read. Then no
 * probe of the RTT begins or ends, whatever the other side does meanwhile. Before they
 * pass 0 to aw_flow_on_ack(), they must call aw_flow_clock() with a coarse time.
 */
#ifndef ACKWISE_FLOW_H
#define ACKWISE_FLOW_H

#include "contract.h"
#include "policy.h"
#include "rtt.h"
#include "uplink.h"

/**
 * struct aw_flow_cfg - what all flows share: the policy, and the bounds of a hold
 * @policy: the policy and its parameters
 * @hold_max_us: upper bound of D
 * @hold_min_us: lower bound of D; a shorter timer is of no use
 * @hold_rtt_shift: D = clamp(RTT >> shift, min, max), as aw_flow_hold_us() rounds it
 * @reserved: 0
 */
struct aw_flow_cfg {
	struct aw_cfg policy;
	aw_u32 hold_max_us;
	aw_u32 hold_min_us;
	aw_u32 hold_rtt_shift;
	aw_u32 reserved;
};

/* Defaults: D is a quarter of the RTT. */
#define AW_HOLD_MAX_US 25000
#define AW_HOLD_MIN_US 1000
#define AW_HOLD_RTT_SHIFT 2

enum aw_decision_flag {
	/* A held ACK of the flow need not be sent any more. */
	AW_DEC_SUPERSEDES = 1 << 0,
	/*
	 * The ACK duplicates one that is still held: it must be sent twice, or the sender
	 * counts one duplicate too few.
	 */
	AW_DEC_TWICE = 1 << 1,
};

/**
 * struct aw_decision - what to do with a segment of the ACK direction
 * @kind: enum aw_verdict_kind, after the contract was applied
 * @reason: enum aw_reason
 * @hold_us: with AW_HOLD, the longest that it may wait
 * @flags: enum aw_decision_flag
 * @event: what the policy was told. It is not on the stack, where the verifier would track
 *	each value that it may have.
 */
struct aw_decision {
	aw_u32 kind;
	aw_u32 reason;
	aw_u32 hold_us;
	aw_u32 flags;
	struct aw_event event;
};

/**
 * struct aw_flow - one direction of data, and its ACKs
 * @policy: state of the policy
 * @hs: what the handshake negotiated
 * @data: the data direction, written by the data side
 * @acks: the ACK direction, written by the ACK side
 * @shared: not 0 while others fill the link that the ACKs leave by: the time, us, in which
 *	that link sends two full packets (uplink.h). The environment writes it before
 *	aw_flow_on_ack()
 * @busy: not 0 while packets leave the CPU that the ACKs pass short of time. The environment
 *	writes it before aw_flow_on_ack()
 * @rtt: round-trip time
 */
struct aw_flow {
	union aw_policy_state policy;
	struct aw_handshake hs;
	struct aw_data_state data;
	struct aw_ack_state acks;
	aw_u32 shared;
	aw_u32 busy;
	struct aw_rtt rtt;
};

AW_ASSERT(sizeof(struct aw_flow) == 256, "aw_flow");

/* Initialises a zeroed flow with what the handshake negotiated; hs may be NULL. */
AW_FN void aw_flow_init(struct aw_flow *f, const struct aw_handshake *hs, aw_u64 now_us)
{
	if (hs)
		f->hs = *hs;
	f->data.mss = f->hs.mss;
	f->acks.flags = f->hs.flags & AW_HS_ACCECN ? AW_ACK_ACCECN : 0;
	aw_rtt_init(&f->rtt, now_us);
}

/* The recent minimum of the round-trip time, us; 0 if it is not known. */
AW_FN aw_u32 aw_flow_min_rtt(const struct aw_flow *f)
{
	return aw_rtt_min(&f->rtt, &f->hs);
}

/* The smoothed round-trip time, us; 0 if it is not known. */
AW_FN aw_u32 aw_flow_srtt(const struct aw_flow *f)
{
	return aw_rtt_smoothed(&f->rtt, &f->hs);
}

/*
 * The smoothed round-trip time, us, or, if it is more, the age of an ACK whose echo is still
 * awaited. By that a full queue shows within one round trip; the smoothed value takes
 * several. A sender with nothing to send echoes late, too, so that at most four times the
 * smoothed value counts.
 */
AW_FN aw_u32 aw_flow_srtt_now(const struct aw_flow *f, aw_u64 now_us)
{
	aw_u32 srtt = aw_flow_srtt(f), waits;

	if (!now_us || !aw_token_out(&f->acks, &f->data, AW_TOKEN_NEAR))
		return srtt;
	waits = aw_rtt_since(&f->rtt.near, now_us);
	return aw_max(srtt, aw_min(waits, AW_RTT_SAMPLE_SPAN * srtt));
}

/*
 * Is there certainly a queue: is the round trip longer than its minimum by a quarter, and not
 * because the sender paused? An echo that is still awaited counts as well: after a pause, the
 * first data end that wait.
 */
AW_FN int aw_flow_queue(const struct aw_flow *f, aw_u64 now_us)
{
	aw_u32 min = aw_flow_min_rtt(f), rtt = aw_max(aw_rtt_sure(&f->rtt), min), waits;

	if (now_us && aw_token_out(&f->acks, &f->data, AW_TOKEN_NEAR)) {
		waits = aw_rtt_since(&f->rtt.near, now_us);
		rtt = aw_max(rtt, aw_min(waits, AW_RTT_SAMPLE_SPAN * rtt));
	}
	return min && rtt >= min + (min >> 2);
}

/* Rounds a time down to its first three bits, that is, to one of four lengths an octave. */
AW_FN aw_u32 aw_hold_length(aw_u32 us)
{
	aw_u32 bits = us | us >> 1;

	bits |= bits >> 2;
	bits |= bits >> 4;
	bits |= bits >> 8;
	bits |= bits >> 16;
	return us & ~(bits >> 3);
}

/*
 * D, the longest hold that the contract grants this flow now, us. It is the lower or the
 * upper bound, or one of a few lengths between them, so that an environment can keep a FIFO
 * for each length. A policy that relies on D then relies on what the timer really does.
 */
AW_FN aw_u32 aw_flow_hold_us(const struct aw_flow *f, const struct aw_flow_cfg *c)
{
	aw_u32 rtt = aw_flow_min_rtt(f);
	aw_u32 hold = (rtt ? rtt : AW_RTT_UNKNOWN_US) >> (c->hold_rtt_shift & 31);

	if (hold >= c->hold_max_us)
		return c->hold_max_us;
	return aw_min(aw_max(aw_hold_length(hold), c->hold_min_us), c->hold_max_us);
}

/* What a policy needs of its environment: enum aw_capability, AW_READS_TIME, AW_READS_BUSY. */
AW_FN aw_u32 aw_policy_needs(aw_u32 policy)
{
	switch (policy) {
#define AW_POLICY(IDENT, ident, name) \
	case AW_POLICY_##IDENT: \
		return AW_##IDENT##_NEEDS;
#include "policies.def"
#undef AW_POLICY
	default:
		return 0;
	}
}

/* May data and an ACK be handled at the same time? They may, unless the policy sees data. */
AW_FN int aw_flow_data_alone(const struct aw_flow_cfg *c)
{
	return !(aw_policy_needs(c->policy.policy) & AW_CAP_SEE_DATA);
}

AW_FN int aw_flow_reads_time(const struct aw_flow_cfg *c)
{
	return !!(aw_policy_needs(c->policy.policy) & AW_READS_TIME);
}

AW_FN int aw_flow_reads_busy(const struct aw_flow_cfg *c)
{
	return !!(aw_policy_needs(c->policy.policy) & AW_READS_BUSY);
}

/* Does aw_flow_on_data() need the time for s? If not, it does not look at now_us. */
AW_FN int aw_flow_data_wants_clock(const struct aw_flow *f, const struct aw_flow_cfg *c,
				   const struct aw_seg *s)
{
	if (!aw_flow_data_alone(c) && aw_flow_reads_time(c))
		return 1;
	return s->payload && (s->opts & AW_OPT_TS) &&
	       (aw_rtt_near_answered(&f->rtt, &f->acks, &f->data, s) ||
		aw_rtt_far_due(&f->rtt, &f->acks, &f->data));
}

/* Does aw_flow_on_ack() need the exact time for s? If not, now_us may be 0. */
AW_FN int aw_flow_ack_wants_clock(const struct aw_flow *f, const struct aw_flow_cfg *c,
				  const struct aw_seg *s)
{
	if (aw_flow_reads_time(c))
		return 1;
	/* If s is sent, it may become the next near probe. */
	return (s->opts & AW_OPT_TS) && (!aw_token_out(&f->acks, &f->data, AW_TOKEN_NEAR) ||
					 aw_rtt_far_answered(&f->rtt, &f->acks, &f->data, s));
}

/* Fills an event with what is known of the flow. */
AW_FN void aw_flow_event(const struct aw_flow *f, const struct aw_flow_cfg *c, aw_u32 kind,
			 aw_u64 now_us, struct aw_event *e)
{
	e->now_us = aw_flow_reads_time(c) ? now_us : 0;
	e->kind = kind;
	e->flags = 0;
	e->bytes = 0;
	e->segments = 0;
	e->len = 0;
	e->hops = 0;
	e->peer_wnd = f->data.wnd;
	e->mss = f->data.mss;
	e->rcv_wnd = aw_scale_known(&f->hs) ? f->acks.rcvd_wnd : 0;
	e->min_rtt_us = aw_flow_min_rtt(f);
	e->srtt_us = aw_flow_srtt_now(f, e->now_us);
	e->hold_us = aw_flow_hold_us(f, c);
}

/*
 * AW_A_OTHERS if others fill the link, and AW_A_SHARED as well if an ACK that is sent now
 * waits in their queue: one of at least a quarter of the minimum round trip, and longer than
 * two full packets take, since an ACK waits no longer than these where a queue separates flows.
 * Computed with sign bits: branches would triple what the verifier has to check.
 */
AW_FN aw_u32 aw_flow_shared(const struct aw_flow *f, const struct aw_event *e)
{
	aw_u64 min = e->min_rtt_us, queue = (aw_u64)e->srtt_us - min;
	aw_u64 others = (0 - (aw_u64)f->shared) >> 63, known = (0 - min) >> 63;
	aw_u64 shorter = ((queue - (min >> 2)) | (queue - f->shared)) >> 63;

	return (aw_u32)(others * AW_A_OTHERS + (others & known & ~shorter) * AW_A_SHARED);
}

/* Hops that a packet took, from its TTL: the initial values in use are 64, 128 and 255. */
AW_FN aw_u32 aw_hops(aw_u32 ttl)
{
	return (ttl <= 64 ? 64 : ttl <= 128 ? 128 : 255) - ttl + 1;
}

/* Records a segment of data. Returns where it lies among the others: enum aw_event_flag. */
AW_FN aw_u32 aw_flow_data_order(struct aw_flow *f, const struct aw_seg *s)
{
	struct aw_data_state *d = &f->data;
	aw_u32 end = s->seq + s->payload + !!(s->flags & AW_TCP_FIN);

	if (AW_LIKELY(d->valid && s->seq == d->high)) {
		d->high = end;
		return 0;
	}
	if (!d->valid) {
		d->valid = 1;
		d->high = end;
		return 0;
	}
	if (aw_after(s->seq, d->high)) {
		d->high = d->recover = end;
		if (!aw_token_out(&f->acks, d, AW_TOKEN_LOSS))
			d->flags ^= AW_TOKEN_LOSS;
		return AW_D_OUT_OF_ORDER;
	}
	if (s->payload == 1 && s->seq + 1 == d->high) /* a keep-alive */
		return 0;
	if (aw_after(end, d->high))
		d->high = end;
	/*
	 * Data below the highest: the receiver answers at once, and the sender is in
	 * loss recovery. Its RecoveryPoint is the end of all that it has sent (RFC 6675
	 * §5). Such data above that point belong to another loss.
	 */
	if (!aw_token_out(&f->acks, d, AW_TOKEN_LOSS)) {
		d->recover = d->high;
		d->flags ^= AW_TOKEN_LOSS;
	} else if (aw_after(end, d->recover)) {
		d->recover = d->high;
	}
	return AW_D_FILLS_GAP;
}

/*
 * Takes a segment from the data sender: data, or a pure ACK. Two segments that are
 * handled at the same time, without a lock, count as reordered.
 */
AW_FN void aw_flow_on_data(struct aw_flow *f, const struct aw_flow_cfg *c, const struct aw_seg *s,
			   aw_u32 segments, aw_u64 now_us)
{
	struct aw_data_state *d = &f->data;
	aw_u32 mss = d->mss, each = s->payload, flags;
	struct aw_event e;

	d->wnd = aw_wnd(&f->hs, s, 0);
	if (!s->payload) {
		/* A FIN counts as a byte (RFC 9293 §3.4), which the last ACK covers. */
		if (AW_UNLIKELY((s->flags & AW_TCP_FIN) && d->valid && s->seq == d->high))
			d->high++;
		return;
	}
	if (s->opts & AW_OPT_TS)
		aw_rtt_on_data(&f->rtt, &f->hs, &f->acks, d, s, now_us);
	/*
	 * A full segment is the largest recent one, so that a smaller path MTU shows. It
	 * decays by at least a byte, or it would stay up to 127 bytes too large.
	 */
	if (segments > 1)
		each = aw_div32(s->payload + segments - 1, segments);
	if (AW_UNLIKELY(each != mss))
		d->mss = each > mss ? each : mss - ((mss - each + 127) >> 7);
	flags = aw_flow_data_order(f, s);
	if (aw_flow_data_alone(c))
		return;

	aw_flow_event(f, c, AW_EV_DATA, now_us, &e);
	e.flags = flags;
	e.bytes = s->payload;
	e.segments = aw_max(segments, 1);
	e.len = s->len;
	e.hops = aw_hops(s->ttl);
	if (s->ip_ecn == 3)
		e.flags |= AW_D_CE;
	if (s->flags & AW_TCP_PSH)
		e.flags |= AW_D_PSH;
	/* ECE echoes a mark on a packet to the data sender. As no data go there, it was an ACK. */
	if (s->flags & AW_TCP_ECE)
		e.flags |= AW_D_ACK_CE_ECHO;
	aw_policy_step(&f->policy, &c->policy, &e);
}

/* Records that s was sent: counts start again, and it may be the next near probe. */
AW_FN void aw_flow_note_sent(struct aw_flow *f, const struct aw_seg *s, aw_u64 now_us)
{
	struct aw_ack_state *a = &f->acks;
	aw_u32 edge = a->sent_right_edge;

	if (!(a->flags & AW_ACK_VALID) || aw_after_eq(s->ack, a->sent_ack)) {
		aw_u32 mss = f->data.mss ? f->data.mss : AW_MSS_DEFAULT;

		if (a->started < AW_START_SEGMENTS && (a->flags & AW_ACK_VALID) &&
		    !aw_recovering(a, &f->data))
			a->started += (aw_u8)aw_min(aw_div32(s->ack - a->sent_ack + mss - 1, mss),
						    AW_START_SEGMENTS);
		a->sent_ack = s->ack;
		a->sent_wnd = aw_wnd(&f->hs, s, 1);
		a->sent_right_edge = s->ack + a->sent_wnd;
	}
	if (s->opts & AW_OPT_TS)
		aw_rtt_on_ack_sent(&f->rtt, a, &f->data, s, edge, now_us);
}

/*
 * A held ACK, or one that could not be held, was sent after all. s is that ACK; a
 * newer one may be held by now.
 */
AW_FN void aw_flow_on_sent(struct aw_flow *f, const struct aw_flow_cfg *c, const struct aw_seg *s,
			   aw_u64 now_us)
{
	struct aw_event e;

	aw_flow_note_sent(f, s, now_us);
	/* A newer ACK with the same number is still held if s does not cover its blocks. */
	if (!aw_after(f->acks.rcvd_ack, s->ack) &&
	    (AW_LIKELY(!aw_sack_unsent(&f->acks)) || aw_sack_covers(&f->acks, s))) {
		f->acks.flags &= ~AW_ACK_HOLDING;
		f->acks.sack_flags &= ~AW_SACK_UNSENT_MASK;
	}
	aw_flow_event(f, c, AW_EV_DEADLINE, now_us, &e);
	e.len = s->len;
	aw_policy_step(&f->policy, &c->policy, &e);
}

/* Records s as the newest ACK received, whether it is sent or not. */
AW_FN void aw_flow_note_rcvd(struct aw_flow *f, const struct aw_seg *s)
{
	struct aw_ack_state *a = &f->acks;
	struct aw_data_state *d = &f->data;
	aw_u32 i, moved;

	if ((a->flags & AW_ACK_VALID) && aw_after(a->rcvd_ack, s->ack))
		return; /* a newer one overtook it: it is out of date */
	a->rcvd_ack = s->ack;
	a->rcvd_wnd = aw_wnd(&f->hs, s, 1);
	a->rcvd_right_edge = s->ack + a->rcvd_wnd;
	a->ecn = s->flags & (AW_TCP_ECE | AW_TCP_CWR | AW_TCP_AE);
	/* ACE starts at 5, with AE set, and nothing else sets AE on a pure ACK. */
	if (!s->payload && (a->ecn & AW_TCP_AE))
		a->flags |= AW_ACK_ACCECN;
	a->accecn = (aw_u8)aw_accecn_fields(s);
	if (AW_UNLIKELY(a->accecn)) {
		a->flags |= AW_ACK_ACCECN;
		moved = aw_accecn_moved(a, s, a->accecn);
		if (moved)
			a->moved = moved & (AW_ACCECN_E0 | AW_ACCECN_E1);
		if (moved & AW_ACCECN_CE)
			a->ce_bytes = s->ce_bytes;
		if (moved & AW_ACCECN_E0)
			a->e0_bytes = s->e0_bytes;
		if (moved & AW_ACCECN_E1)
			a->e1_bytes = s->e1_bytes;
	}
	if (s->opts & AW_OPT_TS) {
		a->tsval = s->tsval;
		a->flags |= AW_ACK_TS;
	} else {
		a->flags &= ~AW_ACK_TS;
	}
	a->flags |= AW_ACK_VALID;
	/* Older ACKs count as duplicates as well, although their blocks are not kept. */
	if (AW_UNLIKELY(s->n_sack || a->n_sack || a->sack_flags >= AW_SACK_DUPLICATE)) {
		if (!s->n_sack)
			a->sack_flags &= AW_SACK_DUPLICATE - 1;
		a->n_sack = s->n_sack > AW_SACK_BLOCKS ? AW_SACK_BLOCKS : s->n_sack;
		for (i = 0; i < 2 * AW_SACK_BLOCKS; i++)
			a->sack[i] = s->sack[i];
		for (i = 0; i < AW_SACK_BLOCKS; i++) {
			if (i >= a->n_sack || !aw_after(s->sack[2 * i + 1], s->ack))
				continue;
			if (!(a->flags & AW_ACK_RECOVERING) ||
			    aw_after(s->sack[2 * i + 1], a->recover))
				a->recover = s->sack[2 * i + 1];
			a->flags |= AW_ACK_RECOVERING;
		}
	}
	/* The ACK that ends loss recovery has been sent; the next ones may be thinned. */
	if (AW_LIKELY(!aw_recovering(a, d)))
		return;
	if ((a->flags & AW_ACK_RECOVERING) && aw_after_eq(s->ack, a->recover))
		a->flags &= ~AW_ACK_RECOVERING;
	/*
	 * A gap that widens at this very moment may be taken for closed. Its SACK
	 * blocks, or duplicates, then show that it is not.
	 */
	if (aw_token_out(a, d, AW_TOKEN_LOSS) && aw_after_eq(s->ack, d->recover))
		a->flags ^= AW_TOKEN_LOSS;
}

/*
 * Would a sender without SACK count s as a duplicate of the newest ACK received?
 * Other news that s may carry, such as a changed ECE, does not matter (RFC 5681 §2).
 */
AW_FN int aw_is_plain_duplicate(const struct aw_ack_state *a, const struct aw_handshake *h,
				const struct aw_seg *s)
{
	return s->ack == a->rcvd_ack && !s->payload && !s->n_sack &&
	       !(s->flags & (AW_TCP_SYN | AW_TCP_FIN | AW_TCP_RST)) &&
	       aw_wnd(h, s, 1) == a->rcvd_wnd;
}

/*
 * Must the held ACK be sent, unchanged, before s of the ACK direction? It must if s leaves
 * out anything that it says. Then the environment sends it, calls aw_flow_on_sent(), and
 * only then aw_flow_on_ack() with s. If it cannot be sent now, it leaves later, within D.
 */
AW_FN int aw_flow_releases(const struct aw_flow *f, const struct aw_seg *s)
{
	const struct aw_ack_state *a = &f->acks;

	if (AW_LIKELY(!(a->flags & AW_ACK_HOLDING) || !aw_leaves_out(a, s)))
		return 0;
	return (s->flags & AW_TCP_ACK) && aw_counts(a, &f->data, s) &&
	       aw_after_eq(s->ack, a->rcvd_ack);
}

/*
 * Takes the time of s, of the ACK direction, to within some milliseconds. If no ACK has
 * advanced for longer than an RTO, the sender was idle or had a timeout, and its ACKs are
 * again those of a start. A sender that is used to held ACKs has a longer RTO.
 */
AW_FN void aw_flow_clock(struct aw_flow *f, const struct aw_flow_cfg *c, const struct aw_seg *s,
			 aw_u64 now_us)
{
	aw_u32 rtt = aw_max(aw_flow_min_rtt(f), aw_rtt_sure(&f->rtt));
	aw_u32 rto = AW_RESTART_US + rtt + c->hold_max_us;
	struct aw_ack_state *a = &f->acks;
	aw_u32 now = aw_max((aw_u32)(now_us >> 10), 1);
	int is_late;

	if (!(s->flags & AW_TCP_ACK) || !aw_acceptable(&f->data, s))
		return;
	if ((a->flags & AW_ACK_VALID) && !aw_after(s->ack, a->rcvd_ack))
		return;
	is_late = a->advanced && aw_after(now, a->advanced + (rto >> 10));
	/* Nothing was sent from the recorded end for an RTO: the direction really ends here. */
	if (AW_UNLIKELY(aw_is_behind(a, s))) {
		if (!is_late || (a->flags & AW_ACK_HOLDING))
			return;
		a->end = s->seq;
	}
	if (is_late)
		a->started = 0; /* a pause */
	a->advanced = now;
}

/*
 * Called before the contract judges s, which has SACK blocks. Records whether there is a queue,
 * so that blocks may wait, and counts s if it repeats the number that was last sent. Both are
 * in memory, where the verifier does not follow each outcome.
 */
AW_SUBPROG int aw_flow_note_sack(struct aw_flow *f, const struct aw_seg *s, aw_u64 now_us)
{
	struct aw_ack_state *a;

	if (!f || !s) /* for the verifier */
		return 0;
	a = &f->acks;
	if (now_us && aw_flow_queue(f, now_us))
		a->sack_flags |= AW_SACK_WAITS;
	else
		a->sack_flags &= ~AW_SACK_WAITS;
	if ((a->flags & AW_ACK_VALID) && s->ack == a->sent_ack && !s->payload && !aw_is_dsack(s) &&
	    a->sack_flags < AW_SACK_REPAIRS)
		a->sack_flags += AW_SACK_DUPLICATE;
	return 1;
}

/*
 * Called before s is recorded as the newest. Counts its leading blocks, up to the last one
 * that no sent ACK has reported. The first block is the newest (RFC 2018 §4).
 */
AW_SUBPROG int aw_flow_note_unsent(struct aw_flow *f, const struct aw_seg *s)
{
	struct aw_ack_state *a;
	aw_u32 i, j, unsent = 0;

	if (!f || !s) /* for the verifier */
		return 0;
	a = &f->acks;
	for (i = 0; i < AW_SACK_BLOCKS; i++) {
		aw_u32 sent = 0;

		if (i >= s->n_sack)
			break;
		for (j = 0; j < AW_SACK_BLOCKS; j++)
			if (j >= aw_sack_unsent(a) && j < a->n_sack)
				sent |= aw_after_eq(s->sack[2 * i], a->sack[2 * j]) &
					aw_after_eq(a->sack[2 * j + 1], s->sack[2 * i + 1]);
		if (!sent)
			unsent = i + 1;
	}
	a->sack_flags &= ~AW_SACK_UNSENT_MASK;
	a->sack_flags |= (aw_u8)(unsent * AW_SACK_UNSENT);
	return 1;
}

/* Decides whether a segment of the ACK direction, not a SYN, is sent or held. */
AW_FN void aw_flow_on_ack(struct aw_flow *f, const struct aw_flow_cfg *c, const struct aw_seg *s,
			  aw_u64 now_us, struct aw_decision *out)
{
	struct aw_ack_state *a = &f->acks;
	enum aw_reason why;
	struct aw_verdict v;
	struct aw_event *e = &out->event;
	int counts;

	if (now_us) /* else the environment has called it */
		aw_flow_clock(f, c, s, now_us);
	counts = aw_counts(a, &f->data, s);
	/* Without a clock the current RTT is not known. */
	if (AW_UNLIKELY(s->n_sack) && counts)
		aw_flow_note_sack(f, s, aw_flow_reads_time(c) ? now_us : 0);
	why = aw_contract(a, &f->data, &f->hs, s);
	if (AW_LIKELY(counts) && (s->opts & AW_OPT_TS))
		aw_rtt_on_ack(&f->rtt, a, &f->data, s, now_us);
	out->kind = AW_SEND;
	out->reason = why;
	out->flags = 0;
	out->hold_us = 0;
	/* Without the flag the acknowledgment number means nothing (RFC 9293 §3.1). */
	if (AW_UNLIKELY(!(s->flags & AW_TCP_ACK) || !counts))
		return;
	a->end = aw_seg_end(s);
	if (a->flags & AW_ACK_HOLDING) {
		/* With a number at least as high, s says all that the held ACK says. */
		if (aw_after_eq(s->ack, a->rcvd_ack))
			out->flags = AW_DEC_SUPERSEDES;
		if (aw_is_plain_duplicate(a, &f->hs, s))
			out->flags |= AW_DEC_TWICE;
	}

	aw_flow_event(f, c, AW_EV_ACK, now_us, e);
	if (why != AW_R_HELD)
		e->flags |= AW_A_MUST_SEND;
	if (aw_recovering(a, &f->data))
		e->flags |= AW_A_RECOVERY;
	if (a->flags & AW_ACK_HOLDING)
		e->flags |= AW_A_HOLDING;
	e->flags |= aw_flow_shared(f, e);
	if (f->busy)
		e->flags |= AW_A_BUSY;
	if ((a->flags & AW_ACK_VALID) && aw_after(s->ack, a->sent_ack)) {
		aw_u32 mss = e->mss ? e->mss : AW_MSS_DEFAULT;

		e->bytes = s->ack - a->sent_ack;
		e->segments = aw_div32(e->bytes + mss - 1, mss);
	}
	e->len = s->len;
	AW_REREAD();
	v = aw_policy_step(&f->policy, &c->policy, e);

	out->reason = why;
	if (why == AW_R_HELD && v.kind == AW_SEND)
		out->reason = AW_R_POLICY;
	if (why == AW_R_HELD && v.kind == AW_DROP)
		out->reason = AW_R_DROPPED;
	if (why != AW_R_HELD || v.kind == AW_SEND) {
		out->kind = AW_SEND;
		aw_flow_note_sent(f, s, now_us);
		if (aw_after_eq(s->ack, a->rcvd_ack)) {
			a->flags &= ~AW_ACK_HOLDING;
			a->sack_flags &= ~AW_SACK_UNSENT_MASK;
		}
	} else {
		out->kind = v.kind;
		out->hold_us = v.hold_us ? aw_min(v.hold_us, e->hold_us) : e->hold_us;
		out->flags = 0;
		a->flags |= AW_ACK_HOLDING;
		if (AW_UNLIKELY(s->n_sack))
			aw_flow_note_unsent(f, s);
	}
	aw_flow_note_rcvd(f, s);
}

#endif
