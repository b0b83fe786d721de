// glibc has `arc4random` since 2.36. LLVM's libraries, built with that, name temporary files with
// it. This one takes its place, so that the program runs with glibc 2.34 too.

#include <sys/random.h>

#include <cstdint>
#include <cstdlib>

extern "C" uint32_t arc4random() {
  uint32_t Number = 0;
  if (getrandom(&Number, sizeof Number, 0) != sizeof Number)
    abort();
  return Number;
}
