// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The tunnel's hook: the egress of the interface where ACKs are to be few.
 *
 *   stack, forwarding ──► egress hook ──► pure ACK, or short and wanted?
 *                                           │ yes: allowed by a peer that answers?
 *                                           │ yes: are redirected packets read?
 *                                           ▼ yes, each of them
 *                      pure ACK: a copy in shared memory, and no packet any more;
 *                      else redirect to the tunnel's TUN or TAP device
 *
 * - All else passes, and so does everything when the peer, the tunnel or its process
 *   is gone: nothing has to be undone.
 * - A process that hangs is noticed by the packets themselves: the first that is not
 *   read for the time of a period lets the next ones pass. No clock ticks for that.
 * - What ACK may wait, and what is news, is decided in the process by the contract;
 *   here it is enough that a packet has no payload and opens or ends nothing.
 * - To read a packet from a device is a system call, and costs as much as to compress
 *   it. Copies cost none.
 * - A packet that the tunnel restored, gave back, or sends itself is never taken.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/pkt_cls.h>
#include <linux/tcp.h>
#include <linux/udp.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include "tunnel_shared.h"

/* Go on to the next program; the same number for tcx and direct action. */
#define PASS TC_ACT_UNSPEC
/* No interface has this number: the packet is freed, and its socket not told (decision 6). */
#define NOWHERE 0x7fffffff

const volatile struct aw_tunnel_options tunnel_options = {};

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct aw_tunnel_prefix);
	__type(value, __u32);
} allowed_ips SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct aw_tunnel_state);
} state SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, AW_TUNNEL_RING);
} acks SEC(".maps");

struct look {
	struct aw_tunnel_prefix to;
	__u32 at;  /* of the transport header, from the network header */
	__u32 len; /* of the packet, from there on */
	__u8 protocol;
	__u8 pure;
};

static __always_inline int load(const struct __sk_buff *skb, __u32 at, void *to, __u32 size)
{
	return bpf_skb_load_bytes_relative(skb, at, to, size, BPF_HDR_START_NET) == 0;
}

/* 1 for a whole packet. Extension headers are none that ACKs have. */
static __always_inline int look_ip(const struct __sk_buff *skb, struct look *l)
{
	struct ipv6hdr ip6;
	struct iphdr ip;
	__u32 total;

	if (skb->protocol == bpf_htons(ETH_P_IP)) {
		if (!load(skb, 0, &ip, sizeof(ip)) || ip.version != 4)
			return 0;
		if (ip.frag_off & bpf_htons(0x3fff)) /* more, or an offset */
			return 0;
		l->at = ip.ihl * 4;
		total = bpf_ntohs(ip.tot_len);
		if (total < l->at)
			return 0;
		l->len = total - l->at;
		l->protocol = ip.protocol;
		l->to.family = 4;
		__builtin_memcpy(l->to.address, &ip.daddr, 4);
		l->to.len = 32 + 32;
		return 1;
	}
	if (skb->protocol != bpf_htons(ETH_P_IPV6) || !load(skb, 0, &ip6, sizeof(ip6)))
		return 0;
	l->at = sizeof(ip6);
	l->len = bpf_ntohs(ip6.payload_len);
	l->protocol = ip6.nexthdr;
	l->to.family = 6;
	__builtin_memcpy(l->to.address, &ip6.daddr, 16);
	l->to.len = 32 + 128;
	return 1;
}

static __always_inline int is_pure_ack(const struct __sk_buff *skb, const struct look *l)
{
	struct tcphdr tcp;

	if (l->protocol != IPPROTO_TCP || !load(skb, l->at, &tcp, sizeof(tcp)))
		return 0;
	return l->len == tcp.doff * 4 && tcp.ack && !tcp.syn && !tcp.fin && !tcp.rst && !tcp.urg;
}

/* Packets that keep the link or the tunnel itself alive are none. */
static __always_inline int is_wanted(const struct __sk_buff *skb, struct look *l)
{
	struct udphdr udp;

	l->pure = is_pure_ack(skb, l);
	if (l->pure)
		return 1;
	if (l->at + l->len > tunnel_options.max_other_len || l->protocol == IPPROTO_ICMPV6)
		return 0;
	if (l->protocol != IPPROTO_UDP)
		return 1;
	return load(skb, l->at, &udp, sizeof(udp)) && udp.source != bpf_htons(tunnel_options.port);
}

/* The verdict for a packet that is taken. */
static __always_inline int take(const struct __sk_buff *skb, const struct look *l,
				struct aw_tunnel_state *s)
{
	struct aw_tunnel_ack *a;
	const __u32 most = sizeof(a->bytes);
	__u32 len = skb->len;

	/* A tag that is not in the frame yet gets there on the way to a device. */
	if (!l->pure || skb->vlan_present || len > most) {
		__sync_fetch_and_add(&s->taken, 1);
		return bpf_redirect(tunnel_options.tun_ifindex, 0);
	}
	a = bpf_ringbuf_reserve(&acks, sizeof(*a), 0);
	if (!a) {
		__sync_fetch_and_add(&s->unattended, 1);
		return PASS;
	}
	/* The same bound once more: from two compares that clang makes one of, Linux 6.12 learns
	 * nothing. */
	len = ((len - 1) & (most - 1)) + 1;
	if (bpf_skb_load_bytes(skb, 0, a->bytes, len)) {
		bpf_ringbuf_discard(a, 0);
		return PASS;
	}
	a->len = len;
	bpf_ringbuf_submit(a, 0);
	__sync_fetch_and_add(&s->taken, 1);
	return bpf_redirect(NOWHERE, 0);
}

SEC("classifier")
int ackwise_tunnel(struct __sk_buff *skb)
{
	struct aw_tunnel_state *s;
	struct look l = {};
	__u32 zero = 0, *peer;
	__u64 since, now;

	s = bpf_map_lookup_elem(&state, &zero);
	if (!s)
		return PASS;
	if (skb->mark == tunnel_options.cookie) {
		skb->mark = 0;
		__sync_fetch_and_add(&s->returned, 1);
		return PASS;
	}
	if (skb->mark == tunnel_options.mark ||
	    skb->ingress_ifindex == tunnel_options.restored_ifindex)
		return PASS;
	if (!look_ip(skb, &l) || !is_wanted(skb, &l))
		return PASS;
	peer = bpf_map_lookup_elem(&allowed_ips, &l.to);
	if (!peer || *peer >= AW_TUNNEL_PEERS || !*(volatile __u32 *)&s->up[*peer])
		return PASS;
	since = *(volatile __u64 *)&s->waiting_since;
	now = bpf_ktime_get_ns();
	if (!since)
		*(volatile __u64 *)&s->waiting_since = now;
	else if (now > since + tunnel_options.grace_ns) {
		__sync_fetch_and_add(&s->unattended, 1);
		return PASS;
	}
	return take(skb, &l, s);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
