// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The gateway's hook: the egress of the interface that is the bottleneck.
 *
 *   stack, forwarding ──► egress hook ──► ours? ──► yes: on to the device
 *                                           │
 *                                           ▼ no, and the gateway lives
 *                                 redirect to its TUN or TAP device
 *                                           │
 *                                   gateway: queue, rate
 *                                           │ AF_PACKET, marked
 *                                           └──► egress hook, again
 *
 * - A packet that is redirected is complete: routed, translated, with its link
 *   header. On its way into a device without offloads the stack cuts aggregated
 *   packets up and fills in checksums, so what the gateway reads is what would
 *   have been on the wire.
 * - A redirect is no local drop: the socket that sent the packet sees nothing.
 * - What keeps the link itself alive passes: it must not wait behind data.
 * - The mark is taken off again, for whatever comes after this hook.
 * - No sign of life for a while, or no process and so no program: packets pass.
 */
#include <linux/bpf.h>
#include <linux/icmpv6.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ipv6.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include "gateway_shared.h"

/* Go on to the next program; the same number for tcx and direct action. */
#define PASS TC_ACT_UNSPEC

const volatile struct aw_gateway_options gateway_options = {};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct aw_gateway_control);
} control SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct aw_gateway_counters);
} counters SEC(".maps");

/* RFC 4861: solicitations, advertisements, redirects. */
static __always_inline int is_neighbour_discovery(struct __sk_buff *skb)
{
	struct ipv6hdr ip;
	__u8 type;

	if (bpf_skb_load_bytes_relative(skb, 0, &ip, sizeof(ip), BPF_HDR_START_NET) < 0)
		return 0;
	if (ip.nexthdr != IPPROTO_ICMPV6)
		return 0;
	if (bpf_skb_load_bytes_relative(skb, sizeof(ip), &type, 1, BPF_HDR_START_NET) < 0)
		return 0;
	return type >= 133 && type <= 137;
}

SEC("classifier")
int ackwise_gateway(struct __sk_buff *skb)
{
	struct aw_gateway_counters *count;
	struct aw_gateway_control *c;
	__u32 zero = 0;

	count = bpf_map_lookup_elem(&counters, &zero);
	c = bpf_map_lookup_elem(&control, &zero);
	if (!count || !c)
		return PASS;
	if (skb->mark == gateway_options.cookie) {
		skb->mark = 0;
		count->returned++;
		return PASS;
	}
	switch (skb->protocol) {
	case bpf_htons(ETH_P_IP):
	case bpf_htons(ETH_P_8021Q):
	case bpf_htons(ETH_P_8021AD):
	case bpf_htons(ETH_P_PPP_SES):
		break;
	case bpf_htons(ETH_P_IPV6):
		if (!is_neighbour_discovery(skb))
			break;
		count->neighbour++;
		return PASS;
	default:
		count->other++;
		return PASS;
	}
	if (c->alive_until_ns < bpf_ktime_get_coarse_ns()) {
		count->unattended++;
		return PASS;
	}
	count->taken++;
	count->taken_bytes += skb->len;
	return bpf_redirect(gateway_options.tun_ifindex, 0);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
