/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the mutators of both fuzzers use: libFuzzer's own mutator, and random numbers. */
#ifndef ACKWISE_FUZZ_DICE_H
#define ACKWISE_FUZZ_DICE_H

#include <stddef.h>
#include <stdint.h>

/* libFuzzer's: changes some bytes of data, which may grow up to max. Returns the new size. */
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max);

struct dice {
	uint32_t state; /* not 0 */
};

/* A number below n, which is not 0 (xorshift32). */
static inline uint32_t roll(struct dice *d, uint32_t n)
{
	d->state ^= d->state << 13;
	d->state ^= d->state >> 17;
	d->state ^= d->state << 5;
	return (uint32_t)(((uint64_t)d->state * n) >> 32);
}

#endif
