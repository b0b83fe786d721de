// Loops to vectorise, to distribute, to fuse and to interchange, with reductions and aliases.
void axpy(float *restrict y, const float *restrict x, float a, int n) { for (int i = 0; i < n; i++) y[i] += a * x[i]; }
int reduce(const int *x, int n, int *most) {
  int s = 0, p = 1, m = x[0];
  for (int i = 0; i < n; i++) { s += x[i]; p ^= x[i] * 3; if (x[i] > m) m = x[i]; }
  *most = m + p;
  return s;
}
void split(int *a, int *b, int *c, int n) {
  for (int i = 1; i < n; i++) { a[i] = a[i - 1] + b[i]; c[i] = b[i] * 2; b[i] = c[i] + 1; }
}
void matrix(double c[32][32], double a[32][32], double b[32][32]) {
  for (int i = 0; i < 32; i++) for (int j = 0; j < 32; j++) for (int k = 0; k < 32; k++) c[i][j] += a[i][k] * b[k][j];
}
void two_loops(int *a, int *b, int n) {
  for (int i = 0; i < n; i++) a[i] = b[i] + 1;
  for (int i = 0; i < n; i++) b[i] = a[i] * 2;
}
void four(int *restrict d, const int *restrict a, const int *restrict b) {
  d[0] = a[0] * b[0] + 1; d[1] = a[1] * b[1] + 2; d[2] = a[2] * b[2] + 3; d[3] = a[3] * b[3] + 4;
  d[4] = a[4] - b[7]; d[5] = a[5] - b[6]; d[6] = a[6] - b[5]; d[7] = a[7] - b[4];
}
int flags(int n, int f) {
  int s = 0;
  for (int i = 0; i < n; i++) { if (f) s += i; else s -= i * 2; if (n > 100) s ^= 3; }
  return s;
}
struct Node { struct Node *next; int key, value; };
int find(struct Node *n, int key, int *steps) {
  int s = 0;
  while (n) { if (n->key == key) { *steps = s; return n->value; } n = n->next; s++; }
  *steps = s;
  return -1;
}
unsigned bits(unsigned x) { unsigned n = 0; while (x) { n++; x &= x - 1; } return n; }
unsigned crc(const unsigned char *p, int n) {
  unsigned c = ~0u;
  for (int i = 0; i < n; i++) { c ^= p[i]; for (int k = 0; k < 8; k++) c = c & 1 ? (c >> 1) ^ 0xedb88320u : c >> 1; }
  return ~c;
}
