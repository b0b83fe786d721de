// SPDX-License-Identifier: MIT
// Shortest paths over a grid with hills: Dijkstra with a binary heap, checked by relaxation of
// every edge.

#include <stdint.h>
#include <stdio.h>

enum { WIDTH = 96, HEIGHT = 64, CELLS = WIDTH * HEIGHT, FAR = INT32_MAX };

struct heap {
    int cell[CELLS];
    int place[CELLS]; // -1: not in the heap
    int size;
};

static int height_of[CELLS];
static int distance_to[CELLS];
static int came_from[CELLS];
static struct heap heap;

static int closer(int a, int b) {
    return distance_to[heap.cell[a]] < distance_to[heap.cell[b]];
}

static void exchange(int a, int b) {
    int held = heap.cell[a];
    heap.cell[a] = heap.cell[b];
    heap.cell[b] = held;
    heap.place[heap.cell[a]] = a;
    heap.place[heap.cell[b]] = b;
}

static void rise(int at) {
    for (; at > 0 && closer(at, (at - 1) / 2); at = (at - 1) / 2) {
        exchange(at, (at - 1) / 2);
    }
}

static void sink(int at) {
    for (;;) {
        int least = at;
        for (int child = 2 * at + 1; child <= 2 * at + 2 && child < heap.size; child++) {
            if (closer(child, least)) {
                least = child;
            }
        }
        if (least == at) {
            return;
        }
        exchange(at, least);
        at = least;
    }
}

static int take_closest(void) {
    int cell = heap.cell[0];
    exchange(0, --heap.size);
    heap.place[cell] = -1;
    sink(0);
    return cell;
}

static void improve(int cell, int distance, int from) {
    if (distance >= distance_to[cell]) {
        return;
    }
    distance_to[cell] = distance;
    came_from[cell] = from;
    if (heap.place[cell] < 0) {
        heap.place[cell] = heap.size;
        heap.cell[heap.size++] = cell;
    }
    rise(heap.place[cell]);
}

static int neighbours(int cell, int out[4]) {
    int x = cell % WIDTH;
    int y = cell / WIDTH;
    int count = 0;
    if (x > 0) out[count++] = cell - 1;
    if (x < WIDTH - 1) out[count++] = cell + 1;
    if (y > 0) out[count++] = cell - WIDTH;
    if (y < HEIGHT - 1) out[count++] = cell + WIDTH;
    return count;
}

static int climb(int from, int to) {
    int up = height_of[to] - height_of[from];
    return 1 + (up > 0 ? 3 * up : -up);
}

static void search(int start) {
    for (int cell = 0; cell < CELLS; cell++) {
        distance_to[cell] = FAR;
        heap.place[cell] = -1;
    }
    heap.size = 0;
    improve(start, 0, start);
    while (heap.size > 0) {
        int cell = take_closest();
        int next[4];
        int count = neighbours(cell, next);
        for (int i = 0; i < count; i++) {
            improve(next[i], distance_to[cell] + climb(cell, next[i]), cell);
        }
    }
}

static int edges_that_shorten(void) {
    int wrong = 0;
    for (int cell = 0; cell < CELLS; cell++) {
        int next[4];
        int count = neighbours(cell, next);
        for (int i = 0; i < count; i++) {
            wrong += distance_to[cell] + climb(cell, next[i]) < distance_to[next[i]];
        }
    }
    return wrong;
}

static int path_length(int start, int end) {
    int steps = 0;
    for (int cell = end; cell != start; cell = came_from[cell]) {
        steps++;
    }
    return steps;
}

int main(void) {
    uint32_t seed = 99;
    for (int cell = 0; cell < CELLS; cell++) {
        seed = seed * 1664525u + 1013904223u;
        height_of[cell] = (int)(seed >> 27) + (cell % WIDTH) / 8;
    }
    for (int start = 0; start < CELLS; start += CELLS / 5 + 13) {
        search(start);
        uint32_t sum = 0;
        for (int cell = 0; cell < CELLS; cell++) {
            sum = sum * 17u + (uint32_t)distance_to[cell];
        }
        printf("from %d: last %d in %d steps, sum %08x, wrong %d\n", start, distance_to[CELLS - 1],
               path_length(start, CELLS - 1), (unsigned)sum, edges_that_shorten());
    }
    return 0;
}
