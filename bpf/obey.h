/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * TCP ACK Rate Request at the data receiver: the rate that the sender requests becomes n of
 * the policy every-n (../policy/options/ack_rate_request.h). The contract is asked as
 * before.
 *
 * A segment with the option does not have the usual shape, so the parser of headers has
 * marked it as one with an unknown option. Only such segments are examined, and those whose
 * header has the bit that asks for an ACK at once; and only if the loader enables it.
 *
 * A sender that finds the rate from its lost ACKs (RFC 5690, ack_rate.bpf.c) takes an ACK
 * that covers more than R segments as a sign that another was lost. Linux makes such ACKs
 * by itself: for segments that arrived as one packet, or waited for the socket. So an ACK
 * that leaves its receiver says so by a bit (AW_TCP_ACK_SKIPPED) if it covers more than R
 * segments since the last ACK that left. This applies only if both ends said in the
 * handshake that ACKs are counted this way. An ACK that leaves unseen, and the one
 * after it, get the bit, too.
 */
#ifndef ACKWISE_OBEY_H
#define ACKWISE_OBEY_H

#include "../policy/options/ack_ratio.h"
#include "ecn.h"
#include "maps.h"

/* In the flags of struct aw_handshake, above those of echo.h: the SYN asks for ACK
 * congestion control, and the SYN-ACK permits it. */
#define HS_CONTROL_ASKED (1 << 10)
#define HS_CONTROL (1 << 11)

/* What a segment's options say: enum aw_ack_rate_said. */
static __noinline int obey_said(struct __sk_buff *skb, const struct aw_seg *seg)
{
	struct aw_percpu *here = percpu_here();
	__u32 n;

	if (!here || !seg || seg->l4_len <= 20)
		return AW_ACK_RATE_SILENT;
	n = seg->l4_len - 20;
	here->search.n = n;
	if (n > AW_OPT_BYTES || bpf_skb_load_bytes(skb, seg->l4_off + 20, here->search.b, n))
		return AW_ACK_RATE_SILENT;
	return aw_ack_rate_find(&here->search);
}

/* A SYN or SYN-ACK, which the handshake has processed. */
static __noinline int obey_read_handshake(struct __sk_buff *skb, const struct aw_key *key,
					  const struct aw_seg *seg)
{
	struct aw_handshake *h;
	int permits;

	if (!key || !seg)
		return 0;
	permits = obey_said(skb, seg) == AW_ACK_CONTROL_PERMITTED;
	h = bpf_map_lookup_elem(&handshakes, key);
	if (!h)
		return 0;
	if (!(seg->flags & AW_TCP_ACK)) {
		/* A SYN has just cleared all flags. */
		if (permits)
			h->flags |= HS_CONTROL_ASKED;
		return 0;
	}
	h->flags &= ~HS_CONTROL; /* the last of several answers counts */
	if (permits && (h->flags & HS_CONTROL_ASKED))
		h->flags |= HS_CONTROL;
	return 0;
}

static __always_inline void obey_on_syn(struct __sk_buff *skb, const struct aw_key *key,
					const struct aw_seg *seg)
{
	if (options.obey_ack_rate && (seg->flags & AW_TCP_SYN))
		obey_read_handshake(skb, key, seg);
}

/* Data of a flow, with an option unknown to the parser of headers. */
static __noinline int obey_read(struct __sk_buff *skb, struct aw_entry *f, const struct aw_seg *seg)
{
	if (!f || !seg)
		return 0;
	return aw_ack_rate_on_data(&f->asked, &f->flow, seg, (__u32)obey_said(skb, seg));
}

/* Data of a flow whose header has the bit. */
static __noinline int obey_bit(struct aw_entry *f, const struct aw_seg *seg)
{
	return f && seg ? aw_ack_rate_on_bit(&f->asked, &f->flow, seg) : 0;
}

static __always_inline void obey_on_data(struct __sk_buff *skb, struct aw_percpu *here,
					 struct aw_entry *f, const struct aw_seg *seg)
{
	int option = seg->opts & AW_OPT_UNKNOWN, bit = seg->flags & AW_TCP_ACK_REQUEST;

	if (!options.obey_ack_rate || AW_LIKELY(!option && !bit))
		return;
	/* Parse again: keeping all of it until here would take stack that is not available. */
	if (read_segment_slow(skb, options.link, &here->seg) != AW_PARSE_OK)
		return;
	if (option)
		here->counters.ack_rate_requests += obey_read(skb, f, &here->seg) != 0;
	if (bit)
		here->counters.ack_rate_requests += obey_bit(f, &here->seg) != 0;
}

/* Under the flow's lock: like aw_flow_on_ack(), with the n that was requested. */
static __noinline int obey_on_ack(struct aw_entry *f, struct aw_percpu *here, __u64 now_us)
{
	struct aw_flow_cfg cfg;

	if (!f || !here)
		return 0;
	cfg = *flow_cfg();
	cfg.policy.policy = AW_POLICY_EVERY_N;
	cfg.policy.param[AW_EVERY_N_n] = aw_ack_rate_n(&f->asked, &f->flow, &here->seg,
						       cfg.policy.param[AW_EVERY_N_n]);
	aw_flow_on_ack(&f->flow, &cfg, &here->seg, now_us, &here->decision);
	return 1;
}

static __always_inline int obey_counts_acks(const struct aw_entry *f)
{
	return options.obey_ack_rate && options.position == AW_AT_RECEIVER && !options.dry_run &&
	       (f->flow.hs.flags & HS_CONTROL);
}

/*
 * Call before the flow is told that an ACK with this number leaves. Returns whether it
 * covers more than R segments since the last one that left. R is the ratio that the sender
 * uses, and may have announced.
 */
static __always_inline __u32 obey_skipped(const struct aw_entry *f, __u32 ack)
{
	__u32 r;

	if (!obey_counts_acks(f))
		return 0;
	r = f->asked.r ? f->asked.r : AW_ACK_RATIO_LEAST;
	if (!(f->flow.acks.flags & AW_ACK_VALID))
		return 1;
	return aw_after(ack, f->flow.acks.sent_ack) &&
	       ack - f->flow.acks.sent_ack > r * f->flow.data.mss;
}

/* A pure ACK about to leave, for which obey_skipped() returned true. */
static __noinline int obey_say_skipped(struct __sk_buff *skb, __u32 l4_off)
{
	struct aw_percpu *here = percpu_here();

	if (here && set_tcp_bits(skb, l4_off, AW_TCP_ACK_SKIPPED, 1) > 0)
		here->counters.acks_skipped++;
	return 0;
}

#endif
