/*
 * The library that Rust's programs take their random numbers from on Windows, for a Wine that has
 * none yet: Debian 12's. It hands on to RtlGenRandom, which every Windows has.
 */
#include <stddef.h>

__declspec(dllimport) unsigned char __stdcall SystemFunction036(void *buffer, unsigned long length);

__declspec(dllexport) int __stdcall ProcessPrng(unsigned char *buffer, size_t length)
{
	while (length > 0) {
		unsigned long part = length > 4096 ? 4096 : (unsigned long)length;

		if (!SystemFunction036(buffer, part))
			return 0;
		buffer += part;
		length -= part;
	}
	return 1;
}
