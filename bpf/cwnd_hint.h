/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The congestion-window hint (docs/decisions/0017-sender-hint.md): the sender's congestion
 * window, in the window field of its data, for a receiver that acknowledges once per window
 * (dca.h, tda.h). It is written at the data sender's egress, where the socket is available:
 *
 *   window field = ceil(snd_cwnd * mss / 2^scale), and at least 1
 *
 * If that exceeds the congestion window by a whole segment, because the unit of the scale
 * may be larger than a segment, it is one less. A receiver that divides by the segment size
 * gets snd_cwnd or less. Only the field and the checksum change.
 *
 * The window field says how much the *receiver* may send. So it is never raised, and it is
 * written only
 *
 *   - into segments with payload, so that a pure ACK always carries the true window,
 *   - while the peer has sent no data for a smoothed round trip,
 *   - on connections whose handshake was seen: otherwise the scale is unknown.
 */
#ifndef ACKWISE_CWND_HINT_H
#define ACKWISE_CWND_HINT_H

#include <bpf/bpf_endian.h>
#include "maps.h"

static __always_inline int cwnd_hint_is_on(void)
{
	return options.cwnd_hint && options.position == AW_AT_SENDER && !options.dry_run;
}

/* The field for a window of cwnd segments, in units of 1 << scale bytes. */
static __always_inline __u32 cwnd_hint_field(__u32 cwnd, __u32 mss, __u32 scale)
{
	__u64 bytes = (__u64)cwnd * mss;
	__u64 field = (bytes + (1U << scale) - 1) >> scale;

	if (field > 1 && field << scale >= bytes + mss)
		field--;
	return field > 0xffff ? 0xffff : field;
}

static __always_inline int cwnd_hint_scale(const struct aw_handshake *h)
{
	__u32 both = AW_HS_WSCALE_DATA | AW_HS_WSCALE_ACKS;

	return (h->flags & both) == both ? h->wscale[0] & 15 : 0;
}

/*
 * Writes the hint if allowed. Returns the current value of the window field. A subprogram
 * may not take a pointer to the caller's segment, so it takes two numbers.
 */
static __noinline int cwnd_hint_write(struct __sk_buff *skb, const struct aw_entry *f, __u32 l4_off,
				      __u32 window)
{
	struct bpf_sock *sk = skb->sk;
	struct bpf_tcp_sock *tcp;
	__be16 old, new;
	__u32 field;

	if (!f || !sk || !aw_scale_known(&f->flow.hs))
		return window;
	sk = bpf_sk_fullsock(sk);
	tcp = sk ? bpf_tcp_sock(sk) : 0;
	if (!tcp || !tcp->snd_cwnd || !tcp->mss_cache)
		return window;
	/* The socket's srtt_us counts eighths of a microsecond. */
	if (f->reverse_data_ns &&
	    clock_ns() - f->reverse_data_ns < tcp->srtt_us * (NSEC_PER_USEC / 8))
		return window;
	field = cwnd_hint_field(tcp->snd_cwnd, tcp->mss_cache, cwnd_hint_scale(&f->flow.hs));
	if (field >= window)
		return window;
	old = bpf_htons(window);
	new = bpf_htons(field);
	if (bpf_l4_csum_replace(skb, l4_off + 16, old, new, 2) ||
	    bpf_skb_store_bytes(skb, l4_off + 14, &new, 2, 0))
		return window;
	return field;
}

/* A data segment about to leave. A policy that runs here also sees the hint. */
static __always_inline void cwnd_hint_on_data(struct __sk_buff *skb, const struct aw_entry *f,
					      struct aw_seg *seg, __u32 segments,
					      struct aw_counters *c)
{
	__u32 window;

	if (!cwnd_hint_is_on() || !seg->payload)
		return;
	window = cwnd_hint_write(skb, f, seg->l4_off, seg->window);
	if (window == seg->window)
		return;
	seg->window = window;
	c->cwnd_hints += segments;
}

/* A segment of the ACK direction. If it has data, the peer needs the window field. */
static __always_inline void cwnd_hint_on_ack(struct aw_entry *f, const struct aw_seg *seg,
					     __u64 now)
{
	if (cwnd_hint_is_on() && seg->payload)
		f->reverse_data_ns = clock(now);
}

#endif
