/// Hashes that hold within one process: of addresses, and of values without one.
#pragma once

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Alignment.h"
#include "llvm/Support/xxhash.h"

#include <cstdint>

namespace steplake {

/// A hash of a sequence of words.
class Hasher {
  uint64_t State = 0x243F6A8885A308D3;

public:
  void word(uint64_t Word) {
    State = (State ^ Word) * 0x9E3779B97F4A7C15;
    State ^= State >> 32;
  }
  void pointer(const void *P) { word(reinterpret_cast<uintptr_t>(P)); }
  void text(llvm::StringRef Text) { word(llvm::xxh3_64bits(Text)); }
  void alignment(llvm::MaybeAlign A) { word(A ? A->value() : 0); }
  uint64_t finish() const { return State; }
};

} // namespace steplake
