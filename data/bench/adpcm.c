// SPDX-License-Identifier: MIT
// Speech through libsndfile's G.72x codecs, there and back: prints what became of it.
#include <stdio.h>
#include <stdlib.h>

#include "src/G72x/g72x.h"

static unsigned char sound[1 << 20];

static unsigned long mixed(unsigned long sum, unsigned value)
{
	return (sum ^ value) * 0x100000001b3UL;
}

static void there_and_back(int codec, size_t size)
{
	int bytes, samples;
	struct g72x_state *writer = g72x_writer_init(codec, &bytes, &samples);
	struct g72x_state *reader = g72x_reader_init(codec, &bytes, &samples);
	unsigned long coded = 0, decoded = 0, error = 0;

	if (!writer || !reader)
		exit(1);
	for (size_t at = 0; at + 2 * samples <= size; at += 2 * samples) {
		unsigned char block[G72x_BLOCK_SIZE];
		short given[G72x_BLOCK_SIZE], sent[G72x_BLOCK_SIZE], back[G72x_BLOCK_SIZE];

		for (int i = 0; i < samples; i++) {
			const unsigned char *sample = sound + at + 2 * i;
			given[i] = sent[i] = (short)(sample[0] | sample[1] << 8);
		}
		g72x_encode_block(writer, sent, block);
		g72x_decode_block(reader, block, back);
		for (int i = 0; i < bytes; i++)
			coded = mixed(coded, block[i]);
		for (int i = 0; i < samples; i++) {
			decoded = mixed(decoded, (unsigned short)back[i]);
			error += labs((long)given[i] - back[i]);
		}
	}
	printf("%d bits: %016lx %016lx, error %lu\n", codec, coded, decoded, error);
	free(writer);
	free(reader);
}

int main(void)
{
	size_t size = fread(sound, 1, sizeof sound, stdin);

	there_and_back(G723_16_BITS_PER_SAMPLE, size);
	there_and_back(G723_24_BITS_PER_SAMPLE, size);
	there_and_back(G721_32_BITS_PER_SAMPLE, size);
	there_and_back(G723_40_BITS_PER_SAMPLE, size);
	return 0;
}
