#include <cstddef>
#include <cstring>
#include <vector>

namespace {

using Comparison = int (*)(const void *, const void *);

void mergeSort(char *Base, size_t Count, size_t Size, Comparison Compare,
               char *Scratch) {
  if (Count < 2)
    return;
  size_t Left = Count / 2;
  char *Right = Base + Left * Size;
  mergeSort(Base, Left, Size, Compare, Scratch);
  mergeSort(Right, Count - Left, Size, Compare, Scratch);
  std::memcpy(Scratch, Base, Left * Size);
  char *From = Scratch, *FromEnd = Scratch + Left * Size;
  char *End = Base + Count * Size;
  while (From != FromEnd && Right != End) {
    char *&Next = Compare(From, Right) <= 0 ? From : Right;
    std::memcpy(Base, Next, Size);
    Base += Size;
    Next += Size;
  }
  std::memcpy(Base, From, FromEnd - From);
}

} // namespace

/// Replaces the C library's function, for LLVM's `array_pod_sort`, and keeps equal elements in
/// order. A C library may leave them in any order, and passes depend on it.
extern "C" void qsort(void *Base, size_t Count, size_t Size,
                      Comparison Compare) {
  std::vector<char> Scratch(Count / 2 * Size);
  mergeSort(static_cast<char *>(Base), Count, Size, Compare, Scratch.data());
}
