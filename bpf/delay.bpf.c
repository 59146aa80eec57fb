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
 * - An ACK for more than a full segment goes at once (RFC 1122 §4.2.3.2). One for less may have waited
 *   for a timer, unless ACKs come faster than that. What it took counts if it is shorter than any timer;
 *   of a longer time only what exceeds the longest timer does.
 * - A segment without data is not timed: it is answered whenever the far end has something to say.
 *
 * The other side's own timestamp says when its segment left: what that took beyond its
 * minimum was spent on the way back, and is taken off. This needs a clock of a millisecond there,
 * which is found out over the first second; with any other the way back counts as well.
 *
 * - It keeps one entry for each connection, with a few probes in flight, spread over the round trip.
 *   A probe is forgotten after some seconds: it, or its answer, was lost.
 * - Data may be sent again, and an ACK may be of either time. So a probe begins only with new data,
 *   and none goes on when data are sent again.
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
/* ACKs that wait for a timer are as far apart as the shortest timer, 40 ms in Linux, and less in
 * others. */
#define TIMER_MIN_NS 25000000ULL
#define TIMER_MAX_US 200000U   /* the longest timer of Linux, and the usual one of others */
#define TICKS_NS 1000000000ULL /* the time over which a clock is measured */
#define DEFAULT_MSS 536	       /* RFC 9293 §3.7.1 */
#define PROBES 8	       /* in flight of a connection */
#define TAKE_NONE 0	       /* the socket gets nothing of the packet */
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

/* A segment that is timed. */
struct probe {
	__u64 since_ns; /* when it left; 0: none is in flight */
	__u64 bytes;	/* what had left by then */
	__u32 end;	/* the sequence number after its data */
	__u32 pad;
};

struct times {
	struct probe probes[PROBES];
	__u64 probed_ns;   /* when the last probe left */
	__u64 acked_ns;	   /* when the last ACK came; 0: none has */
	__u64 window_ns;   /* when the running window of down_min began */
	__u64 first_ns;	   /* when the first echo came */
	__u32 first_stamp; /* its own timestamp */
	__u32 rtt_us;	   /* the last round trip */
	__u32 min_us;	   /* the least; ~0: not known */
	__u32 clock;	   /* enum far_clock */
	__u32 end;	   /* the sequence number after all data that have left */
	__u32 acked;	   /* by the last ACK */
	__u32 largest;	   /* segment that has left, bytes */
	__u32 pad;
	/* Arrival less departure by the other side's clock, ms: of this window and the last. */
	__s32 down_min[2];
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, struct connection);
	__type(value, struct times);
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
	__u32 start, end, ack;
	__u32 has_data;
	__u32 is_syn;
};

/* Reads a SYN, or a segment with a timestamp. Returns 1, or 0. */
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
	if (!load_l3(skb, l4, &tcp, sizeof(tcp)) || tcp.header.rst)
		return 0;
	if (!tcp.header.syn && (tcp.header.doff < 8 || tcp.kinds != TS_OPTION))
		return 0;
	__builtin_memset(seg, 0, sizeof(*seg));
	seg->of.near = leaves ? src : dst;
	seg->of.far = leaves ? dst : src;
	seg->of.near_port = leaves ? tcp.header.source : tcp.header.dest;
	seg->of.far_port = leaves ? tcp.header.dest : tcp.header.source;
	seg->is_syn = tcp.header.syn;
	seg->tsval = bpf_ntohl(tcp.tsval);
	payload -= tcp.header.doff * 4;
	seg->has_data = payload != 0;
	seg->start = bpf_ntohl(tcp.header.seq);
	seg->end = seg->start + payload + tcp.header.fin;
	seg->ack = bpf_ntohl(tcp.header.ack_seq);
	return 1;
}

static __always_inline int after(__u32 a, __u32 b)
{
	return (__s32)(a - b) > 0;
}

static __always_inline void leaves(const struct __sk_buff *skb)
{
	struct aw_delay_sent *all;
	struct segment seg;
	struct times *t;
	__u32 length, zero = 0;
	__u64 now;

	all = bpf_map_lookup_elem(&sent, &zero);
	if (!all)
		return;
	__sync_fetch_and_add(&all->bytes, skb->len + delay_options.overhead);
	__sync_fetch_and_add(&all->packets, 1);
	/* What has no data is answered whenever the far end has something to say. */
	if (!read(skb, 1, &seg))
		return;
	if (seg.is_syn) {
		/* Another connection between the same ports. */
		bpf_map_delete_elem(&connections, &seg.of);
		return;
	}
	if (!seg.has_data)
		return;
	t = bpf_map_lookup_elem(&connections, &seg.of);
	if (!t) {
		struct times fresh = { .min_us = ~0U, .end = seg.start };

		bpf_map_update_elem(&connections, &seg.of, &fresh, BPF_NOEXIST);
		t = bpf_map_lookup_elem(&connections, &seg.of);
		if (!t)
			return;
	}
	/* Data are sent again. What has left since waits for them at the far end, and an answer
	 * may be to either time (Karn and Partridge, 1987). */
	if (!after(seg.end, t->end)) {
		for (int i = 0; i < PROBES; i++)
			t->probes[i].since_ns = 0;
		return;
	}
	t->end = seg.end;
	length = skb->gso_size ? skb->gso_size : seg.end - seg.start;
	if (length > t->largest)
		t->largest = length;
	now = bpf_ktime_get_ns();
	/* The probes are spread over a round trip. */
	if (now - t->probed_ns < (__u64)t->rtt_us * 1000 / PROBES)
		return;
	for (int i = 0; i < PROBES; i++) {
		struct probe *p = &t->probes[i];

		if (p->since_ns && now - p->since_ns < LOST_NS)
			continue;
		p->bytes = all->bytes;
		p->end = seg.end;
		t->probed_ns = now;
		/* Another CPU looks at this first. */
		__sync_lock_test_and_set(&p->since_ns, now);
		return;
	}
}

/* What the way back took beyond its minimum, us; 0 if that is not known. */
static __always_inline __u32 way_back_us(struct times *t, __u32 tsval, __u64 now)
{
	__s32 down = (__s32)((__u32)(now / 1000000) - tsval), min;
	__u32 ms, ticks;

	if (!t->first_ns) {
		t->first_ns = now;
		t->first_stamp = tsval;
		t->window_ns = now;
		t->down_min[0] = down;
		t->down_min[1] = down;
		return 0;
	}
	if (t->clock == CLOCK_UNKNOWN && now - t->first_ns > TICKS_NS) {
		ms = (now - t->first_ns) / 1000000;
		ticks = tsval - t->first_stamp;
		/* A queue on the way back may make some of the difference. */
		t->clock = ticks > ms - ms / 4 && ticks < ms + ms / 4 ? CLOCK_MS : CLOCK_OTHER;
	}
	/* The difference of two numbers that wrap has a sign. */
	if (down - t->down_min[0] < 0)
		t->down_min[0] = down;
	if (now - t->window_ns > WINDOW_NS) {
		t->window_ns = now;
		t->down_min[1] = t->down_min[0];
		t->down_min[0] = down;
	}
	if (t->clock != CLOCK_MS)
		return 0;
	min = t->down_min[0];
	if (t->down_min[1] - min < 0)
		min = t->down_min[1];
	return (__u32)(down - min) * 1000;
}

/* What an answer took beyond the minimum, us, less what a timer of the far end may have been.
 * ~0: that may be all of it. */
static __always_inline __u32 without_timer(__u32 us, int at_once)
{
	if (at_once || us < TIMER_MIN_NS / 1000)
		return us;
	return us > TIMER_MAX_US ? us - TIMER_MAX_US : ~0U;
}

/* A probe that left at `since` was answered after `us`. */
static __always_inline void answered(const struct probe *p, struct times *t, __u64 since, __u32 us,
				     __u32 back, int at_once)
{
	struct aw_delay_sample *s;
	__u32 zero = 0;

	s = bpf_map_lookup_elem(&samples, &zero);
	if (!s)
		return;
	if (t->min_us == ~0U) {
		/* The first says nothing: it may have waited as well. */
		t->min_us = us;
		return;
	}
	if (us < t->min_us)
		t->min_us = us;
	us -= t->min_us;
	us = without_timer(us > back ? us - back : 0, at_once);
	if (us == ~0U)
		return;
	if (!s->count || us < s->waited_us) {
		s->left_ns = since;
		s->bytes = p->bytes;
		s->waited_us = us;
	}
	s->count++;
}

static __always_inline void comes(const struct __sk_buff *skb)
{
	__u32 acked, full;
	struct segment seg;
	struct times *t;
	__u64 now, since;
	int at_once;

	if (!read(skb, 0, &seg) || seg.is_syn)
		return;
	t = bpf_map_lookup_elem(&connections, &seg.of);
	if (!t)
		return;
	/* What acknowledges nothing new answers nothing, and what was never sent (but a FIN) is no
	 * answer. */
	if ((t->acked_ns && !after(seg.ack, t->acked)) || after(seg.ack, t->end + 1))
		return;
	now = bpf_ktime_get_ns();
	acked = seg.ack - t->acked;
	full = t->largest > DEFAULT_MSS ? t->largest : DEFAULT_MSS;
	at_once = t->acked_ns && (acked > full || now - t->acked_ns < TIMER_MIN_NS);
	for (int i = 0; i < PROBES; i++) {
		struct probe *p = &t->probes[i];

		since = p->since_ns;
		if (!since || since >= now || after(p->end, seg.ack))
			continue;
		if (p->end == seg.ack) {
			t->rtt_us = (now - since) / 1000;
			answered(p, t, since, t->rtt_us, way_back_us(t, seg.tsval, now), at_once);
		}
		p->since_ns = 0;
	}
	t->acked = seg.ack;
	t->acked_ns = now;
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
