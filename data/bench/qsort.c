// SPDX-License-Identifier: MIT
// Sorts the words of a text by libbsd: with a heap by their content, by radix, and by their length.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bsd/stdlib.h>

enum { WORDS = 1 << 17 };

static char text[1 << 20];
static const unsigned char *words[WORDS], *copy[WORDS];

static int by_content(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static int by_length(const void *a, const void *b)
{
	size_t first = strlen(*(char *const *)a), second = strlen(*(char *const *)b);
	return first != second ? (first < second ? -1 : 1) : by_content(a, b);
}

static unsigned int sum(size_t count)
{
	unsigned int sum = 0;
	for (size_t i = 0; i < count; i++)
		for (const unsigned char *at = words[i]; *at; at++)
			sum = sum * 31 + *at;
	return sum;
}

int main(void)
{
	size_t size = fread(text, 1, sizeof text - 1, stdin), count = 0;

	text[size] = 0;
	for (char *word = strtok(text, " \n"); word && count < WORDS; word = strtok(NULL, " \n"))
		copy[count++] = (unsigned char *)word;
	memcpy(words, copy, sizeof words);
	if (heapsort(words, count, sizeof *words, by_content))
		return 1;
	printf("%zu words, %08x", count, sum(count));
	memcpy(words, copy, sizeof words);
	if (radixsort(words, count, NULL, 0))
		return 1;
	printf(" %08x", sum(count));
	memcpy(words, copy, sizeof words);
	if (heapsort(words, count, sizeof *words, by_length))
		return 1;
	printf(" %08x\n", sum(count));
	return 0;
}
