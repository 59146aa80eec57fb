// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * A transfer that blocks instead of spinning, so that virtual time runs fast.
 *
 *	xfer sink PORT COUNT [RCVBUF]	reads COUNT connections, one after the other
 *	xfer send ADDRESS PORT BYTES	prints the microseconds until all was read
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static char buf[131072];

static int fail(const char *what)
{
	fprintf(stderr, "xfer: %s: %s\n", what, strerror(errno));
	return 1;
}

static long long now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000LL + t.tv_nsec / 1000;
}

static int sink(struct sockaddr_in *a, int count, int rcvbuf)
{
	int one = 1, l = socket(AF_INET, SOCK_STREAM, 0), s;
	ssize_t n;

	setsockopt(l, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (rcvbuf && setsockopt(l, SOL_SOCKET, SO_RCVBUF, &rcvbuf, sizeof(rcvbuf)))
		return fail("SO_RCVBUF");
	a->sin_addr.s_addr = INADDR_ANY;
	if (bind(l, (struct sockaddr *)a, sizeof(*a)) || listen(l, 8))
		return fail("listen");
	while (count--) {
		s = accept(l, NULL, NULL);
		if (s < 0)
			return fail("accept");
		while ((n = read(s, buf, sizeof(buf))) > 0)
			;
		if (n < 0)
			return fail("read");
		close(s);
	}
	return 0;
}

static int send_bytes(const struct sockaddr_in *a, long long bytes)
{
	int s = socket(AF_INET, SOCK_STREAM, 0);
	long long start, left = bytes;
	ssize_t n;

	if (connect(s, (const struct sockaddr *)a, sizeof(*a)))
		return fail("connect");
	start = now_us();
	while (left > 0) {
		n = write(s, buf, left < (long long)sizeof(buf) ? left : (long long)sizeof(buf));
		if (n <= 0)
			return fail("write");
		left -= n;
	}
	shutdown(s, SHUT_WR);
	/* The sink closes when it has read the end. */
	if (read(s, buf, 1) != 0)
		return fail("the end");
	printf("%lld\n", now_us() - start);
	return 0;
}

int main(int argc, char **argv)
{
	struct sockaddr_in a = { .sin_family = AF_INET };

	if (argc >= 4 && !strcmp(argv[1], "sink")) {
		a.sin_port = htons(atoi(argv[2]));
		return sink(&a, atoi(argv[3]), argc > 4 ? atoi(argv[4]) : 0);
	}
	if (argc == 5 && !strcmp(argv[1], "send") && inet_pton(AF_INET, argv[2], &a.sin_addr)) {
		a.sin_port = htons(atoi(argv[3]));
		return send_bytes(&a, atoll(argv[4]));
	}
	fprintf(stderr, "usage: xfer sink PORT COUNT [RCVBUF] | send ADDRESS PORT BYTES\n");
	return 2;
}
