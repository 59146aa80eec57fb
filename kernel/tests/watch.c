// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Follows every connection at the receiver's interface, and says where its ACKs
 * break the contract (docs/contract.md), whatever the network did to the data.
 *
 *	watch INTERFACE MAX_US	until SIGTERM; data goes to ports from 7000 on
 *
 * - An ACK says all that has arrived in order, and nothing more.
 * - At once answered are: data out of order, data that was there already, data
 *   that fills a hole, the first CE, CWR, FIN (RFC 5681 §4.2, RFC 3168 §6.1.3).
 * - ECE is set from CE to CWR, and not elsewhere. Where it changes, an ACK of what
 *   arrived before may go first, with ECE as it was.
 * - No byte waits longer than MAX_US for its ACK.
 *
 * To be exact it wants virtual time, no offloads and net.ipv4.tcp_comp_sack_nr=0.
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
#include <unistd.h>

#include "sniff.h"

enum {
	FIN = 1,
	SYN = 2,
	RST = 4,
	ACK = 16,
	ECE = 64,
	CWR = 128
};

#define PORT 7000
#define FLOWS 64
#define HOLES 512
#define AT_ONCE_US 20 /* reading the clock costs virtual time, 256 ns each */
#define COMPLAINTS 20

struct range {
	uint32_t from, to;
};

struct flow {
	bool open, ecn, ece, ece_unsure;
	bool turned;	 /* the newest segment changed ECE, and nothing left since */
	bool ece_before; /* with turned */
	uint32_t up_to;	 /* with turned: `next` before that segment */
	uint32_t next;	 /* arrived in order up to */
	uint64_t since;	 /* oldest byte that is not acknowledged; 0: none */
	uint64_t due;	 /* an ACK has to leave now; 0: none */
	const char *why;
	uint32_t first; /* the SYN's number */
	unsigned int peer;
	unsigned int n;
	struct range apart[HOLES]; /* ascending, with holes between them */
};

static volatile sig_atomic_t stop;
static struct flow flows[FLOWS];
static unsigned long long data, acks, ooo, old, filled, ce, turns, longest, connections;
static int complaints;

static void on_term(int sig)
{
	stop = sig;
}

static bool before(uint32_t a, uint32_t b)
{
	return (int32_t)(a - b) < 0;
}

static void complain(const struct flow *f, uint64_t at, const char *what, uint32_t is,
		     uint32_t want)
{
	if (complaints++ < COMPLAINTS)
		printf("# watch: flow %td at %llu us: %s: %u, not %u\n", f - flows,
		       (unsigned long long)at, what, is, want);
}

static void owe(struct flow *f, uint64_t at, const char *why)
{
	if (f->due)
		return;
	f->due = at;
	f->why = why;
}

/* Puts [from, to) among what is out of order. */
static void set_apart(struct flow *f, struct range r)
{
	unsigned int i, k;

	for (i = 0; i < f->n && before(f->apart[i].to, r.from); i++)
		;
	for (k = i; k < f->n && !before(r.to, f->apart[k].from); k++) {
		if (before(f->apart[k].from, r.from))
			r.from = f->apart[k].from;
		if (before(r.to, f->apart[k].to))
			r.to = f->apart[k].to;
	}
	if (f->n + 1 - (k - i) > HOLES) {
		printf("# watch: more than %d holes\n", HOLES);
		exit(1);
	}
	memmove(&f->apart[i + 1], &f->apart[k], (f->n - k) * sizeof(r));
	f->n += 1 - (k - i);
	f->apart[i] = r;
}

static void in_order(struct flow *f, uint64_t at, uint32_t end)
{
	if (f->n) {
		filled++;
		owe(f, at, "a hole is filled");
	}
	if (!f->since)
		f->since = at;
	f->next = end;
	while (f->n && !before(f->next, f->apart[0].from)) {
		if (before(f->next, f->apart[0].to))
			f->next = f->apart[0].to;
		memmove(&f->apart[0], &f->apart[1], --f->n * sizeof(f->apart[0]));
	}
}

static void arrives(struct flow *f, uint64_t at, uint32_t seq, uint32_t bytes, uint8_t flags,
		    uint8_t ecn)
{
	uint32_t end = seq + bytes + !!(flags & FIN);
	bool known = !before(f->next, end);

	if (flags & SYN) {
		if (f->open && f->first == seq)
			return; /* once more */
		f->open = true;
		f->first = seq;
		f->ecn = (flags & (ECE | CWR)) == (ECE | CWR);
		f->next = seq + 1;
		f->since = f->due = f->n = 0;
		f->ece = f->ece_unsure = f->turned = false;
		connections++;
		return;
	}
	if (!f->open || (!bytes && !(flags & FIN)))
		return;
	data++;
	f->up_to = f->next;
	f->ece_before = f->ece;
	f->turned = (flags & CWR && f->ece) || (ecn == 3 && f->ecn && !known && !f->ece);
	if (flags & CWR) {
		/* An old copy of it may be taken for one of a wrapped sequence (PAWS). */
		f->ece_unsure = known;
		f->ece = f->ece && known;
		if (!known)
			owe(f, at, "CWR");
	}
	if (known) {
		old++;
		owe(f, at, "old data");
		return;
	}
	if (ecn == 3 && f->ecn) {
		ce++;
		if (!f->ece && !f->ece_unsure)
			owe(f, at, "the first CE");
		f->ece = true;
		f->ece_unsure = false;
	}
	if (before(f->next, seq)) {
		ooo++;
		owe(f, at, "out of order");
		set_apart(f, (struct range){ seq, end });
	} else {
		in_order(f, at, end);
	}
	if (flags & FIN)
		owe(f, at, "FIN");
}

static void leaves(struct flow *f, uint64_t at, uint32_t ack, uint8_t flags)
{
	if (flags & (SYN | RST) || !f->open)
		return;
	acks++;
	/* Of what arrived before; but CWR and CE on a segment out of order change nothing. */
	if (f->turned && ack == f->up_to && !!(flags & ECE) == f->ece_before &&
	    (ack != f->next || f->ece != f->ece_before)) {
		f->turned = false;
		turns++;
		return;
	}
	f->turned = false;
	if (ack != f->next)
		complain(f, at, "acknowledged", ack - f->first, f->next - f->first);
	if (!f->ece_unsure && !!(flags & ECE) != f->ece)
		complain(f, at, "ECE", !!(flags & ECE), f->ece);
	if (f->since && at - f->since > longest)
		longest = at - f->since;
	f->since = f->due = 0;
}

/* What should have happened before now. */
static void late(struct flow *f, uint64_t at, uint64_t max_us)
{
	if (f->due && at - f->due > AT_ONCE_US) {
		complain(f, f->due, f->why, 0, 1);
		f->due = 0;
	}
	/* Both stamps were cut to a microsecond. */
	if (f->since && at - f->since > max_us + 1) {
		complain(f, f->since, "waits, us", at - f->since, max_us);
		f->since = at;
	}
}

static uint32_t get32(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | p[1] << 16 | p[2] << 8 | p[3];
}

static void packet(const uint8_t *ip, int n, uint64_t at)
{
	const uint8_t *t = ip + (ip[0] & 15) * 4;
	unsigned int from, to, bytes;
	struct flow *f;

	if (n < 40 || ip[0] >> 4 != 4 || ip[9] != 6)
		return;
	from = t[0] << 8 | t[1];
	to = t[2] << 8 | t[3];
	bytes = (ip[2] << 8 | ip[3]) - (t - ip) - (t[12] >> 4) * 4;
	if (to - PORT < FLOWS) {
		f = &flows[to - PORT];
		if (t[13] & SYN)
			f->peer = from;
		/* What comes late of a connection before this one is not its. */
		if (f->peer == from)
			arrives(f, at, get32(t + 4), bytes, t[13], ip[1] & 3);
	} else if (from - PORT < FLOWS && flows[from - PORT].peer == to) {
		leaves(&flows[from - PORT], at, get32(t + 8), t[13]);
	}
}

static int report(int s, uint64_t at, uint64_t max_us)
{
	struct tpacket_stats lost = {};
	socklen_t size = sizeof(lost);
	int i;

	for (i = 0; i < FLOWS; i++)
		late(&flows[i], at, max_us);
	getsockopt(s, SOL_PACKET, PACKET_STATISTICS, &lost, &size);
	if (lost.tp_drops) {
		printf("# watch: missed %u packets\n", lost.tp_drops);
		complaints++;
	}
	printf("watched connections %llu data %llu ooo %llu old %llu filled %llu ce %llu turns "
	       "%llu "
	       "acks %llu max_us %llu complaints %d\n",
	       connections, data, ooo, old, filled, ce, turns, acks, longest, complaints);
	return complaints > 0;
}

int main(int argc, char **argv)
{
	struct sigaction sa = { .sa_handler = on_term };
	int i, s;
	uint64_t start = 0, at = 0, max_us = argc == 3 ? atoll(argv[2]) : 0;
	uint8_t b[128];

	if (argc != 3) {
		fprintf(stderr, "usage: watch INTERFACE MAX_US\n");
		return 2;
	}
	s = sniff_open("watch", argv[1]);
	if (s < 0)
		return 1;
	sigaction(SIGTERM, &sa, NULL);
	while (!stop) {
		ssize_t n = sniff(s, b, sizeof(b), &at);

		if (n <= 0)
			continue;
		at /= 1000;
		start = start ? start : at;
		at -= start;
		at++; /* 0 stands for never */
		for (i = 0; i < FLOWS; i++)
			late(&flows[i], at, max_us);
		packet(b, n, at);
	}
	return report(s, at + max_us, max_us);
}
