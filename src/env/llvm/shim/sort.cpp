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

/// The C library's function, for LLVM's `array_pod_sort`, in place of the host's: what is equal
/// stays in order. In which order it comes is up to a C library otherwise, and passes go by it.
extern "C" void qsort(void *Base, size_t Count, size_t Size,
                      Comparison Compare) {
  std::vector<char> Scratch(Count / 2 * Size);
  mergeSort(static_cast<char *>(Base), Count, Size, Compare, Scratch.data());
}
