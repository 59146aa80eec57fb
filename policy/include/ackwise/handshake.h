/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the handshake of a connection negotiated: window scale, MSS, AccECN, and
 * the first round-trip time. It is kept apart from flows, so that a SYN flood
 * cannot evict them.
 */
#ifndef ACKWISE_HANDSHAKE_H
#define ACKWISE_HANDSHAKE_H

#include "tcp.h"

enum aw_handshake_flag {
	AW_HS_SYN_DATA = 1 << 0,    /* a SYN of the data sender was received */
	AW_HS_SYN_ACKS = 1 << 1,    /* a SYN of the ACK sender was received */
	AW_HS_WSCALE_DATA = 1 << 2, /* the data sender's SYN had a window scale */
	AW_HS_WSCALE_ACKS = 1 << 3, /* the ACK sender's SYN had a window scale */
	AW_HS_ACCECN = 1 << 4,	    /* AccECN was requested, and granted */
	AW_HS_DONE = 1 << 5,	    /* rtt_us is complete */
	AW_HS_ASKS_ACCECN = 1 << 6, /* the SYN requested AccECN */
	AW_HS_FROM_ACKS = 1 << 7,   /* the ACK sender sent the SYN */
};

/**
 * struct aw_handshake - what the handshake negotiated
 * @syn_us: when the SYN was received, microseconds; 0 if it was not
 * @synack_us: when the last SYN-ACK was received, microseconds; 0 if none was
 * @rtt_us: with AW_HS_DONE: both legs of the round trip, measured here; 0 if not known. Until
 *	then: the first leg
 * @mss: the smaller of the two MSS options, bytes; 0 if there was none
 * @wscale: shift counts: [0] the data sender's, [1] the ACK sender's
 * @flags: enum aw_handshake_flag
 * @reserved: 0
 */
struct aw_handshake {
	aw_u32 syn_us, synack_us;
	aw_u32 rtt_us;
	aw_u16 mss;
	aw_u8 wscale[2];
	aw_u16 flags;
	aw_u16 reserved;
};

AW_ASSERT(sizeof(struct aw_handshake) == 20, "aw_handshake");

/* Are windows known in bytes, that is, were both SYNs received? */
AW_FN int aw_scale_known(const struct aw_handshake *h)
{
	return (h->flags & (AW_HS_SYN_DATA | AW_HS_SYN_ACKS)) == (AW_HS_SYN_DATA | AW_HS_SYN_ACKS);
}

/* Are windows scaled? Only if both sides offered it (RFC 7323 §2.2). */
AW_FN int aw_wnd_scales(const struct aw_handshake *h)
{
	return (h->flags & (AW_HS_WSCALE_DATA | AW_HS_WSCALE_ACKS)) ==
	       (AW_HS_WSCALE_DATA | AW_HS_WSCALE_ACKS);
}

/* The unit of a window field, bytes. A scale that only one side offered is not in use. */
AW_FN aw_u32 aw_wnd_unit(const struct aw_handshake *h, int acks)
{
	return aw_wnd_scales(h) ? 1u << (h->wscale[acks] & 15) : 1;
}

/* The window of s in bytes; as on the wire if the scale is not known. */
AW_FN aw_u32 aw_wnd(const struct aw_handshake *h, const struct aw_seg *s, int acks)
{
	if (aw_wnd_scales(h))
		return (aw_u32)s->window << (h->wscale[acks] & 15);
	return s->window;
}

/*
 * RFC 9768 §3.1: a SYN with AE, CWR and ECE requests AccECN. A SYN-ACK grants it by one of
 * four values of these flags, which report how the SYN's ECN field arrived; 001 and 101 are
 * classic ECN, 000 is none, and 111 is a server that echoes flags it does not understand.
 */
#define AW_TCP_ACE (AW_TCP_AE | AW_TCP_CWR | AW_TCP_ECE)

AW_FN int aw_grants_accecn(const struct aw_seg *syn_ack)
{
	aw_u32 ace = syn_ack->flags & AW_TCP_ACE;

	return ace == AW_TCP_CWR || ace == (AW_TCP_CWR | AW_TCP_ECE) || ace == AW_TCP_AE ||
	       ace == (AW_TCP_AE | AW_TCP_CWR);
}

/*
 * Takes a SYN, a SYN-ACK, or one of the segments that follow, of which the client's first
 * completes the round trip. acks is not 0 if it travels in the direction of the ACKs.
 */
AW_FN void aw_handshake_on_segment(struct aw_handshake *h, const struct aw_seg *s, int acks,
				   aw_u64 now_us)
{
	aw_u32 now = (aw_u32)now_us;

	if (!(s->flags & AW_TCP_SYN)) {
		/*
		 * The client's next segment, normally its ACK, closes the second leg. With Fast
		 * Open (RFC 7413 §3) the server's data may come before it.
		 */
		if (h->syn_us && !(h->flags & AW_HS_FROM_ACKS) != !acks)
			return;
		if (!(h->flags & AW_HS_DONE) && h->synack_us && (s->flags & AW_TCP_ACK)) {
			if (h->syn_us)
				h->rtt_us += now - h->synack_us;
			h->flags |= AW_HS_DONE;
		}
		return;
	}
	if (s->flags & AW_TCP_ACK) {
		/*
		 * The first leg ends with the first SYN-ACK, the second begins with the last: what
		 * is between them is a timeout. If the client answers the first, the round trip is
		 * too short.
		 */
		if (h->syn_us && !h->synack_us)
			h->rtt_us = now - h->syn_us;
		h->synack_us = now ? now : 1;
		/* Of two SYN-ACKs the last counts. ACKs that use AccECN show it as well. */
		h->flags &= ~AW_HS_ACCECN;
		if ((h->flags & AW_HS_ASKS_ACCECN) && aw_grants_accecn(s))
			h->flags |= AW_HS_ACCECN;
	} else {
		/* A new connection on old ports, or a retransmission, which restarts the clock. */
		h->flags = 0;
		h->mss = 0;
		h->rtt_us = 0;
		h->synack_us = 0;
		h->syn_us = now ? now : 1;
		if (acks)
			h->flags |= AW_HS_FROM_ACKS;
		if ((s->flags & AW_TCP_ACE) == AW_TCP_ACE)
			h->flags |= AW_HS_ASKS_ACCECN;
	}
	h->flags |= acks ? AW_HS_SYN_ACKS : AW_HS_SYN_DATA;
	if (s->opts & AW_OPT_WSCALE) {
		h->flags |= acks ? AW_HS_WSCALE_ACKS : AW_HS_WSCALE_DATA;
		h->wscale[!!acks] = s->wscale > 14 ? 14 : s->wscale; /* RFC 7323 §2.3 */
	}
	if ((s->opts & AW_OPT_MSS) && (!h->mss || s->mss < h->mss))
		h->mss = s->mss;
}

#endif
