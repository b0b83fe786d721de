// Counted loops with several exits, whose order of exits may be that of a hash table.
int two(const volatile int *p) {
  int r = 0, j = 0;
  for (int i = 0;; i++, j += 2) {
    if (i == 4) { r = 1; break; }
    p[0];
    if (j == 10) { r = 2; break; }
    p[1];
  }
  return r;
}
int four(const volatile int *p) {
  int j = 0, k = 0, m = 0, n = 1;
  for (int i = 0; i < 3; i++) {
    int v = *p;
    if (j >= 12) return v;
    v = *p; j += 2;
    if (k >= 20) return v + 1;
    v = *p; k += 3;
    if (m >= 30) return v + 2;
    v = *p; m += 4;
    if (n == 64) return v + 3;
    n *= 2;
  }
  return -1;
}
int nested(const int *p, int n) {
  int found = 0;
  for (int i = 0; i < 6; i++) {
    for (int k = 0; k < 5; k++) {
      if (p[i * 5 + k] == n) { found = i; goto out; }
      if (p[i * 5 + k] == -n) { found = -k; goto out; }
      if (p[k] > 100) break;
      if (p[k] < -100) return -100;
    }
    if (p[i] == 0) return -i;
  }
  found = 99;
out:
  return found;
}
int search(const char *text, int *where) {
  for (int i = 0; i < 8; i++) {
    switch (text[i]) {
    case 'a': *where = i; return 1;
    case 'b': *where = -i; return 2;
    case 'c': where[1] = i; goto late;
    case 0: return 0;
    case 'd': continue;
    default: if (text[i] == text[i + 1]) return 5;
    }
  }
late:
  return where[0] + where[1];
}
int peeled(int *a, int n) {
  int last = 7, before = 9, s = 0;
  for (int i = 0; i < n; i++) {
    if (a[i] == before) return s + last;
    if (a[i] == last + 1) return s - before;
    s += last; before = last; last = i;
    if (s > 1000) break;
  }
  return s;
}
