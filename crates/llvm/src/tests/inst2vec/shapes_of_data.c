/* Types that hold one another, tables of functions and texts, switches, vectors, atomics. */
typedef float four __attribute__((vector_size(16)));

struct node {
  struct node *next;
  struct owner *owner;
  int values[4];
};

struct owner {
  struct node *first;
  const char *name;
  int (*order)(const struct node *, const struct node *);
};

struct __attribute__((packed)) record {
  char kind;
  int value;
  double weight;
};

static int by_value(const struct node *a, const struct node *b) {
  return a->values[0] - b->values[0];
}

static const char *const names[3] = {"first", "second # one", "third!"};
static const unsigned char table[5] = {1, 2, 3, 5, 8};
struct owner known = {0, "known", by_value};
static long counter;

int sum(struct owner *owner) {
  int all = 0;
  for (struct node *node = owner->first; node; node = node->next)
    if (node->owner == owner && owner->order(node, owner->first) >= 0)
      all += node->values[2];
  return all;
}

const char *name_of(int kind) {
  switch (kind) {
  case 0:
    return names[0];
  case 7:
    return names[2];
  case -3:
    return known.name;
  default:
    return names[kind & 1];
  }
}

double weigh(struct record *records, unsigned long length) {
  double sum = 0;
  for (unsigned long at = 0; at < length; ++at)
    sum += records[at].kind == 'x' ? records[at].weight : -1.5e300;
  return sum;
}

four blend(four a, four b, float c) {
  four d = a * b + (four){1, 2, 3, 4};
  d[2] = c;
  return d - b;
}

long count(unsigned char key) {
  __atomic_fetch_add(&counter, table[key % 5], __ATOMIC_SEQ_CST);
  long seen = 5;
  __atomic_compare_exchange_n(&counter, &seen, 9, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
  return __atomic_load_n(&counter, __ATOMIC_ACQUIRE);
}
