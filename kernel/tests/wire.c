// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * What a receiver with an ACK policy puts on the wire, segment by segment: the
 * contract (docs/contract.md), one ACK for n segments, and the bounds in time.
 * Under User Mode Linux in virtual time every number here is exact.
 *
 *	wire TUN	# /dev/net/tun; needs CAP_NET_ADMIN. Output is TAP.
 */
#define _GNU_SOURCE
#include "peer.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/klog.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <unistd.h>

#define TCP_ACK_POLICY 1024
#define RTT_US 20000
#define HOLD_US 8192 /* RTT_US / 2, rounded down to a length of a hold */

static int failures;

#define CHECK(cond, ...) \
	do { \
		if (!(cond)) { \
			failures++; \
			printf("# %s:%d: %s: ", __func__, __LINE__, #cond); \
			printf(__VA_ARGS__); \
			printf("\n"); \
		} \
	} while (0)

static struct conn open_with(const char *policy)
{
	struct conn c;

	conn_open(&c, &(struct conn_options){ .policy = policy, .rtt_us = RTT_US });
	return c;
}

/* Full segments, each read and answered before the next; the ACKs there were. */
static int send_full(struct conn *c, int n, struct segment *last)
{
	int acks = 0;

	while (n--) {
		send_next(c, MSS, 0);
		acks += receive_all(c, last, 0);
	}
	return acks;
}

/* Past the start, everything acknowledged; then four segments, which are held. */
static void hold_some(struct conn *c)
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

static void expect_policy(const struct conn *c, const char *wanted)
{
	char text[256];
	socklen_t n = sizeof(text);

	if (getsockopt(c->fd, IPPROTO_TCP, TCP_ACK_POLICY, text, &n))
		die("getsockopt(TCP_ACK_POLICY)");
	CHECK(!strcmp(text, wanted), "%s, not %s", text, wanted);
}

static int set_policy(const struct conn *c, const char *policy)
{
	if (!setsockopt(c->fd, IPPROTO_TCP, TCP_ACK_POLICY, policy, strlen(policy)))
		return 0;
	return errno;
}

static void socket_option(void)
{
	struct segment s;
	struct conn c;
	char text[256];
	socklen_t n = 8;
	int err;

	sysctl_set("tcp_ack_policy", "every-n:n=64,warm=0");
	c = open_with(NULL);
	expect_policy(&c, "every-n:n=64,warm=0");
	hold_some(&c);
	err = set_policy(&c, "no-such-policy");
	CHECK(err == ENOENT, "errno %d", err);
	err = set_policy(&c, "every-n:n=0");
	CHECK(err == ERANGE, "errno %d", err);
	err = set_policy(&c, "every-n:k=1");
	CHECK(err == EINVAL, "errno %d", err);
	expect_policy(&c, "every-n:n=64,warm=0");
	CHECK(receive_all(&c, &s, 0) == 0, "a refused policy sent an ACK");
	/* What was held leaves before the new policy is heard. */
	err = set_policy(&c, "every-n:n=4,warm=0");
	CHECK(err == 0, "errno %d", err);
	CHECK(receive_all(&c, &s, 0) == 1 && s.ack == c.snd, "what was held stays");
	send_full(&c, 40, &s);
	receive_all(&c, &s, 600000);
	CHECK(send_full(&c, 40, &s) == 10, "not every fourth");
	CHECK(!getsockopt(c.fd, IPPROTO_TCP, TCP_ACK_POLICY, text, &n) && n == 8,
	      "a short buffer: %u", n);
	conn_close(&c);
	/* A socket's own choice, none included, goes before its namespace's. */
	c = open_with("none");
	expect_policy(&c, "none");
	conn_close(&c);
	sysctl_set("tcp_ack_policy", "none");
	c = open_with(NULL);
	expect_policy(&c, "none");
	conn_close(&c);
}

/* The kernel's log; its length. */
static int read_log(char *log, int size)
{
	int n = klogctl(3 /* SYSLOG_ACTION_READ_ALL */, log, size - 1);

	if (n < 0)
		die("the kernel's log");
	log[n] = 0;
	return n;
}

/*
 * What anybody may write must not look like the kernel's own words. A socket option that
 * is refused says nothing but errno; a sysctl, which root of a user namespace may write
 * as well, says it in one line without control characters.
 */
static void m9_the_log_is_the_kernels(void)
{
	static const char *const texts[] = {
		"fake\nTCP: forged line",
		"every-n:fake\nforged=1",
		"every-n:n=\nforged \033[31m",
		"every-n:\nforged",
		"every-n:n=1,\033]0;forged\007",
		"every-n:n=0",
		"dda\nforged",
	};
	static char log[1 << 18];
	struct conn c = open_with("none");
	unsigned int i;
	int fd, n, before = read_log(log, sizeof(log));

	for (i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		CHECK(set_policy(&c, texts[i]) != 0, "\"%s\" was taken", texts[i]);
	n = read_log(log, sizeof(log));
	CHECK(n == before, "%d bytes more in the log: %s", n - before, log + before);
	conn_close(&c);

	fd = open("/proc/sys/net/ipv4/tcp_ack_policy", O_WRONLY);
	n = write(fd, "every-n:\033[31mforged\001\"", 22);
	CHECK(n < 0 && errno == EINVAL, "%d: %s", n, strerror(errno));
	close(fd);
	n = read_log(log, sizeof(log));
	CHECK(n > before, "the log does not say why a sysctl was refused");
	CHECK(!memchr(log, '\033', n) && !memchr(log, '\001', n), "control characters in the log");
	CHECK(strstr(log, "every-n: \"\\e[31mforged\\001\"\" is not name=value"), "%s",
	      log + before);
}

/* How long the ACK of three segments is held. */
static uint64_t held_for(struct conn *c)
{
	struct segment s;
	uint64_t first = now_us();

	CHECK(send_full(c, 3, &s) == 0, "not held");
	if (!receive(c, &s, 600000) || s.ack != c->snd)
		return 0;
	return s.at_us - first;
}

/*
 * A connection has what its namespace asked for when it began. What is changed then
 * is for later ones, and for those that choose anew.
 */
static void settings_changed_in_flight(void)
{
	/* Without timestamps the RTT is the handshake's. */
	struct conn_options o = { .rtt_us = RTT_US, .no_ts = true };
	struct conn old, new;
	struct segment s;
	uint64_t us;
	int n;

	sysctl_set("tcp_ack_policy", "every-n:n=8,warm=0");
	conn_open(&old, &o);
	hold_some(&old);
	sysctl_set("tcp_ack_policy", "every-n:n=4,warm=0");
	sysctl_set("tcp_ack_hold_us", "3000");
	CHECK(receive_all(&old, &s, 0) == 0, "what was held left");
	receive_all(&old, &s, 600000);
	conn_open(&new, &o);
	send_full(&new, 40, &s);
	receive_all(&new, &s, 600000);
	n = send_full(&old, 80, &s);
	CHECK(n == 10, "%d ACKs of 80 segments, the old policy", n);
	n = send_full(&new, 80, &s);
	CHECK(n == 20, "%d ACKs of 80 segments, the new policy", n);
	us = held_for(&old);
	CHECK(us >= HOLD_US - 500 && us <= HOLD_US + 500, "%llu us", (unsigned long long)us);
	us = held_for(&new);
	CHECK(us >= 2500 && us <= 3500, "%llu us", (unsigned long long)us);
	n = set_policy(&old, "every-n:n=16,warm=0");
	CHECK(n == 0, "errno %d", n);
	send_full(&old, 40, &s);
	receive_all(&old, &s, 600000);
	us = held_for(&old);
	CHECK(us >= 2500 && us <= 3500, "%llu us", (unsigned long long)us);
	sysctl_set("tcp_ack_policy", "none");
	sysctl_set("tcp_ack_hold_us", "25000");
	expect_policy(&old, "every-n:n=16,warm=0");
	expect_policy(&new, "every-n:n=4,warm=0");
	n = send_full(&new, 80, &s);
	CHECK(n == 20, "%d ACKs of 80 segments with none elsewhere", n);
	conn_close(&old);
	conn_close(&new);
}

/* Each ACK is counted once, under why it left. */
static void counters(void)
{
	static const char *const names[] = { "TCPAckPolicyPolicy", "TCPAckPolicyDeadline",
					     "TCPAckPolicySmall", "TCPAckPolicyHeld" };
	struct conn c = open_with("every-n:n=8,warm=0");
	long before[4], after[4];
	struct segment s;
	unsigned int i;

	send_full(&c, 40, &s);
	receive_all(&c, &s, 600000);
	for (i = 0; i < 4; i++)
		before[i] = counter(names[i]);
	CHECK(before[0] >= 0, "no counters");
	send_full(&c, 80, &s); /* 10 by the policy */
	send_full(&c, 3, &s);
	receive_all(&c, &s, 600000); /* 1 deadline */
	send_full(&c, 3, &s);	     /* 1 small */
	send_next(&c, 10, PSH);
	receive_all(&c, &s, 0);
	for (i = 0; i < 4; i++)
		after[i] = counter(names[i]) - before[i];
	/* Of each 8 or 3 all but the last, and but the first where no quick ACK is left. */
	CHECK(after[0] == 10 && after[1] == 1 && after[2] == 1 && after[3] >= 64 && after[3] <= 76,
	      "policy %ld, deadline %ld, small %ld, held %ld", after[0], after[1], after[2],
	      after[3]);
	conn_close(&c);
}

static void put_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_TRUNC);

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		die(path);
	close(fd);
}

/* The last event of the tracepoint that has this in it. */
static const char *last_event(const char *part)
{
	static char line[1024], found[1024];
	FILE *f = fopen("/sys/kernel/tracing/trace", "r");

	if (!f)
		die("/sys/kernel/tracing/trace");
	found[0] = 0;
	while (fgets(line, sizeof(line), f))
		if (strstr(line, " tcp_ack_policy: ") && strstr(line, part))
			strcpy(found, line);
	fclose(f);
	return found;
}

/* Its fields are those of every policy, and the state is the policy's own. */
static void l13_tracepoint(void)
{
	static const char enable[] = "/sys/kernel/tracing/events/tcp/tcp_ack_policy/enable";
	/* Without timestamps the RTT is the handshake's. */
	struct conn_options o = { .policy = "every-n:n=8,warm=0", .rtt_us = RTT_US, .no_ts = true };
	unsigned int held, unacked, mss, wnd, srtt, min_rtt, hold;
	struct segment s;
	const char *event;
	struct conn c;
	int n;

	if (mount("tracefs", "/sys/kernel/tracing", "tracefs", 0, NULL) && errno != EBUSY)
		die("tracefs");
	conn_open(&c, &o);
	send_full(&c, 40, &s);
	receive_all(&c, &s, 600000);
	put_file(enable, "1");
	n = send_full(&c, 8, &s);
	CHECK(n == 1, "%d ACKs", n);
	conn_close(&c);
	event = last_event("policy=every-n held=0");
	n = sscanf(strstr(event, "held=") ?: "",
		   "held=%u reason=policy unacked=%u mss=%u rcv_wnd=%u srtt_us=%u min_rtt_us=%u "
		   "hold_us=%u state={0x",
		   &held, &unacked, &mss, &wnd, &srtt, &min_rtt, &hold);
	CHECK(n == 7 && unacked == 8 * MSS && mss == MSS && wnd >= 8 * MSS, "%d fields: %s", n,
	      event);
	CHECK(srtt >= RTT_US && srtt < RTT_US + 1000 && hold == HOLD_US,
	      "%s", event);
	event = last_event("policy=every-n held=1");
	CHECK(strstr(event, " reason=held unacked=10136 "), "%s", event);

	/* Its first words are its opening's length and progress. */
	c = open_with("rate-limit:start=16");
	send_full(&c, 40, &s);
	put_file(enable, "0");
	conn_close(&c);
	event = last_event("policy=rate-limit ");
	CHECK(strstr(event, " state={0x10,0x10,"), "%s", event);
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
	TEST(pushed_full_segment),
	TEST(window_update),
	TEST(window_probe),
	TEST(piggyback),
	TEST(quickack_option),
	TEST(lowat),
	TEST(socket_option),
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
