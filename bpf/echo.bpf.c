// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The other half of ACC on the wire (echo.h is the receiver's): whoever owns the
 * queue that marks ACKs tells the data receiver, in the place of the data sender.
 *
 *   receiver                   gateway                             sender
 *   ACK, ECT(0) ────► queue: CE ──► echo_acks: noted, not-ECT ──► ACK
 *   data, ECE ◄──────────────────── echo_data: sets ECE ◄──────── data
 *
 * - A sender that is an unmodified Linux does not look at CE on pure ACKs, so that
 *   somebody else must echo; and the gateway sees both directions.
 * - Past the gateway nobody would echo a mark. So an ACK leaves as it would have
 *   left without ACC, not capable of ECN, whether it was marked or not.
 * - One mark or several are one segment with ECE. Nobody repeats it: the next mark
 *   is not far.
 * - A connection is kept from its SYN-ACK on. With an ECN flag on that, ECN or
 *   AccECN may be in force, and nothing of the connection is touched.
 */
#include <linux/bpf.h>
#include <linux/in.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include "ecn.h"
#include "echo_shared.h"

#define PASS TC_ACT_UNSPEC /* go on to the next program */

const volatile struct aw_echo_options echo_options = {};

/* The end on this side of the interface comes first. */
struct connection {
	struct aw_addr near, far;
	__u16 near_port, far_port;
};

struct echo {
	__u32 with_ecn; /* it may be in force: hands off */
	__u32 marked;	/* since the last segment with ECE */
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, struct connection);
	__type(value, struct echo);
} connections SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct aw_echo_counters);
} echo_counters SEC(".maps");

struct packet {
	struct connection of;
	__u32 version, ecn, l4_off, payload, flags;
};

static __always_inline struct aw_echo_counters *count(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&echo_counters, &zero);
}

/* Where TCP begins, or 0: another protocol, a fragment, an extension header. */
static __always_inline __u32 read_ip(struct __sk_buff *skb, struct packet *p, int out, __u32 *len)
{
	__u32 off = echo_options.l3_off;
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
		p->ecn = ip[1] & CE;
		aw_addr4(from, ip + 12);
		aw_addr4(to, ip + 16);
		*len = (ip[2] << 8 | ip[3]) - header;
		return off + header;
	}
	if (p->version == 6 && skb->protocol == bpf_htons(0x86dd) && ip[6] == IPPROTO_TCP) {
		p->ecn = ip[1] >> 4 & CE;
		aw_addr6(from, ip + 8);
		aw_addr6(to, ip + 24);
		*len = ip[4] << 8 | ip[5];
		return off + 40;
	}
	return 0;
}

/* Of all TCP in the usual wrapping. `out`: it leaves by this interface. */
static __always_inline int read_packet(struct __sk_buff *skb, struct packet *p, int out)
{
	__u32 len = 0, header;
	__u8 tcp[20];

	__builtin_memset(p, 0, sizeof(*p));
	p->l4_off = read_ip(skb, p, out, &len);
	if (!p->l4_off || bpf_skb_load_bytes(skb, p->l4_off, tcp, sizeof(tcp)))
		return 0;
	__builtin_memcpy(out ? &p->of.near_port : &p->of.far_port, tcp, 2);
	__builtin_memcpy(out ? &p->of.far_port : &p->of.near_port, tcp + 2, 2);
	p->flags = (tcp[12] & 15) << 8 | tcp[13];
	header = (tcp[12] >> 4) * 4;
	/* A length of 0 is an aggregate's (BIG TCP): full of data. */
	p->payload = len > header ? len - header : skb->gso_size;
	return 1;
}

/* A SYN ends what was known, a SYN-ACK says what holds. */
static __always_inline int handshake(const struct packet *p)
{
	struct aw_echo_counters *c = count();
	struct echo *known, fresh = { .with_ecn = !!(p->flags & ECN_FLAGS) };

	if (!(p->flags & AW_TCP_ACK)) {
		bpf_map_delete_elem(&connections, &p->of);
		return PASS;
	}
	known = bpf_map_lookup_elem(&connections, &p->of);
	if (known) {
		/* Said in two ways: whom the client has heard is not known. */
		known->with_ecn |= fresh.with_ecn;
		return PASS;
	}
	if (!bpf_map_update_elem(&connections, &p->of, &fresh, BPF_NOEXIST) && c) {
		c->plain += !fresh.with_ecn;
		c->other += fresh.with_ecn;
	}
	return PASS;
}

/* Behind the queue. */
SEC("classifier")
int ackwise_echo_acks(struct __sk_buff *skb)
{
	struct aw_echo_counters *c = count();
	struct packet p;
	struct echo *e;

	if (!c || !read_packet(skb, &p, 1))
		return PASS;
	if (p.flags & AW_TCP_SYN)
		return handshake(&p);
	if (p.ecn == NOT_ECT || p.payload || !(p.flags & AW_TCP_ACK) ||
	    p.flags & (AW_TCP_FIN | AW_TCP_RST))
		return PASS;
	e = bpf_map_lookup_elem(&connections, &p.of);
	if (!e || e->with_ecn) {
		c->unknown += !e && p.ecn == CE;
		return PASS;
	}
	c->capable++;
	if (p.ecn == CE) {
		c->marks++;
		e->marked = 1;
	}
	set_ecn(skb, echo_options.l3_off, p.version, NOT_ECT);
	return PASS;
}

/* Where the data come in. */
SEC("classifier")
int ackwise_echo_data(struct __sk_buff *skb)
{
	struct aw_echo_counters *c = count();
	struct packet p;
	struct echo *e;

	if (!c || !read_packet(skb, &p, 0))
		return PASS;
	if (p.flags & AW_TCP_SYN)
		return handshake(&p);
	if (!p.payload)
		return PASS;
	e = bpf_map_lookup_elem(&connections, &p.of);
	if (!e || e->with_ecn || !e->marked)
		return PASS;
	/* A mark between the two is as good as told. */
	e->marked = 0;
	if (!set_ece(skb, p.l4_off, 1))
		c->echoes++;
	return PASS;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
