/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The bit that asks for an ACK at once (AW_TCP_ACK_REQUEST; Ayadi 2013 §4), set at the data
 * sender's egress, where the socket is available. It is set
 *
 *   - in the last packet that the congestion window or the receiver's window allows: after
 *     it there is no room for another one like it. The socket does not count the current
 *     packet yet: tcp_write_xmit() counts a packet after passing it down. While an earlier
 *     request is outstanding, none is made: otherwise each ACK would release one segment,
 *     which would again be the last that the window allows;
 *   - in every retransmission, wherever it lies.
 *
 * A request is outstanding until the farthest end of all packets that asked is
 * acknowledged: a retransmission before that end does not move it, and one past it does.
 *
 * Only the bit and the checksum change. Segmentation offload copies the bits into each
 * segment, so with it all segments of a packet ask.
 *
 * The receiver's window is known to the flow if its handshake was seen; otherwise only the
 * congestion window counts. A packet that is the last one because the application has no
 * more data does not ask: the socket does not show that here.
 */
#ifndef ACKWISE_ACK_REQUEST_H
#define ACKWISE_ACK_REQUEST_H

#include "../policy/options/ack_rate_request.h"
#include "ecn.h"
#include "maps.h"

static __always_inline int ack_request_is_on(void)
{
	return options.ack_request && options.position == AW_AT_SENDER && !options.dry_run;
}

/* Whether there is room after this packet for another one like it. */
static __always_inline int ack_request_room(const struct aw_entry *f,
					    const struct bpf_tcp_sock *tcp, __u32 end,
					    __u32 payload, __u32 segments)
{
	__u32 left = tcp->sacked_out + tcp->lost_out;
	__u32 flight = tcp->packets_out + tcp->retrans_out;
	__u32 edge = f->flow.acks.rcvd_ack + f->flow.acks.rcvd_wnd;

	flight = flight > left ? flight - left : 0;
	if (flight + 2 * segments > tcp->snd_cwnd)
		return 0;
	return !aw_scale_known(&f->flow.hs) || !aw_after(end + payload, edge);
}

/*
 * Forgets a request that was acknowledged. Each packet checks this: otherwise a request
 * would appear outstanding again after 2 GiB without another one.
 */
static __always_inline int ack_request_outstanding(struct aw_entry *f, __u32 snd_una)
{
	if (f->requested && !aw_after(f->request_end, snd_una))
		f->requested = 0;
	return f->requested;
}

/* Sets the bit if it is due. A subprogram may not take a pointer to the caller's segment. */
static __noinline int ack_request_write(struct __sk_buff *skb, struct aw_entry *f, __u32 l4_off,
					__u32 seq, __u32 payload)
{
	__u32 segments = 1, one = payload, end = seq + payload;
	int outstanding;
	struct bpf_sock *sk = skb->sk;
	struct bpf_tcp_sock *tcp;

	if (!f || !sk)
		return 0;
	sk = bpf_sk_fullsock(sk);
	tcp = sk ? bpf_tcp_sock(sk) : 0;
	if (!tcp)
		return 0;
	if (skb->gso_size) {
		one = skb->gso_size;
		segments = aw_div32(payload + one - 1, one);
	}
	outstanding = ack_request_outstanding(f, tcp->snd_una);
	/* New data start where the socket will send next: snd_nxt has not advanced yet. */
	if (aw_after_eq(seq, tcp->snd_nxt) &&
	    (outstanding || ack_request_room(f, tcp, end, one, segments)))
		return 0;
	if (set_tcp_bits(skb, l4_off, AW_TCP_ACK_REQUEST, 1) <= 0)
		return 0;
	if (!outstanding || aw_after(end, f->request_end))
		f->request_end = end;
	f->requested = 1;
	return 1;
}

/* A data packet is about to leave. */
static __always_inline void ack_request_on_data(struct __sk_buff *skb, struct aw_entry *f,
						const struct aw_seg *seg, struct aw_counters *c)
{
	if (!ack_request_is_on() || !seg->payload)
		return;
	c->ack_requests += ack_request_write(skb, f, seg->l4_off, seg->seq, seg->payload);
}

#endif
