/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The ACK contract: may this ACK be withheld, and if not, why not?
 *
 * An ACK is withheld if it is not sent now, and is either superseded by a later
 * ACK of its flow that is sent, or sent by itself within the bound D. It may be
 * withheld only if a later ACK says everything that it says, and if the sender
 * loses nothing by hearing it late. Each rule below is a case where that fails.
 *
 * Every environment asks aw_contract(), and no policy can overrule it.
 */
#ifndef ACKWISE_CONTRACT_H
#define ACKWISE_CONTRACT_H

#include "handshake.h"

/* AW_REASON(IDENT, "name", what it means). Only the first two withhold. */
#define AW_REASONS(AW_REASON) \
	AW_REASON(HELD, "held", "withheld, the newest of its flow kept until D") \
	AW_REASON(DROPPED, "dropped", "withheld, a newer one is known to follow") \
	AW_REASON(POLICY, "policy", "the policy let it out") \
	AW_REASON(NOT_ACK, "not-ack", "no ACK flag") \
	AW_REASON(PAYLOAD, "payload", "carries data") \
	AW_REASON(FLAGS, "flags", "SYN, FIN, RST, URG, PSH or a reserved bit") \
	AW_REASON(OPTION, "option", "a TCP option that is not understood here") \
	AW_REASON(FIRST, "first", "the first ACK of its flow") \
	AW_REASON(START, "start", "the flow starts: the sender needs every sample") \
	AW_REASON(DUPLICATE, "duplicate", \
		  "acknowledges nothing new: a dupACK or a probe's answer") \
	AW_REASON(WINDOW_UPDATE, "window-update", "same acknowledgment, other window") \
	AW_REASON(OLD, "old", "acknowledges less than an earlier one") \
	AW_REASON(SACK, "sack", "a new or changed SACK block, or a DSACK") \
	AW_REASON(RECOVERY, "recovery", "a loss or a reordering is not repaired yet") \
	AW_REASON(ECN, "ecn", "ECE, CWR or the AccECN counter changed, or a CE mark") \
	AW_REASON(ACE_WRAP, "ace-wrap", "more segments than the 3-bit AccECN counter is safe for") \
	AW_REASON(SHRINK, "window-shrinks", "the window's right edge moved back") \
	AW_REASON(OPEN, "window-opens", "the window opens from zero or for a sender at its end") \
	AW_REASON(TIMESTAMP, "timestamp", "timestamps appeared, vanished or ran backwards") \
	AW_REASON(NO_HOLD, "no-hold", "there is no room or time to hold it: fail open") \
	AW_REASON(UNACCEPTABLE, "unacceptable", "acknowledges what was never sent, or is old")

enum aw_reason {
#define AW_REASON(IDENT, name, what) AW_R_##IDENT,
	AW_REASONS(AW_REASON)
#undef AW_REASON
	AW_REASON_COUNT
};

/* No thinning before this many segments were acknowledged: IW10, RFC 6928. */
#define AW_START_SEGMENTS 10
/* A retransmission begins no further back than a window; few are larger. */
#define AW_BEHIND_BYTES 0x1000000U
/*
 * RFC 9768 §3.2.2.5: a sender that sees more than this many packets newly
 * acknowledged must assume that the 3-bit ACE field may have wrapped.
 */
#define AW_ACE_SAFE_SEGMENTS 4
/*
 * RFC 5681 §4.1: a sender that was idle for longer than its RTO starts again with a small
 * window; after a timeout as well (§3.1). Linux' RTO is at least this above the RTT that it
 * measures.
 */
#define AW_RESTART_US 200000
/* "Near zero": a window that no two full segments fit into (RFC 9293 §3.8.6.2). */
#define AW_NEAR_ZERO_SEGMENTS 2
/*
 * Of a sender that fills its window, an ACK that opens this part of it is news. It takes
 * that part of an RTT until so much has arrived: throughput falls by 1/32 at most.
 */
#define AW_LIMITED_SHARE_SHIFT 5
/* It fills its window if less than this part of it was free an RTT later. */
#define AW_LIMITED_FREE_SHIFT 3
#define AW_MSS_DEFAULT 536 /* RFC 9293 §3.7.1, until a segment or an option tells */

/**
 * struct aw_ack_state - the ACK direction: what was received, and what was sent on
 * @rcvd_ack: newest acknowledgment number received
 * @sent_ack: newest acknowledgment number sent
 * @rcvd_right_edge: right edge of the newest window received, if scaled
 * @sent_right_edge: right edge of the newest window sent, if scaled
 * @rcvd_wnd: newest window received, bytes; as on the wire if the scale is not known
 * @sent_wnd: newest window sent, in the same unit
 * @tsval: timestamp of the newest received, with AW_ACK_TS
 * @ce_bytes: AccECN's counter of CE-marked bytes, as last reported
 * @e0_bytes: that of bytes with ECT(0)
 * @e1_bytes: that of bytes with ECT(1)
 * @started: segments acknowledged by what was sent since the sender started or started
 *	again, up to AW_START_SEGMENTS; none are counted during a recovery
 * @sack_flags: enum aw_sack_flag, and a count of duplicates
 * @accecn: enum aw_accecn_field of the newest received
 * @moved: those of EE0B and EE1B that the last report with a change changed
 * @recover: with AW_ACK_RECOVERING: all below must be acknowledged first
 * @advanced: when an ACK acknowledged more than those before, units of 1024 us; 0: never
 * @probe_edge: right edge that was sent before the near probe of the RTT (rtt.h)
 * @end: end of the newest segment of this direction that counted
 * @ecn: ECE, CWR and AE of the newest received
 * @n_sack: blocks in @sack
 * @flags: enum aw_ack_flag, enum aw_token
 * @sack: SACK blocks of the newest received: left edge, right edge
 */
struct aw_ack_state {
	aw_u32 rcvd_ack;
	aw_u32 sent_ack;
	aw_u32 rcvd_right_edge;
	aw_u32 sent_right_edge;
	aw_u32 rcvd_wnd;
	aw_u32 sent_wnd;
	aw_u32 tsval;
	aw_u32 ce_bytes;
	aw_u32 e0_bytes;
	aw_u32 e1_bytes;
	aw_u8 started;
	aw_u8 sack_flags;
	aw_u8 accecn;
	aw_u8 moved;
	aw_u32 recover;
	aw_u32 advanced;
	aw_u32 probe_edge;
	aw_u32 end;
	aw_u16 ecn;
	aw_u8 n_sack;
	aw_u8 flags;
	aw_u32 sack[2 * AW_SACK_BLOCKS];
};

AW_ASSERT(sizeof(struct aw_ack_state) == 96, "aw_ack_state");

enum aw_ack_flag {
	AW_ACK_VALID = 1 << 0,	 /* an ACK was received */
	AW_ACK_TS = 1 << 1,	 /* the newest received has timestamps */
	AW_ACK_HOLDING = 1 << 2, /* the newest received is withheld */
	AW_ACK_ACCECN = 1 << 3,	 /* the flow uses AccECN: by its handshake, or by its ACKs */
	/* SACK blocks report a hole that is not closed. From bit 5 on: enum aw_token. */
	AW_ACK_RECOVERING = 1 << 4,
};

enum aw_sack_flag {
	AW_SACK_WAITS = 1 << 0, /* a queue stands, so that blocks that changed may wait */
	/* Bits 1 to 3: so many blocks, from the first on, of the ACK that is withheld say what
	 * was not sent yet. */
	AW_SACK_UNSENT = 1 << 1,
	AW_SACK_UNSENT_MASK = 7 << 1,
	/* From bit 4 on: duplicates with blocks since the last ACK without any. */
	AW_SACK_DUPLICATE = 1 << 4,
	AW_SACK_REPAIRS = 4 << 4, /* one more than starts a repair: RFC 5681 §3.2 */
};

/*
 * What one side starts and the other ends: a bit in the flags of both, that each
 * turns over in its own copy. It goes on while they differ.
 */
enum aw_token {
	AW_TOKEN_NEAR = 1 << 5, /* a near probe of the RTT is in flight; see rtt.h */
	AW_TOKEN_FAR = 1 << 6,	/* a far one is */
	AW_TOKEN_LOSS = 1 << 7, /* the data side saw a gap that is not acknowledged yet */
};

/**
 * struct aw_data_state - the data direction
 * @high: end of the highest segment received
 * @recover: with AW_TOKEN_LOSS: all below must be acknowledged first
 * @mss: payload of a full segment, bytes; 0 if none was received
 * @wnd: the window that the data sender itself advertises, bytes
 * @valid: not 0 once data were received
 * @flags: enum aw_token
 * @limited: the sender fills the window that it is given; not 0: as of the last near
 *	probe of the RTT (rtt.h), so only with timestamps
 * @reserved: 0
 *
 * Each side writes only its own half and reads the other's, so that a data
 * segment need not lock out the ACKs.
 */
struct aw_data_state {
	aw_u32 high;
	aw_u32 recover;
	aw_u32 mss;
	aw_u32 wnd;
	aw_u8 valid;
	aw_u8 flags;
	aw_u8 limited;
	aw_u8 reserved;
};

/* Has one side started what the other has not ended yet? */
AW_FN int aw_token_out(const struct aw_ack_state *a, const struct aw_data_state *d,
		       enum aw_token which)
{
	return (a->flags ^ d->flags) & which;
}

/* Is a loss or a reordering not repaired yet, as either side saw it? */
AW_FN int aw_recovering(const struct aw_ack_state *a, const struct aw_data_state *d)
{
	return (a->flags & AW_ACK_RECOVERING) | aw_token_out(a, d, AW_TOKEN_LOSS);
}

/*
 * Can it be an ACK of what the sender sent? If not, the sender drops it (RFC 9293
 * §3.10.7.4, RFC 5961 §5), and its number stands for nothing.
 */
AW_FN int aw_acceptable(const struct aw_data_state *d, const struct aw_seg *s)
{
	return !d->valid || !aw_after(s->ack, d->high);
}

/* The end of a segment that is no SYN, in its own direction. */
AW_FN aw_u32 aw_seg_end(const struct aw_seg *s)
{
	return s->seq + s->payload + !!(s->flags & AW_TCP_FIN);
}

/*
 * Does s bring nothing new in its own direction: a probe of a closed window or of a silent
 * connection, or a part that is sent again? Who has all that drops it, and does not look at
 * its number (RFC 9293 §3.10.7.4). A pure ACK ends where its direction does. What is further
 * back than any such follows a jump ahead that was none.
 */
AW_FN int aw_is_behind(const struct aw_ack_state *a, const struct aw_seg *s)
{
	aw_u32 end = aw_seg_end(s), pure = end == s->seq;

	return (a->flags & AW_ACK_VALID) && a->end - end - pure < AW_BEHIND_BYTES;
}

/*
 * Does the number of s stand for something: can it be an ACK of what the sender sent, and
 * does the sender look at it?
 */
AW_FN int aw_counts(const struct aw_ack_state *a, const struct aw_data_state *d,
		    const struct aw_seg *s)
{
	return aw_acceptable(d, s) && !aw_is_behind(a, s);
}

/* What of AccECN's option an ACK carries. */
enum aw_accecn_field {
	AW_ACCECN_CE = 1 << 0,
	AW_ACCECN_E0 = 1 << 1,
	AW_ACCECN_E1 = 1 << 2,
	AW_ACCECN_OPTION = 1 << 3, /* the option, though it may be empty */
};

AW_FN aw_u32 aw_accecn_fields(const struct aw_seg *s)
{
	if (AW_LIKELY(!(s->opts & AW_OPT_ACCECN)))
		return 0;
	return AW_ACCECN_OPTION | (s->ce_bytes != ~0U ? AW_ACCECN_CE : 0) |
	       (s->e0_bytes != ~0U ? AW_ACCECN_E0 : 0) | (s->e1_bytes != ~0U ? AW_ACCECN_E1 : 0);
}

/* Which of the counters in s, whose fields are given, differ from those last reported? */
AW_FN aw_u32 aw_accecn_moved(const struct aw_ack_state *a, const struct aw_seg *s, aw_u32 fields)
{
	aw_u32 moved = 0;

	if ((fields & AW_ACCECN_CE) && s->ce_bytes != a->ce_bytes)
		moved |= AW_ACCECN_CE;
	if ((fields & AW_ACCECN_E0) && s->e0_bytes != a->e0_bytes)
		moved |= AW_ACCECN_E0;
	if ((fields & AW_ACCECN_E1) && s->e1_bytes != a->e1_bytes)
		moved |= AW_ACCECN_E1;
	return moved;
}

/*
 * Does AccECN's option say what cannot wait? That CE marks came; or that packets came with
 * an ECT codepoint that those before had not: the receiver must tell both at once (RFC 9768
 * §3.2.3.3). A counter that goes on growing is cumulative, as the number is.
 */
AW_FN int aw_accecn_news(const struct aw_ack_state *a, const struct aw_seg *s)
{
	return aw_accecn_moved(a, s, aw_accecn_fields(s)) & ~(aw_u32)a->moved;
}

/* How many blocks of the newest ACK received, from the first on, were not sent yet? */
AW_FN aw_u32 aw_sack_unsent(const struct aw_ack_state *a)
{
	return (a->sack_flags & AW_SACK_UNSENT_MASK) / AW_SACK_UNSENT;
}

/* Does s acknowledge, or report as received, what the newest ACK's unsent blocks report? */
AW_SUBPROG int aw_sack_covers(const struct aw_ack_state *a, const struct aw_seg *s)
{
	aw_u32 i, j;

	if (!a || !s) /* what the verifier asks of a subprogram */
		return 0;
	for (i = 0; i < AW_SACK_BLOCKS; i++) {
		int covered = 0;

		if (i >= aw_sack_unsent(a))
			break;
		if (aw_after_eq(s->ack, a->sack[2 * i + 1]))
			continue;
		for (j = 0; j < AW_SACK_BLOCKS; j++)
			if (j < s->n_sack && aw_after_eq(a->sack[2 * i], s->sack[2 * j]) &&
			    aw_after_eq(s->sack[2 * j + 1], a->sack[2 * i + 1]))
				covered = 1;
		if (!covered)
			return 0;
	}
	return 1;
}

/* Is the first block a DSACK: below the cumulative acknowledgment, or in the second? */
AW_FN int aw_is_dsack(const struct aw_seg *s)
{
	if (!s->n_sack)
		return 0;
	if (!aw_after(s->sack[0], s->ack))
		return 1;
	return s->n_sack > 1 && aw_after_eq(s->sack[0], s->sack[2]) &&
	       aw_after_eq(s->sack[3], s->sack[1]);
}

/*
 * Does s leave out what the newest ACK received said, so that it cannot stand for it?
 * - Without AccECN, ECE speaks of the bytes that its ACK covers: by it DCTCP counts what
 *   was marked (RFC 8257 §3.2), and s would speak for the bytes of both.
 * - AccECN's option, or a counter in it, is not in s.
 * - It reported SACK blocks that were not sent yet, and s does not cover them.
 * - A sender with timestamps drops s if it has none, or older ones (RFC 7323 §3.2, §5).
 */
AW_FN int aw_leaves_out(const struct aw_ack_state *a, const struct aw_seg *s)
{
	if (!(a->flags & AW_ACK_ACCECN) && ((s->flags ^ a->ecn) & AW_TCP_ECE))
		return 1;
	if (a->accecn & ~aw_accecn_fields(s))
		return 1;
	if (AW_UNLIKELY(a->sack_flags & AW_SACK_UNSENT_MASK) && !aw_sack_covers(a, s))
		return 1;
	return (a->flags & AW_ACK_TS) && (!(s->opts & AW_OPT_TS) || aw_after(a->tsval, s->tsval));
}

/* What the SACK blocks of an ACK say beside those of the newest received. */
enum aw_sack_change {
	AW_SACK_SAME,	 /* nothing: each was reported */
	AW_SACK_CHANGED, /* a block grew, or is new and reports another hole */
	AW_SACK_DSACK,
};

AW_SUBPROG int aw_sack_change(const struct aw_ack_state *a, const struct aw_seg *s)
{
	enum aw_sack_change change = AW_SACK_SAME;
	aw_u32 i, j;

	if (!a || !s) /* as above */
		return AW_SACK_DSACK;
	/* DSACK of data above: the first block lies inside the second (RFC 2883 §4). */
	if (s->n_sack > 1 && aw_after_eq(s->sack[0], s->sack[2]) &&
	    aw_after_eq(s->sack[3], s->sack[1]))
		return AW_SACK_DSACK;
	for (i = 0; i < AW_SACK_BLOCKS; i++) {
		aw_u32 same = 0;

		if (i >= s->n_sack)
			break;
		/* DSACK: below the cumulative acknowledgment (RFC 2883 §4). */
		if (!aw_after(s->sack[2 * i], s->ack))
			return AW_SACK_DSACK;
		for (j = 0; j < AW_SACK_BLOCKS; j++) {
			if (j >= a->n_sack)
				break;
			same |= (s->sack[2 * i] == a->sack[2 * j]) &
				(s->sack[2 * i + 1] == a->sack[2 * j + 1]);
		}
		if (!same)
			change = AW_SACK_CHANGED;
	}
	return change;
}

/*
 * May blocks that changed wait? During a recovery each segment that arrives lets a block grow
 * or, behind a queue that overflows, begins another one, and where a queue stands those ACKs
 * alone can keep it standing. A later ACK that covers the blocks says as much (aw_leaves_out).
 * The first report of a loss is sent at once, and so are as many duplicates as start a repair
 * (RFC 5681 §3.2), for a sender that counts them although it has SACK.
 */
AW_FN int aw_sack_waits(const struct aw_ack_state *a, const struct aw_seg *s)
{
	return (a->sack_flags & AW_SACK_WAITS) && a->sack_flags >= AW_SACK_REPAIRS &&
	       aw_after_eq(s->ack, a->rcvd_ack);
}

/* Compares its window with those received and sent: AW_R_HELD if it says nothing new. */
AW_FN enum aw_reason aw_contract_window(const struct aw_ack_state *a, const struct aw_data_state *d,
					const struct aw_handshake *h, const struct aw_seg *s)
{
	aw_u32 wnd = aw_wnd(h, s, 1);
	aw_u32 mss = d->mss ? d->mss : AW_MSS_DEFAULT;
	aw_u32 near_zero = AW_NEAR_ZERO_SEGMENTS * mss;

	if (!aw_scale_known(h)) {
		/* Only the number on the wire is known: a change that could matter is sent. */
		if (wnd < a->rcvd_wnd)
			return AW_R_SHRINK;
		if (!a->sent_wnd || wnd >> 1 >= a->sent_wnd)
			return AW_R_OPEN;
		return AW_R_HELD;
	}
	/* Rounding to the scale may move the edge by less than one unit. */
	if (aw_after(a->rcvd_right_edge, s->ack + wnd + aw_wnd_unit(h, 1)))
		return AW_R_SHRINK;
	if (!aw_after(s->ack + wnd, a->sent_right_edge))
		return AW_R_HELD;
	if (a->sent_wnd < near_zero)
		return AW_R_OPEN;
	/* The sender has used up what it was given, and this gives it more. */
	if (d->valid && aw_after(d->high + near_zero, a->sent_right_edge))
		return AW_R_OPEN;
	/* It has, though the data are still on their way. */
	if (d->limited &&
	    !aw_after(a->sent_right_edge + (a->sent_wnd >> AW_LIMITED_SHARE_SHIFT), s->ack + wnd))
		return AW_R_OPEN;
	return AW_R_HELD;
}

/*
 * Returns AW_R_HELD if s may be withheld; anything else is why it must be sent now.
 * The caller has parsed s without error; what cannot be parsed is always sent.
 */
AW_SUBPROG enum aw_reason aw_contract(const struct aw_ack_state *a, const struct aw_data_state *d,
				      const struct aw_handshake *h, const struct aw_seg *s)
{
	int change = AW_SACK_SAME;
	enum aw_reason why;
	aw_u16 ecn;

	if (!a || !d || !h || !s) /* a verifier asks */
		return AW_R_NOT_ACK;
	ecn = s->flags & (AW_TCP_ECE | AW_TCP_CWR | AW_TCP_AE);
	if (AW_UNLIKELY(s->payload))
		return AW_R_PAYLOAD;
	if (AW_UNLIKELY((s->flags & ~ecn) != AW_TCP_ACK))
		return s->flags & AW_TCP_ACK ? AW_R_FLAGS : AW_R_NOT_ACK;
	if (AW_UNLIKELY(s->opts & ~(AW_OPT_TS | AW_OPT_SACK | AW_OPT_ACCECN)))
		return AW_R_OPTION;
	if (AW_UNLIKELY(!aw_counts(a, d, s)))
		return AW_R_UNACCEPTABLE;
	if (AW_UNLIKELY(!(a->flags & AW_ACK_VALID)))
		return AW_R_FIRST;
	/* The ECN feedback of the flow, and a mark on the ACK itself. */
	if (AW_UNLIKELY(ecn != a->ecn || s->ip_ecn == 3))
		return AW_R_ECN;
	if (AW_UNLIKELY((s->opts & AW_OPT_ACCECN) && aw_accecn_news(a, s)))
		return AW_R_ECN;
	if (AW_UNLIKELY(s->n_sack))
		change = aw_sack_change(a, s);
	if (AW_UNLIKELY(change != AW_SACK_SAME)) {
		if (change == AW_SACK_DSACK || !aw_sack_waits(a, s))
			return AW_R_SACK;
	} else if (AW_UNLIKELY(s->ack == a->rcvd_ack)) {
		return aw_wnd(h, s, 1) != a->rcvd_wnd ? AW_R_WINDOW_UPDATE : AW_R_DUPLICATE;
	}
	if (AW_UNLIKELY(!aw_after_eq(s->ack, a->rcvd_ack)))
		return AW_R_OLD;
	/*
	 * Until the loss is repaired every ACK is sent, but for one that moves forward
	 * and repeats blocks already reported: those alone can fill a thin uplink.
	 */
	if (AW_UNLIKELY((a->n_sack || aw_recovering(a, d)) && !s->n_sack))
		return AW_R_RECOVERY;
	if (AW_UNLIKELY(!!(s->opts & AW_OPT_TS) != !!(a->flags & AW_ACK_TS)))
		return AW_R_TIMESTAMP;
	if (AW_UNLIKELY((s->opts & AW_OPT_TS) && aw_after(a->tsval, s->tsval)))
		return AW_R_TIMESTAMP;
	why = aw_contract_window(a, d, h, s);
	if (AW_UNLIKELY(why != AW_R_HELD))
		return why;
	if (AW_UNLIKELY(a->started < AW_START_SEGMENTS))
		return AW_R_START;
	/*
	 * With a counter of 24 bits no wrap of the 3 bits matters (RFC 9768 §3.2.3). Without:
	 * the next one that is sent covers as much more as this one, and must be safe, too.
	 */
	if (AW_UNLIKELY((a->flags & AW_ACK_ACCECN) && !(aw_accecn_fields(s) & AW_ACCECN_CE) &&
			(s->ack - a->sent_ack) + (s->ack - a->rcvd_ack) >
				AW_ACE_SAFE_SEGMENTS * (d->mss ? d->mss : AW_MSS_DEFAULT)))
		return AW_R_ACE_WRAP;
	return AW_R_HELD;
}

#endif
