/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * ACK congestion control by lost ACKs (RFC 5690) on the sockets of a cgroup: the
 * environment of the state machine in ../policy/options/ack_ratio.h.
 *
 *   cgroup_skb ingress    sees each ACK, including pure ones, before the socket does, and
 *                         without the socket's lock: the state has its own lock
 *   sock_ops              sees timeouts and retransmissions, under the socket's lock, and has
 *                         the ratio written into data
 *
 * An ACK may wait for the socket (in its backlog) after it was seen here. So the newest
 * acknowledgment number is kept here rather than read from the socket.
 *
 * These ACKs indicate no lost ACK, whatever they cover:
 *
 *   - one with the bit AW_TCP_ACK_SKIPPED: the receiver sent none in between;
 *   - one on data, and the first after data of the other direction were lost or received
 *     twice: they may have carried an ACK;
 *   - the first of all.
 */
#ifndef ACKWISE_ACK_CONTROL_H
#define ACKWISE_ACK_CONTROL_H

#include "../policy/options/ack_ratio.h"

/* An ACK may arrive before the socket counts what it has just sent: allow one packet more. */
#define NOT_COUNTED (1 << 20)
/* The start of the stream, which leaves numbers for older bytes below it. */
#define STREAM_BEGINS (1ULL << 32)

struct ack_control {
	struct bpf_spin_lock lock;
	__u32 una_wire; /* una as on the wire */
	__u64 una;	/* the newest acknowledgment number received */
	__u32 rcv_end;	/* the end of the data received from the other direction */
	__u32 window;	/* the window offered by the peer, bytes */
	__u8 wscale;
	__u8 begun; /* an ACK was received */
	__u8 open;  /* data are to carry the ratio; only sock_ops writes it */
	__u8 reserved[5];
	struct aw_ack_ratio ratio;
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct ack_control);
} ack_controls SEC(".maps");

static __always_inline struct ack_control *control_of(struct bpf_sock_ops *ops, int create)
{
	struct bpf_sock *sk = ops->sk;

	if (!sk)
		return 0;
	return bpf_sk_storage_get(&ack_controls, sk, 0, create ? BPF_SK_STORAGE_GET_F_CREATE : 0);
}

/* Expands a 32-bit number to one of the stream, near the newest known one. */
static __always_inline __u64 in_stream(const struct ack_control *c, __u32 number)
{
	return c->una + (__s64)(__s32)(number - c->una_wire);
}

/* Bytes that the sender may have in flight. A window of 0 is not a limit for long. */
static __always_inline __u32 usable_window(const struct ack_control *c, __u32 cwnd, __u32 mss)
{
	__u64 bytes = (__u64)cwnd * mss;

	if (c->window && c->window < bytes)
		return c->window;
	return bytes > 0xffffffff ? 0xffffffff : bytes;
}

/*
 * The handshake is complete and permits ACK congestion control. The peer's SYN or SYN-ACK
 * is available. If this side offered no window scale, that is not visible here: windows
 * then appear larger, and cwnd alone bounds R.
 */
static __always_inline int control_begin(struct bpf_sock_ops *ops, __u64 flags)
{
	struct ack_control *c = control_of(ops, 1);
	__u8 wscale[3] = { 3 }; /* kind: RFC 7323 */

	if (!c)
		return 0;
	if (bpf_load_hdr_opt(ops, wscale, sizeof(wscale), flags) != sizeof(wscale))
		wscale[2] = 0;
	c->una_wire = ops->snd_una;
	c->una = STREAM_BEGINS;
	c->rcv_end = ops->rcv_nxt;
	c->window = 0xffffffff;
	c->wscale = aw_min(wscale[2], 14);
	c->begun = 0;
	c->open = 0;
	aw_ack_ratio_init(&c->ratio, AW_ACK_RATE_MAX);
	return 1;
}

/* A segment was retransmitted. */
static __always_inline void control_repair(struct bpf_sock_ops *ops)
{
	struct ack_control *c = control_of(ops, 0);
	__u32 nxt = ops->snd_nxt;

	if (!c)
		return;
	bpf_spin_lock(&c->lock);
	aw_ack_ratio_on_retransmission(&c->ratio, in_stream(c, nxt));
	bpf_spin_unlock(&c->lock);
}

/* The retransmission timer expired; the congestion window becomes one segment. */
static __always_inline void control_timeout(struct bpf_sock_ops *ops)
{
	struct ack_control *c = control_of(ops, 0);
	__u32 mss = ops->mss_cache;

	if (!c)
		return;
	bpf_spin_lock(&c->lock);
	aw_ack_ratio_limit(&c->ratio, mss, mss);
	bpf_spin_unlock(&c->lock);
}

/*
 * Before it sends data, the kernel asks for the maximum size of their segments. What is
 * decided here applies until it asks again, whatever ACKs arrive meanwhile, because an
 * option must not make segments longer after that.
 */
static __always_inline void control_settle(struct bpf_sock_ops *ops)
{
	struct ack_control *c = control_of(ops, 0);
	__u32 mss = ops->mss_cache, cwnd = ops->snd_cwnd;

	if (!c)
		return;
	bpf_spin_lock(&c->lock);
	aw_ack_ratio_limit(&c->ratio, usable_window(c, cwnd, mss), mss);
	c->open = c->ratio.told != AW_TOLD_YES;
	bpf_spin_unlock(&c->lock);
}

/* What the current data packet announces: R or 0. *first: it is the first to do so. */
static __always_inline __u32 control_tell(struct bpf_sock_ops *ops, struct ack_control *c,
					  int *first)
{
	__u32 mss = ops->mss_cache, cwnd = ops->snd_cwnd, nxt = ops->snd_nxt, r;
	__u64 told_end;

	bpf_spin_lock(&c->lock);
	told_end = c->ratio.told_end;
	/* New data start where the socket will send next. It is enough if one byte of
	 * them is acked. */
	r = aw_ack_ratio_on_segment(&c->ratio, in_stream(c, nxt) + 1, usable_window(c, cwnd, mss),
				    mss);
	*first = c->ratio.told_end != told_end;
	bpf_spin_unlock(&c->lock);
	return r;
}

/* Whether the TCP header of n bytes, 20 to 60, has SACK blocks. The first 16 options are
 * examined, and those before the fault in a malformed list. */
static __always_inline int has_sack(struct __sk_buff *skb, __u32 off, __u32 n)
{
	__u8 b[60 + 4] = {};
	__u32 i = sizeof(struct tcphdr), turn;

	if (!load_l3(skb, off, b, n))
		return 0;
	for (turn = 0; turn < 16; turn++) {
		__u32 kind, len;

		if (i >= n || i >= 60)
			return 0;
		kind = b[i];
		len = b[i + 1];
		if (kind == 5)
			return 1;
		if (!kind || (kind != 1 && len < 2))
			return 0;
		i += kind == 1 ? 1 : len;
	}
	return 0;
}

/* What is read from the current ACK. */
struct ack_in_hand {
	__u32 seq, end, ack; /* end: after its data and FIN */
	__u32 window;	     /* as on the wire */
	__u32 nxt;	     /* from the socket: what was sent */
	__u32 cwnd, mss;
	__u8 pure, sack, skipped;
};

/* Passes it to the state machine; the caller holds the lock. */
static __always_inline void control_on_ack(struct ack_control *c, const struct ack_in_hand *a)
{
	__u32 window = a->window << c->wscale;
	struct aw_ack_seen seen = {
		.ack = in_stream(c, a->ack),
		.una = c->una,
		.max = in_stream(c, a->nxt),
		.mss = a->mss,
	};

	if (seen.max < seen.ack)
		seen.max = seen.ack;
	/* RFC 5681 §2; any SACK block shows data out of order or sent twice. */
	seen.out_of_order = a->sack || (a->pure && a->ack == c->una_wire && a->nxt != a->ack &&
					window == c->window);
	seen.explained = a->skipped || !a->pure || !c->begun || a->seq != c->rcv_end;
	c->begun = 1;
	if (seen.ack >= seen.una)
		c->window = window;
	seen.window = usable_window(c, a->cwnd, a->mss);
	aw_ack_ratio_on_ack(&c->ratio, &seen);
	if (seen.ack > seen.una) {
		c->una = seen.ack;
		c->una_wire = a->ack;
	}
	if (aw_after(a->end, c->rcv_end))
		c->rcv_end = a->end;
}

/* A packet arrives for a socket. */
static __always_inline void control_on_packet(struct __sk_buff *skb)
{
	struct bpf_sock *sk = skb->sk;
	struct bpf_tcp_sock *tcp;
	struct ack_in_hand a;
	struct ack_control *c;
	struct ip_info info;
	struct tcphdr header;
	__u32 bits, len;
	__u64 lost;

	if (!sk)
		return;
	sk = bpf_sk_fullsock(sk);
	if (!sk)
		return;
	c = bpf_sk_storage_get(&ack_controls, sk, 0, 0);
	if (!c)
		return;
	tcp = bpf_tcp_sock(sk);
	if (!tcp || !read_ip(skb, &info) || info.protocol != IPPROTO_TCP ||
	    !load_l3(skb, info.l4_off, &header, sizeof(header)))
		return;
	len = header.doff * 4;
	if (!header.ack || header.syn || header.rst || len < sizeof(header) || len > info.l4_len)
		return;
	bits = bpf_ntohs(((__be16 *)&header)[6]);
	a.seq = bpf_ntohl(header.seq);
	a.end = a.seq + info.l4_len - len + header.fin;
	a.ack = bpf_ntohl(header.ack_seq);
	a.window = bpf_ntohs(header.window);
	a.nxt = tcp->snd_nxt;
	a.cwnd = tcp->snd_cwnd;
	a.mss = tcp->mss_cache;
	a.pure = a.end == a.seq;
	a.sack = has_sack(skb, info.l4_off, len);
	a.skipped = !!(bits & AW_TCP_ACK_SKIPPED);
	/* It acknowledges what was never sent: the socket does not accept it either. */
	if (aw_after(a.ack, a.nxt + NOT_COUNTED))
		return;
	bpf_spin_lock(&c->lock);
	lost = c->ratio.lost;
	control_on_ack(c, &a);
	lost = c->ratio.lost - lost;
	bpf_spin_unlock(&c->lock);
	if (!a.pure)
		return;
	COUNT(acks);
	if (a.skipped)
		COUNT(skipped);
	if (lost)
		COUNT(lost);
}

#endif
