/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Sends arbitrary segments through a flow, and checks it against an independent
 * statement of the contract: given everything seen so far, is there any news in this
 * ACK? Abort if there is and it was withheld. Every withheld ACK must be accounted for:
 * replaced by an ACK that says at least as much, released before one that does not, or
 * sent at the deadline (which the input chooses). "As much" is all that an ACK says:
 * number, ECE, the counters of AccECN, SACK blocks, timestamps. A number that was never
 * sent may change nothing, and neither may that of a segment that its receiver drops as
 * old.
 *
 * Input: byte 0 the policy and its greed, byte 1 what the handshake says and whether the
 * flow is past its start, bytes 2-5 the first sequence number; then operations of 4 bytes,
 * as in step(). LLVMFuzzerCustomMutator() changes whole operations.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ackwise/flow.h"
#include "dice.h"

#define MSS 1000u

/* What an observer of the segments knows. */
struct notes {
	/* What the two SYNs offered: RFC 7323 §2.2, §2.3. */
	int syns, scaled;
	uint32_t scale; /* shift count of the ACK sender's windows, 14 at most */
	/* Round trip of the handshake, us; 0: its last segment was not seen. */
	uint32_t handshake_rtt;
	int echoed;	      /* data came after an ACK with timestamps left */
	int stamped;	      /* an ACK with timestamps left */
	int any;	      /* an ACK was seen */
	struct aw_seg newest; /* the last one with the highest acknowledgment */
	/* For CE, ECT(0), ECT(1): the last count reported, and which counts changed then. */
	uint32_t counted[3];
	int moved[3];
	uint32_t sent_ack; /* highest that left */
	uint32_t sent_wnd, sent_right_edge;
	int sent_any;
	uint32_t start_acked; /* segments acknowledged by what left since a start */
	uint64_t advanced_us; /* when the number last grew */
	int advanced_any;
	int accecn;
	uint32_t high; /* data */
	int high_any;
	uint32_t own; /* the ACKs' own direction: what comes next */
	/* Must be acknowledged before thinning continues: according to data, and to SACK. */
	uint32_t repair, sack_repair;
	int broken, sack_broken;
	uint32_t duplicates; /* with blocks, since the last ACK without */
	uint32_t sack_owed;  /* leading blocks of the held one, up to the last one that no sent ACK
			      * has reported */
	int holding;
	struct aw_seg held;
};

struct run {
	struct aw_flow flow;
	struct aw_flow_cfg cfg;
	struct aw_handshake hs;
	struct notes n;
	uint32_t tsval;
	int stamps; /* both sides use timestamps */
	uint64_t now;
};

static void fail(const char *what)
{
	fprintf(stderr, "contract: %s\n", what);
	abort();
}

/* Two numbers that are 2^31 apart are neither before nor after each other. */
static int before(uint32_t a, uint32_t b)
{
	return a != b && b - a < 0x80000000u;
}

static int at_or_after(uint32_t a, uint32_t b)
{
	return a == b || before(b, a);
}

/* The window of s, bytes; as on the wire if the SYNs were not seen. */
static uint32_t window(const struct run *r, const struct aw_seg *s)
{
	return (uint32_t)s->window * (r->n.scaled ? 1u << r->n.scale : 1u);
}

/*
 * D, us: a quarter of the RTT, at least 1 ms and at most 25 ms. An RTT that is not known is
 * assumed to be 4 ms.
 */
static uint32_t longest_hold(const struct run *r)
{
	uint32_t rtt = 4000, d;

	if (r->n.echoed && aw_flow_min_rtt(&r->flow))
		rtt = aw_flow_min_rtt(&r->flow);
	else if (r->n.handshake_rtt)
		rtt = r->n.handshake_rtt;
	d = rtt / 4;
	return d < 1000 ? 1000 : d > 25000 ? 25000 : d;
}

/* The counters of AccECN's option in s, CE first; ~0 is absent. */
static void counters(const struct aw_seg *s, uint32_t out[3])
{
	int bearing = s->opts & AW_OPT_ACCECN;

	out[0] = bearing ? s->ce_bytes : ~0u;
	out[1] = bearing ? s->e0_bytes : ~0u;
	out[2] = bearing ? s->e1_bytes : ~0u;
}

/* Does s report or acknowledge each of the `first` leading blocks of the older ACK? */
static int covers(const struct aw_seg *s, const struct aw_seg *older, uint32_t first)
{
	uint32_t i, j;

	for (i = 0; i < first; i++) {
		uint32_t left = older->sack[2 * i], right = older->sack[2 * i + 1];

		for (j = 0; j < s->n_sack; j++)
			if (!before(left, s->sack[2 * j]) && !before(s->sack[2 * j + 1], right))
				break;
		if (j == s->n_sack && before(s->ack, right))
			return 0;
	}
	return 1;
}

/* The number of leading blocks of s, up to the last one that no sent ACK has reported. */
static uint32_t owes(const struct notes *n, const struct aw_seg *s)
{
	uint32_t i, j, owed = 0;

	for (i = 0; i < s->n_sack; i++) {
		for (j = n->sack_owed; j < n->newest.n_sack; j++)
			if (!before(s->sack[2 * i], n->newest.sack[2 * j]) &&
			    !before(n->newest.sack[2 * j + 1], s->sack[2 * i + 1]))
				break;
		if (j >= n->newest.n_sack)
			owed = i + 1;
	}
	return owed;
}

/* Something that the older ACK says and the sender does not hear if only s arrives, or NULL. */
static const char *says_less(const struct run *r, const struct aw_seg *s,
			     const struct aw_seg *older)
{
	uint32_t was[3], is[3];
	int i;

	if (!(s->flags & AW_TCP_ACK) || before(s->ack, older->ack))
		return "the number";
	if (!r->n.accecn && ((s->flags ^ older->flags) & AW_TCP_ECE))
		return "ECE of the bytes that it covers";
	if ((older->opts & AW_OPT_ACCECN) && !(s->opts & AW_OPT_ACCECN))
		return "AccECN's option";
	counters(older, was);
	counters(s, is);
	for (i = 0; i < 3; i++)
		if (was[i] != ~0u && is[i] == ~0u)
			return "a counter of AccECN";
	if (!covers(s, older, r->n.sack_owed))
		return "a SACK block that was not sent";
	if ((older->opts & AW_OPT_TS) && (!(s->opts & AW_OPT_TS) || before(s->tsval, older->tsval)))
		return "all of it: the sender drops the newer one by its timestamps";
	return NULL;
}

/* Something that s says, or leaves out, other than the newest ACK before it; or NULL. */
static const char *news(const struct run *r, const struct aw_seg *s)
{
	const struct notes *n = &r->n;
	const struct aw_seg *p = &n->newest;
	int changed = 0;
	uint32_t i, j, now[3], wnd = window(r, s), mss = r->flow.data.mss ? r->flow.data.mss : 536;

	if (!(s->flags & AW_TCP_ACK))
		return "no ACK flag";
	if (s->flags &
	    (AW_TCP_SYN | AW_TCP_FIN | AW_TCP_RST | AW_TCP_URG | AW_TCP_PSH | AW_TCP_RESERVED))
		return "a flag";
	if (s->payload)
		return "payload";
	if (s->opts & (AW_OPT_UNKNOWN | AW_OPT_MSS | AW_OPT_WSCALE | AW_OPT_SACK_OK))
		return "an option";
	if (s->ip_ecn == 3)
		return "a CE mark";
	if (n->high_any && before(n->high, s->ack))
		return "a number that was never sent";
	if (!n->any || !n->sent_any)
		return "the first of its flow";
	if (before(s->ack, p->ack))
		return "an old one";
	if ((s->flags ^ p->flags) & (AW_TCP_ECE | AW_TCP_CWR | AW_TCP_AE))
		return "ECN";
	counters(s, now);
	if (now[0] != ~0u && now[0] != n->counted[0])
		return "an AccECN counter";
	for (i = 1; i < 3; i++)
		if (now[i] != ~0u && now[i] != n->counted[i] && !n->moved[i])
			return "another ECT codepoint";
	for (i = 0; i < s->n_sack; i++) {
		uint32_t left = s->sack[2 * i], right = s->sack[2 * i + 1];

		if (!before(s->ack, left))
			return "a DSACK below";
		for (j = 0; j < p->n_sack; j++)
			if (p->sack[2 * j] == left && p->sack[2 * j + 1] == right)
				break;
		changed |= j == p->n_sack;
	}
	if (changed && n->duplicates < 3)
		return "a duplicate that starts a repair";
	if (changed && !aw_flow_queue(&r->flow, r->now))
		return "a SACK block";
	if (s->ack == p->ack && !changed)
		return "a duplicate or a window update";
	if (s->n_sack > 1 && !before(s->sack[0], s->sack[2]) && !before(s->sack[3], s->sack[1]))
		return "a DSACK above";
	if ((n->broken || n->sack_broken) && !s->n_sack)
		return "data is missing";
	if (p->n_sack && !s->n_sack)
		return "the last hole is closed";
	if (!(s->opts & AW_OPT_TS) != !(p->opts & AW_OPT_TS))
		return "timestamps come or go";
	if ((s->opts & AW_OPT_TS) && before(s->tsval, p->tsval))
		return "timestamps run backwards";
	if (n->syns) {
		uint32_t unit = n->scaled ? 1u << n->scale : 1u, edge = s->ack + wnd;

		if (before(edge + unit, p->ack + window(r, p)))
			return "the window shrinks";
		if (before(n->sent_right_edge, edge) && n->sent_wnd < 2 * mss)
			return "the window opens from near zero";
		if (before(n->sent_right_edge, edge) && n->high_any &&
		    before(n->sent_right_edge, n->high + 2 * mss))
			return "the window opens for a sender near its end";
		if (before(n->sent_right_edge, edge) && r->flow.data.limited &&
		    !before(edge, n->sent_right_edge + n->sent_wnd / 32))
			return "the window opens for a sender that fills it";
	} else if (wnd < window(r, p) || (wnd && !n->sent_wnd)) {
		return "a window of unknown scale shrinks or opens";
	}
	if (n->start_acked < 10)
		return "the start";
	if (n->accecn && now[0] == ~0u && s->ack - n->sent_ack > 4 * mss)
		return "more than ACE can count";
	return NULL;
}

/* Does s count as a duplicate at a sender that already has its number? */
static int is_duplicate(const struct aw_seg *s)
{
	if (!s->n_sack || s->payload || !before(s->ack, s->sack[0]))
		return 0;
	return !(s->n_sack > 1 && !before(s->sack[0], s->sack[2]) &&
		 !before(s->sack[3], s->sack[1]));
}

static void left(struct run *r, const struct aw_seg *s)
{
	struct notes *n = &r->n;

	if (!(s->flags & AW_TCP_ACK))
		return;
	/* An older ACK may be echoed as well. */
	n->stamped |= s->opts & AW_OPT_TS;
	if (n->sent_any && !at_or_after(s->ack, n->sent_ack))
		return;
	if (n->sent_any && n->start_acked < 10 && !n->broken && !n->sack_broken) {
		uint32_t mss = r->flow.data.mss ? r->flow.data.mss : 536;

		n->start_acked += (s->ack - n->sent_ack) / mss + !!((s->ack - n->sent_ack) % mss);
	}
	n->duplicates += n->sent_any && s->ack == n->sent_ack && is_duplicate(s);
	n->sent_any = 1;
	n->sent_ack = s->ack;
	n->sent_wnd = window(r, s);
	n->sent_right_edge = s->ack + n->sent_wnd;
}

static void seen(struct run *r, const struct aw_seg *s)
{
	struct notes *n = &r->n;
	uint32_t i, now[3];
	int moved = 0;

	if (!(s->flags & AW_TCP_ACK))
		return;
	n->own = s->seq + s->payload + !!(s->flags & AW_TCP_FIN);
	if (n->any && before(s->ack, n->newest.ack))
		return;
	if (!s->n_sack)
		n->duplicates = 0;
	n->any = 1;
	n->newest = *s;
	counters(s, now);
	for (i = 0; i < 3; i++)
		moved |= now[i] != ~0u && now[i] != n->counted[i];
	for (i = 0; moved && i < 3; i++) {
		n->moved[i] = now[i] != ~0u && now[i] != n->counted[i];
		if (now[i] != ~0u)
			n->counted[i] = now[i];
	}
	if ((s->opts & AW_OPT_ACCECN) || (!s->payload && (s->flags & AW_TCP_AE)))
		n->accecn = 1;
	for (i = 0; i < s->n_sack; i++)
		if (before(s->ack, s->sack[2 * i + 1])) {
			if (!n->sack_broken || before(n->sack_repair, s->sack[2 * i + 1]))
				n->sack_repair = s->sack[2 * i + 1];
			n->sack_broken = 1;
		}
	if (n->sack_broken && !before(s->ack, n->sack_repair))
		n->sack_broken = 0;
	if (n->broken && !before(s->ack, n->repair))
		n->broken = 0;
}

/* The deadline of the held ACK, or its release. */
static void deadline(struct run *r)
{
	struct notes *n = &r->n;

	if (!n->holding)
		return;
	n->holding = 0;
	n->sack_owed = 0;
	aw_flow_on_sent(&r->flow, &r->cfg, &n->held, r->now);
	left(r, &n->held);
}

/* A pause longer than an RTO is a new start. */
static void note_pause(struct run *r, const struct aw_seg *s)
{
	struct notes *n = &r->n;
	uint64_t rtt = aw_flow_min_rtt(&r->flow), sure = aw_rtt_sure(&r->flow.rtt);
	uint64_t rto = 200000 + (sure > rtt ? sure : rtt) + r->cfg.hold_max_us;

	if (!(s->flags & AW_TCP_ACK) || (n->any && !before(n->newest.ack, s->ack)))
		return;
	/* The flow counts in units of 1024 us. */
	if (n->advanced_any && r->now - n->advanced_us > rto + 2048)
		n->start_acked = 0;
	n->advanced_any = 1;
	n->advanced_us = r->now;
}

/* Has no ACK advanced for longer than an RTO? In the flow's units of 1024 us. */
static int is_late(const struct run *r)
{
	uint64_t rtt = aw_flow_min_rtt(&r->flow), sure = aw_rtt_sure(&r->flow.rtt);
	uint64_t rto = 200000 + (sure > rtt ? sure : rtt) + r->cfg.hold_max_us;
	uint32_t now = (uint32_t)(r->now >> 10), then = (uint32_t)(r->n.advanced_us >> 10);

	return r->n.advanced_any &&
	       before((then ? then : 1) + (uint32_t)(rto >> 10), now ? now : 1);
}

/*
 * Does the receiver of s already have everything in s, so that it drops it? Not if only such
 * segments came for an RTO: then the end of that direction was not where it seemed to be.
 */
static int is_old(const struct run *r, const struct aw_seg *s)
{
	uint32_t length = s->payload + !!(s->flags & AW_TCP_FIN);
	uint32_t beyond = r->n.own - (s->seq + length);

	if (!r->n.any || (beyond == 0 && length == 0))
		return 0;
	if (length ? beyond >= 0x1000000u : beyond > 0x1000000u)
		return 0;
	return !((s->flags & AW_TCP_ACK) && before(r->n.newest.ack, s->ack) && is_late(r) &&
		 !r->n.holding);
}

/* A number that was never sent, or that nobody reads: s passes, and changes no state. */
static void unacceptable(struct run *r, const struct aw_seg *s)
{
	struct aw_flow was = r->flow;
	struct aw_decision d;

	if (aw_flow_releases(&r->flow, s))
		fail("a number that says nothing releases the held ACK");
	aw_flow_on_ack(&r->flow, &r->cfg, s, r->now, &d);
	if (d.kind != AW_SEND || d.flags)
		fail("a number that says nothing supersedes");
	if (memcmp(&was, &r->flow, sizeof(was)))
		fail("a number that says nothing is remembered");
}

/* Would a sender count s as a duplicate of the older one (RFC 5681 §2)? */
static int duplicates(const struct run *r, const struct aw_seg *s, const struct aw_seg *older)
{
	return s->ack == older->ack && !s->payload && !s->n_sack &&
	       !(s->flags & (AW_TCP_SYN | AW_TCP_FIN | AW_TCP_RST)) &&
	       window(r, s) == window(r, older);
}

static void on_ack(struct run *r, const struct aw_seg *s)
{
	struct notes *n = &r->n;
	const char *why, *less;
	struct aw_decision d;

	if ((n->high_any && before(n->high, s->ack)) || is_old(r, s)) {
		unacceptable(r, s);
		return;
	}
	if (aw_flow_releases(&r->flow, s)) {
		if (!n->holding)
			fail("nothing is held to be released");
		if (!says_less(r, s, &n->held))
			fail("the held ACK is released before one that says as much");
		if (before(s->ack, n->held.ack))
			fail("the held ACK is released before an older one");
		deadline(r);
	}
	note_pause(r, s);
	why = news(r, s);
	aw_flow_on_ack(&r->flow, &r->cfg, s, r->now, &d);
	if (d.kind != AW_SEND && d.kind != AW_HOLD)
		fail("a verdict that this environment did not offer");
	if (d.reason >= AW_REASON_COUNT)
		fail("no reason");
	if ((d.kind == AW_HOLD) != (d.reason == AW_R_HELD))
		fail("the reason is another than the verdict");
	if (d.kind == AW_HOLD) {
		if (why)
			fail(why);
		if (!d.hold_us || d.hold_us > longest_hold(r))
			fail("held longer than D");
		less = n->holding ? says_less(r, s, &n->held) : NULL;
		if (less) {
			fprintf(stderr, "contract: the held ACK says more: %s\n", less);
			abort();
		}
		n->holding = 1;
		n->held = *s;
		n->sack_owed = owes(n, s);
	} else {
		if ((d.flags & AW_DEC_SUPERSEDES) && n->holding) {
			less = says_less(r, s, &n->held);
			if (less) {
				fprintf(stderr, "contract: what is given up says more: %s\n", less);
				abort();
			}
			if (duplicates(r, s, &n->held) && !(d.flags & AW_DEC_TWICE))
				fail("the sender counts one duplicate too few");
			n->holding = 0;
			n->sack_owed = 0;
		}
		if ((d.flags & AW_DEC_TWICE) && !(d.flags & AW_DEC_SUPERSEDES))
			fail("twice, but the original leaves as well");
		left(r, s);
	}
	seen(r, s);
}

static void blank(struct aw_seg *s)
{
	memset(s, 0, sizeof(*s));
	s->ip_version = 4;
	s->ttl = 64;
	s->ce_bytes = s->e0_bytes = s->e1_bytes = ~0u;
	s->flags = AW_TCP_ACK;
}

static void stamp(const struct run *r, struct aw_seg *s)
{
	s->opts |= r->stamps ? AW_OPT_TS : 0;
	s->tsval = r->tsval;
}

/* Data: in order, after a hole, or sent again. */
static void step_data(struct run *r, const uint8_t *b, uint32_t high)
{
	struct notes *n = &r->n;
	struct aw_seg s;
	uint32_t end;

	blank(&s);
	s.seq = high;
	if (b[1] & 1)
		s.seq += (b[1] >> 1 & 7) * MSS;
	else if (b[1] & 2)
		s.seq -= (b[1] >> 2 & 15) * MSS / 2;
	s.payload = b[2] & 1 ? MSS : b[2] * 16u;
	stamp(r, &s);
	s.tsecr = r->tsval - (b[3] & 3);
	s.ip_ecn = b[2] & 2 ? 3 : 0;
	s.window = 1000;
	if ((b[0] & 0x3c) == 0x3c)
		s.flags |= AW_TCP_FIN;
	aw_flow_on_data(&r->flow, &r->cfg, &s, 1 + (b[0] >> 6), r->now);
	n->echoed |= n->stamped && s.payload && (s.opts & AW_OPT_TS);
	if (!s.payload) {
		if ((s.flags & AW_TCP_FIN) && n->high_any && s.seq == high)
			n->high++;
		return;
	}
	end = s.seq + s.payload + !!(s.flags & AW_TCP_FIN);
	if (n->high_any && s.seq != high && !(s.payload == 1 && s.seq + 1 == high)) {
		if (before(high, end))
			n->high = end;
		if (before(high, s.seq) || !n->broken || before(n->repair, end))
			n->repair = n->high;
		n->broken = 1;
	} else if (before(high, end)) {
		n->high = end;
	}
	if (!n->high_any)
		n->high = end;
	n->high_any = 1;
}

/* Blocks of SACK: above the cumulative ACK, inside one another, below it. */
static void blocks(struct aw_seg *s, uint8_t b)
{
	uint32_t i;

	s->n_sack = 1 + (b & 3);
	for (i = 0; i < s->n_sack; i++) {
		uint32_t at = s->ack + ((b >> 2 & 7) + 2 * i) * MSS;

		s->sack[2 * i] = at - (b >> 6 & 1) * 4 * MSS;
		s->sack[2 * i + 1] = s->sack[2 * i] + MSS * (1 + (b >> 7));
	}
}

/* Gives s one thing that an ordinary ACK does not have. */
static void make_special(struct aw_seg *s, const struct aw_seg *newest, const uint8_t *b)
{
	switch (b[0] >> 2 & 15) {
	case 0:
		s->flags ^= (aw_u16)(1u << (b[2] % 12));
		break;
	case 1:
		s->payload = b[2];
		break;
	case 2:
		s->opts ^= AW_OPT_TS;
		break;
	case 3:
		s->opts |= (aw_u16)(1u << (b[2] % 7) & ~AW_OPT_SACK);
		break;
	case 4:
		s->ip_ecn = b[2] & 3;
		break;
	case 5:
		s->tsval -= b[2];
		break;
	case 6:
		s->opts |= AW_OPT_ACCECN;
		s->ce_bytes = b[2] & 0x80 ? ~0u : b[2] >> 4 & 1;
		s->e0_bytes = b[2] & 0x40 ? ~0u : b[2] >> 2 & 3;
		s->e1_bytes = b[2] & 0x20 ? ~0u : b[2] & 3;
		break;
	case 7: /* the blocks as before, or nearly */
		s->opts |= AW_OPT_SACK;
		s->n_sack = newest->n_sack;
		memcpy(s->sack, newest->sack, sizeof(s->sack));
		if (b[2] & 1) /* but the first has grown */
			s->sack[1] += MSS;
		/* The hole before it is closed in part. */
		if (s->n_sack && !before(s->ack, s->sack[0]))
			s->ack = newest->ack + (s->sack[0] - newest->ack) / 2;
		break;
	case 8: /* a retransmission, in part or whole, or a jump */
		s->payload = (b[2] & 15) * 16;
		s->seq += (b[2] & 0x80 ? 0x1800000u : 4u) * ((b[2] >> 4 & 7) - 4u);
		s->seq -= s->payload;
		break;
	default:
		blocks(s, b[2]);
	}
	if (s->n_sack)
		s->opts |= AW_OPT_SACK;
	else
		s->opts &= ~AW_OPT_SACK;
}

/* An ACK that mostly continues as before, or one with something special. */
static void step_ack(struct run *r, const uint8_t *b, uint32_t base, uint32_t high)
{
	struct notes *n = &r->n;
	struct aw_seg s;

	blank(&s);
	s.seq = n->own;
	s.ack = (n->any ? n->newest.ack : base) + (b[1] & 15) * (MSS / 2);
	if (b[1] & 0x80)
		s.ack -= 4 * MSS;
	/* Only rarely a number that was never sent. */
	if (!(b[1] & 0x20) && n->high_any && before(high, s.ack))
		s.ack = high;
	s.window = n->any ? n->newest.window : 20000;
	stamp(r, &s);
	s.flags |= n->any ? n->newest.flags & (AW_TCP_ECE | AW_TCP_CWR | AW_TCP_AE) : 0;
	if (b[1] & 0x40)
		s.window = (aw_u16)(b[2] * (b[2] & 1 ? 8 : 200));
	if ((b[0] & 3) == 2)
		make_special(&s, &n->newest, b);
	on_ack(r, &s);
}

static void step(struct run *r, const uint8_t *b, uint32_t base)
{
	uint32_t high = r->n.high_any ? r->n.high : base;

	r->now += b[3] * 37u;
	r->tsval += b[3] >> 4;
	switch (b[0] & 3) {
	case 0:
		step_data(r, b, high);
		break;
	case 1:
	case 2:
		step_ack(r, b, base, high);
		break;
	default:
		r->now += (b[1] & 7) * 64000u;
		deadline(r);
	}
}

/* RFC 9768, Table 2: which answers to a SYN that requests AccECN grant it. */
static int grants(unsigned ae, unsigned cwr, unsigned ece)
{
	static const int accurate[2][2][2] = { { { 0, 0 }, { 1, 1 } }, { { 1, 0 }, { 1, 0 } } };

	return accurate[ae][cwr][ece];
}

/* Both SYNs, and perhaps the segment that ends the handshake. */
static void handshake(struct run *r, const uint8_t *data)
{
	uint32_t scale = (data[1] >> 3 & 14) | (data[2] & 1), first = data[3] * 100, last;
	struct notes *n = &r->n;
	struct aw_seg syn;

	blank(&syn);
	syn.flags = AW_TCP_SYN;
	syn.opts = AW_OPT_MSS | AW_OPT_WSCALE;
	syn.mss = MSS;
	syn.wscale = (aw_u8)scale;
	if (data[1] & 2)
		syn.flags |= AW_TCP_AE | AW_TCP_CWR | AW_TCP_ECE;
	aw_handshake_on_segment(&r->hs, &syn, data[2] >> 1 & 1, r->now);
	syn.flags = AW_TCP_SYN | AW_TCP_ACK;
	if (data[1] & 8) /* as a granting server answers */
		syn.flags |= AW_TCP_CWR;
	else
		syn.flags |= (aw_u16)(data[4] & 7) << 6;
	if (data[1] & 4)
		syn.opts &= ~AW_OPT_WSCALE;
	aw_handshake_on_segment(&r->hs, &syn, !(data[2] >> 1 & 1), r->now + first);
	n->accecn = (data[1] & 2) && grants(!!(syn.flags & AW_TCP_AE), !!(syn.flags & AW_TCP_CWR),
					    !!(syn.flags & AW_TCP_ECE));
	if (!(r->hs.flags & AW_HS_ACCECN) != !n->accecn)
		fail("AccECN is in use, or not, against RFC 9768, Table 2");
	n->syns = 1;
	n->scaled = !(data[1] & 4);
	n->scale = scale > 14 ? 14 : scale;
	if (n->scaled && (r->hs.wscale[0] != n->scale || r->hs.wscale[1] != n->scale))
		fail("another scale than the SYNs offered, 14 at most (RFC 7323 §2.3)");
	if (data[2] & 4) {
		last = first + data[5] * 200;
		syn.flags = AW_TCP_ACK;
		syn.opts = 0;
		aw_handshake_on_segment(&r->hs, &syn, 1, r->now + last);
		/* The server's segment closes nothing. */
		if (data[2] >> 1 & 1)
			n->handshake_rtt = last;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	/* A segment in order, and an ACK of it that leaves. */
	static const uint8_t ordinary[2][4] = { { 0, 0, 1, 1 }, { 1, 2, 0, 1 } };
	static struct run r;
	uint32_t base, i;
	size_t at;

	if (size < 10)
		return 0;
	memset(&r, 0, sizeof(r));
	r.cfg.policy.policy = data[0] % AW_POLICIES;
	r.cfg.hold_max_us = AW_HOLD_MAX_US;
	r.cfg.hold_min_us = AW_HOLD_MIN_US;
	r.cfg.hold_rtt_shift = AW_HOLD_RTT_SHIFT;
	/* Arbitrary values, as from a broken loader: a policy may err, the contract may not. */
	for (at = 0; at < AW_PARAMS; at++)
		r.cfg.policy.param[at] = data[0] & 0x80 ? data[2 + at % 4] * (at + 1) : 0;
	if (data[0] & 0x40) { /* the greediest policy */
		r.cfg.policy.policy = AW_POLICY_EVERY_N;
		r.cfg.policy.param[AW_EVERY_N_n] = 1000000;
		r.cfg.policy.param[AW_EVERY_N_warm] = 0;
	}
	base = (uint32_t)data[2] << 24 | (uint32_t)data[3] << 16 | (uint32_t)data[4] << 8 | data[5];
	r.now = ((uint64_t)data[5] << 26) + 1; /* 0 is a time that was not read */
	r.stamps = !(data[2] & 8);
	if (data[1] & 1)
		handshake(&r, data);
	aw_flow_init(&r.flow, data[1] & 1 ? &r.hs : NULL, r.now);
	/* After the start most ACKs can be withheld. */
	for (i = 0; i < (data[1] & 0x80 ? 24 : 0); i++)
		step(&r, ordinary[i & 1], base);
	for (at = 6; at + 4 <= size; at += 4)
		step(&r, data + at, base);
	deadline(&r);
	return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned int seed);

/* Inserts, repeats, removes or changes one operation, and leaves the others as they are. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned int seed)
{
	struct dice dice = { seed | 1 };
	size_t ops, at;
	uint8_t op[4];
	int i;

	if (size < 10 || roll(&dice, 3) == 0)
		return LLVMFuzzerMutate(data, size, max);
	if (roll(&dice, 12) == 0) {
		data[roll(&dice, 6)] = (uint8_t)roll(&dice, 256);
		return size;
	}
	ops = (size - 6) / 4;
	at = 6 + 4 * roll(&dice, (uint32_t)ops + 1);
	if (at + 4 > size || roll(&dice, 2)) { /* one more */
		if (6 + 4 * ops + 4 > max)
			return size;
		for (i = 0; i < 4; i++)
			op[i] = (uint8_t)roll(&dice, 256);
		if (roll(&dice, 2)) /* data, ACKs, SACK blocks, the same blocks or nearly */
			op[0] = (uint8_t[]){ 0, 1, 8 << 2 | 2, 7 << 2 | 2 }[roll(&dice, 4)];
		op[3] = roll(&dice, 4) ? op[3] & 31 : op[3]; /* mostly soon */
		if (roll(&dice, 4) == 0)
			memcpy(op, data + 6 + 4 * roll(&dice, (uint32_t)ops), 4);
		memmove(data + at + 4, data + at, 6 + 4 * ops - at);
		memcpy(data + at, op, 4);
		return 6 + 4 * ops + 4;
	}
	if (roll(&dice, 3) == 0 && ops > 1) { /* one less */
		memmove(data + at, data + at + 4, size - at - 4);
		return size - 4;
	}
	data[at + roll(&dice, 4)] = (uint8_t)roll(&dice, 256);
	return size;
}
