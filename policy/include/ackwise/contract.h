/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The ACK contract: may this ACK be withheld, and if not, why not?
 *
 * A withheld ACK is not sent now. Either a later ACK of its flow supersedes it, or
 * it is sent by itself within the bound D. An ACK may be withheld only if a later
 * one will tell the sender everything that it says, and if the sender loses nothing
 * by hearing it late. Each rule below is a case where that fails.
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

/* No thinning before this many segments have been acknowledged: IW10, RFC 6928. */
#define AW_START_SEGMENTS 10
/* A retransmission begins at most one window back, and few windows are larger than this. */
#define AW_BEHIND_BYTES 0x1000000U
/*
 * RFC 9768 §3.2.2.5: a sender that sees more than this many packets newly
 * acknowledged must assume that the 3-bit ACE field may have wrapped.
 */
#define AW_ACE_SAFE_SEGMENTS 4
/*
 * RFC 5681 §4.1: a sender that was idle for longer than its RTO restarts with a small
 * window, as it does after a timeout (§3.1). Linux's RTO exceeds the RTT that it measures by
 * at least this.
 */
#define AW_RESTART_US 200000
/* A window with room for fewer full segments than this is near zero (RFC 9293 §3.8.6.2). */
#define AW_NEAR_ZERO_SEGMENTS 2
/*
 * For a sender that fills its window, an ACK that opens the window by this fraction is
 * news. That much data arrives in this fraction of an RTT, so that throughput falls by 1/32
 * at most.
 */
#define AW_LIMITED_SHARE_SHIFT 5
/* A sender fills its window if at most this fraction of it is free an RTT later (rtt.h). */
#define AW_LIMITED_FREE_SHIFT 3
#define AW_MSS_DEFAULT 536 /* RFC 9293 §3.7.1, until a segment or an option gives it */

/**
 * struct aw_ack_state - the ACK direction: what was received, and what was sent on
 * @rcvd_ack: newest acknowledgment number received
 * @sent_ack: newest acknowledgment number sent
 * @rcvd_right_edge: right edge of the newest window received, if the scale is known
 * @sent_right_edge: right edge of the newest window sent, if the scale is known
 * @rcvd_wnd: newest window received, bytes; as on the wire if the scale is not known
 * @sent_wnd: newest window sent, in the same unit
 * @tsval: with AW_ACK_TS: timestamp of the newest ACK received
 * @ce_bytes: AccECN's counter of CE-marked bytes, as last reported
 * @e0_bytes: AccECN's counter of bytes with ECT(0), as last reported
 * @e1_bytes: AccECN's counter of bytes with ECT(1), as last reported
 * @started: segments acknowledged by the ACKs sent since the sender started or restarted,
 *	up to AW_START_SEGMENTS; none are counted during a recovery
 * @sack_flags: enum aw_sack_flag, and a count of duplicates
 * @accecn: enum aw_accecn_field of the newest ACK received
 * @moved: which of EE0B and EE1B changed in the last report that changed any counter
 * @recover: with AW_ACK_RECOVERING: the hole is closed when all below is acknowledged
 * @advanced: when an ACK last acknowledged more than those before, units of 1024 us; 0: never
 * @probe_edge: right edge of the window sent before the near probe of the RTT (rtt.h)
 * @end: end of the newest segment of this direction that aw_counts() accepted
 * @ecn: ECE, CWR and AE of the newest ACK received
 * @n_sack: blocks in @sack
 * @flags: enum aw_ack_flag, enum aw_token
 * @sack: SACK blocks of the newest ACK received: left edge, right edge
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
	AW_ACK_TS = 1 << 1,	 /* the newest ACK received has timestamps */
	AW_ACK_HOLDING = 1 << 2, /* the newest ACK received is withheld */
	AW_ACK_ACCECN = 1 << 3,	 /* the flow uses AccECN: by its handshake, or by its ACKs */
	/* SACK blocks reported a hole that is not closed yet. From bit 5 on: enum aw_token. */
	AW_ACK_RECOVERING = 1 << 4,
};

enum aw_sack_flag {
	AW_SACK_WAITS = 1 << 0, /* there is a standing queue: changed blocks may wait */
	/* Bits 1 to 3: the number of leading blocks of the withheld ACK, up to the last one that
	 * no sent ACK has reported. */
	AW_SACK_UNSENT = 1 << 1,
	AW_SACK_UNSENT_MASK = 7 << 1,
	/* From bit 4 on: a count of duplicates with blocks since the last ACK without blocks. */
	AW_SACK_DUPLICATE = 1 << 4,
	AW_SACK_REPAIRS = 4 << 4, /* one more than start a repair (RFC 5681 §3.2) */
};

/*
 * Conditions that one side starts and the other ends. Both sides have a bit for each in
 * their flags, and each side toggles its own; the condition holds while the two differ.
 */
enum aw_token {
	AW_TOKEN_NEAR = 1 << 5, /* a near probe of the RTT is in flight; see rtt.h */
	AW_TOKEN_FAR = 1 << 6,	/* a far probe of the RTT is in flight */
	AW_TOKEN_LOSS = 1 << 7, /* the data side saw a gap that is not acknowledged yet */
};

/**
 * struct aw_data_state - the data direction
 * @high: end of the highest segment received
 * @recover: with AW_TOKEN_LOSS: the gap is closed when all below is acknowledged
 * @mss: payload of a full segment, bytes; 0 if none was received
 * @wnd: the window that the data sender itself advertises; bytes if the scale is known
 * @valid: not 0 once data have been received
 * @flags: enum aw_token
 * @limited: not 0 if the sender filled its window at the last near probe of the RTT
 *	(rtt.h); found only with timestamps
 * @reserved: 0
 *
 * Each side writes only its own state and reads the other's, so that a data
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

/* Does the condition `which` hold: started by one side, and not ended by the other yet? */
AW_FN int aw_token_out(const struct aw_ack_state *a, const struct aw_data_state *d,
		       enum aw_token which)
{
	return (a->flags ^ d->flags) & which;
}

/* Has either side seen a loss or a reordering that is not repaired yet? */
AW_FN int aw_recovering(const struct aw_ack_state *a, const struct aw_data_state *d)
{
	return (a->flags & AW_ACK_RECOVERING) | aw_token_out(a, d, AW_TOKEN_LOSS);
}

/*
 * Can s be an ACK of data that were sent? If not, the sender drops it (RFC 9293
 * §3.10.7.4, RFC 5961 §5), and its number must be ignored.
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
 * Is s old in its own direction: a zero-window probe, a keep-alive or a retransmission? A
 * receiver that already has these data drops it without reading its acknowledgment number
 * (RFC 9293 §3.10.7.4). A pure ACK at the end of its direction is not old. Neither is s if it
 * is further back: then the recorded end came from a sequence number that jumped ahead.
 */
AW_FN int aw_is_behind(const struct aw_ack_state *a, const struct aw_seg *s)
{
	aw_u32 end = aw_seg_end(s), pure = end == s->seq;

	return (a->flags & AW_ACK_VALID) && a->end - end - pure < AW_BEHIND_BYTES;
}

/*
 * Does the acknowledgment number of s count: can s be an ACK of data that were sent, and
 * does the sender read it?
 */
AW_FN int aw_counts(const struct aw_ack_state *a, const struct aw_data_state *d,
		    const struct aw_seg *s)
{
	return aw_acceptable(d, s) && !aw_is_behind(a, s);
}

/* The parts of AccECN's option that an ACK carries. */
enum aw_accecn_field {
	AW_ACCECN_CE = 1 << 0,
	AW_ACCECN_E0 = 1 << 1,
	AW_ACCECN_E1 = 1 << 2,
	AW_ACCECN_OPTION = 1 << 3, /* the option itself, which may be empty */
};

AW_FN aw_u32 aw_accecn_fields(const struct aw_seg *s)
{
	if (AW_LIKELY(!(s->opts & AW_OPT_ACCECN)))
		return 0;
	return AW_ACCECN_OPTION | (s->ce_bytes != ~0U ? AW_ACCECN_CE : 0) |
	       (s->e0_bytes != ~0U ? AW_ACCECN_E0 : 0) | (s->e1_bytes != ~0U ? AW_ACCECN_E1 : 0);
}

/* Which counters of s, among the given fields, differ from those last reported? */
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
 * Does AccECN's option carry news that cannot wait: CE marks, or packets with another ECT
 * codepoint than those before? The receiver must report both at once (RFC 9768 §3.2.3.3). A
 * counter that merely continues to grow is cumulative, like the acknowledgment number.
 */
AW_FN int aw_accecn_news(const struct aw_ack_state *a, const struct aw_seg *s)
{
	return aw_accecn_moved(a, s, aw_accecn_fields(s)) & ~(aw_u32)a->moved;
}

/* The number of leading blocks of the withheld ACK, up to the last one not sent yet. */
AW_FN aw_u32 aw_sack_unsent(const struct aw_ack_state *a)
{
	return (a->sack_flags & AW_SACK_UNSENT_MASK) / AW_SACK_UNSENT;
}

/* Does s acknowledge or report what the unsent blocks of the withheld ACK report? */
AW_SUBPROG int aw_sack_covers(const struct aw_ack_state *a, const struct aw_seg *s)
{
	aw_u32 i, j;

	if (!a || !s) /* the verifier requires this in a subprogram */
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

/* Is the first block a DSACK: below the cumulative ACK, or inside the second block? */
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
 * Does s leave out anything that the newest ACK received said, so that s cannot supersede
 * it? These are the cases:
 * - ECE differs, without AccECN. ECE applies to the bytes that its ACK covers: DCTCP counts
 *   marked bytes by it (RFC 8257 §3.2), and that of s would apply to the bytes of both ACKs.
 * - s lacks AccECN's option, or one of its counters.
 * - s does not cover the SACK blocks of that ACK that were not sent yet.
 * - s has no timestamps, or older ones: the sender drops it (RFC 7323 §3.2, §5).
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

/* How the SACK blocks of an ACK differ from those of the newest ACK received. */
enum aw_sack_change {
	AW_SACK_SAME,	 /* not at all: each was reported */
	AW_SACK_CHANGED, /* a block grew, or is new and reports another hole */
	AW_SACK_DSACK,
};

AW_SUBPROG int aw_sack_change(const struct aw_ack_state *a, const struct aw_seg *s)
{
	enum aw_sack_change change = AW_SACK_SAME;
	aw_u32 i, j;

	if (!a || !s) /* for the verifier */
		return AW_SACK_DSACK;
	/* A DSACK of data above: the first block lies inside the second (RFC 2883 §4). */
	if (s->n_sack > 1 && aw_after_eq(s->sack[0], s->sack[2]) &&
	    aw_after_eq(s->sack[3], s->sack[1]))
		return AW_SACK_DSACK;
	for (i = 0; i < AW_SACK_BLOCKS; i++) {
		aw_u32 same = 0;

		if (i >= s->n_sack)
			break;
		/* A DSACK: below the cumulative acknowledgment (RFC 2883 §4). */
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
 * May changed blocks wait? During a recovery each segment that arrives makes a block grow or,
 * after a queue has overflowed, begins another one. In the presence of a queue these ACKs alone
 * can keep it standing. A later ACK that covers the blocks supersedes them (aw_leaves_out). The
 * first report of a loss is sent at once, and so are the duplicates that start a repair (RFC
 * 5681 §3.2), for a sender that counts them although it has SACK.
 */
AW_FN int aw_sack_waits(const struct aw_ack_state *a, const struct aw_seg *s)
{
	return (a->sack_flags & AW_SACK_WAITS) && a->sack_flags >= AW_SACK_REPAIRS &&
	       aw_after_eq(s->ack, a->rcvd_ack);
}

/* Compares the window of s with those received and sent; AW_R_HELD if it says nothing new. */
AW_FN enum aw_reason aw_contract_window(const struct aw_ack_state *a, const struct aw_data_state *d,
					const struct aw_handshake *h, const struct aw_seg *s)
{
	aw_u32 wnd = aw_wnd(h, s, 1);
	aw_u32 mss = d->mss ? d->mss : AW_MSS_DEFAULT;
	aw_u32 near_zero = AW_NEAR_ZERO_SEGMENTS * mss;

	if (!aw_scale_known(h)) {
		/* Only the unscaled field is known: any change that could matter is sent. */
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
	/* The sender has used up its window, and this ACK opens it. */
	if (d->valid && aw_after(d->high + near_zero, a->sent_right_edge))
		return AW_R_OPEN;
	/* The sender has used up its window, but the data are still on their way. */
	if (d->limited &&
	    !aw_after(a->sent_right_edge + (a->sent_wnd >> AW_LIMITED_SHARE_SHIFT), s->ack + wnd))
		return AW_R_OPEN;
	return AW_R_HELD;
}

/*
 * Returns AW_R_HELD if s may be withheld, otherwise the reason why it must be sent now.
 * The caller has parsed s without error; what cannot be parsed is always sent.
 */
AW_SUBPROG enum aw_reason aw_contract(const struct aw_ack_state *a, const struct aw_data_state *d,
				      const struct aw_handshake *h, const struct aw_seg *s)
{
	int change = AW_SACK_SAME;
	enum aw_reason why;
	aw_u16 ecn;

	if (!a || !d || !h || !s) /* for the verifier */
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
	 * Until a loss is repaired every ACK is sent, except one that moves forward and
	 * repeats blocks already reported: such ACKs alone can fill a thin uplink.
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
	 * With a 24-bit counter a wrap of the 3-bit one does not matter (RFC 9768 §3.2.3).
	 * Without, the next ACK is expected to advance as far as this one, and must be safe, too.
	 */
	if (AW_UNLIKELY((a->flags & AW_ACK_ACCECN) && !(aw_accecn_fields(s) & AW_ACCECN_CE) &&
			(s->ack - a->sent_ack) + (s->ack - a->rcvd_ack) >
				AW_ACE_SAFE_SEGMENTS * (d->mss ? d->mss : AW_MSS_DEFAULT)))
		return AW_R_ACE_WRAP;
	return AW_R_HELD;
}

#endif
