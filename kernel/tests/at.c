// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* at SECONDS: returns when the clock that began with the boot shows that. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <time.h>

int main(int argc, char **argv)
{
	struct timespec t = { argc > 1 ? atol(argv[1]) : 0, 0 };

	return clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) != 0;
}
