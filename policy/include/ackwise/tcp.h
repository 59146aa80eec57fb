/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A TCP segment as it is on the wire, read within bounds.
 *
 * aw_parse() tries the shapes that nearly every segment has (aw_parse_fast:
 * IPv4 without options or IPv6 without extension headers; no TCP option, or the
 * timestamps as Linux lays them out) and leaves the rest to aw_parse_general:
 * up to two VLAN tags, IPv4 options, IPv6 extension headers, every TCP option.
 * What neither understands is reported (AW_OPT_UNKNOWN, a status), so that the
 * contract can let it pass.
 *
 * In BPF all three take direct packet pointers. With
 *
 *	#define AW_SUBPROG __attribute__((noinline))
 *
 * before the include, the option reader, the contract and its functions for SACK blocks
 * become global subprograms, which the verifier checks once instead of along every path
 * that leads to them. What their arguments point to must be writable. With
 *
 *	#define AW_REPEAT(n, step, context) bpf_loop(n, step, context, 0)
 *
 * the verifier checks one turn of each loop. An environment that does so should also call
 * aw_general_ip() and aw_general_tcp(), which make up aw_parse_general(), each from a
 * global subprogram of its own.
 */
#ifndef ACKWISE_TCP_H
#define ACKWISE_TCP_H

#include "types.h"

enum aw_tcp_flag {
	AW_TCP_FIN = 0x001,
	AW_TCP_SYN = 0x002,
	AW_TCP_RST = 0x004,
	AW_TCP_PSH = 0x008,
	AW_TCP_ACK = 0x010,
	AW_TCP_URG = 0x020,
	AW_TCP_ECE = 0x040,
	AW_TCP_CWR = 0x080,
	AW_TCP_AE = 0x100, /* RFC 9768; was NS */
	AW_TCP_RESERVED = 0xe00,
};

enum aw_tcp_opt {
	AW_OPT_MSS = 1 << 0,
	AW_OPT_WSCALE = 1 << 1,
	AW_OPT_SACK_OK = 1 << 2,
	AW_OPT_SACK = 1 << 3,
	AW_OPT_TS = 1 << 4,
	AW_OPT_ACCECN = 1 << 5, /* kinds 172 and 174, RFC 9768 */
	/* MPTCP, TCP-AO, MD5, malformed, repeated, any other; a source route or routing header */
	AW_OPT_UNKNOWN = 1 << 6,
};

enum aw_parse_status {
	AW_PARSE_OK = 0,
	AW_PARSE_NOT_TCP = 1,	/* another protocol; none of our business */
	AW_PARSE_FRAGMENT = 2,	/* an IP fragment: ports and flags may be elsewhere */
	AW_PARSE_TRUNCATED = 3, /* the bytes end before the headers do */
	AW_PARSE_MALFORMED = 4, /* lengths that contradict each other */
	AW_PARSE_STATUSES
};

/* The header that a packet begins with. */
enum aw_link {
	AW_LINK_ETHERNET = 0,
	AW_LINK_IP = 1,
	AW_LINKS
};

#define AW_SACK_BLOCKS 4

struct aw_addr {
	aw_u32 w[4]; /* network order as on the wire; IPv4 in w[0], the rest 0 */
};

struct aw_seg {
	struct aw_addr src, dst;
	aw_u16 sport, dport; /* network order */
	aw_u8 ip_version;    /* 4 or 6 */
	aw_u8 ip_ecn;	     /* 0 not-ECT, 1 ECT(1), 2 ECT(0), 3 CE */
	aw_u8 ttl;
	aw_u8 wscale; /* with AW_OPT_WSCALE; 14 at most (RFC 7323 §2.3) */
	aw_u32 seq, ack;
	aw_u32 payload;	     /* bytes of data; if aggregated, of the whole packet */
	aw_u32 len;	     /* from the IP header on */
	aw_u16 flags;	     /* enum aw_tcp_flag */
	aw_u16 window;	     /* as on the wire, unscaled */
	aw_u16 mss;	     /* with AW_OPT_MSS */
	aw_u16 opts;	     /* enum aw_tcp_opt */
	aw_u32 tsval, tsecr; /* with AW_OPT_TS */
	/* With AW_OPT_ACCECN: the counters ECEB, EE0B and EE1B, 24 bits each; ~0 if absent. */
	aw_u32 ce_bytes, e0_bytes, e1_bytes;
	aw_u32 n_sack;			 /* blocks in sack[]; the rest of it is 0 */
	aw_u32 sack[2 * AW_SACK_BLOCKS]; /* left, right, host order, as received */
	aw_u16 l3_off, l4_off, l4_len;	 /* l4_len: the TCP header with options */
	aw_u16 reserved;
};

AW_ASSERT(sizeof(struct aw_seg) == 128, "aw_seg");

/* ---- bytes ---------------------------------------------------------------- */

#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define AW_NET16(x) ((aw_u16)(x))
#define AW_NET32(x) ((aw_u32)(x))
#else
#define AW_NET16(x) ((aw_u16)__builtin_bswap16((aw_u16)(x)))
#define AW_NET32(x) ((aw_u32)__builtin_bswap32((aw_u32)(x)))
#endif

/* Reads bytes as on the wire. For BPF clang would split an unaligned copy into
 * bytes; the verifier itself knows where an unaligned load is allowed. */
AW_FN aw_u16 aw_raw16(const aw_u8 *p)
{
#if defined(__BPF__)
	return *(const aw_u16 *)p;
#else
	aw_u16 v;

	__builtin_memcpy(&v, p, sizeof(v));
	return v;
#endif
}

AW_FN aw_u32 aw_raw32(const aw_u8 *p)
{
#if defined(__BPF__)
	return *(const aw_u32 *)p;
#else
	aw_u32 v;

	__builtin_memcpy(&v, p, sizeof(v));
	return v;
#endif
}

AW_FN aw_u16 aw_get16(const aw_u8 *p)
{
	return AW_NET16(aw_raw16(p));
}

AW_FN aw_u32 aw_get32(const aw_u8 *p)
{
	return AW_NET32(aw_raw32(p));
}

/* TCP options are not aligned, and some architectures require alignment. */
AW_FN aw_u32 aw_opt32(const aw_u8 *p)
{
	return (aw_u32)p[0] << 24 | (aw_u32)p[1] << 16 | (aw_u32)p[2] << 8 | p[3];
}

AW_FN aw_u32 aw_opt24(const aw_u8 *p)
{
	return (aw_u32)p[0] << 16 | (aw_u32)p[1] << 8 | p[2];
}

/*
 * The n bytes at data + off, or null if they are not all there. For the verifier
 * the offset is bounded first, and the pointer returned must be the one that was
 * compared with the end. Natively even to compute a pointer beyond the end is undefined.
 */
#define AW_OFF_MAX 0x3fff /* two tags, IPv6, four extension headers of 2048 bytes */

AW_FN const aw_u8 *aw_at(const aw_u8 *data, const aw_u8 *end, aw_u32 off, aw_u32 n)
{
	if (off > AW_OFF_MAX)
		return 0;
#if defined(__BPF__)
	{
		aw_u64 o = off;
		const aw_u8 *p;

		__asm__ volatile("" : "+r"(o));
		if (o > AW_OFF_MAX)
			return 0;
		p = data + o;
		__asm__ volatile("" : "+r"(p));
		return p + n > end ? 0 : p;
	}
#else
	{
		aw_u64 have = (aw_u64)(end - data);

		return have < off || have - off < n ? 0 : data + off;
	}
#endif
}

/* ---- TCP options ---------------------------------------------------------- */

/* An environment may turn this into a subprogram of its own; see above. */
#ifndef AW_SUBPROG
#define AW_SUBPROG AW_FN
#endif

#define AW_OPT_BYTES 40 /* most that a data offset of 15 leaves */

/*
 * The options, and room after them for the longest that could start at the last
 * byte, so that for the verifier a bound on the start is enough. The offset of the
 * next option is here, too: the verifier does not track this memory, and checks a
 * turn of the loop once, not once for every path to it.
 */
struct aw_opt_buf {
	aw_u8 b[AW_OPT_BYTES + 40];
	aw_u32 at;
};

struct aw_opt_reader {
	struct aw_opt_buf *o;
	struct aw_seg *s;
	aw_u32 n;
};

/* Reads the option at o->at. Returns not 0 if there are no more. */
static inline __attribute__((unused)) long aw_parse_option(aw_u32 turn, struct aw_opt_reader *r)
{
	struct aw_opt_buf *o = r->o;
	struct aw_seg *s = r->s;
	aw_u32 kind, len, bit, i = o->at;
	const aw_u8 *b;

	(void)turn;
	if (i >= r->n || i >= AW_OPT_BYTES)
		return 1;
	b = o->b + i;
	kind = b[0];
	if (kind == 0) /* end of list; what follows is padding */
		return 1;
	if (kind == 1) {
		o->at = i + 1;
		return 0;
	}
	len = b[1];
	/* The length byte is missing, or the length is impossible. */
	if (i + 2 > r->n || len < 2 || len > r->n - i) {
		s->opts |= AW_OPT_UNKNOWN;
		return 1;
	}
	if (kind == 8 && len == 10) {
		bit = AW_OPT_TS;
		s->tsval = aw_opt32(b + 2);
		s->tsecr = aw_opt32(b + 6);
	} else if (kind == 5 && (len == 10 || len == 18 || len == 26 || len == 34)) {
		aw_u32 blocks = len >> 3, k;

		bit = AW_OPT_SACK;
		s->n_sack = blocks;
		for (k = 0; k < AW_SACK_BLOCKS; k++) {
			if (k >= blocks)
				break;
			s->sack[2 * k] = aw_opt32(b + 2 + 8 * k);
			s->sack[2 * k + 1] = aw_opt32(b + 6 + 8 * k);
		}
	} else if ((kind == 172 || kind == 174) &&
		   (len == 2 || len == 5 || len == 8 || len == 11)) {
		/*
		 * RFC 9768 §3.2.3: EE0B ECEB EE1B by kind 172, EE1B ECEB EE0B by kind
		 * 174; a short option drops the last ones.
		 */
		bit = AW_OPT_ACCECN;
		if (len >= 8)
			s->ce_bytes = aw_opt24(b + 5);
		if (kind == 172) {
			if (len >= 5)
				s->e0_bytes = aw_opt24(b + 2);
			if (len >= 11)
				s->e1_bytes = aw_opt24(b + 8);
		} else {
			if (len >= 5)
				s->e1_bytes = aw_opt24(b + 2);
			if (len >= 11)
				s->e0_bytes = aw_opt24(b + 8);
		}
	} else if (kind == 2 && len == 4) {
		bit = AW_OPT_MSS;
		s->mss = (aw_u16)(b[2] << 8 | b[3]);
	} else if (kind == 3 && len == 3) {
		bit = AW_OPT_WSCALE;
		s->wscale = b[2] < 14 ? b[2] : 14;
	} else if (kind == 4 && len == 2) {
		bit = AW_OPT_SACK_OK;
	} else {
		bit = AW_OPT_UNKNOWN;
	}
	/* The option is repeated: which one the peer uses is not known. */
	if (s->opts & bit)
		bit |= AW_OPT_UNKNOWN;
	s->opts |= (aw_u16)bit;
	o->at = i + len;
	return 0;
}

/* Calls step up to n times, until it returns not 0. */
#ifndef AW_REPEAT
#define AW_REPEAT(n, step, context) \
	do { \
		aw_u32 turn_; \
		for (turn_ = 0; turn_ < (n); turn_++) \
			if (step(turn_, context)) \
				break; \
	} while (0)
#endif

/* Reads n bytes of options into s, whose fields already have their defaults. Returns 0. */
AW_SUBPROG int aw_parse_options(struct aw_opt_buf *o, aw_u32 n, struct aw_seg *s)
{
	struct aw_opt_reader r = { o, s, n };

	if (!o || !s || n > AW_OPT_BYTES)
		return 0;
	o->at = 0;
	AW_REPEAT(AW_OPT_BYTES, aw_parse_option, &r);
	return 0;
}

/* ---- segments ------------------------------------------------------------- */

AW_FN void aw_addr4(struct aw_addr *a, const aw_u8 *p)
{
	a->w[0] = aw_raw32(p);
	a->w[1] = 0;
	a->w[2] = 0;
	a->w[3] = 0;
}

AW_FN void aw_addr6(struct aw_addr *a, const aw_u8 *p)
{
	a->w[0] = aw_raw32(p);
	a->w[1] = aw_raw32(p + 4);
	a->w[2] = aw_raw32(p + 8);
	a->w[3] = aw_raw32(p + 12);
}

AW_FN void aw_seg_ip4(struct aw_seg *s, const aw_u8 *ip)
{
	s->ip_version = 4;
	s->ip_ecn = ip[1] & 3;
	s->ttl = ip[8];
	aw_addr4(&s->src, ip + 12);
	aw_addr4(&s->dst, ip + 16);
}

AW_FN void aw_seg_ip6(struct aw_seg *s, const aw_u8 *ip)
{
	s->ip_version = 6;
	s->ip_ecn = ip[1] >> 4 & 3;
	s->ttl = ip[7];
	aw_addr6(&s->src, ip + 8);
	aw_addr6(&s->dst, ip + 24);
}

/* Reads the fixed 20 bytes of the TCP header, and sets the fields as without options. */
AW_FN void aw_seg_tcp(struct aw_seg *s, const aw_u8 *t, aw_u32 l3_off, aw_u32 l4_off, aw_u32 l4_len,
		      aw_u32 len)
{
	s->sport = aw_raw16(t);
	s->dport = aw_raw16(t + 2);
	s->wscale = 0;
	s->seq = aw_get32(t + 4);
	s->ack = aw_get32(t + 8);
	s->flags = (aw_u16)(aw_get16(t + 12) & 0xfff);
	s->window = aw_get16(t + 14);
	s->payload = len - (l4_off - l3_off) - l4_len;
	s->len = len;
	s->mss = 0;
	s->opts = 0;
	s->tsval = 0;
	s->tsecr = 0;
	s->ce_bytes = s->e0_bytes = s->e1_bytes = ~0U;
	s->n_sack = 0;
	s->sack[0] = s->sack[1] = s->sack[2] = s->sack[3] = 0;
	s->sack[4] = s->sack[5] = s->sack[6] = s->sack[7] = 0;
	s->l3_off = (aw_u16)l3_off;
	s->l4_off = (aw_u16)l4_off;
	s->l4_len = (aw_u16)l4_len;
	s->reserved = 0;
}

/* Reads TCP after the IP header at l3, of l3_len bytes, in an IP packet of len bytes. */
AW_FN int aw_fast_tcp(const aw_u8 *l3, const aw_u8 *end, aw_u32 l3_off, aw_u32 l3_len, aw_u32 len,
		      struct aw_seg *s)
{
	const aw_u8 *t = l3 + l3_len;
	aw_u32 doff = t[12] >> 4;

	if (doff == 8) {
		/* NOP NOP timestamps: RFC 7323 appendix A, and every Linux. */
		if (len < l3_len + 32 || t + 32 > end || aw_raw32(t + 20) != AW_NET32(0x0101080a))
			return 0;
		aw_seg_tcp(s, t, l3_off, l3_off + l3_len, 32, len);
		s->opts = AW_OPT_TS;
		s->tsval = aw_get32(t + 24);
		s->tsecr = aw_get32(t + 28);
		return 1;
	}
	if (doff != 5 || len < l3_len + 20)
		return 0;
	aw_seg_tcp(s, t, l3_off, l3_off + l3_len, 20, len);
	return 1;
}

/* Returns 1 and fills s if the segment has a usual shape; else 0, and s is undefined. */
AW_FN int aw_parse_fast(const aw_u8 *data, const aw_u8 *end, aw_u32 link, aw_u32 total_len,
			struct aw_seg *s)
{
	aw_u32 l3_off = link == AW_LINK_ETHERNET ? 14 : 0, len;
	const aw_u8 *ip = data + l3_off;

	/* Natively even to compute a pointer beyond the end is undefined. */
#if defined(__BPF__)
	if (ip + 40 > end)
		return 0;
#else
	if (end - data < (long)l3_off + 40)
		return 0;
#endif
	if (total_len < l3_off)
		return 0;
	if (ip[0] == 0x45) {
		if (l3_off && aw_raw16(data + 12) != AW_NET16(0x0800))
			return 0;
		if (ip[9] != 6 || aw_raw16(ip + 6) & AW_NET16(0x3fff))
			return 0;
		len = aw_get16(ip + 2);
		/* A length of 0 (BIG TCP), or one that does not fit, is for aw_parse_general. */
		if (len > total_len - l3_off || !aw_fast_tcp(ip, end, l3_off, 20, len, s))
			return 0;
		aw_seg_ip4(s, ip);
		return 1;
	}
	if (ip[0] >> 4 != 6 || ip[6] != 6)
		return 0;
	if (l3_off && aw_raw16(data + 12) != AW_NET16(0x86dd))
		return 0;
#if defined(__BPF__)
	if (ip + 60 > end)
		return 0;
#else
	if (end - ip < 60)
		return 0;
#endif
	len = 40 + aw_get16(ip + 4);
	if (len > total_len - l3_off || !aw_fast_tcp(ip, end, l3_off, 40, len, s))
		return 0;
	aw_seg_ip6(s, ip);
	return 1;
}

/* Reads the TCP header, which aw_general_ip() has found. */
AW_FN enum aw_parse_status aw_general_tcp(const aw_u8 *data, const aw_u8 *end, struct aw_seg *s)
{
	aw_u32 l3_off = s->l3_off, l4_off = s->l4_off, len = s->len;
	const aw_u8 *t = aw_at(data, end, l4_off, 20);
	aw_u16 routed = s->opts;
	struct aw_opt_buf o;
	aw_u32 l4_len, n, i;

	if (!t)
		return AW_PARSE_TRUNCATED;
	l4_len = (t[12] >> 4) * 4;
	if (l4_len < 20 || len < l4_off - l3_off + l4_len)
		return AW_PARSE_MALFORMED;
	if (!aw_at(data, end, l4_off, l4_len))
		return AW_PARSE_TRUNCATED;
	aw_seg_tcp(s, t, l3_off, l4_off, l4_len, len);
	s->opts = routed;
	if (l4_len == 20)
		return AW_PARSE_OK;

	/* Word by word, each with its own bounds check: the verifier wants constant offsets. */
	n = l4_len - 20;
	for (i = 0; i < AW_OPT_BYTES; i += 4) {
		aw_u32 w = 0;

		if (i < n) {
#if defined(__BPF__)
			if (t + 24 + i > end)
				return AW_PARSE_TRUNCATED;
#endif
			w = aw_raw32(t + 20 + i);
		}
		__builtin_memcpy(o.b + i, &w, 4);
	}
	__builtin_memset(o.b + AW_OPT_BYTES, 0, sizeof(o.b) - AW_OPT_BYTES);
	aw_parse_options(&o, n, s);
	return AW_PARSE_OK;
}

/*
 * Skips the IPv6 headers before TCP: at most four, those of RFC 8200 §4.1 without the
 * fragment header (which has its own status) and those for encryption or authentication
 * (which are not handled). Returns the offset of TCP, or -status.
 *
 * With a routing header the destination is the next hop, but TCP's checksum covers the
 * last one (RFC 8200 §8.1): to complete it from the IP header would be wrong.
 */
AW_FN aw_s32 aw_general_ip6(const aw_u8 *data, const aw_u8 *end, aw_u32 l3_off, aw_u32 next,
			    aw_u16 *routed)
{
	aw_u32 off = l3_off + 40;
	int i;

	for (i = 0; i < 5; i++) {
		const aw_u8 *h;

		if (next == 6)
			return (aw_s32)off;
		if (next != 0 && next != 43 && next != 60 && next != 44)
			return -AW_PARSE_NOT_TCP;
		h = aw_at(data, end, off, 8);
		if (!h)
			return -AW_PARSE_TRUNCATED;
		if (next == 44) /* a fragment of UDP or ICMP is not TCP */
			return h[0] == 6 || h[0] == 0 || h[0] == 43 || h[0] == 60
				       ? -AW_PARSE_FRAGMENT
				       : -AW_PARSE_NOT_TCP;
		if (next == 43)
			*routed = AW_OPT_UNKNOWN;
		next = h[0];
		off += (h[1] + 1U) * 8;
	}
	return -AW_PARSE_MALFORMED;
}

/*
 * Is there a source route, loose (131) or strict (137), among the options of an IPv4
 * header that ends at offset l4 (RFC 791 §3.1)? As with a routing header, the address in
 * the header is that of the next hop. A byte of that value in another option counts as
 * one, too: the ACK then passes, which costs nothing.
 */
AW_FN int aw_ip4_routed(const aw_u8 *data, const aw_u8 *end, aw_u32 l3_off, aw_u32 l4)
{
	aw_u32 i, k;

	for (i = 20; i < 60; i += 4) {
		const aw_u8 *p;

		if (l3_off + i >= l4)
			break;
		p = aw_at(data, end, l3_off + i, 4);
		if (!p)
			break; /* truncated, which aw_general_tcp() finds */
		for (k = 0; k < 4; k++)
			if (p[k] == 131 || p[k] == 137)
				return 1;
	}
	return 0;
}

/* Finds IP after the Ethernet header and up to two VLAN tags, and its version by the type. */
AW_FN enum aw_parse_status aw_general_ethernet(const aw_u8 *data, const aw_u8 *end, aw_u32 *l3_off,
					       aw_u32 *version)
{
	const aw_u8 *p = aw_at(data, end, 12, 2);
	aw_u32 type;

	if (!p)
		return AW_PARSE_TRUNCATED;
	type = aw_get16(p);
	*l3_off = 14;
	/* 802.1Q, 802.1ad; unrolled, so that the offsets are constants */
	if (type == 0x8100 || type == 0x88a8) {
		p = aw_at(data, end, 16, 2);
		if (!p)
			return AW_PARSE_TRUNCATED;
		type = aw_get16(p);
		*l3_off = 18;
		if (type == 0x8100 || type == 0x88a8) {
			p = aw_at(data, end, 20, 2);
			if (!p)
				return AW_PARSE_TRUNCATED;
			type = aw_get16(p);
			*l3_off = 22;
		}
	}
	if (type != 0x0800 && type != 0x86dd)
		return AW_PARSE_NOT_TCP;
	p = aw_at(data, end, *l3_off, 20);
	if (!p)
		return AW_PARSE_TRUNCATED;
	*version = type == 0x0800 ? 4 : 6;
	return p[0] >> 4 == *version ? AW_PARSE_OK : AW_PARSE_MALFORMED;
}

/* Finds IP and its version in a packet without a link header. */
AW_FN enum aw_parse_status aw_general_raw(const aw_u8 *data, const aw_u8 *end, aw_u32 *l3_off,
					  aw_u32 *version)
{
	const aw_u8 *p = aw_at(data, end, 0, 20);

	if (!p)
		return AW_PARSE_TRUNCATED;
	*l3_off = 0;
	*version = p[0] >> 4;
	return *version == 4 || *version == 6 ? AW_PARSE_OK : AW_PARSE_NOT_TCP;
}

/* Finds TCP. Fills the IP fields, offsets and len of s; a route sets AW_OPT_UNKNOWN. */
AW_FN enum aw_parse_status aw_general_ip(const aw_u8 *data, const aw_u8 *end, aw_u32 link,
					 aw_u32 total_len, struct aw_seg *s)
{
	aw_u32 l3_off, len, have, version;
	enum aw_parse_status status = link == AW_LINK_ETHERNET
					      ? aw_general_ethernet(data, end, &l3_off, &version)
					      : aw_general_raw(data, end, &l3_off, &version);
	aw_u16 routed = 0;
	const aw_u8 *p;
	aw_s32 l4;

	if (status != AW_PARSE_OK)
		return status;
	if (total_len < l3_off + 20)
		return AW_PARSE_MALFORMED;
	have = total_len - l3_off;

	if (version == 4) {
		p = aw_at(data, end, l3_off, 20);
		if (!p)
			return AW_PARSE_TRUNCATED;
		l4 = (p[0] & 15) * 4;
		if (l4 < 20)
			return AW_PARSE_MALFORMED;
		if (p[9] != 6)
			return AW_PARSE_NOT_TCP;
		if (aw_get16(p + 6) & 0x3fff)
			return AW_PARSE_FRAGMENT;
		len = aw_get16(p + 2);
		l4 += (aw_s32)l3_off;
		aw_seg_ip4(s, p);
		if (aw_ip4_routed(data, end, l3_off, (aw_u32)l4))
			routed = AW_OPT_UNKNOWN;
	} else {
		p = aw_at(data, end, l3_off, 40);
		if (!p)
			return AW_PARSE_TRUNCATED;
		l4 = aw_general_ip6(data, end, l3_off, p[6], &routed);
		if (l4 < 0)
			return (enum aw_parse_status) - l4;
		len = aw_get16(p + 4);
		if (len)
			len += 40;
		aw_seg_ip6(s, p);
	}
	/* 0: Linux's BIG TCP, or a jumbogram (RFC 2675). Then the packet's length counts. */
	if (!len)
		len = have;
	/* What is beyond len is padding (Ethernet's 60 bytes). A longer len is impossible. */
	if (len > have)
		return AW_PARSE_MALFORMED;
	s->l3_off = (aw_u16)l3_off;
	s->l4_off = (aw_u16)l4;
	s->len = len;
	s->opts = routed;
	return AW_PARSE_OK;
}

AW_FN enum aw_parse_status aw_parse_general(const aw_u8 *data, const aw_u8 *end, aw_u32 link,
					    aw_u32 total_len, struct aw_seg *s)
{
	enum aw_parse_status status = aw_general_ip(data, end, link, total_len, s);

	return status == AW_PARSE_OK ? aw_general_tcp(data, end, s) : status;
}

/*
 * [data, end) are the bytes at hand, from the link header (enum aw_link) on;
 * total_len is the length of the whole packet (skb->len), which is more if they
 * are only its linear or captured part. s is defined if AW_PARSE_OK is returned.
 */
AW_FN enum aw_parse_status aw_parse(const aw_u8 *data, const aw_u8 *end, aw_u32 link,
				    aw_u32 total_len, struct aw_seg *s)
{
	if (AW_LIKELY(aw_parse_fast(data, end, link, total_len, s)))
		return AW_PARSE_OK;
	return aw_parse_general(data, end, link, total_len, s);
}

#endif
