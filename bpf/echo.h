/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What ACC (policies/acc.h) needs on the wire, at the data receiver's end:
 *
 *   pure ACKs leave with ECT(0)		a queue may mark them instead of dropping
 *   ECE on arriving data			one of them was marked: noted, and cleared
 *
 * Only connections without ECN are touched, whose own stacks read neither. On a connection
 * that negotiated ECN or AccECN (RFC 3168, RFC 9768), both bits mean something else. Only
 * the handshake shows which it is, so a connection that began before the program is left
 * alone, too.
 */
#ifndef ACKWISE_ECHO_H
#define ACKWISE_ECHO_H

#include "ecn.h"
#include "maps.h"

/* In the flags of struct aw_handshake, above enum aw_handshake_flag. */
#define HS_WITHOUT_ECN (1 << 8)
#define HS_WITH_ECN (1 << 9)

/* Call after aw_handshake_on_segment(), which clears all flags on a SYN. */
static __always_inline void echo_handshake(struct aw_handshake *h, const struct aw_seg *seg)
{
	if ((seg->flags & (AW_TCP_SYN | AW_TCP_ACK)) != (AW_TCP_SYN | AW_TCP_ACK))
		return;
	/* The answer decides. A SYN-ACK without ECN after one with it is a
	 * retransmission by a server that suspects ECN of the loss: it is unknown which
	 * one the client received. */
	h->flags |= seg->flags & ECN_FLAGS ? HS_WITH_ECN : HS_WITHOUT_ECN;
}

static __always_inline int echo_is_on(void)
{
	return options.flow.policy.policy == AW_POLICY_ACC && options.position == AW_AT_RECEIVER &&
	       !options.dry_run;
}

static __always_inline int echo_wanted(const struct aw_flow *f)
{
	return echo_is_on() && (f->hs.flags & (HS_WITHOUT_ECN | HS_WITH_ECN)) == HS_WITHOUT_ECN;
}

/* A pure ACK about to leave. */
static __noinline int echo_mark_capable(struct __sk_buff *skb, const struct aw_seg *seg)
{
	if (!seg || seg->payload || seg->ip_ecn || (seg->flags & ~AW_TCP_PSH) != AW_TCP_ACK)
		return 0;
	return set_ecn(skb, seg->l3_off, seg->ip_version, ECT0);
}

/* Data that arrive. Returns 1 if its ECE is an echo; any other ECE has another meaning
 * or none here, and the policy does not see it. */
static __always_inline __u32 echo_on_data(const struct aw_entry *f, struct aw_seg *seg)
{
	if (options.flow.policy.policy != AW_POLICY_ACC || !(seg->flags & AW_TCP_ECE))
		return 0;
	if (echo_wanted(&f->flow))
		return 1;
	seg->flags &= ~AW_TCP_ECE;
	return 0;
}

/* A noted echo is hidden from the stack, which does not use ECN here. */
static __noinline int echo_clear(struct __sk_buff *skb, __u32 l4_off)
{
	return set_ece(skb, l4_off, 0);
}

#endif
