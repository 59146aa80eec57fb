/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * TCP ACK Rate Request (TARR), draft-ietf-tcpm-ack-rate-request: a data sender asks its peer
 * for one ACK per R full-sized segments. It is an experimental option (RFC 6994), whose
 * format is in this file only:
 *
 *   capable, on SYN and SYN-ACK    254  4  0x00 0xac
 *   request, on data               254  5  0x00 0xac  R R R R R R R V
 *
 * R is the upper seven bits. R = 0 asks for an immediate ACK of this segment, and leaves the
 * rate unchanged. V is reserved here: sent as 0, and ignored.
 *
 * A sender that computes R from its lost ACKs (ack_ratio.h) sends another experimental option
 * in place of "capable":
 *
 *   ACK congestion control permitted, on SYN and SYN-ACK    254  4  0x16 0x3a
 *
 * RFC 5690's own kinds were never assigned. This ExID is the number of the RFC, and is not
 * registered. If both ends sent this option, requests are the same, and a pure ACK that leaves the
 * receiver's datapath has the bit AW_TCP_ACK_SKIPPED if it covers more than R segments: the
 * receiver's stack made no ACK in between, so that none was lost.
 *
 * The environment finds the options of a segment. This file is not in include/ackwise, because
 * the kernel does not use it.
 *
 * In Ayadi 2013 §4 a reserved bit of the header asks for the same as R = 0, without option bytes
 * and without negotiation: AW_TCP_ACK_REQUEST. The source does not say which bit. Of the three that
 * RFC 9293 and RFC 9768 leave, this is the one farthest from AE.
 */
#ifndef ACKWISE_ACK_RATE_REQUEST_H
#define ACKWISE_ACK_RATE_REQUEST_H

#include "../include/ackwise/flow.h"

#define AW_ACK_RATE_KIND 254
#define AW_ACK_RATE_EXID 0x00ac
#define AW_ACK_RATE_CAPABLE_LEN 4
#define AW_ACK_RATE_REQUEST_LEN 5
#define AW_ACK_RATE_MAX 127 /* the largest R */
#define AW_ACK_RATE_NOW 0   /* R: an ACK at once */

#define AW_ACK_CONTROL_EXID 0x163a /* its option has AW_ACK_RATE_CAPABLE_LEN bytes */

#define AW_TCP_ACK_REQUEST 0x800 /* on data; one of AW_TCP_RESERVED */
#define AW_TCP_ACK_SKIPPED 0x800 /* on a pure ACK */

/* What the options of a segment say: one of these, or AW_ACK_RATE_ASKS + R. */
enum aw_ack_rate_said {
	AW_ACK_RATE_SILENT = 0, /* no such option, one that is malformed, or two of them */
	AW_ACK_RATE_CAPABLE = 1,
	AW_ACK_RATE_ASKS = 2,
	AW_ACK_CONTROL_PERMITTED = AW_ACK_RATE_ASKS + AW_ACK_RATE_MAX + 1,
};

#define AW_ACK_RATE_SAID_MAX (AW_ACK_RATE_ASKS + AW_ACK_RATE_MAX)

/* Writes the option for `said`, AW_ACK_RATE_REQUEST_LEN bytes at most. Returns its length. */
AW_FN aw_u32 aw_ack_rate_write(aw_u8 *to, aw_u32 said)
{
	aw_u32 exid = said == AW_ACK_CONTROL_PERMITTED ? AW_ACK_CONTROL_EXID : AW_ACK_RATE_EXID;

	if (said == AW_ACK_RATE_SILENT || said > AW_ACK_CONTROL_PERMITTED)
		return 0;
	to[0] = AW_ACK_RATE_KIND;
	to[1] = AW_ACK_RATE_CAPABLE_LEN;
	to[2] = (aw_u8)(exid >> 8);
	to[3] = (aw_u8)exid;
	if (said == AW_ACK_RATE_CAPABLE || said == AW_ACK_CONTROL_PERMITTED)
		return AW_ACK_RATE_CAPABLE_LEN;
	to[1] = AW_ACK_RATE_REQUEST_LEN;
	to[4] = (aw_u8)((said - AW_ACK_RATE_ASKS) << 1);
	return AW_ACK_RATE_REQUEST_LEN;
}

/* Reads an option of len bytes at b, where AW_ACK_RATE_REQUEST_LEN bytes are readable. */
AW_FN aw_u32 aw_ack_rate_read(const aw_u8 *b, aw_u32 len)
{
	aw_u32 exid;

	if (b[0] != AW_ACK_RATE_KIND || len < AW_ACK_RATE_CAPABLE_LEN)
		return AW_ACK_RATE_SILENT;
	exid = (aw_u32)b[2] << 8 | b[3];
	if (exid == AW_ACK_CONTROL_EXID && len == AW_ACK_RATE_CAPABLE_LEN)
		return AW_ACK_CONTROL_PERMITTED;
	if (exid != AW_ACK_RATE_EXID)
		return AW_ACK_RATE_SILENT;
	if (len == AW_ACK_RATE_CAPABLE_LEN)
		return AW_ACK_RATE_CAPABLE;
	if (len == AW_ACK_RATE_REQUEST_LEN)
		return AW_ACK_RATE_ASKS + (b[4] >> 1);
	return AW_ACK_RATE_SILENT;
}

/*
 * The options of a segment, and room after them for an option that starts at the last
 * byte. at and said are in memory so that the verifier checks a turn of the loop once.
 */
struct aw_ack_rate_search {
	aw_u8 b[AW_OPT_BYTES + 8];
	aw_u32 n;    /* bytes of options */
	aw_u32 at;   /* where the next one begins */
	aw_u32 said; /* enum aw_ack_rate_said, of what was read */
	aw_u32 end;  /* the list ended as it should */
};

/* The context of the loop, which the verifier wants on the stack. */
struct aw_ack_rate_reader {
	struct aw_ack_rate_search *search;
};

/* Reads the option at r->at. Returns not 0 if there are no more. */
static inline __attribute__((unused)) long aw_ack_rate_step(aw_u32 turn,
							    struct aw_ack_rate_reader *reader)
{
	struct aw_ack_rate_search *r = reader->search;
	aw_u32 i = r->at, len, said;
	const aw_u8 *b;

	(void)turn;
	if (i >= r->n || i >= AW_OPT_BYTES) {
		r->end = 1;
		return 1;
	}
	b = r->b + i;
	if (b[0] == 0) {
		r->end = 1;
		return 1;
	}
	if (b[0] == 1) {
		r->at = i + 1;
		return 0;
	}
	len = b[1];
	if (i + 2 > r->n || len < 2 || len > r->n - i)
		return 1; /* malformed: end stays 0 */
	said = aw_ack_rate_read(b, len);
	if (said != AW_ACK_RATE_SILENT) {
		if (r->said != AW_ACK_RATE_SILENT)
			return 1; /* of two options none counts */
		r->said = said;
	}
	r->at = i + len;
	return 0;
}

/* What the n bytes of options in r->b say: enum aw_ack_rate_said. */
AW_SUBPROG int aw_ack_rate_find(struct aw_ack_rate_search *r)
{
	struct aw_ack_rate_reader reader = { r };

	if (!r || r->n > AW_OPT_BYTES)
		return AW_ACK_RATE_SILENT;
	r->at = 0;
	r->said = AW_ACK_RATE_SILENT;
	r->end = 0;
	AW_REPEAT(AW_OPT_BYTES + 1, aw_ack_rate_step, &reader);
	return r->end ? (int)r->said : AW_ACK_RATE_SILENT;
}

/**
 * struct aw_ack_rate - what the data sender of a flow has asked for; zeroes: nothing
 * @end: the end of the last segment that asked for an immediate ACK
 * @r: the R of the newest request; 0 if none came
 * @now: segments that asked for an immediate ACK that has not left: 0, 1, or 2 for more
 * @reserved: not used
 *
 * Only the data side writes it.
 */
struct aw_ack_rate {
	aw_u32 end;
	aw_u8 r;
	aw_u8 now;
	aw_u16 reserved;
};

/* Takes data whose options say `said`. Returns whether that was a request. */
AW_FN int aw_ack_rate_on_data(struct aw_ack_rate *a, const struct aw_flow *f,
			      const struct aw_seg *s, aw_u32 said)
{
	aw_u32 end = s->seq + s->payload, r;
	int open;

	if (said < AW_ACK_RATE_ASKS || said > AW_ACK_RATE_SAID_MAX || !s->payload)
		return 0;
	r = said - AW_ACK_RATE_ASKS;
	if (r != AW_ACK_RATE_NOW) {
		a->r = (aw_u8)r;
		return 1;
	}
	open = a->now && aw_after(a->end, f->acks.sent_ack);
	a->now = open && (a->now > 1 || end != a->end) ? 2 : 1;
	if (!open || aw_after(end, a->end))
		a->end = end;
	return 1;
}

/* Takes data. Returns whether their header asks for an immediate ACK. */
AW_FN int aw_ack_rate_on_bit(struct aw_ack_rate *a, const struct aw_flow *f, const struct aw_seg *s)
{
	if (!(s->flags & AW_TCP_ACK_REQUEST) || (s->flags & AW_TCP_SYN))
		return 0;
	return aw_ack_rate_on_data(a, f, s, AW_ACK_RATE_ASKS + AW_ACK_RATE_NOW);
}

/*
 * The n of every-n for this ACK: the R that was asked for, or n if there was no request. An R
 * beyond the receiver's window would stop the sender, and counts as no request. The first ACK
 * that covers a segment with R = 0 is not withheld; that request is over when an ACK of the
 * segment's end has left. While there is more than one such request, no ACK is withheld.
 */
AW_FN aw_u32 aw_ack_rate_n(const struct aw_ack_rate *a, const struct aw_flow *f,
			   const struct aw_seg *s, aw_u32 n)
{
	aw_u32 window = aw_scale_known(&f->hs) ? f->acks.rcvd_wnd : 0;

	if (a->now && aw_after(a->end, f->acks.sent_ack) &&
	    (a->now > 1 || aw_after_eq(s->ack, a->end)))
		return 1;
	if (!a->r || (window && (aw_u64)a->r * f->data.mss > window))
		return n;
	return a->r;
}

#endif
