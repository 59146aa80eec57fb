// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * What a receiver with an ACK policy puts on the wire, segment by segment: the
 * contract (docs/contract.md), one ACK for n segments, and the bounds in time.
 * Under User Mode Linux in virtual time every number here is exact.
 *
 *	wire TUN	# /dev/net/tun; needs CAP_NET_ADMIN. Output is TAP.
 */
#define _GNU_SOURCE
#include "wire.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int failures;

struct conn open_with(const char *policy)
{
	struct conn c;

	conn_open(&c, &(struct conn_options){ .policy = policy, .rtt_us = RTT_US });
	return c;
}

int send_full(struct conn *c, int n, struct segment *last)
{
	int acks = 0;

	while (n--) {
		send_next(c, MSS, 0);
		acks += receive_all(c, last, 0);
	}
	return acks;
}

void hold_some(struct conn *c)
{
	struct segment s;
	int n;

	send_full(c, 40, &s);
	receive_all(c, &s, 600000);
	n = send_full(c, 4, &s);
	CHECK(n == 0, "%d ACKs", n);
}

static void stock(void)
{
	struct conn c = open_with("none");
	struct segment s;
	int n;

	send_full(&c, 600, &s); /* its quick ACKs are over */
	receive_all(&c, &s, 600000);
	n = send_full(&c, 100, &s);
	CHECK(n == 50, "%d ACKs of 100 segments", n);
	conn_close(&c);
}

static void one_in_n(void)
{
	static const struct {
		const char *policy;
		int n;
	} cases[] = { { "every-n:n=2,warm=0", 2 },
		      { "every-n:n=7,warm=0", 7 },
		      { "every-n:n=16,warm=0", 16 } };
	struct segment s;
	unsigned int i;
	int n;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct conn c = open_with(cases[i].policy);

		send_full(&c, 40, &s);
		receive_all(&c, &s, 600000);
		n = send_full(&c, 20 * cases[i].n, &s);
		CHECK(n == 20, "%s: %d ACKs of %d segments", cases[i].policy, n, 20 * cases[i].n);
		CHECK(s.ack == c.snd, "%u acknowledged, %u sent", s.ack, c.snd);
		conn_close(&c);
	}
}

/* The deadline: what is held leaves by itself, half an RTT later. */
static void deadline(void)
{
	struct conn c = open_with("every-n:n=64,warm=0");
	struct segment s;
	uint64_t sent;

	hold_some(&c);
	send_full(&c, 2, &s);
	sent = now_us();
	CHECK(receive(&c, &s, 600000), "no ACK at all");
	CHECK(s.ack == c.snd, "%u acknowledged, %u sent", s.ack, c.snd);
	CHECK(s.at_us - sent <= HOLD_US + 500, "%llu us", (unsigned long long)(s.at_us - sent));
	CHECK(receive_all(&c, &s, 600000) == 0, "a second one");
	conn_close(&c);
}

/* RFC 9293 §3.8.6.3: 500 ms, whatever the sysctls allow. */
static void half_a_second(void)
{
	/* Without timestamps the RTT is the handshake's, if no SYN-ACK is sent twice. */
	struct conn_options o = { .policy = "every-n:n=256,warm=0",
				  .rtt_us = 900000,
				  .no_ts = true };
	struct segment s;
	struct conn c;
	uint64_t sent;

	sysctl_set("tcp_ack_hold_us", "500000");
	sysctl_set("tcp_ack_hold_shift", "0");
	conn_open(&c, &o);
	sysctl_set("tcp_ack_hold_us", "25000");
	sysctl_set("tcp_ack_hold_shift", "1");
	send_full(&c, 40, &s);
	receive_all(&c, &s, 3000000);
	sent = now_us();
	send_full(&c, 1, &s);
	sleep_us(30000); /* the next one before the delayed-ACK timer */
	send_full(&c, 1, &s);
	CHECK(receive(&c, &s, 3000000), "no ACK at all");
	CHECK(s.at_us - sent > 400000, "%llu us: not held", (unsigned long long)(s.at_us - sent));
	CHECK(s.at_us - sent <= 500500, "%llu us", (unsigned long long)(s.at_us - sent));
	conn_close(&c);
}

/* RFC 5681 §4.2: out of order, and a hole that is filled, are answered at once. */
static void out_of_order(void)
{
	struct conn c = open_with("every-n:n=64,warm=0");
	uint32_t hole;
	struct segment s;
	int n, i;

	hold_some(&c);
	hole = c.snd;
	c.snd += MSS;
	for (i = 0; i < 3; i++) {
		send_next(&c, MSS, 0);
		n = receive_all(&c, &s, 0);
		CHECK(n == 1, "%d ACKs of segment %d above a hole", n, i);
		CHECK(s.ack == hole && s.sacks == 1 && s.sack[1] == c.snd, "ack %u (%u), %u blocks",
		      s.ack, hole, s.sacks);
	}
	send_at(&c, hole, MSS, ACK, 0);
	read_all(&c);
	n = receive_all(&c, &s, 0);
	CHECK(n == 1 && s.ack == c.snd && !s.sacks, "%d ACKs, %u of %u", n, s.ack, c.snd);
	n = send_full(&c, 4, &s);
	CHECK(n == 0, "%d ACKs after the repair", n);
	conn_close(&c);
}

/* A sender without SACK counts duplicates by their number: two must leave. */
static void duplicates_without_sack(void)
{
	struct conn_options o = { .policy = "every-n:n=64,warm=0",
				  .rtt_us = RTT_US,
				  .no_sack = true };
	struct segment s;
	struct conn c;
	uint32_t hole;
	int n;

	conn_open(&c, &o);
	hold_some(&c);
	hole = c.snd;
	c.snd += MSS;
	send_next(&c, MSS, 0);
	n = receive_all(&c, &s, 0);
	CHECK(n == 2 && s.ack == hole, "%d ACKs, the last of %u (%u)", n, s.ack, hole);
	conn_close(&c);
}

static void old_data(void)
{
	struct conn c = open_with("every-n:n=64,warm=0");
	struct segment s;
	int n;

	hold_some(&c);
	send_at(&c, c.snd - MSS, MSS, ACK, 0);
	n = receive_all(&c, &s, 0);
	CHECK(n == 1 && s.ack == c.snd, "%d ACKs, %u of %u", n, s.ack, c.snd);
	CHECK(s.sacks == 1 && s.sack[0] == c.snd - MSS, "%u blocks: no DSACK", s.sacks);
	/* Sixteen quick ACKs follow on a stock receiver. */
	n = send_full(&c, 8, &s);
	CHECK(n == 0, "%d ACKs after a duplicate", n);
	conn_close(&c);
}

/* The next one in order with the ECN field as given, read at once. */
static void send_marked(struct conn *c, uint8_t flags, uint8_t ecn)
{
	send_at(c, c->snd, MSS, ACK | flags, ecn);
	c->snd += MSS;
	read_all(c);
}

/*
 * RFC 3168 §6.1.3: the first mark, and CWR, are answered at once. What was held is of
 * the time before: it leaves first, with its own number and its own ECE, because ECE
 * speaks of the bytes that an ACK covers (RFC 8257 §3.2).
 */
static void m1_congestion_marks(void)
{
	struct conn_options o = { .policy = "every-n:n=64,warm=0", .rtt_us = RTT_US, .ecn = true };
	struct segment s;
	struct conn c;
	uint32_t before;
	int n;

	conn_open(&c, &o);
	hold_some(&c);
	before = c.snd;
	send_marked(&c, 0, 3);
	CHECK(receive(&c, &s, 0) && s.ack == before && !(s.flags & ECE),
	      "first: %u of %u, flags %02x", s.ack, before, s.flags);
	n = receive_all(&c, &s, 0);
	CHECK(n == 1 && s.ack == c.snd && (s.flags & ECE), "then: %d ACKs, %u of %u, flags %02x", n,
	      s.ack, c.snd, s.flags);
	send_full(&c, 30, &s);
	receive_all(&c, &s, 600000);
	n = send_full(&c, 4, &s);
	CHECK(n == 0, "%d ACKs", n);
	before = c.snd;
	send_next(&c, MSS, CWR);
	CHECK(receive(&c, &s, 0) && s.ack == before && (s.flags & ECE),
	      "first: %u of %u, flags %02x", s.ack, before, s.flags);
	n = receive_all(&c, &s, 0);
	CHECK(n == 1 && s.ack == c.snd && !(s.flags & ECE), "then: %d ACKs, %u of %u, flags %02x",
	      n, s.ack, c.snd, s.flags);
	conn_close(&c);
}

/*
 * What a sender with DCTCP counts: the bytes that are newly acknowledged by ACKs with ECE.
 * It must be what was marked, to the byte, with a policy as without.
 */
static void m1_dctcp_counts_what_was_marked(void)
{
	static const char *const policies[] = { "none", "every-n:n=16,warm=0",
						"every-n:n=64,warm=0", "adaptive" };
	struct conn_options o = { .rtt_us = RTT_US, .ecn = true };
	unsigned int i, j;

	sysctl_set("tcp_congestion_control", "dctcp");
	for (i = 0; i < sizeof(policies) / sizeof(policies[0]); i++) {
		uint32_t una, marked = 0, echoed = 0, acks = 0, random = 1;
		bool ce = false;
		struct segment s;
		struct conn c;

		o.policy = policies[i];
		conn_open(&c, &o);
		send_full(&c, 200, &s);
		receive_all(&c, &s, 600000);
		una = c.snd;
		for (j = 0; j < 2000; j++) {
			/* Runs of some 16 segments of either kind. */
			random = random * 1664525 + 1013904223;
			if (random >> 28 == 0)
				ce = !ce;
			marked += ce ? MSS : 0;
			send_marked(&c, 0, ce ? 3 : 2);
			while (receive(&c, &s, j < 1999 ? 0 : 600000)) {
				acks++;
				if (s.flags & ECE)
					echoed += s.ack - una;
				una = s.ack;
			}
		}
		CHECK(una == c.snd, "%s: %u of %u", policies[i], una, c.snd);
		CHECK(marked > 100 * MSS && echoed == marked,
		      "%s: %u bytes marked, %u echoed by %u ACKs", policies[i], marked, echoed,
		      acks);
		conn_close(&c);
	}
	sysctl_set("tcp_congestion_control", "cubic");
}

static void end_of_data(void)
{
	struct conn c = open_with("every-n:n=64,warm=0");
	struct segment s;
	int n;

	hold_some(&c);
	send_next(&c, MSS, FIN);
	n = receive_all(&c, &s, 0);
	CHECK(n == 1 && s.ack == c.snd, "%d ACKs, %u of %u", n, s.ack, c.snd);
	conn_close(&c);
}

/* The end of a message is not full: what was held leaves with its ACK. */
static void small_segment(void)
{
	struct conn c = open_with("every-n:n=64,warm=0");
	struct segment s;
	int n;

	hold_some(&c);
	send_next(&c, 100, PSH);
	n = receive_all(&c, &s, 0);
	CHECK(n == 1 && s.ack == c.snd, "%d ACKs, %u of %u", n, s.ack, c.snd);
	conn_close(&c);
}

/* GRO merges segments of one size, and a shorter one behind them: that is answered at once. */
static void merged_segments(void)
{
	static const struct {
		uint32_t bytes;
		int acks;
	} cases[] = { { 2 * MSS, 0 },	    { 4 * MSS, 0 },	{ 2 * MSS + 1, 1 },
		      { 3 * MSS + 500, 1 }, { 4 * MSS - 1, 1 }, { MSS + MSS / 2, 1 } };
	struct segment s;
	struct conn c;
	unsigned int i;
	int n;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		c = open_with("every-n:n=64,warm=0");
		hold_some(&c);
		send_next(&c, cases[i].bytes, PSH);
		n = receive_all(&c, &s, 0);
		CHECK(n == cases[i].acks, "%d ACKs of %u bytes", n, cases[i].bytes);
		receive_all(&c, &s, 600000);
		CHECK(s.ack == c.snd, "%u acknowledged, %u sent", s.ack, c.snd);
		conn_close(&c);
	}
}

/* A packet of four segments counts as four. */
static void merged_segments_are_counted(void)
{
	struct conn c = open_with("every-n:n=16,warm=0");
	struct segment s;
	int i, n = 0;

	send_full(&c, 40, &s);
	receive_all(&c, &s, 600000);
	for (i = 0; i < 40; i++) {
		send_next(&c, 4 * MSS, 0);
		n += receive_all(&c, &s, 0);
	}
	CHECK(n == 10, "%d ACKs of 160 segments in 40 packets", n);
	CHECK(s.ack == c.snd, "%u acknowledged, %u sent", s.ack, c.snd);
	conn_close(&c);
}

/* PSH on a full segment is how every burst of a bulk sender ends. */
static void pushed_full_segment(void)
{
	struct conn c = open_with("every-n:n=64,warm=0");
	struct segment s;
	int n;

	hold_some(&c);
	send_next(&c, MSS, PSH);
	n = receive_all(&c, &s, 0);
	CHECK(n == 0, "%d ACKs", n);
	conn_close(&c);
}

/* A window that was closed opens again: at once, by the read that opens it. */
static void window_update(void)
{
	struct conn_options o = { .policy = "every-n:n=256,warm=0",
				  .rtt_us = RTT_US,
				  .rcvbuf = 32768 };
	struct segment s = {};
	struct conn c;
	int n, i;

	conn_open(&c, &o);
	hold_some(&c);
	receive_all(&c, &s, 600000);
	for (i = 0; i < 100 && s.window >= MSS; i++) {
		send_at(&c, c.snd, MSS, ACK, 0);
		c.snd += MSS;
		receive_all(&c, &s, 600000);
	}
	CHECK(s.window < MSS, "the window stays at %u", s.window);
	read_all(&c);
	n = receive_all(&c, &s, 0);
	CHECK(n == 1 && s.window >= 2 * MSS, "%d ACKs, window %u", n, s.window);
	conn_close(&c);
}

/* The next ones in order, nobody reads, and the timestamp that they echo. */
static int send_unread(struct conn *c, int n, uint32_t echo, struct segment *last)
{
	int acks = 0;

	while (n--) {
		c->tsecr = echo;
		send_at(c, c->snd, MSS, ACK, 0);
		c->snd += MSS;
		acks += receive_all(c, last, 0);
	}
	return acks;
}

/*
 * To a sender that fills its window, each 32nd of it is news. If an ACK that opens it by less is
 * held when the application reads more, it leaves at once.
 */
static void window_opens_behind_a_held_ack(void)
{
	struct conn_options o = { .policy = "every-n:n=256,warm=0",
				  .rtt_us = RTT_US,
				  .rcvbuf = 400000 };
	uint32_t edge, old, echo, window;
	char b[3 * MSS];
	struct segment s;
	struct conn c;
	int n;

	conn_open(&c, &o);
	send_full(&c, 400, &s);
	receive_all(&c, &s, 600000);
	edge = s.ack + s.window;
	old = c.tsecr;
	sleep_us(2000);
	/* The ACK of these two is echoed when the window before it is nearly used up. */
	send_full(&c, 2, &s);
	receive_all(&c, &s, 600000);
	sleep_us(2000);
	echo = c.tsecr;
	while ((int32_t)(edge - c.snd) > (int32_t)(s.window / 16)) {
		c.tsecr = old;
		send_full(&c, 1, &s);
	}
	c.tsecr = echo;
	send_full(&c, 1, &s);
	/* Then a part of it stays used, since the application reads late. */
	send_unread(&c, 60, echo, &s);
	receive_all(&c, &s, 600000);
	window = s.window;
	CHECK(s.ack == c.snd && window / 32 > 3 * MSS, "%u of %u, window %u", s.ack, c.snd, window);
	CHECK(read(c.fd, b, sizeof(b)) == sizeof(b), "a short read");
	n = send_unread(&c, 2, echo, &s);
	CHECK(n == 0, "%d ACKs that open the window by %d", n, 3 * MSS);
	read_all(&c);
	n = receive_all(&c, &s, 0);
	CHECK(n == 1 && s.ack == c.snd && s.window > window + window / 32,
	      "%d ACKs, %u of %u, window %u, before %u", n, s.ack, c.snd, s.window, window);
	conn_close(&c);
}

/* A probe of a closed window, RFC 9293 §3.8.6.1. */
static void window_probe(void)
{
	struct conn_options o = { .policy = "every-n:n=256,warm=0",
				  .rtt_us = RTT_US,
				  .rcvbuf = 32768 };
	struct segment s = { .window = ~0U };
	struct conn c;
	int n, i;

	conn_open(&c, &o);
	for (i = 0; i < 100 && s.window; i++) {
		send_at(&c, c.snd, MSS, ACK, 0);
		c.snd += MSS;
		receive_all(&c, &s, 600000);
	}
	CHECK(s.window == 0, "the window stays at %u", s.window);
	c.snd = s.ack;
	sleep_us(1000000); /* such answers are limited in rate */
	send_at(&c, c.snd, 1, ACK, 0);
	n = receive_all(&c, &s, 0);
	CHECK(n == 1 && s.window == 0, "%d ACKs, window %u", n, s.window);
	conn_close(&c);
}

/* Data of our own carries the ACK; nothing more comes at the deadline. */
static void piggyback(void)
{
	struct conn c = open_with("every-n:n=64,warm=0");
	struct segment s;
	int n;

	hold_some(&c);
	if (write(c.fd, "answer", 6) != 6)
		die("write");
	n = receive_all(&c, &s, 0);
	CHECK(n == 1 && s.payload == 6 && s.ack == c.snd, "%d segments, %u of %u", n, s.ack, c.snd);
	send_at(&c, c.snd, 0, ACK, 0);
	n = receive_all(&c, &s, 100000);
	CHECK(n == 0, "%d more", n);
	conn_close(&c);
}

/*
 * Data of our own that are sent again carry news as well. The policy goes on afterwards, though
 * no new data follow.
 */
static void piggyback_on_a_retransmission(void)
{
	struct conn c = open_with("every-n:n=16,warm=0");
	uint32_t answer, acked;
	struct segment s;
	bool news = false;
	int n, i;

	send_full(&c, 40, &s);
	receive_all(&c, &s, 600000);
	if (write(c.fd, "answer", 6) != 6)
		die("write");
	n = receive_all(&c, &s, 0);
	CHECK(n == 1 && s.payload == 6, "%d segments", n);
	answer = s.seq;
	for (i = 0; i < 1000 && !news; i++) {
		acked = s.ack;
		c.rcv = answer; /* it was lost */
		send_next(&c, MSS, 0);
		news = receive(&c, &s, 3000) && s.payload && s.ack != acked;
	}
	CHECK(news, "not sent again with news");
	c.rcv = answer + 6;
	n = send_full(&c, 96, &s);
	CHECK(n == 6, "%d ACKs of 96 segments", n);
	conn_close(&c);
}

static void quickack_option(void)
{
	struct conn c = open_with("every-n:n=64,warm=0");
	struct segment s;
	int n, one = 1;

	hold_some(&c);
	if (setsockopt(c.fd, IPPROTO_TCP, TCP_QUICKACK, &one, sizeof(one)))
		die("TCP_QUICKACK");
	n = receive_all(&c, &s, 0);
	CHECK(n == 1 && s.ack == c.snd, "%d ACKs", n);
	conn_close(&c);
}

/* SO_RCVLOWAT not reached: nobody will read, so the stack has to say it. */
static void lowat(void)
{
	struct conn c = open_with("every-n:n=64,warm=0");
	int n, want = 10 * MSS;
	struct segment s;

	hold_some(&c);
	receive_all(&c, &s, 600000);
	if (setsockopt(c.fd, SOL_SOCKET, SO_RCVLOWAT, &want, sizeof(want)))
		die("SO_RCVLOWAT");
	send_at(&c, c.snd, MSS, ACK, 0);
	send_at(&c, c.snd + MSS, MSS, ACK, 0);
	c.snd += 2 * MSS;
	n = receive_all(&c, &s, 0);
	CHECK(n > 0 && s.ack == c.snd, "%d ACKs", n);
	conn_close(&c);
}

/* The listing with r = 0: an ACK for each segment, twice what the stack sends. */
static void literal_start(void)
{
	struct conn c = open_with("rate-limit-literal");
	struct segment s;
	int n;

	send_full(&c, 600, &s);
	receive_all(&c, &s, 600000);
	n = send_full(&c, 100, &s);
	CHECK(n == 100, "%d ACKs of 100 segments", n);
	conn_close(&c);
}

#define TEST(f) { #f, f }

static const struct {
	const char *name;
	void (*run)(void);
} tests[] = {
	TEST(stock),
	TEST(one_in_n),
	TEST(deadline),
	TEST(half_a_second),
	TEST(out_of_order),
	TEST(duplicates_without_sack),
	TEST(old_data),
	TEST(m1_congestion_marks),
	TEST(m1_dctcp_counts_what_was_marked),
	TEST(end_of_data),
	TEST(small_segment),
	TEST(merged_segments),
	TEST(merged_segments_are_counted),
	TEST(pushed_full_segment),
	TEST(window_update),
	TEST(window_opens_behind_a_held_ack),
	TEST(window_probe),
	TEST(piggyback),
	TEST(piggyback_on_a_retransmission),
	TEST(quickack_option),
	TEST(lowat),
	TEST(socket_option),
	TEST(listener_option),
	TEST(fast_open_option),
	TEST(m9_the_log_is_the_kernels),
	TEST(settings_changed_in_flight),
	TEST(counters),
	TEST(l13_tracepoint),
	TEST(literal_start),
};

int main(int argc, char **argv)
{
	unsigned int i, n = sizeof(tests) / sizeof(tests[0]);
	int failed = 0;

	if (argc != 2) {
		fprintf(stderr, "usage: wire TUN, for instance /dev/net/tun\n");
		return 2;
	}
	peer_open(argv[1]);
	sysctl_set("tcp_ecn", "2");
	printf("1..%u\n", n);
	for (i = 0; i < n; i++) {
		int before = failures;

		tests[i].run();
		printf("%sok %u %s\n", failures > before ? "not " : "", i + 1, tests[i].name);
		fflush(stdout);
		failed |= failures > before;
	}
	return failed;
}
