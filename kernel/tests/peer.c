// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#define _GNU_SOURCE
#include "peer.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <linux/virtio_net.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define TCP_ACK_POLICY 1024
#define HERE 0x0a090001
#define THERE 0x0a090002
#define PEER_PORT 40000

#define IP sizeof(struct iphdr)
#define VNET sizeof(struct virtio_net_hdr) /* before each packet of the device */

static int tun_fd = -1;

void die(const char *what)
{
	if (errno)
		printf("Bail out! %s: %s\n", what, strerror(errno));
	else
		printf("Bail out! %s\n", what);
	fflush(stdout);
	exit(1);
}

uint64_t now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000ULL + t.tv_nsec / 1000;
}

void sleep_us(uint64_t us)
{
	struct timespec t = { us / 1000000, us % 1000000 * 1000 };

	while (nanosleep(&t, &t) && errno == EINTR)
		;
}

void sysctl_set(const char *name, const char *value)
{
	char path[128];
	int fd;

	snprintf(path, sizeof(path), "/proc/sys/net/ipv4/%s", name);
	fd = open(path, O_WRONLY);
	if (fd < 0 || write(fd, value, strlen(value)) < 0)
		die(path);
	close(fd);
}

long counter(const char *wanted)
{
	static char names[8192], values[8192];
	char *n, *v, *save_n, *save_v;
	FILE *f = fopen("/proc/net/netstat", "r");
	long found = -1;

	if (!f)
		die("/proc/net/netstat");
	while (found < 0 && fgets(names, sizeof(names), f) && fgets(values, sizeof(values), f)) {
		n = strtok_r(names, " \n", &save_n);
		v = strtok_r(values, " \n", &save_v);
		for (; n && v;
		     n = strtok_r(NULL, " \n", &save_n), v = strtok_r(NULL, " \n", &save_v))
			if (!strcmp(n, wanted))
				found = atol(v);
	}
	fclose(f);
	return found;
}

static void set_address(int s, const char *name, unsigned long what, uint32_t address)
{
	struct ifreq r = {};
	struct sockaddr_in *a = (struct sockaddr_in *)&r.ifr_addr;

	snprintf(r.ifr_name, IFNAMSIZ, "%s", name);
	a->sin_family = AF_INET;
	a->sin_addr.s_addr = htonl(address);
	if (ioctl(s, what, &r))
		die("address of the TUN device");
}

void peer_open(const char *tun)
{
	struct ifreq r = { .ifr_flags = IFF_TUN | IFF_NO_PI | IFF_VNET_HDR };
	int s = socket(AF_INET, SOCK_DGRAM, 0);

	tun_fd = open(tun, O_RDWR | O_NONBLOCK);
	if (tun_fd < 0)
		die(tun);
	strcpy(r.ifr_name, "peer");
	if (ioctl(tun_fd, TUNSETIFF, &r))
		die("TUNSETIFF");
	set_address(s, r.ifr_name, SIOCSIFADDR, HERE);
	set_address(s, r.ifr_name, SIOCSIFNETMASK, 0xffffff00);
	r.ifr_flags = IFF_UP | IFF_RUNNING;
	if (ioctl(s, SIOCSIFFLAGS, &r))
		die("TUN device up");
	close(s);
}

static uint32_t sum(const void *data, size_t n, uint32_t s)
{
	const uint8_t *p = data;

	for (; n > 1; n -= 2, p += 2)
		s += p[0] << 8 | p[1];
	return n ? s + (p[0] << 8) : s;
}

static uint16_t fold(uint32_t s)
{
	while (s >> 16)
		s = (s & 0xffff) + (s >> 16);
	return htons(~s & 0xffff);
}

static size_t put32(uint8_t *p, uint32_t v)
{
	v = htonl(v);
	memcpy(p, &v, 4);
	return 4;
}

static size_t put_options(const struct conn *c, uint8_t *p, uint8_t flags)
{
	size_t n = 0;

	if (flags & SYN) {
		n += put32(p + n, 0x020405b4); /* MSS 1460 */
		n += put32(p + n, 0x01030307); /* scale 7 */
		n += put32(p + n, c->sack ? 0x04020101 : 0x01010101);
	}
	if (!c->ts)
		return n;
	n += put32(p + n, 0x0101080a);
	n += put32(p + n, (uint32_t)(now_us() / 1000));
	n += put32(p + n, c->tsecr);
	return n;
}

void send_at(struct conn *c, uint32_t seq, uint32_t bytes, uint8_t flags, uint8_t ecn)
{
	static uint8_t packet[VNET + 65536];
	struct virtio_net_hdr vnet = {};
	struct iphdr ip = { .version = 4, .ihl = 5, .ttl = 64, .protocol = IPPROTO_TCP };
	uint8_t *b = packet + VNET, *t = b + IP;
	size_t n, header;
	uint16_t check;

	memset(packet, 0, sizeof(packet));
	header = 20 + put_options(c, t + 20, flags);
	t[0] = c->peer_port >> 8;
	t[1] = c->peer_port & 0xff;
	t[2] = c->port >> 8;
	t[3] = c->port & 0xff;
	put32(t + 4, seq);
	put32(t + 8, flags & ACK ? c->rcv : 0);
	t[12] = header / 4 << 4;
	t[13] = flags;
	t[14] = t[15] = 0xff;
	memset(t + header, 'x', bytes);
	n = header + bytes;
	ip.tos = ecn;
	ip.tot_len = htons(IP + n);
	ip.saddr = htonl(THERE);
	ip.daddr = htonl(HERE);
	ip.check = fold(sum(&ip, IP, 0));
	memcpy(b, &ip, IP);
	check = fold(sum(t, n, sum(&ip.saddr, 8, IPPROTO_TCP + n)));
	if (bytes > MSS) {
		/* Merged, as GRO hands it on: of the checksum there is the pseudo-header's part. */
		check = ~fold(sum(&ip.saddr, 8, IPPROTO_TCP + n));
		vnet.flags = VIRTIO_NET_HDR_F_NEEDS_CSUM;
		vnet.gso_type = VIRTIO_NET_HDR_GSO_TCPV4;
		vnet.gso_size = MSS;
		vnet.hdr_len = IP + header;
		vnet.csum_start = IP;
		vnet.csum_offset = 16;
	}
	memcpy(t + 16, &check, 2);
	memcpy(packet, &vnet, VNET);
	n += VNET + IP;
	if (write(tun_fd, packet, n) != (ssize_t)n)
		die("write to the TUN device");
}

static uint32_t get32(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | p[1] << 16 | p[2] << 8 | p[3];
}

static void read_options(struct conn *c, struct segment *s, const uint8_t *p, const uint8_t *end)
{
	uint32_t i;

	while (p < end && *p) {
		if (*p == 1) {
			p++;
			continue;
		}
		if (end - p < 2 || p[1] < 2 || end - p < p[1])
			die("options of the kernel's segment");
		if (*p == 3)
			c->wscale = p[2];
		if (*p == 8)
			c->tsecr = get32(p + 2);
		if (*p == 5) {
			s->sacks = (p[1] - 2) / 8;
			for (i = 0; i < 2 * s->sacks && i < 8; i++)
				s->sack[i] = get32(p + 2 + 4 * i);
		}
		p += p[1];
	}
}

bool receive(struct conn *c, struct segment *s, uint64_t timeout_us)
{
	struct pollfd p = { tun_fd, POLLIN, 0 };
	struct timespec wait;
	uint64_t end = now_us() + timeout_us, now;
	uint8_t packet[2048], *b = packet + VNET, *t;
	ssize_t n;

	for (;;) {
		now = now_us();
		wait.tv_sec = now < end ? (end - now) / 1000000 : 0;
		wait.tv_nsec = now < end ? (end - now) % 1000000 * 1000 : 0;
		if (ppoll(&p, 1, &wait, NULL) <= 0)
			return false;
		n = read(tun_fd, packet, sizeof(packet)) - (ssize_t)VNET;
		if (n < 40 || b[0] >> 4 != 4 || b[9] != IPPROTO_TCP)
			continue; /* IPv6 looking for neighbours */
		t = b + 4 * (b[0] & 15);
		if ((t[0] << 8 | t[1]) == c->port && (t[2] << 8 | t[3]) == c->peer_port)
			break;
	}
	memset(s, 0, sizeof(*s));
	s->at_us = now_us();
	s->seq = get32(t + 4);
	s->ack = get32(t + 8);
	s->flags = t[13];
	read_options(c, s, t + 20, t + (t[12] >> 4) * 4);
	s->window = (t[14] << 8 | t[15]) << (s->flags & SYN ? 0 : c->wscale);
	s->payload = n - (t - b) - (t[12] >> 4) * 4;
	c->rcv = s->seq + s->payload + !!(s->flags & SYN) + !!(s->flags & FIN);
	return true;
}

int receive_all(struct conn *c, struct segment *last, uint64_t timeout_us)
{
	int n = 0;

	while (receive(c, last, n ? 0 : timeout_us))
		n++;
	return n;
}

static int listener_open(const struct conn_options *o, uint16_t port)
{
	struct sockaddr_in a = { .sin_family = AF_INET };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), one = 1;

	a.sin_port = htons(port);
	a.sin_addr.s_addr = htonl(HERE);
	if (o->rcvbuf && setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &o->rcvbuf, sizeof(o->rcvbuf)))
		die("SO_RCVBUF");
	if (o->policy && setsockopt(fd, IPPROTO_TCP, TCP_ACK_POLICY, o->policy, strlen(o->policy)))
		die("TCP_ACK_POLICY of the listener");
	if (o->fast_open && setsockopt(fd, IPPROTO_TCP, TCP_FASTOPEN, &one, sizeof(one)))
		die("TCP_FASTOPEN");
	if (bind(fd, (struct sockaddr *)&a, sizeof(a)) || listen(fd, 1))
		die("listen");
	return fd;
}

void conn_open(struct conn *c, const struct conn_options *o)
{
	static uint16_t port = 7000;
	uint8_t ecn = o->ecn ? ECE | CWR : 0;
	uint32_t bytes = o->fast_open ? 100 : 0;
	struct segment s;

	memset(c, 0, sizeof(*c));
	c->port = o->beside ? o->beside->port : port++;
	c->peer_port = o->beside ? o->beside->peer_port + 1 : PEER_PORT;
	c->sack = !o->no_sack;
	c->ts = !o->no_ts;
	c->ecn = o->ecn;
	c->snd = 1000;
	c->listener = o->beside ? dup(o->beside->listener) : listener_open(o, c->port);
	send_at(c, c->snd, bytes, SYN | ecn, 0);
	c->snd += 1 + bytes;
	if (!receive(c, &s, 1000000) || !(s.flags & SYN))
		die("no SYN-ACK");
	if (o->ecn && !(s.flags & ECE))
		die("the kernel does not want ECN: net.ipv4.tcp_ecn");
	if (!o->fast_open) {
		sleep_us(o->rtt_us);
		send_at(c, c->snd, 0, ACK, 0);
	}
	c->fd = accept4(c->listener, NULL, NULL, SOCK_NONBLOCK);
	if (c->fd < 0)
		die("accept");
}

void conn_close(struct conn *c)
{
	struct linger hard = { 1, 0 };
	struct segment s;

	if (setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard)))
		die("SO_LINGER");
	close(c->fd);
	close(c->listener);
	receive_all(c, &s, 1000);
}

void read_all(struct conn *c)
{
	char b[65536];

	while (read(c->fd, b, sizeof(b)) > 0)
		;
}

void send_next(struct conn *c, uint32_t bytes, uint8_t flags)
{
	send_at(c, c->snd, bytes, ACK | flags, c->ecn ? 2 : 0);
	c->snd += bytes + !!(flags & FIN);
	read_all(c);
}
