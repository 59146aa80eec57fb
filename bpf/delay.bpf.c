// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Times the path behind a queue. Behind the interface's own queue, it is the filter of a
 * packet socket, which the kernel shows each packet after the queue discipline and before
 * the driver (dev_queue_xmit_nit), so the wait in the queue itself is not counted. Behind
 * the gateway, it is a program at tc egress after the gateway's own, and one at ingress, so
 * the wait in the interface's queue counts. It neither takes nor changes packets.
 *
 * A segment leaves, and a segment that answers it arrives. The excess of this time over the
 * connection's minimum was spent in queues, on the forward or the return path. Data are
 * timed by round trips, ACKs by one-way times.
 *
 * Data:
 *
 * - The answer to data is the ACK that ends where they end. One that ends later waited for
 *   a second segment (RFC 1122 §4.2.3.2), which arrives much later on a slow link, and is
 *   not an answer. If probes are far apart, each might start with the first of two segments
 *   for ever, so after such an ACK the next probe starts one segment later.
 * - An ACK for more than a full segment is sent at once (RFC 1122 §4.2.3.2). One for less
 *   may have waited for a timer, unless ACKs arrive faster than that. Its time counts if it
 *   is shorter than any timer; of a longer time, only the excess over the longest timer
 *   counts.
 * - The peer's own timestamp says when its segment left: the excess of its return time over
 *   the minimum was spent on the return path, and is subtracted.
 *
 * ACKs, of a connection that receives data:
 *
 * - The first data that echo an ACK's timestamp (RFC 7323) left after it had arrived at the
 *   peer, and the data before them left before. Both carry the peer's own timestamp, so the
 *   return path does not count. The time of the forward path lies between the two. If they
 *   are far apart, because the peer had nothing to send, they only show that it was not
 *   longer.
 * - An ACK whose timestamp is overtaken by that of a later one was lost, or arrived
 *   together with it.
 * - Linux stamps paced packets with their intended departure time, a little after the data
 *   are made.
 *
 * The peer's timestamps are times if its clock ticks in milliseconds, which is determined
 * over the first second. With any other clock, the return path counts for data as well, and
 * ACKs are not timed.
 *
 * - There is one entry per connection, with a few probes in flight, spread over the round
 *   trip. A probe is forgotten after some seconds: it or its answer was lost.
 * - Data may be retransmitted, and an ACK may refer to either transmission. So a probe
 *   starts only with new data or a new timestamp, and a retransmission ends all probes.
 *
 * Only segments of the usual shape are read: no IP options or extension headers, and NOP,
 * NOP, timestamps as the first options (RFC 7323 appendix A). Others are counted but not
 * timed.
 */
#define AW_IP_ONLY
#include <linux/bpf.h>
#include <linux/if_packet.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include "headers.h"
#include "delay_shared.h"
#include "verdict.h"

#define LOST_NS 10000000000ULL
/* Half of the time for which a one-way minimum counts: longer than the 10 s after which
 * the queue is emptied (EMPTY_INTERVAL_NS of ackwise-bandwidth), plus the second that
 * this takes. */
#define WINDOW_NS 12000000000ULL
/* ACKs that wait for a timer are at least as far apart as the shortest timer: 40 ms in
 * Linux, and less in others. */
#define TIMER_MIN_NS 25000000ULL
#define TIMER_MAX_US 200000U	    /* the longest timer of Linux, and the usual one of others */
#define TICKS_NS 1000000000ULL	    /* the time over which a clock is measured */
#define MAX_TICKS_NS 30000000000ULL /* the time after which a clock counts as another kind */
#define CLOSE_US 5000		    /* two bounds of a wait this close count as one */
#define APART_US 20000		    /* bounds this far apart count if the wait is long */
#define PPP_IP 0x0021
#define PPP_IPV6 0x0057
#define DEFAULT_MSS 536			/* RFC 9293 §3.7.1 */
#define PROBES 8			/* in flight per connection */
#define TAKE_NONE 0			/* the socket receives nothing of the packet */
#define TS_OPTION bpf_htonl(0x0101080a) /* NOP, NOP, kind 8, 10 bytes */

const volatile struct aw_delay_options delay_options = {};

enum far_clock {
	CLOCK_UNKNOWN,
	CLOCK_MS,
	CLOCK_OTHER
};

/* A segment that is being timed. */
struct probe {
	__u64 since_ns; /* departure time; 0: none is in flight */
	__u64 bytes;	/* what had left by then */
	__u32 end;	/* the sequence number after its data; for an ACK, its timestamp */
	__u32 is_ack;
};

/*
 * The minimum of a one-way time between two clocks, over the last 12 to 24 seconds, because
 * clocks drift. Such a value wraps, and only a difference of two has a sign. They are
 * unsigned, or a compiler may compare them instead.
 */
struct least {
	__u64 since_ns;	  /* start of the current window; 0: nothing was seen */
	__u32 of_now;	  /* in the current window */
	__u32 before_now; /* in the one before it */
};

struct times {
	struct probe probes[PROBES];
	__u64 probed_ns;   /* when the last probe left */
	__u64 acked_ns;	   /* when the last ACK arrived; 0: none has */
	__u64 first_ns;	   /* when the first echo arrived */
	__u32 first_stamp; /* its own timestamp */
	__u32 rtt_us;	   /* the last round trip */
	__u32 min_us;	   /* the minimum; ~0: unknown */
	__u32 clock;	   /* enum far_clock */
	__u32 end;	   /* the sequence number after all data sent */
	__u32 acked;	   /* by the last ACK */
	__u32 largest;	   /* largest segment sent, bytes */
	__u32 stamp;	   /* the last timestamp sent */
	__u32 data_stamp;  /* the last timestamp of data received */
	__u32 data_came;
	__u32 skip;	   /* the next segment is not timed */
	struct least down; /* arrival here minus departure there, ms */
	struct least up;   /* arrival there, or a little later, minus departure here, us */
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
	__u32 tsval, tsecr;
	__u32 start, end, ack;
	__u32 has_data;
	__u32 is_syn;
};

/* Finds the IP header behind VLAN tags and a PPPoE header. Returns its protocol, or 0. */
static __always_inline __u16 find_ip(const struct __sk_buff *skb, struct place *at, __u32 *vlans)
{
	__u16 protocol = behind_tags(skb, at, vlans);
	struct {
		__u8 version_type, code;
		__be16 session, length, protocol;
	} pppoe;

	if (protocol != bpf_htons(ETH_P_PPP_SES))
		return protocol;
	if (!load_from(skb, at, 0, &pppoe, sizeof(pppoe)) || pppoe.code)
		return 0;
	at->off += sizeof(pppoe);
	if (pppoe.protocol == bpf_htons(PPP_IP))
		return bpf_htons(ETH_P_IP);
	return pppoe.protocol == bpf_htons(PPP_IPV6) ? bpf_htons(ETH_P_IPV6) : 0;
}

/* Parses a SYN, or a segment with a timestamp. Returns 1, or 0. */
static __always_inline int read(const struct __sk_buff *skb, int leaves, struct segment *seg)
{
	struct aw_addr src = {}, dst = {};
	struct tcp_start tcp;
	struct ipv6hdr ip6;
	struct iphdr ip;
	__u32 vlans = vlan_beside(skb), length, headers;
	struct place at;
	__u16 protocol = find_ip(skb, &at, &vlans);

	if (protocol == bpf_htons(ETH_P_IP)) {
		if (!load_from(skb, &at, 0, &ip, sizeof(ip)) || ip.version != 4 || ip.ihl != 5 ||
		    ip.protocol != IPPROTO_TCP || ip.frag_off & bpf_htons(0x3fff))
			return 0;
		src.w[0] = ip.saddr;
		dst.w[0] = ip.daddr;
		headers = sizeof(ip);
		length = bpf_ntohs(ip.tot_len);
	} else if (protocol == bpf_htons(ETH_P_IPV6)) {
		if (!load_from(skb, &at, 0, &ip6, sizeof(ip6)) || ip6.nexthdr != IPPROTO_TCP)
			return 0;
		__builtin_memcpy(&src, &ip6.saddr, sizeof(src));
		__builtin_memcpy(&dst, &ip6.daddr, sizeof(dst));
		headers = sizeof(ip6);
		length = sizeof(ip6) + bpf_ntohs(ip6.payload_len);
	} else {
		return 0;
	}
	if (!load_from(skb, &at, headers, &tcp, sizeof(tcp)) || tcp.header.rst)
		return 0;
	if (!tcp.header.syn && (tcp.header.doff < 8 || tcp.kinds != TS_OPTION))
		return 0;
	headers += tcp.header.doff * 4;
	/* A length of 0 is one that does not fit in the field: Linux's BIG TCP. */
	if (length < headers)
		return 0;
	__builtin_memset(seg, 0, sizeof(*seg));
	seg->of.near = leaves ? src : dst;
	seg->of.far = leaves ? dst : src;
	seg->of.near_port = leaves ? tcp.header.source : tcp.header.dest;
	seg->of.far_port = leaves ? tcp.header.dest : tcp.header.source;
	seg->of.vlans = vlans;
	seg->is_syn = tcp.header.syn;
	seg->tsval = bpf_ntohl(tcp.tsval);
	seg->tsecr = bpf_ntohl(tcp.tsecr);
	seg->has_data = length != headers;
	seg->start = bpf_ntohl(tcp.header.seq);
	seg->end = seg->start + (length - headers) + tcp.header.fin;
	seg->ack = bpf_ntohl(tcp.header.ack_seq);
	return 1;
}

static __always_inline int after(__u32 a, __u32 b)
{
	return (__s32)(a - b) > 0;
}

/* Finds the connection of a departing segment, or creates an entry for it. */
static __always_inline struct times *times_of(const struct segment *seg)
{
	struct times *t, fresh = { .min_us = ~0U, .end = seg->start, .stamp = seg->tsval - 1 };

	t = bpf_map_lookup_elem(&connections, &seg->of);
	if (t)
		return t;
	bpf_map_update_elem(&connections, &seg->of, &fresh, BPF_NOEXIST);
	return bpf_map_lookup_elem(&connections, &seg->of);
}

/* Starts to time a segment: by the end of its data, or by the timestamp of an ACK. */
static __always_inline void probe(struct times *t, __u64 bytes, __u32 end, __u32 is_ack)
{
	__u64 now = bpf_ktime_get_ns();

	/* Spread the probes over a round trip. */
	if (now - t->probed_ns < (__u64)t->rtt_us * 1000 / PROBES)
		return;
	if (t->skip && !is_ack) {
		t->skip = 0;
		return;
	}
	for (int i = 0; i < PROBES; i++) {
		struct probe *p = &t->probes[i];

		if (p->since_ns && now - p->since_ns < LOST_NS)
			continue;
		p->bytes = bytes;
		p->end = end;
		p->is_ack = is_ack;
		t->probed_ns = now;
		/* Written last: another CPU checks this first. */
		__sync_lock_test_and_set(&p->since_ns, now);
		return;
	}
}

static __always_inline void leaves(const struct __sk_buff *skb)
{
	struct aw_delay_sent *all;
	struct segment seg;
	struct times *t;
	__u32 length, is_new_stamp, bytes, packet, zero = 0;

	all = bpf_map_lookup_elem(&sent, &zero);
	if (!all)
		return;
	bytes = skb->len + delay_options.overhead;
	packet = skb->gso_size && skb->gso_size < bytes ? skb->gso_size : bytes;
	__sync_fetch_and_add(&all->bytes, bytes);
	__sync_fetch_and_add(&all->lengths, (__u64)bytes * packet);
	if (!read(skb, 1, &seg))
		return;
	if (seg.is_syn) {
		/* A new connection between the same ports. */
		bpf_map_delete_elem(&connections, &seg.of);
		return;
	}
	t = times_of(&seg);
	if (!t)
		return;
	is_new_stamp = after(seg.tsval, t->stamp);
	if (is_new_stamp)
		t->stamp = seg.tsval;
	if (!seg.has_data) {
		if (is_new_stamp)
			probe(t, all->bytes, seg.tsval, 1);
		return;
	}
	/* A retransmission. What has left since waits for it at the far end, and an
	 * answer may refer to either transmission (Karn and Partridge, 1987). */
	if (!after(seg.end, t->end)) {
		for (int i = 0; i < PROBES; i++)
			t->probes[i].since_ns = 0;
		return;
	}
	t->end = seg.end;
	length = skb->gso_size ? skb->gso_size : seg.end - seg.start;
	if (length > t->largest)
		t->largest = length;
	probe(t, all->bytes, seg.end, 0);
}

/* A minimum of long ago says nothing, because clocks drift. */
static __always_inline void forget(struct least *l, __u64 now)
{
	if (now - l->since_ns > 2 * WINDOW_NS)
		l->since_ns = 0;
}

/* Takes a time and returns its excess over the minimum. */
static __always_inline __s32 beyond(struct least *l, __u32 time, __u64 now)
{
	__u32 least;

	if (!l->since_ns) {
		l->since_ns = now;
		l->of_now = time;
		l->before_now = time;
		return 0;
	}
	if (after(l->of_now, time))
		l->of_now = time;
	if (now - l->since_ns > WINDOW_NS) {
		l->since_ns = now;
		l->before_now = l->of_now;
		l->of_now = time;
	}
	least = l->of_now;
	if (after(least, l->before_now))
		least = l->before_now;
	return (__s32)(time - least);
}

/* Takes a timestamp of the peer, and finds out whether it is a time. Returns the excess
 * of the return path over its minimum, us; 0 if unknown. */
static __always_inline __u32 way_back_us(struct times *t, __u32 tsval, __u64 now)
{
	__u32 ms, ticks;
	__s32 down;

	forget(&t->down, now);
	down = beyond(&t->down, (__u32)(now / 1000000) - tsval, now);
	if (!t->first_ns) {
		t->first_ns = now;
		t->first_stamp = tsval;
	} else if (t->clock == CLOCK_UNKNOWN && now - t->first_ns > TICKS_NS) {
		ms = (now - t->first_ns) / 1000000;
		ticks = tsval - t->first_stamp;
		/* A queue on the return path may cause part of the difference, and less
		 * of it over time. */
		if (ticks > ms - ms / 4 && ticks < ms + ms / 4)
			t->clock = CLOCK_MS;
		else if (now - t->first_ns > MAX_TICKS_NS)
			t->clock = CLOCK_OTHER;
	}
	return t->clock == CLOCK_MS ? (__u32)down * 1000 : 0;
}

/* Counts a sample: what left at `since` waited this long. Data tell more than ACKs,
 * which some modems send first. */
static __always_inline void count(__u64 bytes, __u64 since, __u32 waited_us, __u32 is_data)
{
	struct aw_delay_sample *s;
	__u32 zero = 0;

	s = bpf_map_lookup_elem(&samples, &zero);
	if (!s)
		return;
	if (!s->count || is_data > s->is_data ||
	    (is_data == s->is_data && waited_us < s->waited_us)) {
		s->left_ns = since;
		s->bytes = bytes;
		s->waited_us = waited_us;
		s->is_data = is_data;
	}
	s->count++;
}

/* The excess of an answer's time over the minimum, us, less what the far end's timer may
 * account for. ~0: the timer may account for all of it. */
static __always_inline __u32 without_timer(__u32 us, int at_once)
{
	if (at_once || us < TIMER_MIN_NS / 1000)
		return us;
	return us > TIMER_MAX_US ? us - TIMER_MAX_US : ~0U;
}

/* A probe of data that left at `since` was answered after `us`. */
static __always_inline void answered(const struct probe *p, struct times *t, __u64 since, __u32 us,
				     __u32 back, int at_once)
{
	if (t->min_us == ~0U) {
		/* The first sample says nothing: it may have waited, too. */
		t->min_us = us;
		return;
	}
	if (us < t->min_us)
		t->min_us = us;
	us -= t->min_us;
	us = without_timer(us > back ? us - back : 0, at_once);
	if (us != ~0U)
		count(p->bytes, since, us, 1);
}

/* Data arrived that are the first to echo an ACK which left at `since`. */
static __always_inline void echoed(const struct probe *p, struct times *t, __u64 since, __u32 tsval,
				   __u64 now)
{
	__s32 most, least, apart;
	int is_first;

	forget(&t->up, now);
	is_first = !t->up.since_ns;
	most = beyond(&t->up, tsval * 1000 - (__u32)(since / 1000), now);
	if (is_first || t->clock != CLOCK_MS || !t->data_came)
		return;
	/* More than the whole round trip: a clock was set, or stood still while a machine slept. */
	if (most > (__s32)((now - since) / 1000) + CLOSE_US) {
		t->up.since_ns = 0;
		return;
	}
	/* The ACK had not arrived when the data before these left. */
	apart = (__s32)(tsval - t->data_stamp);
	if (apart < 0 || apart > 1000)
		return;
	least = most - apart * 1000;
	if (least < 0)
		least = 0;
	if (most - least <= CLOSE_US)
		count(p->bytes, since, least, 0);
	else if (most - least <= APART_US && most - least <= (__s32)((__u32)most / 4))
		count(p->bytes, since, (__u32)(most + least) / 2, 0);
}

/* Data that arrive echo ACKs. */
static __always_inline void data_come(struct times *t, const struct segment *seg, __u64 now)
{
	__u64 since;

	way_back_us(t, seg->tsval, now);
	for (int i = 0; i < PROBES; i++) {
		struct probe *p = &t->probes[i];

		since = p->since_ns;
		if (!since || since >= now || !p->is_ack || after(p->end, seg->tsecr))
			continue;
		if (p->end == seg->tsecr && now - since < LOST_NS) {
			t->rtt_us = (now - since) / 1000;
			echoed(p, t, since, seg->tsval, now);
		}
		p->since_ns = 0;
	}
	if (!t->data_came || after(seg->tsval, t->data_stamp))
		t->data_stamp = seg->tsval;
	t->data_came = 1;
}

static __always_inline void acks_come(struct times *t, const struct segment *seg, __u64 now)
{
	__u32 acked, full, passed = 0, hit = 0;
	int at_once;
	__u64 since;

	/* An ACK of nothing new answers nothing, and one of data never sent (except a
	 * FIN) is no answer. */
	if ((t->acked_ns && !after(seg->ack, t->acked)) || after(seg->ack, t->end + 1))
		return;
	acked = seg->ack - t->acked;
	full = t->largest > DEFAULT_MSS ? t->largest : DEFAULT_MSS;
	at_once = t->acked_ns && (acked > full || now - t->acked_ns < TIMER_MIN_NS);
	for (int i = 0; i < PROBES; i++) {
		struct probe *p = &t->probes[i];

		since = p->since_ns;
		if (!since || since >= now || p->is_ack || after(p->end, seg->ack))
			continue;
		passed = 1;
		if (p->end == seg->ack) {
			hit = 1;
			t->rtt_us = (now - since) / 1000;
			answered(p, t, since, t->rtt_us, way_back_us(t, seg->tsval, now), at_once);
		}
		p->since_ns = 0;
	}
	if (passed)
		t->skip = !hit;
	t->acked = seg->ack;
	t->acked_ns = now;
}

static __always_inline void comes(const struct __sk_buff *skb)
{
	struct segment seg;
	struct times *t;
	__u64 now;

	if (!read(skb, 0, &seg) || seg.is_syn)
		return;
	t = bpf_map_lookup_elem(&connections, &seg.of);
	if (!t)
		return;
	now = bpf_ktime_get_ns();
	if (seg.has_data)
		data_come(t, &seg, now);
	acks_come(t, &seg, now);
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

SEC("classifier")
int ackwise_delay_out(struct __sk_buff *skb)
{
	leaves(skb);
	return AW_PASS;
}

SEC("classifier")
int ackwise_delay_in(struct __sk_buff *skb)
{
	comes(skb);
	return AW_PASS;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
