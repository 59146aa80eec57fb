// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * at SECONDS: returns when the clock that began with the boot shows that. From
 * then on random numbers do not depend on what was drawn before, or on when.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/random.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <time.h>

int main(int argc, char **argv)
{
	struct timespec t = { argc > 1 ? atol(argv[1]) : 0, 0 };
	int random = open("/dev/urandom", O_RDONLY);

	if (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL))
		return 1;
	/* kernel/uml/0009 gives it a meaning. */
	if (random < 0 || ioctl(random, RNDCLEARPOOL)) {
		perror("at: /dev/urandom");
		return 1;
	}
	return 0;
}
