/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the cases of wire.c and of wire-settings.c share. */
#ifndef KERNEL_TESTS_WIRE_H
#define KERNEL_TESTS_WIRE_H

#include "peer.h"

#include <stdio.h>

#define TCP_ACK_POLICY 1024
#define RTT_US 20000
#define HOLD_US 8192 /* RTT_US / 2, rounded down to a length of a hold */

extern int failures;

#define CHECK(cond, ...) \
	do { \
		if (!(cond)) { \
			failures++; \
			printf("# %s:%d: %s: ", __func__, __LINE__, #cond); \
			printf(__VA_ARGS__); \
			printf("\n"); \
		} \
	} while (0)

struct conn open_with(const char *policy);
/* Full segments, each read and answered before the next; the ACKs there were. */
int send_full(struct conn *c, int n, struct segment *last);
/* Past the start, everything acknowledged; then four segments, which are held. */
void hold_some(struct conn *c);

/* The cases of wire-settings.c. */
void socket_option(void);
void listener_option(void);
void fast_open_option(void);
void m9_the_log_is_the_kernels(void);
void settings_changed_in_flight(void);
void counters(void);
void l13_tracepoint(void);

#endif
