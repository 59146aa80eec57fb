// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Network namespaces that come and go, each with a policy of its own, while data
 * flows into them: nothing may be left of one that is gone.
 *
 *	churn		# in a machine of its own; needs CAP_SYS_ADMIN. Output is TAP.
 *
 * A flow goes from here over a veth pair into each namespace. It is ended there in
 * one of the ways of `end`, with ACKs held. What the kernel then still has allocated
 * is read after each round, in pages: of the later ones the least may not be more than
 * of the earlier ones.
 */
#define _GNU_SOURCE
#include "peer.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/ethtool.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <linux/sockios.h>
#include <linux/veth.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define TCP_ACK_POLICY 1024
#define ALIVE 40 /* at a time */
#define A_ROUND 100
#define ROUNDS 25
#define WARM 1 /* rounds in which caches get their size */
/*
 * Half-empty pages of the caches come and go, some 40 KiB of them. Twelve rounds of
 * namespaces that leave 64 bytes each are 75 KiB.
 */
#define SPARE_KB 40

static const char *const policies[] = {
	"none",
	"adaptive",
	"every-n:n=256,warm=0",
	"rate-limit:start=20",
	"rate-limit-literal:start=20",
	"tack",
	"every-n:n=16,warm=0",
};

#define N_POLICIES (sizeof(policies) / sizeof(policies[0]))

struct space {
	int ns, listener, receiver, sender, number;
};

static int outer_netns;
static long received, held;

static void add(struct nlmsghdr *h, int type, const void *data, size_t n)
{
	struct rtattr *a = (struct rtattr *)((char *)h + NLMSG_ALIGN(h->nlmsg_len));

	a->rta_type = type;
	a->rta_len = RTA_LENGTH(n);
	if (n)
		memcpy(RTA_DATA(a), data, n);
	h->nlmsg_len = NLMSG_ALIGN(h->nlmsg_len) + RTA_ALIGN(a->rta_len);
}

static struct rtattr *nest(struct nlmsghdr *h, int type)
{
	struct rtattr *a = (struct rtattr *)((char *)h + NLMSG_ALIGN(h->nlmsg_len));

	add(h, type, NULL, 0);
	return a;
}

static void nest_end(struct nlmsghdr *h, struct rtattr *a)
{
	a->rta_len = (char *)h + h->nlmsg_len - (char *)a;
}

/* A veth pair: `inside` here, `outside` in the namespace `outer_netns`. */
static void add_veth(const char *inside, const char *outside)
{
	union {
		struct nlmsghdr h;
		char space[512];
	} m = { .h = { .nlmsg_len = NLMSG_LENGTH(sizeof(struct ifinfomsg)),
		       .nlmsg_type = RTM_NEWLINK,
		       .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL } };
	struct rtattr *info, *data, *peer;
	int s = socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE);
	const struct nlmsgerr *e = NLMSG_DATA(&m.h);

	add(&m.h, IFLA_IFNAME, inside, strlen(inside) + 1);
	info = nest(&m.h, IFLA_LINKINFO);
	add(&m.h, IFLA_INFO_KIND, "veth", 5);
	data = nest(&m.h, IFLA_INFO_DATA);
	peer = nest(&m.h, VETH_INFO_PEER);
	m.h.nlmsg_len += sizeof(struct ifinfomsg);
	add(&m.h, IFLA_IFNAME, outside, strlen(outside) + 1);
	add(&m.h, IFLA_NET_NS_FD, &outer_netns, sizeof(outer_netns));
	nest_end(&m.h, peer);
	nest_end(&m.h, data);
	nest_end(&m.h, info);
	if (send(s, &m, m.h.nlmsg_len, 0) < 0 || recv(s, &m, sizeof(m), 0) < 0)
		die("netlink");
	errno = -e->error;
	if (errno)
		die("veth");
	close(s);
}

/* Up with this address, and no segments larger than the wire's. */
static void configure(const char *name, struct in_addr address)
{
	static const int offloads[] = { ETHTOOL_STSO, ETHTOOL_SGSO, ETHTOOL_SGRO };
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr = address };
	int s = socket(AF_INET, SOCK_DGRAM, 0);
	struct ifreq r = {};
	unsigned int i;

	strncpy(r.ifr_name, name, IFNAMSIZ - 1);
	for (i = 0; i < sizeof(offloads) / sizeof(offloads[0]); i++) {
		struct ethtool_value off = { .cmd = offloads[i] };

		r.ifr_data = (void *)&off;
		if (ioctl(s, SIOCETHTOOL, &r))
			die("offloads of a veth");
	}
	memcpy(&r.ifr_addr, &a, sizeof(a));
	if (ioctl(s, SIOCSIFADDR, &r))
		die("address of a veth");
	a.sin_addr.s_addr = htonl(0xffffff00);
	memcpy(&r.ifr_addr, &a, sizeof(a));
	if (ioctl(s, SIOCSIFNETMASK, &r))
		die("netmask of a veth");
	r.ifr_flags = IFF_UP | IFF_RUNNING;
	if (ioctl(s, SIOCSIFFLAGS, &r))
		die("a veth up");
	close(s);
}

static void enter(int ns)
{
	if (setns(ns, CLONE_NEWNET))
		die("setns");
}

static struct in_addr address(int number, int host)
{
	return (struct in_addr){ htonl(0x0a010000 + number % 256 * 256 + host) };
}

static void begin(struct space *p, int number)
{
	struct sockaddr_in a = { .sin_family = AF_INET,
				 .sin_port = htons(7000),
				 .sin_addr = address(number, 1) };
	char outside[IFNAMSIZ];

	p->number = number;
	p->receiver = -1;
	snprintf(outside, sizeof(outside), "p%d", number);
	if (unshare(CLONE_NEWNET))
		die("unshare");
	p->ns = open("/proc/self/ns/net", O_RDONLY);
	add_veth("v", outside);
	configure("v", a.sin_addr);
	sysctl_set("tcp_ack_policy", policies[number % N_POLICIES]);
	/* Long ones: an ACK is held when the namespace goes. */
	sysctl_set("tcp_ack_hold_us", number % 5 ? "500000" : "0");
	sysctl_set("tcp_ack_hold_min_us", number % 2 ? "500000" : "1000");
	p->listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	if (bind(p->listener, (struct sockaddr *)&a, sizeof(a)) || listen(p->listener, 8))
		die("listen");
	enter(outer_netns);
	configure(outside, address(number, 2));
	p->sender = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	if (connect(p->sender, (struct sockaddr *)&a, sizeof(a)) && errno != EINPROGRESS)
		die("connect");
}

static void drive(struct space *p)
{
	static char b[65536];
	ssize_t n;

	n = write(p->sender, b, 8 * MSS);
	if (n < 0 && errno != EAGAIN)
		die("write");
	if (p->receiver < 0)
		p->receiver = accept4(p->listener, NULL, NULL, SOCK_NONBLOCK);
	/* Each fourth never reads: its window closes. */
	while (p->receiver >= 0 && p->number % 4 && (n = read(p->receiver, b, sizeof(b))) > 0)
		received += n;
}

static void no_linger(int fd)
{
	struct linger hard = { 1, 0 };

	if (fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard)))
		die("SO_LINGER");
}

static void end(struct space *p)
{
	struct sockaddr none = { .sa_family = AF_UNSPEC };
	const char *next = policies[(p->number + 1) % N_POLICIES];

	enter(p->ns);
	held += counter("TCPAckPolicyHeld");
	switch (p->number % 6) {
	case 0: /* the peer goes first */
		no_linger(p->sender);
		close(p->sender);
		p->sender = -1;
		break;
	case 1: /* an orphan that says goodbye to a peer that still sends */
		shutdown(p->receiver, SHUT_RDWR);
		break;
	case 2:
		sysctl_set("tcp_ack_policy", next);
		sysctl_set("tcp_ack_policy", "none");
		break;
	case 3:
		if (setsockopt(p->receiver, IPPROTO_TCP, TCP_ACK_POLICY, next, strlen(next)))
			die("TCP_ACK_POLICY");
		break;
	case 4: /* another life for the socket */
		if (connect(p->receiver, &none, sizeof(none)))
			die("disconnect");
		break;
	default:
		no_linger(p->receiver);
	}
	enter(outer_netns);
	close(p->receiver);
	close(p->listener);
	close(p->ns);
	if (p->sender >= 0) {
		no_linger(p->sender);
		close(p->sender);
	}
}

static long meminfo(const char *name)
{
	FILE *f = fopen("/proc/meminfo", "r");
	long kb = -1, value;
	char key[64];

	if (!f)
		die("/proc/meminfo");
	while (fscanf(f, "%63[^:]: %ld%*[^\n]\n", key, &value) == 2)
		if (!strcmp(key, name))
			kb = value;
	fclose(f);
	return kb;
}

static void one_round(int from)
{
	static struct space alive[ALIVE];
	int i, k;

	for (i = 0; i < A_ROUND + ALIVE; i++) {
		if (i >= ALIVE)
			end(&alive[i % ALIVE]);
		if (i < A_ROUND)
			begin(&alive[i % ALIVE], from + i);
		sleep_us(30000);
		for (k = i < ALIVE ? 0 : i - ALIVE + 1; k <= i && k < A_ROUND; k++)
			drive(&alive[k % ALIVE]);
	}
	sleep_us(70000000); /* orphans and TIME-WAIT are over */
}

static int check(int number, int right, const char *what, long value, long limit)
{
	printf("%sok %d %s: %ld (%ld)\n", right ? "" : "not ", number, what, value, limit);
	return !right;
}

static long least(const long *kb, int n)
{
	long found = *kb;

	while (--n)
		found = kb[n] < found ? kb[n] : found;
	return found;
}

int main(void)
{
	const int each = (ROUNDS - WARM) / 2;
	long kb[ROUNDS], grown;
	int i, failed;

	setvbuf(stdout, NULL, _IOLBF, 0);
	outer_netns = open("/proc/self/ns/net", O_RDONLY);
	if (outer_netns < 0)
		die("/proc/self/ns/net");
	for (i = 0; i < ROUNDS; i++) {
		one_round(i * A_ROUND);
		kb[i] = meminfo("SUnreclaim");
		printf("# round %d: %ld KiB of the kernel's\n", i + 1, kb[i]);
	}
	printf("1..3\n");
	grown = least(kb + ROUNDS - each, each) - least(kb + WARM, each);
	failed = check(1, grown <= SPARE_KB, "namespaces that are gone left, KiB", grown, SPARE_KB);
	failed |= check(2, received > 10000000, "bytes read", received, 10000000);
	failed |= check(3, held > 1000, "ACKs were held", held, 1000);
	return failed;
}
