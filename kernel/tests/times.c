// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * packetdrill looks for the edge of a tick by calling times() until it changes.
 * In virtual time nothing changes while a program computes: sleep up to the edge.
 * Linked in by -Wl,--wrap=times.
 */
#include <sys/times.h>
#include <time.h>

#define TICK_NS 10000000 /* of times(): 100 Hz, whatever the kernel's HZ */
#define SECOND_NS 1000000000

clock_t __real_times(struct tms *buffer);
clock_t __wrap_times(struct tms *buffer);

clock_t __wrap_times(struct tms *buffer)
{
	struct timespec edge;

	clock_gettime(CLOCK_MONOTONIC, &edge);
	edge.tv_nsec = (edge.tv_nsec / TICK_NS + 1) * TICK_NS;
	if (edge.tv_nsec >= SECOND_NS) {
		edge.tv_nsec -= SECOND_NS;
		edge.tv_sec++;
	}
	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &edge, NULL);
	return __real_times(buffer);
}
