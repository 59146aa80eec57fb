/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Finds out who fills the link behind the interface (policy's uplink.h). On each CPU the
 * programs count the bytes that left of others, and those of the rest, as uplink.h says. User
 * space reads while they count, so neither may be a difference of two counters. It adds them
 * up, judges them every 100 ms, and writes the answer beside its heartbeat. An answer that is
 * too old counts as none. While others fill the link, departing pure ACKs may be assigned a
 * class of the queue behind the interface: aw_options.ack_priority.
 *
 * A GSO packet counts with its whole length, however long its segments are: its sender had
 * more than one to send.
 */
#ifndef ACKWISE_EGRESS_H
#define ACKWISE_EGRESS_H

#include "maps.h"

static __always_inline void ack_leaves(struct aw_percpu *here, struct __sk_buff *skb)
{
	const struct aw_control *a;
	__u32 k = 0;

	here->left_rest_bytes += skb->len;
	if (!options.ack_priority)
		return;
	a = bpf_map_lookup_elem(&control, &k);
	if (a && a->use_ack_priority)
		skb->priority = options.ack_priority;
}

static __always_inline void other_leaves(struct aw_percpu *here, const struct __sk_buff *skb,
					 __u32 is_tcp)
{
	__u32 others = aw_uplink_others(skb->len, is_tcp);

	here->counters.other_bytes += skb->len;
	here->left_others_bytes += others;
	here->left_rest_bytes += skb->len - others;
}

#endif
