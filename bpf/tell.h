/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The sender's hint: its congestion window, in the window field of its data, for a
 * receiver that acknowledges once a window (dca.h, tda.h). Written at the data
 * sender's egress, where the socket is at hand:
 *
 *   window field = ceil(snd_cwnd * mss / 2^scale), and at least 1
 *
 * unless that is a whole segment more than the congestion window (a scale's unit may
 * be larger than a segment): then one less. A receiver that divides by the segment
 * gets snd_cwnd back, or less. Nothing but the field and the checksum changes.
 *
 * It says how much the *receiver* may send, so it is never raised, and written only
 *
 *   - into segments with payload, so that a pure ACK always tells the true window,
 *   - while the other side has been silent for a smoothed round trip,
 *   - of a connection whose handshake was seen: else its scale is not known.
 */
#ifndef ACKWISE_TELL_H
#define ACKWISE_TELL_H

#include <bpf/bpf_endian.h>
#include "maps.h"

static __always_inline int tell_is_on(void)
{
	return options.tell_window && options.position == AW_AT_SENDER && !options.dry_run;
}

/* What the field has to say of so many bytes, in units of 1 << scale. */
static __always_inline __u32 tell_field(__u32 cwnd, __u32 mss, __u32 scale)
{
	__u64 bytes = (__u64)cwnd * mss;
	__u64 field = (bytes + (1U << scale) - 1) >> scale;

	if (field > 1 && field << scale >= bytes + mss)
		field--;
	return field > 0xffff ? 0xffff : field;
}

static __always_inline int tell_scale(const struct aw_handshake *h)
{
	__u32 both = AW_HS_WSCALE_DATA | AW_HS_WSCALE_ACKS;

	return (h->flags & both) == both ? h->wscale[0] & 15 : 0;
}

/* Returns what the window field says now: a subprogram takes no packet on the stack. */
static __noinline int tell_window(struct __sk_buff *skb, const struct aw_entry *f, __u32 l4_off,
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
	/* The socket's unit is an eighth of a microsecond. */
	if (f->heard_ns && bpf_ktime_get_ns() - f->heard_ns < tcp->srtt_us * (NSEC_PER_USEC / 8))
		return window;
	field = tell_field(tcp->snd_cwnd, tcp->mss_cache, tell_scale(&f->flow.hs));
	if (field >= window)
		return window;
	old = bpf_htons(window);
	new = bpf_htons(field);
	if (bpf_l4_csum_replace(skb, l4_off + 16, old, new, 2) ||
	    bpf_skb_store_bytes(skb, l4_off + 14, &new, 2, 0))
		return window;
	return field;
}

/* 1 if this segment tells; a policy here is told as well. */
static __always_inline int tell(struct __sk_buff *skb, const struct aw_entry *f, struct aw_seg *seg)
{
	__u32 window = tell_window(skb, f, seg->l4_off, seg->window);

	if (window == seg->window)
		return 0;
	seg->window = window;
	return 1;
}

#endif
