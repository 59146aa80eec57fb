// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The tunnel's hook, at the egress of the interface where ACKs are to be few. It takes the
 * pure ACKs that leave there, and optionally short packets, to the tunnel.
 *
 *   stack, forwarding ──► egress hook ──► pure ACK, or short and wanted?
 *                                           │ yes: allowed by a peer that answers?
 *                                           │ yes: are redirected packets read?
 *                                           ▼ yes, each of them
 *                      pure ACK: a copy in shared memory, and no packet any more;
 *                      else redirect to the tunnel's TUN or TAP device
 *
 * - The process decides by the contract which ACK may wait, and which carries news. Here it
 *   is enough that a packet has no payload and neither opens nor closes a connection.
 * - Reading a packet from a device is a system call, and costs as much as compressing it. A
 *   copy in shared memory needs none.
 * - A packet that the tunnel restored, gave back, or sends itself is never taken. Its
 *   datagrams carry a mark, as do their fragments.
 * - It keeps counters and a time: since when the process has not read what was taken.
 *
 * It fails open: everything else passes, and so does everything if the peer, the tunnel or
 * its process is gone; nothing has to be undone. The packets themselves detect a process
 * that hangs: once a packet has gone unread for the grace period, the next ones pass. No
 * timer is needed for that.
 */
#define AW_IP_ONLY
#include "ackwise_shared.h"
#include "headers.h"
#include "metadata.h"
#include "tunnel_shared.h"
#include "verdict.h"

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

/* Whether its destination is on this link: multicast, broadcast or link-local. DHCP, MLD
 * and mDNS use such addresses. */
static __always_inline int is_link_scoped(const struct ip_info *ip)
{
	__u32 first = bpf_ntohl(ip->dst.w[0]);

	if (ip->version == 4)
		return first >> 28 == 0xe || first == 0xffffffff || first >> 16 == 0xa9fe;
	return first >> 24 == 0xff || first >> 22 == 0xfe80 >> 6;
}

/* Whether the tunnel may carry it. A packet that keeps the link alive must not be taken. */
static __always_inline int is_wanted(const struct ip_info *ip, int pure_ack)
{
	if (pure_ack)
		return 1;
	return ip->l4_off + ip->l4_len <= tunnel_options.max_other_len &&
	       ip->protocol != IPPROTO_ICMPV6 && !is_link_scoped(ip);
}

/* Whether the packet's destination is behind a peer that answers. */
static __always_inline int has_peer(const struct ip_info *ip, const struct aw_tunnel_state *s)
{
	struct aw_tunnel_prefix to = { .family = ip->version };
	__u32 *peer;

	to.len = 32 + (ip->version == 4 ? 32 : 128);
	__builtin_memcpy(to.address, &ip->dst, sizeof(to.address));
	peer = bpf_map_lookup_elem(&allowed_ips, &to);
	return peer && *peer < AW_TUNNEL_PEERS && *(volatile __u32 *)&s->up[*peer];
}

/* Whether the process reads what it is given. Starts to wait for that if not yet waiting. */
static __always_inline int is_attended(struct aw_tunnel_state *s)
{
	__u64 since = *(volatile __u64 *)&s->waiting_since;
	__u64 now = bpf_ktime_get_ns();

	if (!since)
		*(volatile __u64 *)&s->waiting_since = now;
	return !since || now <= since + tunnel_options.grace_ns;
}

/* The verdict for a packet that is taken. */
static __always_inline int take(const struct __sk_buff *skb, int pure_ack,
				struct aw_tunnel_state *s)
{
	struct aw_tunnel_ack *a;
	const __u32 max = sizeof(a->bytes);
	__u32 len = skb->len;

	/* A tag that is not yet in the frame gets there on the way to a device. */
	if (!pure_ack || skb->vlan_present || len > max) {
		__sync_fetch_and_add(&s->taken, 1);
		return bpf_redirect(tunnel_options.tun_ifindex, 0);
	}
	a = bpf_ringbuf_reserve(&acks, sizeof(*a), 0);
	if (!a) {
		__sync_fetch_and_add(&s->unattended, 1);
		return AW_PASS;
	}
	/* The same bound once more: clang merges two comparisons into one, and the
	 * verifier of Linux 6.12 learns nothing from that. */
	len = ((len - 1) & (max - 1)) + 1;
	if (bpf_skb_load_bytes(skb, 0, a->bytes, len)) {
		bpf_ringbuf_discard(a, 0);
		return AW_PASS;
	}
	a->len = len;
	bpf_ringbuf_submit(a, 0);
	__sync_fetch_and_add(&s->taken, 1);
	return aw_vanish();
}

SEC("classifier")
int ackwise_tunnel(struct __sk_buff *skb)
{
	struct aw_tunnel_state *s;
	struct ip_info ip;
	__u32 zero = 0;
	int pure_ack;

	s = bpf_map_lookup_elem(&state, &zero);
	if (!s)
		return AW_PASS;
	if (skb->mark == tunnel_options.cookie) {
		skb->mark = 0;
		__sync_fetch_and_add(&s->returned, 1);
		return AW_PASS;
	}
	/* The datapath's own hook comes next and expects it. */
	if ((skb->mark & ~AW_COOKIE_SLOT) == AW_COOKIE_MAGIC)
		return AW_PASS;
	if (skb->mark == tunnel_options.mark ||
	    skb->ingress_ifindex == tunnel_options.restored_ifindex)
		return AW_PASS;
	if (!read_ip(skb, &ip))
		return AW_PASS;
	pure_ack = is_pure_ack(skb, &ip);
	if (!is_wanted(&ip, pure_ack) || !has_peer(&ip, s))
		return AW_PASS;
	/* The device would drop it if the tunnel gives it back. */
	if (has_tunnel_key(skb))
		return AW_PASS;
	if (!is_attended(s)) {
		__sync_fetch_and_add(&s->unattended, 1);
		return AW_PASS;
	}
	return take(skb, pure_ack, s);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
