// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Restored packets, received many at a time (docs/decisions/0020-many-at-a-time.md).
 *
 * The tunnel runs this XDP program by BPF_PROG_TEST_RUN with live frames, once per packet.
 * It is attached to no device that receives anything. Each run fills the frame with the
 * next packet from shared memory, as if the tunnel's device had received it: one system
 * call for all of them, and the stack receives them as one list. The index of the next
 * packet is in the same memory.
 *
 * A frame for which there is no packet, or that arrives by another device, is dropped: it
 * carries nothing. The tunnel then writes its packets to the device one by one.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include "inject_shared.h"

#define WORDS (AW_INJECT_MAX_LEN / 8)

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct aw_inject);
} inject SEC(".maps");

/* The tunnel's own device. Running a program names a device, and needs no privilege for
 * it. A compromised process must not be able to send by another device. */
const volatile __u32 inject_device;

/* A frame has the maximum length. Pages are reused, so it may contain old data: all of
 * it is written. The device's address is zero. */
SEC("xdp")
int ackwise_inject(struct xdp_md *ctx)
{
	void *end = (void *)(long)ctx->data_end;
	struct ethhdr *link = (void *)(long)ctx->data;
	__u64 *to = (void *)(link + 1);
	struct aw_inject *shared;
	__u32 zero = 0, at, len;
	const __u64 *from;

	if (ctx->ingress_ifindex != inject_device)
		return XDP_DROP;
	shared = bpf_map_lookup_elem(&inject, &zero);
	if (!shared || (void *)(to + WORDS) > end)
		return XDP_DROP;
	at = shared->next;
	if (at >= shared->count || at >= AW_INJECT_SLOTS)
		return XDP_DROP;
	at &= AW_INJECT_SLOTS - 1;
	len = shared->len[at];
	if (len > AW_INJECT_MAX_LEN)
		return XDP_DROP;
	from = shared->packets[at];
	__builtin_memset(link, 0, sizeof(*link));
	link->h_proto = bpf_htons(*(const __u8 *)from >> 4 == 4 ? ETH_P_IP : ETH_P_IPV6);
#pragma unroll
	for (int word = 0; word < WORDS; word++)
		to[word] = from[word];
	if (bpf_xdp_adjust_tail(ctx, (int)len - AW_INJECT_MAX_LEN))
		return XDP_DROP;
	shared->next = at + 1;
	return XDP_PASS;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
