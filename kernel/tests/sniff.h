/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What passes an interface, and when, from the IP header on. */
#ifndef SNIFF_H
#define SNIFF_H

#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

/* A socket; -1, and on standard error why not. */
static int sniff_open(const char *program, const char *ifname)
{
	struct sockaddr_ll ll = { .sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL) };
	int s = socket(AF_PACKET, SOCK_DGRAM, htons(ETH_P_ALL)), size = 64 << 20, one = 1;

	ll.sll_ifindex = if_nametoindex(ifname);
	setsockopt(s, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size));
	setsockopt(s, SOL_SOCKET, SO_TIMESTAMPNS, &one, sizeof(one));
	if (s < 0 || bind(s, (struct sockaddr *)&ll, sizeof(ll))) {
		fprintf(stderr, "%s: %s: %s\n", program, ifname, strerror(errno));
		return -1;
	}
	return s;
}

/* Bytes of the next packet, and when it passed, ns; not above 0: none, or a signal. */
static ssize_t sniff(int s, uint8_t *room, size_t size, uint64_t *at_ns)
{
	uint8_t control[256];
	struct iovec iov = { room, size };
	struct msghdr m = { .msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = control,
			    .msg_controllen = sizeof(control) };
	ssize_t n = recvmsg(s, &m, 0);
	struct timespec t = {};
	struct cmsghdr *c;

	if (n <= 0)
		return n;
	c = CMSG_FIRSTHDR(&m);
	if (c && c->cmsg_type == SO_TIMESTAMPNS)
		memcpy(&t, CMSG_DATA(c), sizeof(t));
	*at_ns = t.tv_sec * 1000000000ULL + t.tv_nsec;
	return n;
}

#endif
