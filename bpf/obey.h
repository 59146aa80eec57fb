/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * TCP ACK Rate Request at the data receiver: what its sender asks for is the n of the policy
 * every-n (../policy/options/ack_rate_request.h). The contract is asked as before.
 *
 * A segment with the option has not the usual shape, so the reader of headers has marked it
 * as one with an unknown option. Only such segments are looked at, and those whose header has
 * the bit that asks for an ACK at once; and nothing is looked at unless the loader says so.
 */
#ifndef ACKWISE_OBEY_H
#define ACKWISE_OBEY_H

#include "maps.h"

/* Data of a flow, with an option that the reader of headers did not know. */
static __noinline int obey_read(struct __sk_buff *skb, struct aw_entry *f, const struct aw_seg *seg)
{
	struct aw_ack_rate_search search = {};
	__u32 n;

	if (!f || !seg || seg->l4_len <= 20)
		return 0;
	n = seg->l4_len - 20;
	search.n = n;
	if (n > AW_OPT_BYTES || bpf_skb_load_bytes(skb, seg->l4_off + 20, search.b, n))
		return 0;
	return aw_ack_rate_on_data(&f->asked, &f->flow, seg, (__u32)aw_ack_rate_find(&search));
}

/* Data of a flow, whose header has the bit. */
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
	here->seg = *seg;
	if (option)
		here->counters.ack_rate_requests += obey_read(skb, f, &here->seg) != 0;
	if (bit)
		here->counters.ack_rate_requests += obey_bit(f, &here->seg) != 0;
}

/* Under the flow's lock: as aw_flow_on_ack(), with the n that was asked for. */
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

#endif
