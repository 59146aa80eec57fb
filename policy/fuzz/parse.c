/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Gives arbitrary bytes to the parser. Three readers must agree: the fast path with
 * the general one, and both with the one below, which is written the slow way:
 * a cursor that fails when it runs dry, a byte at a time. The packet is in an
 * allocation of exactly its size, so that AddressSanitizer sees any over-read.
 *
 * Input: a byte of choices (bit 0: bare IP; bits 1-2: how the total length
 * relates to the bytes), two bytes for that relation, then the packet. Some inputs
 * are whole packets from packets.h, so that deeply nested headers are reached.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ackwise/tcp.h"
#include "packets.h"

struct cursor {
	const uint8_t *p;
	size_t n; /* bytes left */
	int dry;  /* a byte after the last was asked for */
};

static unsigned take(struct cursor *c)
{
	if (!c->n) {
		c->dry = 1;
		return 0;
	}
	c->n--;
	return *c->p++;
}

static uint32_t number(struct cursor *c, int bytes)
{
	uint32_t v = 0;

	while (bytes--)
		v = v << 8 | take(c);
	return v;
}

static void raw(struct cursor *c, void *to, size_t n)
{
	uint8_t *b = to;

	while (n--)
		*b++ = (uint8_t)take(c);
}

static int lengths_of(unsigned kind, unsigned len)
{
	switch (kind) {
	case 2:
		return len == 4;
	case 3:
		return len == 3;
	case 4:
		return len == 2;
	case 5:
		return len == 10 || len == 18 || len == 26 || len == 34;
	case 8:
		return len == 10;
	case 172:
	case 174:
		return len == 2 || len == 5 || len == 8 || len == 11;
	default:
		return 0;
	}
}

static void slow_options(struct cursor c, struct aw_seg *s)
{
	while (c.n) {
		unsigned kind = take(&c), len, bit = 0, i;
		struct cursor body;

		if (kind == 0)
			return;
		if (kind == 1)
			continue;
		len = take(&c);
		if (c.dry || len < 2 || len - 2 > c.n) {
			s->opts |= AW_OPT_UNKNOWN;
			return;
		}
		body.p = c.p;
		body.n = len - 2;
		body.dry = 0;
		c.p += len - 2;
		c.n -= len - 2;
		if (!lengths_of(kind, len)) {
			s->opts |= AW_OPT_UNKNOWN;
			continue;
		}
		switch (kind) {
		case 2:
			bit = AW_OPT_MSS;
			s->mss = (aw_u16)number(&body, 2);
			break;
		case 3:
			bit = AW_OPT_WSCALE;
			s->wscale = (aw_u8)number(&body, 1);
			if (s->wscale > 14)
				s->wscale = 14;
			break;
		case 4:
			bit = AW_OPT_SACK_OK;
			break;
		case 5:
			bit = AW_OPT_SACK;
			s->n_sack = (len - 2) / 8;
			for (i = 0; i < 2 * s->n_sack; i++)
				s->sack[i] = number(&body, 4);
			break;
		case 8:
			bit = AW_OPT_TS;
			s->tsval = number(&body, 4);
			s->tsecr = number(&body, 4);
			break;
		default:
			bit = AW_OPT_ACCECN;
			/* EE0B ECEB EE1B, or the other way round (RFC 9768 §3.2.3). */
			for (i = 0; i < 3; i++) {
				uint32_t n = number(&body, 3);

				if (body.dry)
					break;
				if (i == 1)
					s->ce_bytes = n;
				else if ((i == 0) == (kind == 172))
					s->e0_bytes = n;
				else
					s->e1_bytes = n;
			}
		}
		if (s->opts & bit)
			bit |= AW_OPT_UNKNOWN;
		s->opts |= (aw_u16)bit;
	}
}

/* What the reader learns of the headers before TCP. */
struct before_tcp {
	uint32_t l3_len; /* with IPv6's extension headers */
	uint32_t ip_len; /* as the header says; 0 if it does not */
	int routed;
};

/* Ethernet and at most two tags; *type stays 0 if the packet has no link header. */
static enum aw_parse_status slow_link(struct cursor *c, unsigned link, uint32_t *type)
{
	size_t addresses = c->n < 12 ? c->n : 12;
	int tags = 0;

	*type = 0;
	if (link != AW_LINK_ETHERNET)
		return AW_PARSE_OK;
	c->dry = c->n < 12;
	c->p += addresses;
	c->n -= addresses;
	*type = number(c, 2);
	while (!c->dry && (*type == 0x8100 || *type == 0x88a8) && tags++ < 2) {
		number(c, 2);
		*type = number(c, 2);
	}
	if (c->dry)
		return AW_PARSE_TRUNCATED;
	return *type == 0x0800 || *type == 0x86dd ? AW_PARSE_OK : AW_PARSE_NOT_TCP;
}

static enum aw_parse_status slow_ip4(struct cursor c, struct before_tcp *out, struct aw_seg *s)
{
	struct cursor ip = c;
	uint32_t word, next;
	size_t i;

	out->l3_len = number(&c, 1) % 16 * 4;
	s->ip_ecn = number(&c, 1) % 4;
	out->ip_len = number(&c, 2);
	number(&c, 2);
	word = number(&c, 2);
	s->ttl = (aw_u8)number(&c, 1);
	next = number(&c, 1);
	number(&c, 2);
	raw(&c, &s->src.w[0], 4);
	raw(&c, &s->dst.w[0], 4);
	if (out->l3_len < 20)
		return AW_PARSE_MALFORMED;
	if (next != 6)
		return AW_PARSE_NOT_TCP;
	if (word % 0x4000)
		return AW_PARSE_FRAGMENT;
	for (i = 20; i < out->l3_len && i < ip.n; i++)
		out->routed |= ip.p[i] == 131 || ip.p[i] == 137;
	return AW_PARSE_OK;
}

static int extension(unsigned next)
{
	return next == 0 || next == 43 || next == 60;
}

static enum aw_parse_status slow_ip6(struct cursor c, struct before_tcp *out, struct aw_seg *s)
{
	uint32_t word, next;
	int headers = 0;

	word = number(&c, 4);
	s->ip_ecn = word >> 20 & 3;
	out->ip_len = number(&c, 2);
	next = number(&c, 1);
	s->ttl = (aw_u8)number(&c, 1);
	raw(&c, &s->src, 16);
	raw(&c, &s->dst, 16);
	if (c.dry)
		return AW_PARSE_TRUNCATED;
	if (out->ip_len)
		out->ip_len += 40;
	out->l3_len = 40;
	while (next != 6) {
		struct cursor h = c;
		uint32_t size;

		if (!extension(next) && next != 44)
			return AW_PARSE_NOT_TCP;
		if (h.n < 8)
			return AW_PARSE_TRUNCATED;
		if (next == 44) {
			next = take(&h);
			return next == 6 || extension(next) ? AW_PARSE_FRAGMENT : AW_PARSE_NOT_TCP;
		}
		out->routed |= next == 43;
		next = take(&h);
		size = 8 * (take(&h) + 1);
		out->l3_len += size;
		if (++headers == 5)
			return AW_PARSE_MALFORMED;
		/* If this is beyond the end, the next read finds out. */
		if (size > c.n)
			size = (uint32_t)c.n;
		c.p += size;
		c.n -= size;
	}
	return AW_PARSE_OK;
}

static enum aw_parse_status slow_tcp(struct cursor t, const struct before_tcp *ip, struct aw_seg *s)
{
	uint32_t word, doff;

	raw(&t, &s->sport, 2);
	raw(&t, &s->dport, 2);
	s->seq = number(&t, 4);
	s->ack = number(&t, 4);
	word = number(&t, 2);
	doff = word / 4096 * 4;
	s->flags = word % 4096;
	s->window = (aw_u16)number(&t, 2);
	number(&t, 4);
	if (doff < 20 || ip->ip_len < ip->l3_len + doff)
		return AW_PARSE_MALFORMED;
	if (t.n < doff - 20)
		return AW_PARSE_TRUNCATED;
	t.n = doff - 20;
	s->payload = ip->ip_len - ip->l3_len - doff;
	s->l4_len = (aw_u16)doff;
	s->ce_bytes = s->e0_bytes = s->e1_bytes = ~0u;
	s->opts = ip->routed ? AW_OPT_UNKNOWN : 0;
	slow_options(t, s);
	return AW_PARSE_OK;
}

static enum aw_parse_status slow(const uint8_t *data, size_t n, unsigned link, uint32_t total,
				 struct aw_seg *s)
{
	struct cursor c = { data, n, 0 };
	struct before_tcp ip = { 0 };
	enum aw_parse_status status;
	uint32_t have, type;
	unsigned version;
	size_t l3_off;

	memset(s, 0, sizeof(*s));
	status = slow_link(&c, link, &type);
	if (status != AW_PARSE_OK)
		return status;
	l3_off = (size_t)(c.p - data);
	if (c.n < 20)
		return AW_PARSE_TRUNCATED;
	version = c.p[0] / 16;
	if (type ? version != (type == 0x0800 ? 4u : 6u) : version != 4 && version != 6)
		return type ? AW_PARSE_MALFORMED : AW_PARSE_NOT_TCP;
	if (total < l3_off + 20)
		return AW_PARSE_MALFORMED;
	have = total - (uint32_t)l3_off;
	s->ip_version = (aw_u8)version;
	status = version == 4 ? slow_ip4(c, &ip, s) : slow_ip6(c, &ip, s);
	if (status != AW_PARSE_OK)
		return status;
	if (!ip.ip_len)
		ip.ip_len = have;
	if (ip.ip_len > have)
		return AW_PARSE_MALFORMED;
	if (c.n < ip.l3_len || c.n - ip.l3_len < 20)
		return AW_PARSE_TRUNCATED;
	c.p += ip.l3_len;
	c.n -= ip.l3_len;
	s->len = ip.ip_len;
	s->l3_off = (aw_u16)l3_off;
	s->l4_off = (aw_u16)(l3_off + ip.l3_len);
	return slow_tcp(c, &ip, s);
}

static void fail(const char *what)
{
	fprintf(stderr, "parse: %s\n", what);
	abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	enum aw_parse_status got, want;
	struct aw_seg fast, general, whole, expect;
	uint32_t total, more;
	unsigned link;
	uint8_t *packet;
	size_t n;

	if (size < 3)
		return 0;
	link = data[0] & 1;
	more = (uint32_t)(data[1] | data[2] << 8);
	n = size - 3;
	packet = malloc(n ? n : 1);
	if (!packet)
		return 0;
	memcpy(packet, data + 3, n);
	switch (data[0] >> 1 & 3) {
	case 0:
		total = (uint32_t)n;
		break;
	case 1:
		total = (uint32_t)n + more;
		break;
	case 2:
		total = more;
		break;
	default:
		total = (uint32_t)n + more * 4096;
		break;
	}

	memset(&fast, 0x55, sizeof(fast));
	memset(&general, 0xaa, sizeof(general));
	memset(&whole, 0x33, sizeof(whole));
	got = aw_parse_general(packet, packet + n, link, total, &general);
	want = slow(packet, n, link, total, &expect);
	if (got != want)
		fail("another status");
	if (got == AW_PARSE_OK && memcmp(&general, &expect, sizeof(expect)))
		fail("another segment");
	if (aw_parse_fast(packet, packet + n, link, total, &fast) &&
	    (got != AW_PARSE_OK || memcmp(&fast, &general, sizeof(fast))))
		fail("the fast path reads something else");
	if (aw_parse(packet, packet + n, link, total, &whole) != got)
		fail("the whole is not its parts");
	if (got == AW_PARSE_OK) {
		if (whole.l4_off + whole.l4_len > n || whole.l3_off + 20 > whole.l4_off ||
		    whole.l3_off + whole.len > total || whole.n_sack > AW_SACK_BLOCKS ||
		    whole.payload > whole.len || whole.wscale > 14)
			fail("fields outside of the packet");
		if (memcmp(packet + whole.l4_off, &whole.sport, 2))
			fail("ports are not where the header is said to be");
	}
	free(packet);
	return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned int seed);

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned int seed)
{
	struct dice dice = { seed | 1 };
	uint8_t packet[PACKET_MAX];
	size_t n;

	if (roll(&dice, 4))
		return LLVMFuzzerMutate(data, size, max);
	n = packet_of(&dice, packet);
	if (n > max)
		n = max;
	memcpy(data, packet, n);
	/* The packet as it is, or with some bytes changed. */
	return roll(&dice, 2) ? n : LLVMFuzzerMutate(data, n, max);
}
