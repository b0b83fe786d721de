// SPDX-License-Identifier: MIT
// Comparing sequences: edit distance, banded and full, the longest common part, and alignment with
// gaps.

#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { LENGTH = 300, FAR = 1 << 20 };

static char left[LENGTH + 1], right[LENGTH + 1];
static int table[LENGTH + 1][LENGTH + 1];

static int least(int a, int b) {
    return a < b ? a : b;
}

static int most(int a, int b) {
    return a > b ? a : b;
}

static int full_distance(int n, int m) {
    for (int i = 0; i <= n; i++) {
        for (int j = 0; j <= m; j++) {
            if (i == 0 || j == 0) {
                table[i][j] = i + j;
                continue;
            }
            int change = table[i - 1][j - 1] + (left[i - 1] != right[j - 1]);
            table[i][j] = least(change, 1 + least(table[i - 1][j], table[i][j - 1]));
        }
    }
    return table[n][m];
}

static int kept_letters(int n, int m) {
    int kept = 0;
    while (n > 0 && m > 0) {
        int change = table[n - 1][m - 1] + (left[n - 1] != right[m - 1]);
        if (table[n][m] == change) {
            kept += left[n - 1] == right[m - 1];
            n--;
            m--;
        } else if (table[n][m] == table[n - 1][m] + 1) {
            n--;
        } else {
            m--;
        }
    }
    return kept;
}

static int banded_distance(int n, int m, int band) {
    int rows[2][LENGTH + 1];
    for (int j = 0; j <= m; j++) {
        rows[0][j] = j <= band ? j : FAR;
    }
    for (int i = 1; i <= n; i++) {
        int *above = rows[(i - 1) % 2];
        int *here = rows[i % 2];
        for (int j = 0; j <= m; j++) {
            here[j] = FAR;
        }
        for (int j = most(0, i - band); j <= least(m, i + band); j++) {
            int best = above[j] + 1;
            if (j > 0) {
                best = least(best, here[j - 1] + 1);
                best = least(best, above[j - 1] + (left[i - 1] != right[j - 1]));
            }
            here[j] = best;
        }
    }
    return rows[n % 2][m];
}

static int common_subsequence(int n, int m) {
    int row[LENGTH + 1] = {0};
    for (int i = 0; i < n; i++) {
        int diagonal = 0;
        for (int j = 0; j < m; j++) {
            int above = row[j + 1];
            row[j + 1] = left[i] == right[j] ? diagonal + 1 : most(above, row[j]);
            diagonal = above;
        }
    }
    return row[m];
}

static int local_alignment(int n, int m) {
    int score[LENGTH + 1] = {0}, gap_above[LENGTH + 1] = {0};
    int best = 0;
    for (int i = 0; i < n; i++) {
        int diagonal = 0, gap_beside = 0;
        for (int j = 1; j <= m; j++) {
            int above = score[j];
            gap_above[j] = most(above - 3, gap_above[j] - 1);
            gap_beside = most(score[j - 1] - 3, gap_beside - 1);
            int matched = diagonal + (left[i] == right[j - 1] ? 2 : -1);
            score[j] = most(0, most(matched, most(gap_above[j], gap_beside)));
            diagonal = above;
            best = most(best, score[j]);
        }
    }
    return best;
}

static uint32_t draw(uint32_t *seed) {
    *seed = *seed * 1103515245u + 12345u;
    return *seed >> 16;
}

static int mutate(uint32_t *seed, unsigned rate) {
    int length = 0;
    for (int i = 0; i < LENGTH && length < LENGTH; i++) {
        unsigned choice = draw(seed) % 100;
        if (choice < rate) {
            right[length++] = (char)('a' + draw(seed) % 4);
        } else if (choice >= 2 * rate) {
            right[length++] = left[i];
        }
    }
    right[length] = '\0';
    return length;
}

int main(void) {
    uint32_t seed = 3;
    for (unsigned rate = 0; rate <= 40; rate += 5) {
        for (int i = 0; i < LENGTH; i++) {
            left[i] = (char)('a' + draw(&seed) % 4);
        }
        int length = mutate(&seed, rate);
        int distance = full_distance(LENGTH, length);
        printf("rate %u: length %d, distance %d, kept %d, band %d, common %d, local %d\n", rate,
            length, distance,
               kept_letters(LENGTH, length), banded_distance(LENGTH, length, 30) == distance,
               common_subsequence(LENGTH, length), local_alignment(LENGTH, length));
    }
    return 0;
}
