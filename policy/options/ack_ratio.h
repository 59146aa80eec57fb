/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * ACK congestion control at the data sender (RFC 5690), from lost ACKs alone: it finds which
 * ACKs were lost, and computes how many segments one may cover. The BPF program for Linux's
 * sockets and the simulator share this state machine.
 *
 * Numbers are 64-bit offsets in the stream: the environment unwraps sequence numbers. It reports
 * ACKs (aw_ack_ratio_on_ack) and retransmissions (aw_ack_ratio_on_retransmission), and asks which
 * ratio a data segment must carry (aw_ack_ratio_on_segment).
 */
#ifndef ACKWISE_ACK_RATIO_H
#define ACKWISE_ACK_RATIO_H

#include "../include/ackwise/types.h"

/* The ratio that a connection starts with (RFC 5690 §4.1), and the minimum here (§4.5). */
#define AW_ACK_RATIO_LEAST 2
/* At least this many ACKs cover a window: K (RFC 5690 §4.5). */
#define AW_ACK_RATIO_SHARE 2
/* A missing ACK counts as lost after this many later ones (RFC 5690 §5.4). */
#define AW_ACK_RATIO_REORDERED 3

/* Whether the receiver knows the ratio. */
enum aw_ack_ratio_told {
	AW_TOLD_YES = 0,   /* it knows */
	AW_TOLD_NOT_YET,   /* the next data segment carries it */
	AW_TOLD_UNTIL_END, /* each segment carries it until told_end is acknowledged */
};

/**
 * struct aw_ack_ratio - what a sender knows of its ACKs; begun by aw_ack_ratio_init()
 * @told_end: with AW_TOLD_UNTIL_END: the end of the first segment that carried the ratio
 * @window_end: a lost ACK of data below this is of a window that already had one
 * @repair_end: until this is acknowledged, lost data are under repair
 * @gap_from: with @gap: the start of the data that the ACK after the gap acknowledges
 * @gap_to: with @gap: their end
 * @quiet: bytes acknowledged since the last lost ACK or change of the ratio
 * @quiet_aim: the ratio falls when @quiet reaches this
 * @lost: number of ACKs found to be lost
 * @most: upper bound of the ratio
 * @ratio: R, the segments that an ACK may cover
 * @in_use: the largest ratio that the receiver may be using
 * @told: enum aw_ack_ratio_told
 * @hole: the receiver has data above a hole
 * @gap: an ACK covers more than @in_use segments, so that one before it seems lost
 * @later: ACKs that came since that one
 * @reserved: 0
 */
struct aw_ack_ratio {
	aw_u64 told_end;
	aw_u64 window_end;
	aw_u64 repair_end;
	aw_u64 gap_from, gap_to;
	aw_u64 quiet, quiet_aim;
	aw_u64 lost;
	aw_u8 most, ratio, in_use, told;
	aw_u8 hole, gap, later, reserved;
};

AW_ASSERT(sizeof(struct aw_ack_ratio) == 72, "aw_ack_ratio");

/**
 * struct aw_ack_seen - what an ACK says, and the sender's state before it is processed
 * @ack: the number that is acknowledged
 * @una: first byte that was not acknowledged before
 * @max: first byte that was never sent
 * @window: what the sender may have in flight, bytes
 * @mss: payload of a full segment
 * @out_of_order: it is a duplicate, or has SACK blocks: data arrived out of order
 * @explained: it indicates no lost ACK, however much it covers
 */
struct aw_ack_seen {
	aw_u64 ack, una, max;
	aw_u32 window, mss;
	aw_u32 out_of_order, explained;
};

AW_FN void aw_ack_ratio_init(struct aw_ack_ratio *a, aw_u32 most)
{
	struct aw_ack_ratio fresh = {
		.most = (aw_u8)aw_min(most, 255),
		.ratio = AW_ACK_RATIO_LEAST,
		.in_use = AW_ACK_RATIO_LEAST,
	};

	*a = fresh;
}

/* The largest ratio with which a window of data gets two ACKs. */
AW_FN aw_u32 aw_ack_ratio_most(const struct aw_ack_ratio *a, aw_u32 window, aw_u32 mss)
{
	aw_u32 share = AW_ACK_RATIO_SHARE * mss;
	aw_u64 half = aw_div64((aw_u64)window + share - 1, share);
	aw_u32 most = half > 255 ? 255 : (aw_u32)half;

	return aw_max(aw_min(most, a->most), AW_ACK_RATIO_LEAST);
}

AW_FN void aw_ack_ratio_change(struct aw_ack_ratio *a, aw_u32 ratio)
{
	if (ratio == a->ratio)
		return;
	a->ratio = (aw_u8)ratio;
	a->told = AW_TOLD_NOT_YET;
}

AW_FN void aw_ack_ratio_count_anew(struct aw_ack_ratio *a, aw_u32 window, aw_u32 mss)
{
	aw_u32 r = a->ratio;

	a->quiet = 0;
	a->quiet_aim = aw_div64((aw_u64)window * window, mss * (r * r - r));
}

/* An ACK was lost. R is doubled once for each window of data with lost ACKs. */
AW_FN void aw_ack_ratio_on_lost(struct aw_ack_ratio *a, const struct aw_ack_seen *s)
{
	a->gap = 0;
	a->lost++;
	if (a->told == AW_TOLD_YES && a->gap_from >= a->window_end) {
		aw_u32 most = aw_ack_ratio_most(a, s->window, s->mss);

		aw_ack_ratio_change(a, aw_max(aw_min(2 * a->ratio, most), a->ratio));
		a->window_end = s->max;
	}
	aw_ack_ratio_count_anew(a, s->window, s->mss);
}

/* Takes an ACK, which may be older than others. */
AW_FN void aw_ack_ratio_on_ack(struct aw_ack_ratio *a, const struct aw_ack_seen *s)
{
	int in_order;

	if (s->ack < s->una) {
		/* The ACK that seemed lost was late (RFC 5690 §4.4). */
		if (a->gap && s->ack > a->gap_from && s->ack < a->gap_to)
			a->gap = 0;
		return;
	}
	if (a->gap)
		a->later++;
	in_order = !a->hole && !s->out_of_order && s->una >= a->repair_end;
	if (s->out_of_order)
		a->hole = 1;
	else if (s->ack > s->una)
		a->hole = 0;
	if (in_order && s->ack > s->una) {
		/* In order only: an ACK of data out of order may cover any number. */
		aw_u64 most = (aw_u64)a->in_use * s->mss;

		a->quiet += s->ack - s->una;
		if (s->ack - s->una > most && !s->explained && !a->gap) {
			a->gap = 1;
			a->gap_from = s->una;
			a->gap_to = s->ack;
			a->later = 0;
		}
	}
	if (a->told == AW_TOLD_UNTIL_END && s->ack >= a->told_end) {
		a->told = AW_TOLD_YES;
		a->in_use = a->ratio;
	}
	if (a->gap && a->later >= AW_ACK_RATIO_REORDERED) {
		aw_ack_ratio_on_lost(a, s);
	} else if (!a->gap && a->quiet >= a->quiet_aim && a->told == AW_TOLD_YES &&
		   a->ratio > AW_ACK_RATIO_LEAST) {
		/* After cwnd / (R² - R) windows without a lost ACK R falls by one. */
		aw_ack_ratio_change(a, a->ratio - 1);
		aw_ack_ratio_count_anew(a, s->window, s->mss);
	}
}

/* R is at most half the window, however recently it was changed (RFC 5690 §4.5). */
AW_FN void aw_ack_ratio_limit(struct aw_ack_ratio *a, aw_u32 window, aw_u32 mss)
{
	aw_u32 most = aw_ack_ratio_most(a, window, mss);

	if (a->ratio <= most)
		return;
	aw_ack_ratio_change(a, most);
	aw_ack_ratio_count_anew(a, window, mss);
}

/* A segment that ends at end leaves. Returns the ratio that it must carry, or 0. */
AW_FN aw_u32 aw_ack_ratio_on_segment(struct aw_ack_ratio *a, aw_u64 end, aw_u32 window, aw_u32 mss)
{
	aw_ack_ratio_limit(a, window, mss);
	if (a->told == AW_TOLD_YES)
		return 0;
	if (a->told == AW_TOLD_NOT_YET) {
		a->told = AW_TOLD_UNTIL_END;
		a->told_end = end;
		a->in_use = (aw_u8)aw_max(a->in_use, a->ratio);
	}
	return a->ratio;
}

/* A segment was retransmitted: lost ACKs are not looked for until everything in flight, up to
 * max, is acknowledged (RFC 5690 §4.4.1). */
AW_FN void aw_ack_ratio_on_retransmission(struct aw_ack_ratio *a, aw_u64 max)
{
	if (max > a->repair_end)
		a->repair_end = max;
	a->gap = 0;
}

#endif
