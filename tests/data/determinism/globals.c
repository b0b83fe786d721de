// Many globals, tables of functions, and functions that are nearly equal.
#define REPEAT(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15)
#define VARIABLE(N) static int counter##N = N * 3; static const int limit##N = N + 100; int shown##N;
REPEAT(VARIABLE)
#define STEP(N) static int step##N(int x) { counter##N += x; if (counter##N > limit##N) counter##N = 0; shown##N = x ^ N; return counter##N + N; }
REPEAT(STEP)
#define NAME(N) step##N,
static int (*const steps[])(int) = {REPEAT(NAME)};
static int (*chosen)(int) = step3;
struct Pair { const char *name; int *where; int value; };
#define ENTRY(N) {"name" #N, &shown##N, N * N},
static struct Pair pairs[] = {REPEAT(ENTRY)};
static int same1(int a) { return a * 3 + 1; }
static int same2(int b) { return b * 3 + 1; }
static int unused_table[4] = {1, 2, 3, 4};
int run(int which, int x) {
  if (which == 17) chosen = step5;
  int s = chosen(x) + same1(x) - same2(x + 1) + unused_table[x & 3];
  return s + steps[which & 15](x);
}
int all(int x) {
  int s = 0;
#define CALL(N) s += step##N(x + N);
  REPEAT(CALL)
  for (int i = 0; i < 16; i++) s += *pairs[i].where + pairs[i].value;
  return s;
}
static int even(int n);
static int odd(int n) { return n == 0 ? 0 : even(n - 1); }
static int even(int n) { return n == 0 ? 1 : odd(n - 1); }
int parity(int n, int *out) { *out = odd(n); return even(n) + odd(n + 1); }
const char *name_of(int i) { return i < 16 ? pairs[i].name : "none"; }
