// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The gateway's redirect, at the egress of the bottleneck's interface. It redirects the IP
 * packets that leave there to the gateway's own queue.
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
 * - A redirected packet is complete: routed, translated, with its link header. On its way
 *   into a device without offloads, the stack segments aggregated packets and fills in
 *   checksums, so the gateway reads what would have been on the wire.
 * - A redirect is not a local drop: the socket that sent the packet sees nothing.
 * - Packets that keep the link itself alive (ARP, IPv6 neighbour discovery, the control
 *   protocols of PPP over Ethernet) pass, with or without VLAN tags: they must neither wait
 *   behind data nor be dropped for lack of room.
 * - The mark is removed, for whatever comes after this hook.
 * - An ACK that `ackwise attach` withheld on this interface and now re-emits passes. It was
 *   withheld behind this hook, so it has had its turn in the queue. If it were taken again,
 *   it would lose the mark by which the datapath knows it, and be re-emitted again and
 *   again.
 * - It keeps no state but counters.
 *
 * It fails open: if the gateway gives no sign of life for a while, packets pass, and when
 * its process ends, the program is gone as well.
 */
#define AW_IP_ONLY
#include <linux/bpf.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include "ackwise_shared.h"
#include "gateway_shared.h"
#include "headers.h"
#include "metadata.h"
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

/* What a packet is to the gateway. */
enum content {
	DATA,	   /* it waits in the queue */
	OTHER,	   /* neither IP nor a tunnel of it, or it keeps a PPP link alive */
	NEIGHBOUR, /* neighbour discovery */
};

/*
 * RFC 4861 §6.1, §7.1: solicitations, advertisements and redirects have code 0 and a hop limit
 * of 255. One with another hop limit was forwarded or forged, and is data.
 */
static __always_inline int is_neighbour_discovery(const struct __sk_buff *skb,
						  const struct place *ip)
{
	__u8 next[2]; /* next header, hop limit */
	__u8 icmp[2]; /* type, code */

	return load_from(skb, ip, 6, next, sizeof(next)) && next[0] == IPPROTO_ICMPV6 &&
	       next[1] == 255 && load_from(skb, ip, 40, icmp, sizeof(icmp)) && icmp[0] >= 133 &&
	       icmp[0] <= 137 && icmp[1] == 0;
}

/*
 * RFC 1661 §2: PPP protocols from 0x8000 on are control protocols, of the link (LCP with its
 * echoes, authentication) and of networks (IPCP, IPV6CP). `session` is the PPPoE header
 * (RFC 2516 §4); the two bytes after it are the PPP protocol.
 */
static __always_inline enum content content_of_ppp(const struct __sk_buff *skb,
						   struct place *session)
{
	__be16 protocol;

	if (!load_from(skb, session, 6, &protocol, sizeof(protocol)))
		return OTHER;
	if (protocol & bpf_htons(0x8000))
		return OTHER;
	session->off += 8;
	if (protocol == bpf_htons(0x0057) && is_neighbour_discovery(skb, session))
		return NEIGHBOUR;
	return DATA;
}

static __always_inline enum content content_of(const struct __sk_buff *skb)
{
	struct place at;
	__u32 vlans = 0;

	switch (behind_tags(skb, &at, &vlans)) {
	case bpf_htons(ETH_P_IPV6):
		return is_neighbour_discovery(skb, &at) ? NEIGHBOUR : DATA;
	case bpf_htons(ETH_P_PPP_SES):
		return content_of_ppp(skb, &at);
	case bpf_htons(ETH_P_IP):
	case bpf_htons(ETH_P_8021Q):
	case bpf_htons(ETH_P_8021AD):
		return DATA;
	default:
		return OTHER;
	}
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
	/* The datapath's own hook comes next and expects it. */
	if ((skb->mark & ~AW_COOKIE_SLOT) == AW_COOKIE_MAGIC) {
		count->returned++;
		return AW_PASS;
	}
	switch (content_of(skb)) {
	case DATA:
		break;
	case NEIGHBOUR:
		count->neighbour++;
		return AW_PASS;
	default:
		count->other++;
		return AW_PASS;
	}
	/* The device would drop it when the gateway sends it. */
	if (has_tunnel_key(skb)) {
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
