/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The round-trip time of a flow, from RFC 7323 timestamps, in the two legs that
 * meet here:
 *
 *   near   from an ACK that is sent to the data that echo it
 *   far    from data to the ACK that echoes them
 *
 * At the receiver the far leg is the delay of its own ACKs; at the sender the near
 * leg is next to nothing; on a router between them the sum is that of the path. Of
 * the far leg only the minimum counts, so that a delayed ACK does not look like distance.
 *
 * Each leg has at most one probe in flight. The side that starts a probe and the
 * side that ends it each toggle a token of their own (enum aw_token), so that
 * neither has to lock the other out.
 */
#ifndef ACKWISE_RTT_H
#define ACKWISE_RTT_H

#include "contract.h"
#include "windowed_minmax.h"

/* Assumed if the RTT is not known (no timestamps, no handshake): a short one. */
#define AW_RTT_UNKNOWN_US 4000
/*
 * A minimum is forgotten after one to two of these, because routes change. They are long
 * because a queue may stand throughout a long transfer, and must not become the minimum.
 */
#define AW_RTT_WINDOW_US 120000000
/* A sample counts as at most this multiple of the smoothed round-trip time. */
#define AW_RTT_SAMPLE_SPAN 4

/**
 * struct aw_rtt - probes in flight (vars), and what they found (stats)
 * @near: the ACK whose echo is awaited: tsval << 32 | time that it was sent, us
 * @far: the data whose echo is awaited: tsval << 32 | time that they arrived, us
 * @near_srtt: smoothed near leg, us; 0 before the first sample
 * @near_min: recent minimum of the near leg, us
 * @far_min: recent minimum of the far leg, us
 * @window_us: when the current window of both minima began
 * @near_sure: smoothed near leg of samples that no pause of the sender lengthened, us; 0
 *	before the first
 * @reserved: 0
 *
 * A probe is one word, so that the other side never reads half of it. If the
 * token becomes visible first, the other side reads the previous word, and that one
 * sample is too long, never too short.
 */
struct aw_rtt {
	/* vars */
	aw_u64 near;
	aw_u64 far;
	/* stats */
	aw_u32 near_srtt;
	struct aw_windowed_min near_min, far_min;
	aw_u32 window_us;
	aw_u32 near_sure;
	aw_u32 reserved;
};

AW_ASSERT(sizeof(struct aw_rtt) == 48, "aw_rtt");

AW_FN void aw_rtt_init(struct aw_rtt *r, aw_u64 now_us)
{
	aw_windowed_min_init(&r->near_min);
	aw_windowed_min_init(&r->far_min);
	r->window_us = (aw_u32)now_us;
}

/* Adds the far leg's minimum, if it is known, to a near leg. */
AW_FN aw_u32 aw_rtt_with_far(const struct aw_rtt *r, aw_u32 near)
{
	return near + (aw_windowed_min_known(&r->far_min) ? r->far_min.min : 0);
}

AW_FN aw_u32 aw_rtt_of_handshake(const struct aw_handshake *h)
{
	return h->flags & AW_HS_DONE ? h->rtt_us : 0;
}

/* The recent minimum of the round-trip time, us; 0 if it is not known. */
AW_FN aw_u32 aw_rtt_min(const struct aw_rtt *r, const struct aw_handshake *h)
{
	if (!aw_windowed_min_known(&r->near_min))
		return aw_rtt_of_handshake(h);
	return aw_rtt_with_far(r, r->near_min.min);
}

/* The smoothed round-trip time, us; 0 if it is not known. */
AW_FN aw_u32 aw_rtt_smoothed(const struct aw_rtt *r, const struct aw_handshake *h)
{
	if (!r->near_srtt)
		return aw_rtt_of_handshake(h);
	return aw_rtt_with_far(r, r->near_srtt);
}

/* The smoothed round-trip time without pauses of the sender, us; 0 if it is not known. */
AW_FN aw_u32 aw_rtt_sure(const struct aw_rtt *r)
{
	return r->near_sure ? aw_rtt_with_far(r, r->near_sure) : 0;
}

AW_FN void aw_rtt_window(struct aw_rtt *r, aw_u32 now)
{
	if (now - r->window_us < AW_RTT_WINDOW_US)
		return;
	aw_windowed_min_rotate(&r->near_min);
	aw_windowed_min_rotate(&r->far_min);
	r->window_us = now;
}

/* Does the echo of s answer the probe? */
AW_FN int aw_rtt_echoes(const aw_u64 *probe, const struct aw_seg *s)
{
	return aw_after_eq(s->tsecr, (aw_u32)(*(const volatile aw_u64 *)probe >> 32));
}

AW_FN void aw_rtt_start(aw_u64 *probe, const struct aw_seg *s, aw_u64 now_us)
{
	*(volatile aw_u64 *)probe = (aw_u64)s->tsval << 32 | (aw_u32)now_us;
}

AW_FN aw_u32 aw_rtt_since(const aw_u64 *probe, aw_u64 now_us)
{
	return (aw_u32)now_us - (aw_u32) * (const volatile aw_u64 *)probe;
}

/* Do data with timestamps answer the near probe? */
AW_FN int aw_rtt_near_answered(const struct aw_rtt *r, const struct aw_ack_state *a,
			       const struct aw_data_state *d, const struct aw_seg *s)
{
	return aw_token_out(a, d, AW_TOKEN_NEAR) && aw_rtt_echoes(&r->near, s);
}

/* Does an ACK with timestamps answer the far probe? */
AW_FN int aw_rtt_far_answered(const struct aw_rtt *r, const struct aw_ack_state *a,
			      const struct aw_data_state *d, const struct aw_seg *s)
{
	return aw_token_out(a, d, AW_TOKEN_FAR) && aw_rtt_echoes(&r->far, s);
}

/*
 * Must a far probe start now? Only the first one must. The others start with a
 * near sample, once per round trip, when the clock is read anyway.
 */
AW_FN int aw_rtt_far_due(const struct aw_rtt *r, const struct aw_ack_state *a,
			 const struct aw_data_state *d)
{
	return !aw_windowed_min_known(&r->far_min) && !aw_token_out(a, d, AW_TOKEN_FAR);
}

/*
 * A sender with nothing to send echoes late, and that time is not the path's. If data echo the
 * newest ACK received, the sender may have been silent: such a sample may only lower near_sure.
 * Where each window arrives as one burst, and at the sender, there are no other samples.
 */
AW_FN void aw_rtt_sure_sample(struct aw_rtt *r, int newest, aw_u32 us)
{
	if (newest)
		r->near_sure = aw_min(r->near_sure, us);
	else if (r->near_sure)
		r->near_sure = (r->near_sure >> 1) +
			       (aw_min(us, AW_RTT_SAMPLE_SPAN * r->near_sure) >> 1);
	else
		r->near_sure = us;
}

AW_FN void aw_rtt_near_sample(struct aw_rtt *r, const struct aw_handshake *h, int newest,
			      aw_u64 now_us)
{
	aw_u32 us = aw_max(aw_rtt_since(&r->near, now_us), 1);
	aw_u32 min = aw_rtt_min(r, h);

	/* It may only lower the minimum, too, or pauses between requests would become the path. */
	if (!newest || !min || aw_rtt_with_far(r, us) < min)
		aw_windowed_min_add(&r->near_min, us);
	aw_rtt_sure_sample(r, newest, us);
	if (r->near_srtt)
		us = aw_min(us, AW_RTT_SAMPLE_SPAN * r->near_srtt);
	/* A gain of 1/2: there is one sample a round trip, where RFC 6298's 1/8 has many. */
	r->near_srtt = r->near_srtt ? (r->near_srtt >> 1) + (us >> 1) : us;
	aw_rtt_window(r, (aw_u32)now_us);
}

/*
 * Does the sender fill its window? s has the first data that it sent after the probe had
 * arrived. A sender that the window limits sends at once what the probe permits, beginning
 * at the edge that it knew before.
 */
AW_FN int aw_rtt_limited(const struct aw_ack_state *a, const struct aw_seg *s)
{
	return aw_after_eq(s->seq + s->payload + (a->sent_wnd >> AW_LIMITED_FREE_SHIFT),
			   a->probe_edge);
}

/* Takes data with timestamps, on the data side; now_us is 0 if the clock was not read. */
AW_FN void aw_rtt_on_data(struct aw_rtt *r, const struct aw_handshake *h,
			  const struct aw_ack_state *a, struct aw_data_state *d,
			  const struct aw_seg *s, aw_u64 now_us)
{
	int near = aw_rtt_near_answered(r, a, d, s);

	if (AW_LIKELY(!now_us || (!near && !aw_rtt_far_due(r, a, d))))
		return;
	if (near) {
		/* The token is toggled last: from then on the ACK side may start a probe. */
		aw_rtt_near_sample(r, h, !aw_after(a->tsval, s->tsecr), now_us);
		d->limited = (aw_u8)aw_rtt_limited(a, s);
		d->flags ^= AW_TOKEN_NEAR;
	}
	if (!aw_token_out(a, d, AW_TOKEN_FAR)) {
		aw_rtt_start(&r->far, s, now_us);
		d->flags ^= AW_TOKEN_FAR;
	}
}

/* Takes an ACK with timestamps, on the ACK side; now_us is 0 if the clock was not read. */
AW_FN void aw_rtt_on_ack(struct aw_rtt *r, struct aw_ack_state *a, const struct aw_data_state *d,
			 const struct aw_seg *s, aw_u64 now_us)
{
	aw_u32 us;

	if (AW_LIKELY(!now_us || !aw_rtt_far_answered(r, a, d, s)))
		return;
	us = aw_rtt_since(&r->far, now_us);
	a->flags ^= AW_TOKEN_FAR;
	aw_windowed_min_add(&r->far_min, us);
}

/*
 * Takes an ACK with timestamps that is sent: it may be the next near probe. edge is the
 * right edge of the window that was sent before.
 */
AW_FN void aw_rtt_on_ack_sent(struct aw_rtt *r, struct aw_ack_state *a,
			      const struct aw_data_state *d, const struct aw_seg *s, aw_u32 edge,
			      aw_u64 now_us)
{
	if (!now_us || aw_token_out(a, d, AW_TOKEN_NEAR))
		return;
	a->probe_edge = edge;
	aw_rtt_start(&r->near, s, now_us);
	a->flags ^= AW_TOKEN_NEAR;
}

#endif
