// SPDX-License-Identifier: MIT
// Encrypts a file with Blowfish by nettle, under a new key for every part, and decrypts it again.
#include <stdio.h>
#include <string.h>

#include "blowfish.h"

enum { PART = 1 << 14 };

static unsigned char text[1 << 20], hidden[PART], clear[PART];

int main(void)
{
	size_t size = fread(text, 1, sizeof text, stdin) / PART * PART;
	unsigned char key[BLOWFISH_KEY_SIZE] = "a first key";
	unsigned int sum = 0, differs = 0;

	for (size_t at = 0; at < size; at += PART) {
		struct blowfish_ctx context;

		blowfish_set_key(&context, sizeof key, key);
		blowfish_encrypt(&context, PART, hidden, text + at);
		blowfish_decrypt(&context, PART, clear, hidden);
		differs += memcmp(clear, text + at, PART) != 0;
		for (int i = 0; i < PART; i++)
			sum = sum * 31 + hidden[i];
		memcpy(key, hidden, sizeof key);
	}
	printf("%08x %u parts differ\n", sum, differs);
	return 0;
}
