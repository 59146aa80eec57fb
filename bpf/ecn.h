/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The ECN bits of a packet, and others of the TCP header. Any parser reads them; they
 * are written here. */
#ifndef ACKWISE_ECN_H
#define ACKWISE_ECN_H

#include <linux/bpf.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include "../policy/include/ackwise/tcp.h"

enum ecn {
	NOT_ECT = 0,
	ECT0 = 2,
	CE = 3
}; /* RFC 3168 §5 */

/* A SYN-ACK with one of them: ECN or AccECN was negotiated (RFC 9768 §3.1.2). */
#define ECN_FLAGS (AW_TCP_ECE | AW_TCP_CWR | AW_TCP_AE)

/* Sets the two ECN bits of an IP header, and updates the checksum of IPv4. */
static __always_inline int set_ecn(struct __sk_buff *skb, __u32 l3_off, __u32 version, enum ecn ecn)
{
	__u8 old[2], new[2];

	if (bpf_skb_load_bytes(skb, l3_off, old, 2))
		return -1;
	new[0] = old[0];
	if (version == 6) {
		new[1] = (old[1] & ~(CE << 4)) | ecn << 4;
		return bpf_skb_store_bytes(skb, l3_off, new, 2, 0);
	}
	new[1] = (old[1] & ~CE) | ecn;
	if (bpf_l3_csum_replace(skb, l3_off + 10, *(__u16 *)old, *(__u16 *)new, 2))
		return -1;
	return bpf_skb_store_bytes(skb, l3_off, new, 2, 0);
}

/* Sets or clears bits of a TCP header (enum aw_tcp_flag), and updates the checksum.
 * Returns 1 if that changed it, and a negative value on failure. */
static __always_inline int set_tcp_bits(struct __sk_buff *skb, __u32 l4_off, __u16 bits, int on)
{
	__u16 old, new;

	if (bpf_skb_load_bytes(skb, l4_off + 12, &old, 2))
		return -1;
	new = on ? old | bpf_htons(bits) : old & ~bpf_htons(bits);
	if (old == new)
		return 0;
	if (bpf_l4_csum_replace(skb, l4_off + 16, old, new, 2) ||
	    bpf_skb_store_bytes(skb, l4_off + 12, &new, 2, 0))
		return -1;
	return 1;
}

/* Sets or clears ECE. */
static __always_inline int set_ece(struct __sk_buff *skb, __u32 l4_off, int on)
{
	return set_tcp_bits(skb, l4_off, AW_TCP_ECE, on);
}

#endif
