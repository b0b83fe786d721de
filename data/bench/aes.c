// SPDX-License-Identifier: MIT
// Encrypts a file with AES by nettle, in counter-less chaining of our own, and decrypts it again.
#include <stdio.h>
#include <string.h>

#include "aes.h"

static unsigned char text[1 << 20], hidden[1 << 20], clear[1 << 20];

int main(void)
{
	static const unsigned char key[AES256_KEY_SIZE] = "a key of thirty-two characters!";
	size_t size = fread(text, 1, sizeof text, stdin) / AES_BLOCK_SIZE * AES_BLOCK_SIZE;
	unsigned char chain[AES_BLOCK_SIZE] = { 0 };
	struct aes256_ctx encrypt, decrypt;
	unsigned int sum = 0;

	aes256_set_encrypt_key(&encrypt, key);
	aes256_set_decrypt_key(&decrypt, key);
	for (size_t at = 0; at < size; at += AES_BLOCK_SIZE) {
		for (int i = 0; i < AES_BLOCK_SIZE; i++)
			chain[i] ^= text[at + i];
		aes256_encrypt(&encrypt, AES_BLOCK_SIZE, hidden + at, chain);
		memcpy(chain, hidden + at, AES_BLOCK_SIZE);
	}
	aes256_decrypt(&decrypt, size, clear, hidden);
	for (size_t at = size; at-- > AES_BLOCK_SIZE;)
		clear[at] ^= hidden[at - AES_BLOCK_SIZE];
	for (size_t at = 0; at < size; at++)
		sum = sum * 31 + hidden[at];
	printf("%08x %s\n", sum, memcmp(text, clear, size) ? "differs" : "the same again");
	return 0;
}
