// SPDX-License-Identifier: MIT
// Graphs: spanning forests by union-find, components by breadth-first search, strong components by
// depth.

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { NODES = 3000, EDGES = 4200 };

struct edge {
    int from, to, weight;
};

static struct edge edges[EDGES];
static int first_edge[NODES + 1], target[EDGES];
static int parent[NODES], rank[NODES];

static void make_edges(uint32_t seed) {
    for (int i = 0; i < EDGES; i++) {
        seed = seed * 134775813u + 1u;
        edges[i].from = (int)((seed >> 12) % NODES);
        seed = seed * 134775813u + 1u;
        edges[i].to = (int)((seed >> 12) % NODES);
        edges[i].weight = (int)(seed >> 22);
    }
}

static int by_weight(const void *a, const void *b) {
    const struct edge *left = a;
    const struct edge *right = b;
    if (left->weight != right->weight) return left->weight < right->weight ? -1 : 1;
    if (left->from != right->from) return left->from < right->from ? -1 : 1;
    return (left->to > right->to) - (left->to < right->to);
}

static int root_of(int node) {
    while (parent[node] != node) {
        parent[node] = parent[parent[node]];
        node = parent[node];
    }
    return node;
}

static int join(int a, int b) {
    a = root_of(a);
    b = root_of(b);
    if (a == b) {
        return 0;
    }
    if (rank[a] < rank[b]) {
        int held = a;
        a = b;
        b = held;
    }
    parent[b] = a;
    rank[a] += rank[a] == rank[b];
    return 1;
}

static long spanning_weight(int *trees) {
    long weight = 0;
    *trees = NODES;
    for (int node = 0; node < NODES; node++) {
        parent[node] = node;
        rank[node] = 0;
    }
    qsort(edges, EDGES, sizeof edges[0], by_weight);
    for (int i = 0; i < EDGES; i++) {
        if (join(edges[i].from, edges[i].to)) {
            weight += edges[i].weight;
            --*trees;
        }
    }
    return weight;
}

static void index_edges(int both_ways) {
    static int cursor[NODES];
    int used = both_ways ? EDGES / 2 : EDGES;
    for (int node = 0; node <= NODES; node++) {
        first_edge[node] = 0;
    }
    for (int i = 0; i < used; i++) {
        first_edge[edges[i].from + 1]++;
        first_edge[edges[i].to + 1] += both_ways;
    }
    for (int node = 0; node < NODES; node++) {
        first_edge[node + 1] += first_edge[node];
        cursor[node] = first_edge[node];
    }
    for (int i = 0; i < used; i++) {
        target[cursor[edges[i].from]++] = edges[i].to;
        if (both_ways) {
            target[cursor[edges[i].to]++] = edges[i].from;
        }
    }
}

static int components(int *largest) {
    static int queue[NODES];
    static unsigned char seen[NODES];
    int count = 0;
    *largest = 0;
    for (int node = 0; node < NODES; node++) {
        seen[node] = 0;
    }
    for (int start = 0; start < NODES; start++) {
        if (seen[start]) continue;
        int head = 0, tail = 0;
        queue[tail++] = start;
        seen[start] = 1;
        while (head < tail) {
            int node = queue[head++];
            for (int e = first_edge[node]; e < first_edge[node + 1]; e++) {
                if (!seen[target[e]]) {
                    seen[target[e]] = 1;
                    queue[tail++] = target[e];
                }
            }
        }
        count++;
        *largest = tail > *largest ? tail : *largest;
    }
    return count;
}

struct search {
    int number[NODES], low[NODES], stack[NODES], on_stack[NODES];
    int next, top, found;
};

static void visit(struct search *s, int node) {
    s->number[node] = s->low[node] = ++s->next;
    s->stack[s->top++] = node;
    s->on_stack[node] = 1;
    for (int e = first_edge[node]; e < first_edge[node + 1]; e++) {
        int to = target[e];
        if (s->number[to] == 0) {
            visit(s, to);
            s->low[node] = s->low[to] < s->low[node] ? s->low[to] : s->low[node];
        } else if (s->on_stack[to] && s->number[to] < s->low[node]) {
            s->low[node] = s->number[to];
        }
    }
    if (s->low[node] == s->number[node]) {
        s->found++;
        int member;
        do {
            member = s->stack[--s->top];
            s->on_stack[member] = 0;
        } while (member != node);
    }
}

int main(void) {
    for (uint32_t seed = 1; seed <= 4; seed++) {
        static struct search s;
        s = (struct search){.next = 0};
        make_edges(seed);
        int trees, largest;
        long weight = spanning_weight(&trees);
        index_edges(1);
        int parts = components(&largest);
        index_edges(0);
        for (int node = 0; node < NODES; node++) {
            if (s.number[node] == 0) {
                visit(&s, node);
            }
        }
        printf("seed %u: weight %ld in %d trees, %d parts of at most %d, %d strong\n",
            (unsigned)seed, weight,
               trees, parts, largest, s.found);
    }
    return 0;
}
