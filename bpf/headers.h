/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The one parser of packet headers, for all programs here.
 *
 *   read_segment()	a TCP segment, whatever its link header, IP options, extension
 *			headers and TCP options are: policy's parser on the packet's bytes
 *   read_ip()		for any IP packet its type, its destination and the offset of its
 *			payload, for programs that take more than TCP
 *
 * read_segment() has two speeds. Nearly every segment has the usual shape and is parsed
 * inline from the linear bytes. Any other goes to global subprograms, which the verifier
 * checks once instead of along every path that leads to them. A program that parses no
 * segments defines AW_IP_ONLY, so that its object does not contain them.
 */
#ifndef ACKWISE_HEADERS_H
#define ACKWISE_HEADERS_H

/* How policy's parser is compiled for the verifier: see tcp.h. */
#define AW_BPF 1
#ifndef AW_IP_ONLY
#define AW_SUBPROG __attribute__((noinline))
#define AW_REPEAT(n, step, context) bpf_loop(n, step, context, 0)
#endif

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/tcp.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include "../policy/include/ackwise/tcp.h"

/* ---- VLANs ----------------------------------------------------------------- */

/* Adds a tag to those outside of it. A priority tag (VLAN 0) does not count. */
static __always_inline __u32 vlan_add(__u32 vlans, __u32 tci)
{
	__u32 vid = tci & 0xfff;

	return vid ? vlans << 12 | vid : vlans;
}

/* The VLAN of the tag beside a frame; 0: none. */
static __always_inline __u32 vlan_beside(const struct __sk_buff *skb)
{
	return skb->vlan_present ? vlan_add(0, skb->vlan_tci) : 0;
}

#ifndef AW_IP_ONLY

/* ---- TCP segments ---------------------------------------------------------- */

#define MAX_HEADERS (22 + 60 + 60) /* Ethernet with two tags, IPv4, TCP */

/* The second half of read_segment_slow(), verified for all offsets at once. */
__attribute__((noinline)) int read_segment_slow_tcp(struct __sk_buff *skb, struct aw_seg *seg)
{
	if (!seg)
		return AW_PARSE_MALFORMED;
	return aw_general_tcp((const __u8 *)(long)skb->data, (const __u8 *)(long)skb->data_end,
			      seg);
}

/*
 * Parses any shape. Nonlinear headers are pulled once, so callers must load packet pointers
 * afterwards.
 */
__attribute__((noinline)) int read_segment_slow(struct __sk_buff *skb, __u32 link,
						struct aw_seg *seg)
{
	__u32 want = skb->len < MAX_HEADERS ? skb->len : MAX_HEADERS;
	int status;

	if (!seg)
		return AW_PARSE_MALFORMED;
	if ((__u32)(skb->data_end - skb->data) < want && bpf_skb_pull_data(skb, want))
		return AW_PARSE_TRUNCATED;
	status = aw_general_ip((const __u8 *)(long)skb->data, (const __u8 *)(long)skb->data_end,
			       link, skb->len, seg);
	return status == AW_PARSE_OK ? read_segment_slow_tcp(skb, seg) : status;
}

/* Whether a quick check can rule out TCP, so that not every UDP packet takes the slow path. */
static __always_inline int surely_not_tcp(const struct __sk_buff *skb, __u32 link)
{
	const __u8 *d = (const __u8 *)(long)skb->data, *end = (const __u8 *)(long)skb->data_end;
	const __u8 *ip = d + (link == AW_LINK_ETHERNET ? ETH_HLEN : 0);
	__u16 type = 0;

	if (ip + 40 > end)
		return 0;
	if (link == AW_LINK_ETHERNET) {
		type = *(const __u16 *)(d + 12);
		if (type != bpf_htons(ETH_P_IP) && type != bpf_htons(ETH_P_IPV6))
			return type != bpf_htons(ETH_P_8021Q) && type != bpf_htons(ETH_P_8021AD);
	}
	if (ip[0] >> 4 == 4 && type != bpf_htons(ETH_P_IPV6))
		return ip[0] == 0x45 && ip[9] != IPPROTO_TCP;
	if (ip[0] >> 4 == 6 && type != bpf_htons(ETH_P_IP))
		return ip[6] == IPPROTO_UDP || ip[6] == IPPROTO_ICMPV6;
	return 0;
}

/*
 * Returns an enum aw_parse_status; seg is defined if that is AW_PARSE_OK. `spare` is
 * initialised memory that the slow parser may write: seg itself or another. With another
 * one, seg never leaves this function, and its fields can live in registers.
 */
static __always_inline int read_segment(struct __sk_buff *skb, __u32 link, struct aw_seg *seg,
					struct aw_seg *spare)
{
	int status;

	if (AW_LIKELY(aw_parse_fast((const __u8 *)(long)skb->data,
				    (const __u8 *)(long)skb->data_end, link, skb->len, seg)))
		return AW_PARSE_OK;
	if (surely_not_tcp(skb, link))
		return AW_PARSE_NOT_TCP;
	status = read_segment_slow(skb, link, spare);
	if (status == AW_PARSE_OK && seg != spare)
		*seg = *spare;
	return status;
}

/* The tags inside a frame, at most two. */
static __noinline __u32 vlans_inside(struct __sk_buff *skb, __u32 l3_off, __u32 vlans)
{
	const __u8 *d = (const __u8 *)(long)skb->data, *end = (const __u8 *)(long)skb->data_end;

	if (l3_off >= 18 && d + 18 <= end)
		vlans = vlan_add(vlans, bpf_ntohs(*(const __u16 *)(d + 14)));
	if (l3_off >= 22 && d + 22 <= end)
		vlans = vlan_add(vlans, bpf_ntohs(*(const __u16 *)(d + 18)));
	return vlans;
}

/* The VLANs of a frame: the same whether its outer tag is beside it or inside. */
static __always_inline __u32 vlans_of(struct __sk_buff *skb, const struct aw_seg *s)
{
	__u32 vlans = vlan_beside(skb);

	return AW_LIKELY(s->l3_off <= 14) ? vlans : vlans_inside(skb, s->l3_off, vlans);
}

#endif /* AW_IP_ONLY */

/* ---- Connections ----------------------------------------------------------- */

/* A TCP connection as an interface sees it. */
struct connection {
	struct aw_addr near, far; /* `near` is on this side of the interface */
	__u16 near_port, far_port;
	__u32 vlans; /* networks in two of them may have the same addresses */
};

#ifndef AW_IP_ONLY

static __always_inline void connection_of(struct connection *c, struct __sk_buff *skb,
					  const struct aw_seg *s, int egress)
{
	c->near = egress ? s->src : s->dst;
	c->far = egress ? s->dst : s->src;
	c->near_port = egress ? s->sport : s->dport;
	c->far_port = egress ? s->dport : s->sport;
	c->vlans = vlans_of(skb, s);
}

#endif /* AW_IP_ONLY */

/* ---- Any IP packet --------------------------------------------------------- */

/* A place in a packet: `off` bytes after `from`, a BPF_HDR_START_*. */
struct place {
	__u32 from, off;
};

/* Copies bytes from `off` bytes after a place. Returns 1, or 0 if the packet is too short. */
static __always_inline int load_from(const struct __sk_buff *skb, const struct place *at, __u32 off,
				     void *to, __u32 size)
{
	return bpf_skb_load_bytes_relative(skb, at->off + off, to, size, at->from) == 0;
}

/*
 * Finds what is behind the tags inside a frame, at most two, and adds their VLANs to those
 * outside. Returns its protocol, or 0 if the frame is too short. The network header of a
 * tagged frame may be that of the tag or the one behind it, so the tags are counted from the
 * start of the frame.
 */
static __always_inline __u16 behind_tags(const struct __sk_buff *skb, struct place *at,
					 __u32 *vlans)
{
	__u16 protocol = skb->protocol;
	struct {
		__be16 tci, protocol;
	} tag;

	*at = (struct place){ BPF_HDR_START_NET, 0 };
	for (int i = 0; i < 2; i++) {
		if (protocol != bpf_htons(ETH_P_8021Q) && protocol != bpf_htons(ETH_P_8021AD))
			break;
		if (i == 0)
			*at = (struct place){ BPF_HDR_START_MAC, ETH_HLEN };
		if (!load_from(skb, at, 0, &tag, sizeof(tag)))
			return 0;
		*vlans = vlan_add(*vlans, bpf_ntohs(tag.tci));
		protocol = tag.protocol;
		at->off += sizeof(tag);
	}
	return protocol;
}

struct ip_info {
	__u8 version;	    /* 4 or 6 */
	__u8 protocol;	    /* IPPROTO_*: for IPv6 the header after the fixed one */
	__u32 l4_off;	    /* of what follows the IP header, relative to the IP header */
	__u32 l4_len;	    /* its length in bytes, including headers */
	struct aw_addr dst; /* as on the wire; IPv4 in the first word, the rest 0 */
};

/* Copies bytes at an offset from the IP header. Returns 1, or 0 if the packet is too
 * short. */
static __always_inline int load_l3(const struct __sk_buff *skb, __u32 off, void *to, __u32 size)
{
	return bpf_skb_load_bytes_relative(skb, off, to, size, BPF_HDR_START_NET) == 0;
}

/* Returns 1 for a whole packet, and 0 for a fragment, another protocol, or a truncated
 * header. */
static __always_inline int read_ip(const struct __sk_buff *skb, struct ip_info *info)
{
	struct ipv6hdr ip6;
	struct iphdr ip;
	__u32 total;

	if (skb->protocol == bpf_htons(ETH_P_IP)) {
		if (!load_l3(skb, 0, &ip, sizeof(ip)) || ip.version != 4)
			return 0;
		if (ip.frag_off & bpf_htons(0x3fff)) /* more fragments, or an offset */
			return 0;
		info->version = 4;
		info->protocol = ip.protocol;
		info->l4_off = ip.ihl * 4;
		total = bpf_ntohs(ip.tot_len);
		if (total < info->l4_off)
			return 0;
		info->l4_len = total - info->l4_off;
		aw_addr4(&info->dst, (const __u8 *)&ip.daddr);
		return 1;
	}
	if (skb->protocol != bpf_htons(ETH_P_IPV6) || !load_l3(skb, 0, &ip6, sizeof(ip6)))
		return 0;
	info->version = 6;
	info->protocol = ip6.nexthdr;
	info->l4_off = sizeof(ip6);
	info->l4_len = bpf_ntohs(ip6.payload_len);
	aw_addr6(&info->dst, (const __u8 *)&ip6.daddr);
	return 1;
}

/* Whether a packet is an ACK without payload that neither opens nor closes a connection. */
static __always_inline int is_pure_ack(const struct __sk_buff *skb, const struct ip_info *info)
{
	struct tcphdr tcp;

	if (info->protocol != IPPROTO_TCP || !load_l3(skb, info->l4_off, &tcp, sizeof(tcp)))
		return 0;
	return info->l4_len == tcp.doff * 4 && tcp.ack && !tcp.syn && !tcp.fin && !tcp.rst &&
	       !tcp.urg;
}

#endif
