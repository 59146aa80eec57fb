// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Flows whose every byte is known, many at once, with every policy and
 * congestion control that is named.
 *
 *	storm sink FLOWS COUNT BYTES POLICIES	reads COUNT connections of each flow
 *	storm send ADDRESS FLOWS COUNT BYTES
 *	storm turn POLICIES			until SIGTERM: other sysctls each 3 ms
 *
 * POLICIES are separated by blanks. Flow i has port 7000 + i, the i-th policy
 * and, by thirds, cubic, reno or bbr. With POLICIES of
 * "turn …" a connection begins with its namespace's, and has another each 32 reads.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define TCP_ACK_POLICY 1024
#define PORT 7000
#define MAX_FLOWS 64
#define MAX_POLICIES 16
#define READS_A_TURN 32

static char *policies[MAX_POLICIES];
static int n_policies;
static volatile sig_atomic_t stop;

static int fail(const char *what)
{
	printf("# storm: %s: %s\n", what, strerror(errno));
	return 1;
}

static void on_term(int sig)
{
	stop = sig;
}

static void split(char *list)
{
	char *name;

	for (name = strtok(list, " "); name && n_policies < MAX_POLICIES; name = strtok(NULL, " "))
		policies[n_policies++] = name;
}

/* Different at any other offset, and in any other flow. */
static uint8_t content(int flow, uint32_t offset)
{
	uint32_t x = (offset + flow * 0x01000193U) * 2654435761U;

	return (x ^ x >> 15) * 2246822519U >> 24;
}

static int choose(int fd, const char *policy)
{
	return setsockopt(fd, IPPROTO_TCP, TCP_ACK_POLICY, policy, strlen(policy));
}

struct sink {
	int listener, fd, done, reads;
	uint32_t offset;
};

static int listen_at(struct sink *s, int flow, const char *policy)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(PORT + flow) };

	s->fd = -1;
	s->listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	if (policy && choose(s->listener, policy))
		return fail(policy);
	if (bind(s->listener, (struct sockaddr *)&a, sizeof(a)) || listen(s->listener, 8))
		return fail("listen");
	return 0;
}

/* What has come, each byte of it; 0 if it is what was sent. */
static int check(struct sink *s, int flow, uint32_t bytes, int turn)
{
	static uint8_t b[16384];
	ssize_t n, i;

	while ((n = read(s->fd, b, sizeof(b))) > 0) {
		for (i = 0; i < n; i++)
			if (b[i] != content(flow, s->offset + i)) {
				printf("# storm: flow %d: byte %u is another one\n", flow,
				       (uint32_t)(s->offset + i));
				return 1;
			}
		s->offset += n;
		if (turn && ++s->reads % READS_A_TURN == 0 &&
		    choose(s->fd, policies[s->reads / READS_A_TURN % n_policies]))
			return fail("TCP_ACK_POLICY of a live connection");
	}
	if (n < 0)
		return errno == EAGAIN ? 0 : fail("read");
	if (s->offset != bytes) {
		printf("# storm: flow %d ends after %u bytes\n", flow, s->offset);
		return 1;
	}
	close(s->fd);
	s->fd = -1;
	s->offset = 0;
	s->done++;
	return 0;
}

static int sink(int flows, int count, uint32_t bytes)
{
	static struct sink sinks[MAX_FLOWS];
	int turn = !strcmp(policies[0], "turn"), i, left = flows * count;
	struct pollfd fds[MAX_FLOWS];

	if (turn)
		memmove(policies, policies + 1, --n_policies * sizeof(*policies));
	for (i = 0; i < flows; i++)
		if (listen_at(&sinks[i], i, turn ? NULL : policies[i % n_policies]))
			return 1;
	while (left > 0) {
		for (i = 0; i < flows; i++)
			fds[i] = (struct pollfd){ sinks[i].fd < 0 ? sinks[i].listener : sinks[i].fd,
						  POLLIN, 0 };
		if (poll(fds, flows, -1) < 0)
			return fail("poll");
		for (i = 0; i < flows; i++) {
			int before = sinks[i].done;

			if (!fds[i].revents)
				continue;
			if (sinks[i].fd < 0)
				sinks[i].fd = accept4(sinks[i].listener, NULL, NULL, SOCK_NONBLOCK);
			else if (check(&sinks[i], i, bytes, turn))
				return 1;
			left -= sinks[i].done - before;
		}
	}
	return 0;
}

static int send_one(const struct sockaddr_in *a, int flow, int flows, uint32_t bytes)
{
	static const char *const ccs[] = { "cubic", "reno", "bbr" };
	const char *cc = ccs[flow * 3 / flows % 3];
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	static uint8_t b[8192];
	uint32_t at = 0, i, n;

	if (setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, cc, strlen(cc)))
		return fail(cc);
	if (connect(fd, (const struct sockaddr *)a, sizeof(*a)))
		return fail("connect");
	for (; at < bytes; at += n) {
		n = bytes - at < sizeof(b) ? bytes - at : sizeof(b);
		for (i = 0; i < n; i++)
			b[i] = content(flow, at + i);
		if (write(fd, b, n) != (ssize_t)n)
			return fail("write");
	}
	shutdown(fd, SHUT_WR);
	/* The sink closes when it has read and checked the end. */
	if (read(fd, b, 1))
		return fail("the end");
	close(fd);
	return 0;
}

static int send_all(struct sockaddr_in *a, int flows, int count, uint32_t bytes)
{
	int flow, status, failed = 0;

	for (flow = 0; flow < flows; flow++) {
		if (fork())
			continue;
		a->sin_port = htons(PORT + flow);
		while (count-- && !failed)
			failed = send_one(a, flow, flows, bytes);
		fflush(stdout);
		_exit(failed);
	}
	while (wait(&status) > 0)
		failed |= status != 0;
	return failed;
}

static int put(const char *name, const char *value)
{
	char path[128];
	int fd, failed;

	snprintf(path, sizeof(path), "/proc/sys/net/ipv4/%s", name);
	fd = open(path, O_WRONLY);
	failed = fd < 0 || write(fd, value, strlen(value)) < 0;
	if (failed)
		fail(path);
	close(fd);
	return failed;
}

static int turn_all(void)
{
	static const struct {
		const char *name, *values[3];
	} bounds[] = { { "tcp_ack_hold_us", { "0", "25000", "500000" } },
		       { "tcp_ack_hold_min_us", { "1000", "0", "500000" } },
		       { "tcp_ack_hold_shift", { "1", "8", "0" } },
		       { "tcp_ack_limit", { "0", "20", "2000" } } };
	const struct timespec pause = { 0, 3000000 };
	unsigned int i, b;

	for (i = 0; !stop; i++) {
		b = i % (sizeof(bounds) / sizeof(bounds[0]));
		if (put("tcp_ack_policy", policies[i % n_policies]) ||
		    put(bounds[b].name, bounds[b].values[i / 4 % 3]))
			return 1;
		nanosleep(&pause, NULL);
	}
	return 0;
}

int main(int argc, char **argv)
{
	struct sockaddr_in a = { .sin_family = AF_INET };
	struct sigaction sa = { .sa_handler = on_term };

	setvbuf(stdout, NULL, _IOLBF, 0);
	sigaction(SIGTERM, &sa, NULL);
	if (argc == 6 && !strcmp(argv[1], "sink") && atoi(argv[2]) <= MAX_FLOWS) {
		split(argv[5]);
		return n_policies ? sink(atoi(argv[2]), atoi(argv[3]), atoi(argv[4])) : 2;
	}
	if (argc == 6 && !strcmp(argv[1], "send") && inet_pton(AF_INET, argv[2], &a.sin_addr))
		return send_all(&a, atoi(argv[3]), atoi(argv[4]), atoi(argv[5]));
	if (argc == 3 && !strcmp(argv[1], "turn")) {
		split(argv[2]);
		return n_policies ? turn_all() : 2;
	}
	fprintf(stderr, "usage: storm sink|send|turn …, see storm.c\n");
	return 2;
}
