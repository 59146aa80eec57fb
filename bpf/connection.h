/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Of a packet what tells its connection, for programs that look at TCP in passing:
 * without extension headers, tags in the frame, or PPPoE.
 */
#ifndef ACKWISE_CONNECTION_H
#define ACKWISE_CONNECTION_H

#include <linux/bpf.h>
#include <linux/in.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include "../policy/include/ackwise/tcp.h"

#define ECN_BITS 3

/* The end on this side of the interface comes first. */
struct connection {
	struct aw_addr near, far;
	__u16 near_port, far_port;
};

struct packet {
	struct connection of;
	__u32 version, ecn, l4_off, header, payload, flags;
};

/* Where TCP begins, or 0: another protocol, a fragment, an extension header. */
static __always_inline __u32 read_ip(struct __sk_buff *skb, struct packet *p, __u32 off, int out,
				     __u32 *len)
{
	struct aw_addr *from = out ? &p->of.near : &p->of.far;
	struct aw_addr *to = out ? &p->of.far : &p->of.near;
	__u8 ip[40];

	if (bpf_skb_load_bytes(skb, off, ip, sizeof(ip)))
		return 0;
	p->version = ip[0] >> 4;
	if (p->version == 4 && skb->protocol == bpf_htons(0x0800)) {
		__u32 header = (ip[0] & 15) * 4;

		if (ip[9] != IPPROTO_TCP || ((ip[6] & 0x3f) | ip[7]) || header < 20)
			return 0;
		p->ecn = ip[1] & ECN_BITS;
		aw_addr4(from, ip + 12);
		aw_addr4(to, ip + 16);
		*len = (ip[2] << 8 | ip[3]) - header;
		return off + header;
	}
	if (p->version == 6 && skb->protocol == bpf_htons(0x86dd) && ip[6] == IPPROTO_TCP) {
		p->ecn = ip[1] >> 4 & ECN_BITS;
		aw_addr6(from, ip + 8);
		aw_addr6(to, ip + 24);
		*len = ip[4] << 8 | ip[5];
		return off + 40;
	}
	return 0;
}

/* Of all TCP in the usual wrapping. `out`: it leaves by this interface. */
static __always_inline int read_packet(struct __sk_buff *skb, struct packet *p, __u32 l3_off,
				       int out)
{
	__u32 len = 0;
	__u8 tcp[20];

	__builtin_memset(p, 0, sizeof(*p));
	p->l4_off = read_ip(skb, p, l3_off, out, &len);
	if (!p->l4_off || bpf_skb_load_bytes(skb, p->l4_off, tcp, sizeof(tcp)))
		return 0;
	__builtin_memcpy(out ? &p->of.near_port : &p->of.far_port, tcp, 2);
	__builtin_memcpy(out ? &p->of.far_port : &p->of.near_port, tcp + 2, 2);
	p->flags = (tcp[12] & 15) << 8 | tcp[13];
	p->header = (tcp[12] >> 4) * 4;
	/* A length of 0 is an aggregate's (BIG TCP): full of data. */
	p->payload = len > p->header ? len - p->header : skb->gso_size;
	return 1;
}

#endif
