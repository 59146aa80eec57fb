/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What differs between the environments of a policy: integer types, how a function is
 * inlined, 64-bit division. Also the arithmetic that all headers share.
 *
 * Environments: native C and Rust, BPF (define AW_BPF), Linux (define AW_KERNEL).
 */
#ifndef ACKWISE_PLATFORM_H
#define ACKWISE_PLATFORM_H

#if defined(AW_KERNEL)
#include <linux/math64.h>
#include <linux/types.h>
typedef u8 aw_u8;
typedef u16 aw_u16;
typedef u32 aw_u32;
typedef u64 aw_u64;
typedef s32 aw_s32;
#else
typedef unsigned char aw_u8;
typedef unsigned short aw_u16;
typedef unsigned int aw_u32;
typedef unsigned long long aw_u64;
typedef int aw_s32;
#endif

#define AW_FN static inline __attribute__((always_inline, unused))
#define AW_ASSERT(cond, why) _Static_assert(cond, why)
/*
 * A compiler barrier: after it, values are read from memory again. The BPF verifier does not
 * track the memory of a map, so that all its paths meet here and are not followed one by one.
 */
#if defined(__BPF__)
#define AW_REREAD() __asm__ volatile("" ::: "memory")
#else
#define AW_REREAD() ((void)0)
#endif
#define AW_LIKELY(x) __builtin_expect(!!(x), 1)
#define AW_UNLIKELY(x) __builtin_expect(!!(x), 0)

AW_ASSERT(sizeof(aw_u64) == 8 && sizeof(aw_u32) == 4 && sizeof(aw_u16) == 2, "integer sizes");

/*
 * a / d. Division by zero is 0, as BPF defines it, in every environment: natively it
 * would trap.
 */
AW_FN aw_u32 aw_div32(aw_u32 a, aw_u32 d)
{
	return d ? a / d : 0;
}

AW_FN aw_u64 aw_div64(aw_u64 a, aw_u32 d)
{
#if defined(AW_KERNEL)
	return d ? div_u64(a, d) : 0;
#elif defined(__BPF__) || defined(__LP64__) || defined(_LP64)
	return d ? a / d : 0;
#else
	/* A 32-bit freestanding environment has no __udivdi3: long division, bit by bit. */
	aw_u64 q = 0, r = 0;
	int i;

	if (!d)
		return 0;
	for (i = 63; i >= 0; i--) {
		r = r << 1 | (a >> i & 1);
		if (r >= d) {
			r -= d;
			q |= 1ULL << i;
		}
	}
	return q;
#endif
}

/* Sequence and 32-bit clock arithmetic, modulo 2^32 (RFC 9293 §3.4). */
AW_FN int aw_after(aw_u32 a, aw_u32 b)
{
	return (aw_s32)(a - b) > 0;
}

AW_FN int aw_after_eq(aw_u32 a, aw_u32 b)
{
	return (aw_s32)(a - b) >= 0;
}

AW_FN aw_u32 aw_min(aw_u32 a, aw_u32 b)
{
	return a < b ? a : b;
}

AW_FN aw_u32 aw_max(aw_u32 a, aw_u32 b)
{
	return a > b ? a : b;
}

#endif
