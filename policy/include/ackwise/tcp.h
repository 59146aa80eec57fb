/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A TCP segment as it is on the wire, read within bounds.
 *
 * aw_parse() is the general reader: Ethernet or bare IP, up to two VLAN tags,
 * IPv4 with options, IPv6 with extension headers, every TCP option. Whatever it
 * does not understand it says (AW_OPT_UNKNOWN, a status), so that the contract
 * can let it pass.
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
	AW_OPT_UNKNOWN = 1 << 6, /* MPTCP, TCP-AO, MD5, malformed, anything else */
};

enum aw_parse_status {
	AW_PARSE_OK = 0,
	AW_PARSE_NOT_TCP = 1,	/* another protocol; none of our business */
	AW_PARSE_FRAGMENT = 2,	/* an IP fragment: ports and flags may be elsewhere */
	AW_PARSE_TRUNCATED = 3, /* the bytes end before the headers do */
	AW_PARSE_MALFORMED = 4, /* lengths that contradict each other */
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
	aw_u8 wscale; /* with AW_OPT_WSCALE */
	aw_u32 seq, ack;
	aw_u32 payload; /* bytes of data; for an aggregated packet of all of it */
	aw_u32 len;	/* from the IP header on */
	aw_u16 flags;	/* enum aw_tcp_flag */
	aw_u16 window;	/* as on the wire, unscaled */
	aw_u16 mss;	/* with AW_OPT_MSS */
	aw_u16 opts;	/* enum aw_tcp_opt */
	aw_u32 tsval, tsecr; /* with AW_OPT_TS */
	aw_u32 ce_bytes;     /* the ECEB field with AW_OPT_ACCECN, 24 bits; ~0 absent */
	aw_u32 n_sack;
	aw_u32 sack[2 * AW_SACK_BLOCKS]; /* left, right, host order, as received */
	aw_u16 l3_off, l4_off, l4_len;	 /* l4_len: the TCP header with options */
	aw_u16 reserved;
};

AW_ASSERT(sizeof(struct aw_seg) == 120, "aw_seg");

#endif
