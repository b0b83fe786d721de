int exits(const volatile int *p, unsigned n, unsigned m, unsigned k, unsigned q) {
  int r = 0;
#pragma unroll 4
  for (unsigned long i = 0;; i++) {
    if (p[0] == 5) { r = 9; break; }
    if (i == 4ul * n + 3) { r = p[3]; break; }
    if (p[0] == 6) { r = 10; break; }
    if (i == 4ul * m + 3) { r = p[4]; break; }
    if (p[1] == 7) { r = 11; break; }
    if (i == 4ul * k + 3) { r = p[5]; break; }
    if (i == 4ul * q + 3) { r = p[6]; break; }
  }
  return r * 3;
}
