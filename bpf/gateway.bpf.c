// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The gateway's redirect, at the egress of the interface that is the bottleneck. It takes
 * IP packets that leave there to the gateway's own queue.
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
 * - What keeps the link itself alive (ARP, IPv6 neighbour discovery) passes: it must not
 *   wait behind data.
 * - The mark is taken off again, for whatever comes after this hook.
 * - It keeps nothing but counters.
 *
 * It fails open: when the gateway gives no sign of life for a while packets pass, and
 * when its process is gone the program is gone as well.
 */
#define AW_IP_ONLY
#include "gateway_shared.h"
#include "headers.h"
#include "verdict.h"

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
	struct ip_info ip;
	__u8 type;

	return read_ip(skb, &ip) && ip.protocol == IPPROTO_ICMPV6 &&
	       load_l3(skb, ip.l4_off, &type, 1) && type >= 133 && type <= 137;
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
		return AW_PASS;
	if (skb->mark == gateway_options.cookie) {
		skb->mark = 0;
		count->returned++;
		return AW_PASS;
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
		return AW_PASS;
	default:
		count->other++;
		return AW_PASS;
	}
	if (c->alive_until_ns < bpf_ktime_get_coarse_ns()) {
		count->unattended++;
		return AW_PASS;
	}
	count->taken++;
	count->taken_bytes += skb->len;
	return bpf_redirect(gateway_options.tun_ifindex, 0);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
