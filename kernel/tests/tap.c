// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Counts TCP over IPv4 on an interface, and hashes it: what passed, and when.
 *
 *	tap INTERFACE PORT [SKIP]	until SIGTERM; data goes to PORT
 *
 * prints: data N bytes N retransmits N acks N steady_data N steady_acks N hash X,
 * steady from data segment SKIP on. The hash is over the time since the first
 * packet, lengths, flags, windows, and sequence numbers and timestamps relative
 * to the first ones: random initial values do not change it.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "sniff.h"

struct way {
	bool seen, ts;
	uint32_t first, high, tsval;
};

struct counts {
	unsigned long long data, bytes, retransmits, acks, steady_data, steady_acks;
};

static volatile sig_atomic_t stop;
static struct way ways[2]; /* [1] the data's */
static struct counts counts;
static uint64_t hash = 0xcbf29ce484222325ULL; /* FNV-1a */

static void on_term(int sig)
{
	stop = sig;
}

static void mix(uint64_t v)
{
	int i;

	for (i = 0; i < 8; i++, v >>= 8)
		hash = (hash ^ (v & 0xff)) * 0x100000001b3ULL;
}

static uint32_t get32(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | p[1] << 16 | p[2] << 8 | p[3];
}

static void mix_options(const uint8_t *p, const uint8_t *end)
{
	while (p < end && *p) {
		if (*p == 1) {
			p++;
			continue;
		}
		if (end - p < 2 || p[1] < 2 || end - p < p[1])
			return;
		mix(p[0] << 8 | p[1]);
		p += p[1];
	}
}

static void packet(const uint8_t *ip, int n, uint16_t port, unsigned long long skip, uint64_t at)
{
	const uint8_t *t = ip + (ip[0] & 15) * 4;
	uint32_t seq, payload, end;
	struct way *w;
	bool data;

	if (n < 40 || ip[0] >> 4 != 4 || ip[9] != 6)
		return;
	data = (t[2] << 8 | t[3]) == port;
	if (!data && (t[0] << 8 | t[1]) != port)
		return;
	w = &ways[data];
	seq = get32(t + 4);
	payload = (ip[2] << 8 | ip[3]) - (t - ip) - (t[12] >> 4) * 4;
	end = seq + payload;
	if (t[13] & 2) /* SYN: a connection begins */
		*w = (struct way){ .seen = true, .first = seq, .high = seq + 1 };
	mix(at);
	mix(data);
	mix(seq - w->first);
	mix(t[13] & 16 ? get32(t + 8) - ways[!data].first : 0);
	mix(t[13] << 16 | t[14] << 8 | t[15]);
	mix(payload);
	mix_options(t + 20, t + (t[12] >> 4) * 4);
	if (data && payload) {
		counts.data++;
		counts.bytes += payload;
		counts.steady_data += counts.data > skip;
		if ((int32_t)(seq - w->high) < 0)
			counts.retransmits++;
		if ((int32_t)(end - w->high) > 0)
			w->high = end;
	} else if (!data && !payload && !(t[13] & 7)) {
		counts.acks++;
		counts.steady_acks += counts.data > skip;
	}
}

int main(int argc, char **argv)
{
	struct sigaction sa = { .sa_handler = on_term };
	uint64_t start = 0, at;
	uint8_t b[2048];
	ssize_t n;
	int s;

	if (argc < 3) {
		fprintf(stderr, "usage: tap INTERFACE PORT [SKIP]\n");
		return 2;
	}
	s = sniff_open("tap", argv[1]);
	if (s < 0)
		return 1;
	sigaction(SIGTERM, &sa, NULL);
	while (!stop) {
		n = sniff(s, b, sizeof(b), &at);
		if (n <= 0)
			continue;
		start = start ? start : at;
		packet(b, n, atoi(argv[2]), argc > 3 ? atoll(argv[3]) : 0, at - start);
	}
	printf("data %llu bytes %llu retransmits %llu acks %llu steady_data %llu steady_acks %llu "
	       "hash %016llx\n",
	       counts.data, counts.bytes, counts.retransmits, counts.acks, counts.steady_data,
	       counts.steady_acks, (unsigned long long)hash);
	return 0;
}
