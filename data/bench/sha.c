// SPDX-License-Identifier: MIT
// Digests of a file by nettle, again and again with the last digest before it.
#include <stdio.h>
#include <string.h>

#include "sha1.h"
#include "sha2.h"

static unsigned char text[1 << 20];

int main(void)
{
	size_t size = fread(text, 1, sizeof text, stdin);
	unsigned char first[SHA1_DIGEST_SIZE] = { 0 }, second[SHA256_DIGEST_SIZE] = { 0 };
	unsigned char third[SHA512_DIGEST_SIZE] = { 0 };

	for (int round = 0; round < 4; round++) {
		struct sha1_ctx sha1;
		struct sha256_ctx sha256;
		struct sha512_ctx sha512;

		sha1_init(&sha1);
		sha1_update(&sha1, sizeof first, first);
		sha1_update(&sha1, size, text);
		sha1_digest(&sha1, sizeof first, first);
		sha256_init(&sha256);
		sha256_update(&sha256, sizeof second, second);
		sha256_update(&sha256, size, text);
		sha256_digest(&sha256, sizeof second, second);
		sha512_init(&sha512);
		sha512_update(&sha512, sizeof third, third);
		sha512_update(&sha512, size, text);
		sha512_digest(&sha512, sizeof third, third);
	}
	for (size_t i = 0; i < sizeof first; i++)
		printf("%02x", first[i]);
	putchar('\n');
	for (size_t i = 0; i < sizeof second; i++)
		printf("%02x", second[i]);
	putchar('\n');
	for (size_t i = 0; i < sizeof third; i++)
		printf("%02x", third[i]);
	putchar('\n');
	return 0;
}
