/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The other end of a TCP connection, segment by segment: a TUN device on which
 * this process is the peer of a socket of its own. What the kernel answers to a
 * segment at once is there when the write returns.
 */
#ifndef KERNEL_TESTS_PEER_H
#define KERNEL_TESTS_PEER_H

#include <stdbool.h>
#include <stdint.h>

enum {
	FIN = 1,
	SYN = 2,
	RST = 4,
	PSH = 8,
	ACK = 16,
	ECE = 64,
	CWR = 128
};

#define MSS 1448

struct segment {
	uint64_t at_us;
	uint32_t seq, ack, window; /* window in bytes */
	uint32_t payload;
	uint8_t flags;
	uint32_t sacks, sack[8];
};

/* One connection: the socket, and where its peer is in both streams. */
struct conn {
	int fd, listener;
	uint16_t port, peer_port;
	uint32_t snd, rcv; /* the peer's next byte, and the next it expects */
	uint32_t tsecr;
	bool sack, ts, ecn;
	uint8_t wscale;
};

struct conn_options {
	const char *policy; /* of the listener; NULL: the namespace's */
	uint64_t rtt_us;
	bool no_sack, no_ts, ecn;
	bool fast_open; /* accepted with 100 bytes; the handshake's last ACK is the caller's */
	int rcvbuf;
	const struct conn *beside; /* with this one's listener */
};

uint64_t now_us(void);
void sleep_us(uint64_t us);
/* Ends the process with a message, and errno if there is one. */
void die(const char *what) __attribute__((noreturn));
/* Of net.ipv4, in the namespace of the caller. */
void sysctl_set(const char *name, const char *value);
/* One of /proc/net/netstat; -1: there is none of this name. */
long counter(const char *wanted);

/* The device, 10.9.0.1/24 here; the peer is 10.9.0.2. */
void peer_open(const char *tun);
void conn_open(struct conn *c, const struct conn_options *o);
void conn_close(struct conn *c);
/*
 * A segment of the peer's at seq, with the IP header's ECN field; if there are more bytes than
 * MSS, several that were merged on the way.
 */
void send_at(struct conn *c, uint32_t seq, uint32_t bytes, uint8_t flags, uint8_t ecn);
/* The next ones in order, read by the application as they come. */
void send_next(struct conn *c, uint32_t bytes, uint8_t flags);
void read_all(struct conn *c);
/* What the kernel sent, within timeout_us; false: nothing. */
bool receive(struct conn *c, struct segment *s, uint64_t timeout_us);
/* How many segments there were, and the last of them. */
int receive_all(struct conn *c, struct segment *last, uint64_t timeout_us);

#endif
