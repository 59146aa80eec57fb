/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Packets with consistent lengths, and with all kinds of headers and options: in any
 * order, unknown ones, repeated ones. They are inputs of parse.c.
 */
#ifndef ACKWISE_FUZZ_PACKETS_H
#define ACKWISE_FUZZ_PACKETS_H

#include <string.h>

#include "dice.h"

/* Room for choices, Ethernet with four tags, IPv6 with seven headers, TCP, payload, padding. */
#define PACKET_MAX 512

struct writer {
	uint8_t *p;
	size_t n;
};

static inline void put(struct writer *w, uint32_t value, int bytes)
{
	while (bytes--)
		w->p[w->n++] = (uint8_t)(value >> 8 * bytes);
}

static inline void put_random(struct writer *w, struct dice *d, size_t n)
{
	while (n--)
		put(w, roll(d, 256), 1);
}

/* Ethernet with up to four tags, or one that is followed by PPPoE (RFC 2516). */
static inline void put_ethernet(struct writer *w, struct dice *d, int v6)
{
	static const uint16_t tags[] = { 0x8100, 0x88a8, 0x9100 };
	uint32_t n = roll(d, 3) ? 0 : roll(d, 5);

	put_random(w, d, 12);
	while (n--) {
		put(w, tags[roll(d, 8) ? roll(d, 2) : 2], 2);
		put(w, roll(d, 65536), 2);
	}
	if (roll(d, 16) == 0) {
		put(w, 0x8864, 2);
		put(w, 0x11000001, 4);
		put(w, 100, 2);
		put(w, v6 ? 0x0057 : 0x0021, 2);
		return;
	}
	put(w, v6 ? 0x86dd : 0x0800, 2);
}

/* IPv4's options: routes, a router alert, no operation, any other (RFC 791 §3.1). */
static inline void put_ip_options(struct writer *w, struct dice *d, size_t n)
{
	static const uint8_t kinds[] = { 0, 1, 7, 68, 131, 137, 148 };
	size_t end = w->n + n;

	while (w->n < end) {
		uint8_t kind = kinds[roll(d, sizeof(kinds))];
		size_t left = end - w->n, len = 2 + roll(d, 9);

		put(w, kind, 1);
		if (kind < 2 || left < 2)
			continue;
		len = len < left ? len : left;
		put(w, (uint32_t)len, 1);
		/* Below 100, so that no byte looks like the kind of a route. */
		while (len-- > 2)
			put(w, roll(d, 100), 1);
	}
}

/* Writes a TCP option with all its bytes. */
static inline void put_tcp_option(struct writer *w, struct dice *d)
{
	static const uint8_t options[][2] = {
		{ 0, 1 },    { 1, 1 },	 { 1, 1 },   { 2, 4 },	 { 3, 3 },    { 4, 2 },
		{ 5, 10 },   { 5, 18 },	 { 5, 26 },  { 5, 34 },	 { 8, 10 },   { 8, 10 },
		{ 19, 18 },  { 29, 12 }, { 30, 4 },  { 172, 2 }, { 172, 5 },  { 172, 8 },
		{ 172, 11 }, { 174, 2 }, { 174, 5 }, { 174, 8 }, { 174, 11 },
	};
	const uint8_t *o = options[roll(d, sizeof(options) / sizeof(options[0]))];
	uint32_t len = o[1];

	put(w, o[0], 1);
	if (o[0] < 2)
		return;
	if (roll(d, 40) == 0)
		len += roll(d, 3) - 1;
	put(w, len, 1);
	put_random(w, d, len > 2 ? len - 2 : 0);
}

/* A TCP header of whole options. Returns its length. */
static inline size_t put_tcp(struct writer *w, struct dice *d)
{
	uint8_t bytes[40 + 64];
	struct writer options = { bytes, 0 };
	uint32_t wanted = roll(d, 6);
	size_t n = 0;

	while (wanted--) {
		put_tcp_option(&options, d);
		if (options.n > 40)
			break;
		n = options.n;
	}
	put_random(w, d, 12);
	put(w, (uint32_t)(5 + (n + 3) / 4) << 12 | (roll(d, 2) ? 16 : roll(d, 4096)), 2);
	put_random(w, d, 6);
	memcpy(w->p + w->n, bytes, n);
	w->n += n;
	for (; n % 4; n++)
		put(w, roll(d, 2), 1);
	return 20 + n;
}

static inline void put_ip4(struct writer *w, struct dice *d)
{
	size_t options = roll(d, 2) ? 0 : 4 * roll(d, 11), start = w->n, payload = roll(d, 20);

	put(w, 0x45 + (uint32_t)options / 4, 1);
	put(w, roll(d, 256), 1);
	put(w, 0, 2);
	put(w, roll(d, 65536), 2);
	/* Mostly not a fragment, with or without DF; else MF, or an offset. */
	put(w, roll(d, 8) ? 0x4000 * roll(d, 2) : roll(d, 2) ? 0x2000 : roll(d, 65536), 2);
	put(w, roll(d, 256), 1);
	put(w, roll(d, 30) ? 6 : roll(d, 256), 1);
	put_random(w, d, 10);
	put_ip_options(w, d, options);
	put_tcp(w, d);
	put_random(w, d, payload);
	if (roll(d, 20)) { /* else 0, as with BIG TCP */
		w->p[start + 2] = (uint8_t)((w->n - start) >> 8);
		w->p[start + 3] = (uint8_t)(w->n - start);
	}
}

static inline void put_ip6(struct writer *w, struct dice *d)
{
	static const uint8_t kinds[] = { 0, 43, 60, 60, 44, 51, 6, 17 };
	size_t headers = roll(d, 2) ? 0 : roll(d, 7), start = w->n, at = w->n + 6;

	put(w, 6u << 28 | roll(d, 1u << 28), 4);
	put(w, 0, 2);
	put(w, 6, 1);
	put_random(w, d, 1 + 32);
	while (headers--) {
		uint32_t words = roll(d, 4) ? 0 : roll(d, 3);

		w->p[at] = kinds[roll(d, 4) ? roll(d, 4) : roll(d, sizeof(kinds))];
		at = w->n;
		put(w, 6, 1);
		put(w, words, 1);
		put_random(w, d, 6 + 8 * words);
	}
	put_tcp(w, d);
	put_random(w, d, roll(d, 20));
	if (roll(d, 20)) { /* else 0, as with BIG TCP */
		w->p[start + 4] = (uint8_t)((w->n - start - 40) >> 8);
		w->p[start + 5] = (uint8_t)(w->n - start - 40);
	}
}

/* Writes an input with a packet to p, which has PACKET_MAX bytes. Returns its length. */
static inline size_t packet_of(struct dice *d, uint8_t *p)
{
	struct writer w = { p, 0 };
	int v6 = roll(d, 2), bare = roll(d, 2);

	put(&w, (uint32_t)bare, 1);
	put(&w, 0, 2);
	if (!bare)
		put_ethernet(&w, d, v6);
	if (v6)
		put_ip6(&w, d);
	else
		put_ip4(&w, d);
	if (roll(d, 8) == 0)
		put_random(&w, d, roll(d, 20)); /* Ethernet's padding */
	return w.n;
}

#endif
