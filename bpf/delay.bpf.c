// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Times the way behind an interface's queue. It is the filter of a packet socket, which the kernel
 * shows each packet after the queue discipline and before the driver (dev_queue_xmit_nit), so that
 * the wait in the queue itself is not counted. A program at tc egress would be before the queue.
 * It takes no packet, and changes none.
 *
 * A segment leaves, and a segment comes in that answers it. What that takes beyond the minimum of
 * the connection was spent in queues, on the way there or on the way back.
 *
 * - What answers data is the ACK that ends where they end. One that ends later waited for a second
 *   segment (RFC 1122 §4.2.3.2), which on a slow line comes much later, and is no answer.
 * - A segment without data is not timed: it is answered whenever the far end has something to say.
 *
 * The other side's own timestamp says when its segment left: what that took beyond its
 * minimum was spent on the way back, and is taken off. This needs a clock of a millisecond there,
 * which is found out over the first second; with any other the way back counts as well.
 *
 * - It keeps one entry for each connection, with one probe in flight. The probe is forgotten after
 *   some seconds: it, or its echo, was lost.
 * - Data may be sent again, and an ACK may be of either time. So a probe begins only with new data.
 * - An answer may be late, because it was delayed, or because data were sent again. The least of
 *   many samples is not.
 *
 * Only the usual shape of a segment is read: no IP options or extension headers, and
 * NOP, NOP, timestamps as the first options (RFC 7323 appendix A). Others are counted, not timed.
 */
#define AW_IP_ONLY
#include <linux/bpf.h>
#include <linux/if_packet.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include "headers.h"
#include "delay_shared.h"

#define LOST_NS 10000000000ULL
#define WINDOW_NS 8000000000ULL /* half of the time over which a minimum of the way back counts */
#define TICKS_NS 1000000000ULL	/* the time over which a clock is measured */
#define TAKE_NONE 0		/* the socket gets nothing of the packet */
#define TS_OPTION bpf_htonl(0x0101080a) /* NOP, NOP, kind 8, 10 bytes */

const volatile struct aw_delay_options delay_options = {};

/* A connection as the interface sees it: `near` is on this side. */
struct connection {
	struct aw_addr near, far;
	__u16 near_port, far_port;
};

enum far_clock {
	CLOCK_UNKNOWN,
	CLOCK_MS,
	CLOCK_OTHER
};

struct probe {
	__u64 since_ns;	   /* when it left; 0: none is in flight */
	__u64 bytes;	   /* what had left by then */
	__u64 window_ns;   /* when the running window of down_min began */
	__u64 first_ns;	   /* when the first echo came */
	__u32 first_stamp; /* its own timestamp */
	__u32 min_us;	   /* of the round trip; ~0: not known */
	__u32 clock;	   /* enum far_clock */
	__u32 end;	   /* the sequence number that the data of the probe end with */
	/* Arrival less departure by the other side's clock, ms: of this window and the last. */
	__s32 down_min[2];
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, struct connection);
	__type(value, struct probe);
} connections SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct aw_delay_sent);
} sent SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct aw_delay_sample);
} samples SEC(".maps");

struct tcp_start {
	struct tcphdr header;
	__be32 kinds;
	__be32 tsval, tsecr;
};

struct segment {
	struct connection of;
	__u32 tsval;
	__u32 end, ack;
	__u32 has_data;
};

/* Reads a segment with a timestamp. Returns 1, or 0. */
static __always_inline int read(const struct __sk_buff *skb, int leaves, struct segment *seg)
{
	struct aw_addr src = {}, dst = {};
	struct tcp_start tcp;
	struct ipv6hdr ip6;
	struct iphdr ip;
	__u32 l4, payload;

	if (skb->protocol == bpf_htons(ETH_P_IP)) {
		if (!load_l3(skb, 0, &ip, sizeof(ip)) || ip.version != 4 || ip.ihl != 5 ||
		    ip.protocol != IPPROTO_TCP || ip.frag_off & bpf_htons(0x3fff))
			return 0;
		src.w[0] = ip.saddr;
		dst.w[0] = ip.daddr;
		l4 = sizeof(ip);
		payload = bpf_ntohs(ip.tot_len) - l4;
	} else if (skb->protocol == bpf_htons(ETH_P_IPV6)) {
		if (!load_l3(skb, 0, &ip6, sizeof(ip6)) || ip6.nexthdr != IPPROTO_TCP)
			return 0;
		__builtin_memcpy(&src, &ip6.saddr, sizeof(src));
		__builtin_memcpy(&dst, &ip6.daddr, sizeof(dst));
		l4 = sizeof(ip6);
		payload = bpf_ntohs(ip6.payload_len);
	} else {
		return 0;
	}
	if (!load_l3(skb, l4, &tcp, sizeof(tcp)) || tcp.header.doff < 8 || tcp.header.syn ||
	    tcp.header.rst || tcp.kinds != TS_OPTION)
		return 0;
	__builtin_memset(seg, 0, sizeof(*seg));
	seg->of.near = leaves ? src : dst;
	seg->of.far = leaves ? dst : src;
	seg->of.near_port = leaves ? tcp.header.source : tcp.header.dest;
	seg->of.far_port = leaves ? tcp.header.dest : tcp.header.source;
	seg->tsval = bpf_ntohl(tcp.tsval);
	payload -= tcp.header.doff * 4;
	seg->has_data = payload != 0;
	seg->end = bpf_ntohl(tcp.header.seq) + payload + tcp.header.fin;
	seg->ack = bpf_ntohl(tcp.header.ack_seq);
	return 1;
}

static __always_inline int after(__u32 a, __u32 b)
{
	return (__s32)(a - b) > 0;
}

static __always_inline void leaves(const struct __sk_buff *skb)
{
	struct probe *p, fresh = { .min_us = ~0U };
	struct segment seg;
	struct aw_delay_sent *all;
	__u32 zero = 0;
	__u64 now;

	all = bpf_map_lookup_elem(&sent, &zero);
	if (!all)
		return;
	__sync_fetch_and_add(&all->bytes, skb->len + delay_options.overhead);
	__sync_fetch_and_add(&all->packets, 1);
	/* What has no data is answered whenever the far end has something to say. */
	if (!read(skb, 1, &seg) || !seg.has_data)
		return;
	now = bpf_ktime_get_ns();
	p = bpf_map_lookup_elem(&connections, &seg.of);
	if (!p) {
		fresh.since_ns = now;
		fresh.bytes = all->bytes;
		fresh.end = seg.end;
		bpf_map_update_elem(&connections, &seg.of, &fresh, BPF_NOEXIST);
		return;
	}
	if (p->since_ns && now - p->since_ns < LOST_NS)
		return;
	/* Old data: something has answered it already. */
	if (!after(seg.end, p->end))
		return;
	p->end = seg.end;
	p->bytes = all->bytes;
	p->since_ns = now;
}

/* What the way back took beyond its minimum, us; 0 if that is not known. */
static __always_inline __u32 way_back_us(struct probe *p, __u32 tsval, __u64 now)
{
	__s32 down = (__s32)((__u32)(now / 1000000) - tsval), min;
	__u32 ms, ticks;

	if (!p->first_ns) {
		p->first_ns = now;
		p->first_stamp = tsval;
		p->window_ns = now;
		p->down_min[0] = down;
		p->down_min[1] = down;
		return 0;
	}
	if (p->clock == CLOCK_UNKNOWN && now - p->first_ns > TICKS_NS) {
		ms = (now - p->first_ns) / 1000000;
		ticks = tsval - p->first_stamp;
		/* A queue on the way back may make some of the difference. */
		p->clock = ticks > ms - ms / 4 && ticks < ms + ms / 4 ? CLOCK_MS : CLOCK_OTHER;
	}
	/* The difference of two numbers that wrap has a sign. */
	if (down - p->down_min[0] < 0)
		p->down_min[0] = down;
	if (now - p->window_ns > WINDOW_NS) {
		p->window_ns = now;
		p->down_min[1] = p->down_min[0];
		p->down_min[0] = down;
	}
	if (p->clock != CLOCK_MS)
		return 0;
	min = p->down_min[0];
	if (p->down_min[1] - min < 0)
		min = p->down_min[1];
	return (__u32)(down - min) * 1000;
}

static __always_inline void comes(const struct __sk_buff *skb)
{
	__u32 us, back, zero = 0;
	struct aw_delay_sample *s;
	struct segment seg;
	struct probe *p;
	__u64 now;

	if (!read(skb, 0, &seg))
		return;
	p = bpf_map_lookup_elem(&connections, &seg.of);
	s = bpf_map_lookup_elem(&samples, &zero);
	if (!p || !s || !p->since_ns || after(p->end, seg.ack))
		return;
	if (seg.ack != p->end) {
		p->since_ns = 0;
		return;
	}
	now = bpf_ktime_get_ns();
	us = (now - p->since_ns) / 1000;
	back = way_back_us(p, seg.tsval, now);
	if (us < p->min_us)
		p->min_us = us;
	us -= p->min_us;
	us = us > back ? us - back : 0;
	if (!s->count || us < s->waited_us) {
		s->left_ns = p->since_ns;
		s->bytes = p->bytes;
		s->waited_us = us;
	}
	s->count++;
	p->since_ns = 0;
}

SEC("socket")
int ackwise_delay(struct __sk_buff *skb)
{
	if (skb->pkt_type == PACKET_OUTGOING)
		leaves(skb);
	else
		comes(skb);
	return TAKE_NONE;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
