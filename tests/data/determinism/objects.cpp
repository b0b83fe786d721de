// Comdats, virtual tables, exceptions and cleanups.
extern "C" void note(int);
struct Shape { virtual ~Shape() {} virtual int area() const = 0; virtual int sides() const { return 0; } };
struct Square final : Shape { int a; explicit Square(int a) : a(a) {} int area() const override { return a * a; } int sides() const override { return 4; } };
struct Oblong : Shape { int a, b; Oblong(int a, int b) : a(a), b(b) {} int area() const override { return a * b; } };
struct Guard { int n; explicit Guard(int n) : n(n) { note(n); } ~Guard() { note(-n); } };
template <typename T, int N> struct List {
  T items[N]; int size = 0;
  void add(T x) { if (size == N) throw size; items[size++] = x; }
  T sum() const { T s = 0; for (int i = 0; i < size; i++) s += items[i]; return s; }
};
template <typename T> inline T most(T a, T b) { return a < b ? b : a; }
int total(const Shape *const *shapes, int n) {
  int s = 0;
  for (int i = 0; i < n; i++) s += shapes[i]->area() * most(shapes[i]->sides(), 1);
  return s;
}
int guarded(int n) {
  Guard outer(n);
  try {
    Guard inner(n + 1);
    List<int, 4> few; List<long, 6> more;
    for (int i = 0; i < n; i++) { few.add(i); more.add(i * 2L); }
    return few.sum() + static_cast<int>(more.sum());
  } catch (int size) {
    note(size);
    if (n > 10) throw;
    return -size;
  } catch (const char *text) {
    return text[0];
  } catch (...) {
    note(0);
  }
  return 1;
}
int shapes(int n) {
  Square a(n); Oblong b(n, n + 1); Square c(n + 2);
  const Shape *all[] = {&a, &b, &c};
  try { return total(all, 3) + guarded(n); } catch (int x) { return x; }
}
