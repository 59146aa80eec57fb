/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * One flow as an environment keeps it: what the contract must remember, what a policy
 * may know (MSS, windows, RTT), and the policy's own state. "Data" travels from
 * the data sender to the receiver; "ACKs" the other way. An environment shows every
 * segment of either direction, in the order in which it sees them:
 *
 *   SYNs, and the first segment after    aw_handshake_on_segment()
 *   the first pure ACK                   aw_flow_init()
 *   data direction                       aw_flow_on_data()
 *   ACK direction                        aw_flow_on_ack() -> what to do with it
 *   a held ACK left after all            aw_flow_on_sent()
 *
 * One segment of each direction may be shown at the same time, by an environment that
 * can do so, if aw_flow_data_alone() says so: then the data side writes data,
 * near_* and window_us, and the ACK side everything else.
 *
 * Clocks are slow. An environment whose clock is asks it only if aw_flow_data_wants_clock()
 * or aw_flow_ack_wants_clock() says so, and gives 0 for a time not asked: no probe
 * of the RTT begins or ends then, whatever the other side does meanwhile.
 */
#ifndef ACKWISE_FLOW_H
#define ACKWISE_FLOW_H

#include "contract.h"
#include "policy.h"
#include "tcp.h"

/* Of the whole attachment: the policy, and D = clamp(RTT >> shift, min, max). */
struct aw_flow_cfg {
	struct aw_cfg policy;
	aw_u32 hold_max_us;    /* no ACK is held longer; default 25 ms */
	aw_u32 hold_min_us;    /* below this a timer is no use; default 1 ms */
	aw_u32 hold_rtt_shift; /* default 2: a quarter of the RTT */
	aw_u32 reserved;
};

#define AW_HOLD_MAX_US 25000
#define AW_HOLD_MIN_US 1000
#define AW_HOLD_RTT_SHIFT 2
/* RTT unknown (no timestamps, handshake not seen): take it for a short one. */
#define AW_RTT_UNKNOWN_US 4000
/* A minimum is forgotten after this long: routes change. */
#define AW_RTT_WINDOW_US 10000000

enum aw_decision_flag {
	AW_DEC_SUPERSEDES = 1 << 0, /* a held ACK of the flow need not leave any more */
	AW_DEC_TWICE = 1 << 1,	    /* a plain duplicate whose original is still held: it must
				* leave twice, or the sender counts one dupACK too few */
};

/* What the environment must do with a segment of the ACK direction. */
struct aw_decision {
	aw_u32 kind;	/* enum aw_verdict_kind, contract applied */
	aw_u32 reason;	/* enum aw_reason */
	aw_u32 hold_us; /* with AW_HOLD */
	aw_u32 flags;	/* enum aw_decision_flag */
};

/*
 * Round-trip time from RFC 7323 timestamps, in the two legs that meet here:
 * "near" is ACK out -> data that echoes it, "far" data out -> ACK that echoes
 * it. At the receiver the far leg is its own delayed ACK, at the sender the near
 * leg is nothing; in between, the sum is the path. The far leg counts with its
 * minimum only, so that delayed ACKs do not look like distance.
 */
struct aw_rtt {
	/*
	 * What waits for its echo: tsval << 32 | when it passed. One word, so that
	 * the other side never sees half of it; should its token be seen before it, then
	 * the older word makes that one sample too long, never too short.
	 */
	aw_u64 near;		    /* an ACK */
	aw_u64 far;		    /* data */
	aw_u32 near_srtt;	    /* 0: no sample yet */
	aw_u32 near_min, far_min;   /* ~0: no sample yet */
	aw_u32 near_next, far_next; /* minima of the running window */
	aw_u32 window_us;	    /* when it began */
};

struct aw_flow {
	union aw_policy_state policy;
	struct aw_handshake hs;
	struct aw_data_state data;
	struct aw_ack_state acks;
	aw_u32 reserved;
	struct aw_rtt rtt;
};

AW_ASSERT(sizeof(struct aw_handshake) == 20, "aw_handshake");
AW_ASSERT(sizeof(struct aw_ack_state) == 76, "aw_ack_state");
AW_ASSERT(sizeof(struct aw_flow) == 224, "aw_flow");

/*
 * A SYN, a SYN-ACK, or the first segment that follows them, in either
 * direction: window scale, MSS, AccECN, and both legs of the first round trip.
 */
AW_FN void aw_handshake_on_segment(struct aw_handshake *h, const struct aw_seg *s, int acks,
				   aw_u64 now_us)
{
	aw_u32 now = (aw_u32)now_us;

	if (!(s->flags & AW_TCP_SYN)) {
		if (!(h->flags & AW_HS_DONE) && h->synack_us && (s->flags & AW_TCP_ACK)) {
			/* The client's ACK closes the second leg; the server's data does not. */
			if (h->syn_us)
				h->rtt_us = h->synack_us - h->syn_us + (now - h->synack_us);
			h->flags |= AW_HS_DONE;
		}
		return;
	}
	if (s->flags & AW_TCP_ACK) {
		h->synack_us = now ? now : 1;
	} else {
		/* A new connection on old ports; a retransmitted SYN restarts the clock. */
		h->flags = 0;
		h->mss = 0;
		h->rtt_us = 0;
		h->synack_us = 0;
		h->syn_us = now ? now : 1;
		/* RFC 9768 §3.1.1: AE, CWR and ECE all set on the SYN. */
		if ((s->flags & (AW_TCP_AE | AW_TCP_CWR | AW_TCP_ECE)) ==
		    (AW_TCP_AE | AW_TCP_CWR | AW_TCP_ECE))
			h->flags |= AW_HS_ACCECN;
	}
	h->flags |= acks ? AW_HS_SYN_ACKS : AW_HS_SYN_DATA;
	if (s->opts & AW_OPT_WSCALE) {
		h->flags |= acks ? AW_HS_WSCALE_ACKS : AW_HS_WSCALE_DATA;
		h->wscale[!!acks] = s->wscale > 14 ? 14 : s->wscale; /* RFC 7323 §2.3 */
	}
	if ((s->opts & AW_OPT_MSS) && (!h->mss || s->mss < h->mss))
		h->mss = s->mss;
}

/* A zeroed flow, with what the handshake told; hs may be NULL. */
AW_FN void aw_flow_init(struct aw_flow *f, const struct aw_handshake *hs, aw_u64 now_us)
{
	if (hs)
		f->hs = *hs;
	f->data.mss = f->hs.mss;
	f->acks.flags = f->hs.flags & AW_HS_ACCECN ? AW_ACK_ACCECN : 0;
	f->rtt.near_min = f->rtt.far_min = ~0u;
	f->rtt.near_next = f->rtt.far_next = ~0u;
	f->rtt.window_us = (aw_u32)now_us;
}

AW_FN aw_u32 aw_flow_min_rtt(const struct aw_flow *f)
{
	aw_u32 rtt = f->rtt.near_min;

	if (rtt == ~0u)
		return f->hs.flags & AW_HS_DONE ? f->hs.rtt_us : 0;
	if (f->rtt.far_min != ~0u)
		rtt += f->rtt.far_min;
	return rtt;
}

AW_FN aw_u32 aw_flow_srtt(const struct aw_flow *f)
{
	if (!f->rtt.near_srtt)
		return f->hs.flags & AW_HS_DONE ? f->hs.rtt_us : 0;
	return f->rtt.near_srtt + (f->rtt.far_min != ~0u ? f->rtt.far_min : 0);
}

/* D for this flow now. */
AW_FN aw_u32 aw_flow_hold_us(const struct aw_flow *f, const struct aw_flow_cfg *c)
{
	aw_u32 rtt = aw_flow_min_rtt(f);
	aw_u32 hold = (rtt ? rtt : AW_RTT_UNKNOWN_US) >> (c->hold_rtt_shift & 31);

	return aw_min(aw_max(hold, c->hold_min_us), c->hold_max_us);
}

AW_FN void aw_rtt_window(struct aw_rtt *r, aw_u32 now)
{
	if (now - r->window_us < AW_RTT_WINDOW_US)
		return;
	if (r->near_next != ~0u)
		r->near_min = r->near_next;
	if (r->far_next != ~0u)
		r->far_min = r->far_next;
	r->near_next = r->far_next = ~0u;
	r->window_us = now;
}

AW_FN int aw_flow_waits(const struct aw_flow *f, enum aw_token which)
{
	return (f->acks.flags ^ f->data.flags) & which;
}

/* Does data with timestamps answer the near probe? */
AW_FN int aw_near_due(const struct aw_flow *f, const struct aw_seg *s)
{
	return aw_flow_waits(f, AW_TOKEN_NEAR) &&
	       aw_after_eq(s->tsecr, (aw_u32)(*(const volatile aw_u64 *)&f->rtt.near >> 32));
}

/*
 * A far probe goes with each near sample, when the time is asked for anyway: once
 * per round trip. Only the first one does not wait for it.
 */
AW_FN int aw_far_due(const struct aw_flow *f)
{
	return f->rtt.far_min == ~0u && !aw_flow_waits(f, AW_TOKEN_FAR);
}

AW_FN void aw_rtt_near_sample(struct aw_flow *f, aw_u32 now)
{
	struct aw_rtt *r = &f->rtt;
	aw_u32 us = aw_max(now - (aw_u32) * (volatile aw_u64 *)&r->near, 1);

	f->data.flags ^= AW_TOKEN_NEAR;
	r->near_min = aw_min(r->near_min, us);
	r->near_next = aw_min(r->near_next, us);
	/* A sender with nothing to send echoes late: that is not the path. */
	if (r->near_srtt)
		us = aw_min(us, 4 * r->near_srtt);
	/* A gain of 1/2: one sample a round trip, where RFC 6298's 1/8 has many. */
	r->near_srtt = r->near_srtt ? (r->near_srtt >> 1) + (us >> 1) : us;
	aw_rtt_window(r, now);
}

AW_FN void aw_rtt_on_data(struct aw_flow *f, const struct aw_seg *s, aw_u64 now_us)
{
	aw_u32 now = (aw_u32)now_us;
	int near = aw_near_due(f, s);

	if (AW_LIKELY(!now_us || (!near && !aw_far_due(f))))
		return;
	if (near)
		aw_rtt_near_sample(f, now);
	if (!aw_flow_waits(f, AW_TOKEN_FAR)) {
		*(volatile aw_u64 *)&f->rtt.far = (aw_u64)s->tsval << 32 | now;
		f->data.flags ^= AW_TOKEN_FAR;
	}
}

/* Does an ACK with timestamps answer the far probe? */
AW_FN int aw_far_answered(const struct aw_flow *f, const struct aw_seg *s)
{
	return aw_flow_waits(f, AW_TOKEN_FAR) &&
	       aw_after_eq(s->tsecr, (aw_u32)(*(const volatile aw_u64 *)&f->rtt.far >> 32));
}

AW_FN void aw_rtt_on_ack(struct aw_flow *f, const struct aw_seg *s, aw_u64 now_us)
{
	struct aw_rtt *r = &f->rtt;
	aw_u32 us;

	if (AW_LIKELY(!now_us || !aw_far_answered(f, s)))
		return;
	us = (aw_u32)now_us - (aw_u32) * (volatile aw_u64 *)&r->far;
	f->acks.flags ^= AW_TOKEN_FAR;
	r->far_min = aw_min(r->far_min, us);
	r->far_next = aw_min(r->far_next, us);
}

/* enum aw_capability: what a policy needs of its environment. */
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

/* Without a policy that sees data, its side needs no lock; see above. */
AW_FN int aw_flow_data_alone(const struct aw_flow_cfg *c)
{
	return !(aw_policy_needs(c->policy.policy) & AW_CAP_SEE_DATA);
}

AW_FN int aw_flow_reads_time(const struct aw_flow_cfg *c)
{
	return !!(aw_policy_needs(c->policy.policy) & AW_READS_TIME);
}

/* If this says no, aw_flow_on_data() does not look at the time. */
AW_FN int aw_flow_data_wants_clock(const struct aw_flow *f, const struct aw_flow_cfg *c,
				   const struct aw_seg *s)
{
	if (!aw_flow_data_alone(c) && aw_flow_reads_time(c))
		return 1;
	return s->payload && (s->opts & AW_OPT_TS) && (aw_near_due(f, s) || aw_far_due(f));
}

/* If this says no, aw_flow_on_ack() does not look at the time. */
AW_FN int aw_flow_ack_wants_clock(const struct aw_flow *f, const struct aw_flow_cfg *c,
				  const struct aw_seg *s)
{
	if (aw_flow_reads_time(c))
		return 1;
	/* It may be the next near probe, if it leaves. */
	return (s->opts & AW_OPT_TS) && (!aw_flow_waits(f, AW_TOKEN_NEAR) || aw_far_answered(f, s));
}

/* An event with what the environment knows of the flow. */
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
	e->srtt_us = aw_flow_srtt(f);
	e->hold_us = aw_flow_hold_us(f, c);
}

/* Initial TTLs in use are 64, 128 and 255. */
AW_FN aw_u32 aw_hops(aw_u32 ttl)
{
	return (ttl <= 64 ? 64 : ttl <= 128 ? 128 : 255) - ttl + 1;
}

/* Where in the data it lies; enum aw_event_flag. */
AW_FN aw_u32 aw_flow_data_order(struct aw_flow *f, const struct aw_seg *s)
{
	struct aw_data_state *d = &f->data;
	aw_u32 end = s->seq + s->payload;

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
		if (!aw_flow_waits(f, AW_TOKEN_LOSS))
			d->flags ^= AW_TOKEN_LOSS;
		return AW_D_OUT_OF_ORDER;
	}
	if (s->payload == 1 && s->seq + 1 == d->high) /* a keep-alive */
		return 0;
	if (aw_after(end, d->high))
		d->high = end;
	/*
	 * Old data again: the receiver answers at once, the sender is repairing. All
	 * that it has sent is then its RecoveryPoint (RFC 6675 §5). Old data above it is
	 * another loss.
	 */
	if (!aw_flow_waits(f, AW_TOKEN_LOSS)) {
		d->recover = d->high;
		d->flags ^= AW_TOKEN_LOSS;
	} else if (aw_after(end, d->recover)) {
		d->recover = d->high;
	}
	return AW_D_FILLS_GAP;
}

/*
 * Everything that arrives from the data sender: its data, and its pure ACKs. Two
 * at the same time, without a lock, are as good as reordered.
 */
AW_FN void aw_flow_on_data(struct aw_flow *f, const struct aw_flow_cfg *c, const struct aw_seg *s,
			   aw_u32 segments, aw_u64 now_us)
{
	struct aw_data_state *d = &f->data;
	aw_u32 mss = d->mss, each = s->payload, flags;
	struct aw_event e;

	d->wnd = aw_wnd(&f->hs, s, 0);
	if (!s->payload)
		return;
	if (s->opts & AW_OPT_TS)
		aw_rtt_on_data(f, s, now_us);
	/*
	 * A full segment: the largest of late, so that a smaller path MTU shows. A byte
	 * at least, or it would never come nearer than 127.
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
	/* What it got from here was marked: as long as no data go there, ACKs. */
	if (s->flags & AW_TCP_ECE)
		e.flags |= AW_D_ACK_CE_ECHO;
	aw_policy_step(&f->policy, &c->policy, &e);
}

/* What leaves starts a new count, and may be the one whose echo is timed. */
AW_FN void aw_flow_note_sent(struct aw_flow *f, const struct aw_seg *s, aw_u64 now_us)
{
	struct aw_ack_state *a = &f->acks;

	if (!(a->flags & AW_ACK_VALID) || aw_after_eq(s->ack, a->sent_ack)) {
		aw_u32 mss = f->data.mss ? f->data.mss : AW_MSS_DEFAULT;

		if (a->started < AW_START_SEGMENTS && (a->flags & AW_ACK_VALID))
			a->started += aw_min(aw_div32(s->ack - a->sent_ack + mss - 1, mss),
					     AW_START_SEGMENTS);
		a->sent_ack = s->ack;
		a->sent_wnd = aw_wnd(&f->hs, s, 1);
		a->sent_right_edge = s->ack + a->sent_wnd;
	}
	if (now_us && (s->opts & AW_OPT_TS) && !aw_flow_waits(f, AW_TOKEN_NEAR)) {
		*(volatile aw_u64 *)&f->rtt.near = (aw_u64)s->tsval << 32 | (aw_u32)now_us;
		a->flags ^= AW_TOKEN_NEAR;
	}
}

/*
 * A held ACK, or one this environment had no means to hold, left after all. s is that
 * ACK; a newer one may be held by now.
 */
AW_FN void aw_flow_on_sent(struct aw_flow *f, const struct aw_flow_cfg *c, const struct aw_seg *s,
			   aw_u64 now_us)
{
	struct aw_event e;

	aw_flow_note_sent(f, s, now_us);
	if (!aw_after(f->acks.rcvd_ack, s->ack))
		f->acks.flags &= ~AW_ACK_HOLDING;
	aw_flow_event(f, c, AW_EV_DEADLINE, now_us, &e);
	e.len = s->len;
	aw_policy_step(&f->policy, &c->policy, &e);
}

/* Remember it as the newest seen, whether it leaves or not. */
AW_FN void aw_flow_note_rcvd(struct aw_flow *f, const struct aw_seg *s)
{
	struct aw_ack_state *a = &f->acks;
	struct aw_data_state *d = &f->data;
	aw_u32 i;

	if ((a->flags & AW_ACK_VALID) && aw_after(a->rcvd_ack, s->ack))
		return; /* overtaken by a newer one: says nothing about now */
	a->rcvd_ack = s->ack;
	a->rcvd_wnd = aw_wnd(&f->hs, s, 1);
	a->rcvd_right_edge = s->ack + a->rcvd_wnd;
	a->ecn = s->flags & (AW_TCP_ECE | AW_TCP_CWR | AW_TCP_AE);
	/* ACE counts from 5: AE or CWR without ECE on pure ACKs is AccECN. */
	if (!s->payload && (a->ecn & AW_TCP_AE))
		a->flags |= AW_ACK_ACCECN;
	if (s->opts & AW_OPT_ACCECN)
		a->ce_bytes = s->ce_bytes;
	if (s->opts & AW_OPT_TS) {
		a->tsval = s->tsval;
		a->flags |= AW_ACK_TS;
	} else {
		a->flags &= ~AW_ACK_TS;
	}
	a->flags |= AW_ACK_VALID;
	if (AW_UNLIKELY(s->n_sack || a->n_sack)) {
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
	/* Repaired: the ACK that says so has left, the next ones may be thinned. */
	if (AW_LIKELY(!aw_recovering(a, d)))
		return;
	if ((a->flags & AW_ACK_RECOVERING) && aw_after_eq(s->ack, a->recover))
		a->flags &= ~AW_ACK_RECOVERING;
	/* A gap that widens at this very moment may be taken for repaired: then its
	 * SACK blocks, or duplicates, say so. */
	if (aw_flow_waits(f, AW_TOKEN_LOSS) && aw_after_eq(s->ack, d->recover))
		a->flags ^= AW_TOKEN_LOSS;
}

/*
 * Would a sender without SACK count it as a duplicate of the newest seen? Other
 * news it may carry, such as a changed ECE, does not matter here (RFC 5681 §2).
 */
AW_FN int aw_is_plain_duplicate(const struct aw_ack_state *a, const struct aw_handshake *h,
				const struct aw_seg *s)
{
	return s->ack == a->rcvd_ack && !s->payload && !s->n_sack &&
	       !(s->flags & (AW_TCP_SYN | AW_TCP_FIN | AW_TCP_RST)) &&
	       aw_wnd(h, s, 1) == a->rcvd_wnd;
}

/* A segment of the ACK direction, not a SYN: leave, or be held? */
AW_FN void aw_flow_on_ack(struct aw_flow *f, const struct aw_flow_cfg *c, const struct aw_seg *s,
			  aw_u64 now_us, struct aw_decision *out)
{
	struct aw_ack_state *a = &f->acks;
	enum aw_reason why = aw_contract(a, &f->data, &f->hs, s);
	struct aw_verdict v;
	struct aw_event e;

	if (s->opts & AW_OPT_TS)
		aw_rtt_on_ack(f, s, now_us);
	out->kind = AW_SEND;
	out->reason = why;
	out->flags = 0;
	out->hold_us = 0;
	/* Without the flag the acknowledgment number means nothing (RFC 9293 §3.1). */
	if (AW_UNLIKELY(!(s->flags & AW_TCP_ACK)))
		return;
	if (a->flags & AW_ACK_HOLDING) {
		/* Anything that leaves with a number at least as high carries its news. */
		if (aw_after_eq(s->ack, a->rcvd_ack))
			out->flags = AW_DEC_SUPERSEDES;
		if (aw_is_plain_duplicate(a, &f->hs, s))
			out->flags |= AW_DEC_TWICE;
	}

	aw_flow_event(f, c, AW_EV_ACK, now_us, &e);
	if (why != AW_R_HELD)
		e.flags |= AW_A_MUST_SEND;
	if (aw_recovering(a, &f->data))
		e.flags |= AW_A_RECOVERY;
	if (a->flags & AW_ACK_HOLDING)
		e.flags |= AW_A_HOLDING;
	if ((a->flags & AW_ACK_VALID) && aw_after(s->ack, a->sent_ack)) {
		aw_u32 mss = e.mss ? e.mss : AW_MSS_DEFAULT;

		e.bytes = s->ack - a->sent_ack;
		e.segments = aw_div32(e.bytes + mss - 1, mss);
	}
	e.len = s->len;
	v = aw_policy_step(&f->policy, &c->policy, &e);

	out->reason = why;
	if (why == AW_R_HELD && v.kind == AW_SEND)
		out->reason = AW_R_POLICY;
	if (why == AW_R_HELD && v.kind == AW_DROP)
		out->reason = AW_R_DROPPED;
	if (why != AW_R_HELD || v.kind == AW_SEND) {
		out->kind = AW_SEND;
		aw_flow_note_sent(f, s, now_us);
		if (aw_after_eq(s->ack, a->rcvd_ack))
			a->flags &= ~AW_ACK_HOLDING;
	} else {
		out->kind = v.kind;
		out->hold_us = v.hold_us ? aw_min(v.hold_us, e.hold_us) : e.hold_us;
		out->flags = 0;
		a->flags |= AW_ACK_HOLDING;
	}
	aw_flow_note_rcvd(f, s);
}

#endif
