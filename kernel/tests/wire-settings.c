// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The cases of wire.c about what a user sets and sees: the socket option, the sysctls, the
 * counters, the tracepoint and the kernel's log.
 */
#define _GNU_SOURCE
#include "wire.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/klog.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <unistd.h>

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

void socket_option(void)
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

/* A connection takes the policy that its listener has when it is made, and keeps it. */
void listener_option(void)
{
	struct conn_options o = { .policy = "every-n:n=4,warm=0", .rtt_us = RTT_US };
	struct conn old, new;
	struct conn_options later = { .rtt_us = RTT_US, .beside = &old };
	struct segment s;
	int n;

	conn_open(&old, &o);
	n = setsockopt(old.listener, IPPROTO_TCP, TCP_ACK_POLICY, "every-n:n=8,warm=0", 18);
	CHECK(n == 0, "errno %d", errno);
	conn_open(&new, &later);
	expect_policy(&old, "every-n:n=4,warm=0");
	expect_policy(&new, "every-n:n=8,warm=0");
	send_full(&old, 40, &s);
	receive_all(&old, &s, 600000);
	send_full(&new, 40, &s);
	receive_all(&new, &s, 600000);
	n = send_full(&old, 80, &s);
	CHECK(n == 20, "%d ACKs of 80 segments, the listener's first policy", n);
	n = send_full(&new, 80, &s);
	CHECK(n == 10, "%d ACKs of 80 segments, the listener's second policy", n);
	conn_close(&new);
	conn_close(&old);
}

/* Fast Open hands a connection over before its handshake ends (RFC 7413 §3). */
void fast_open_option(void)
{
	struct conn_options o = { .fast_open = true };
	struct segment s;
	struct conn c;
	int n;

	sysctl_set("tcp_fastopen", "1538"); /* for servers, all listeners, without cookies */
	conn_open(&c, &o);
	n = set_policy(&c, "every-n:n=16,warm=0");
	CHECK(n == 0, "errno %d", n);
	sleep_us(RTT_US);
	send_at(&c, c.snd, 0, ACK, 0);
	read_all(&c);
	send_full(&c, 600, &s); /* its quick ACKs are over */
	receive_all(&c, &s, 600000);
	n = send_full(&c, 160, &s);
	CHECK(n == 10, "%d ACKs of 160 segments", n);
	conn_close(&c);
	sysctl_set("tcp_fastopen", "1");
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
void m9_the_log_is_the_kernels(void)
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
void settings_changed_in_flight(void)
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
void counters(void)
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
void l13_tracepoint(void)
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
	CHECK(srtt >= RTT_US && srtt < RTT_US + 1000 && hold == HOLD_US, "%s", event);
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
