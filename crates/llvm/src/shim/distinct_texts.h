/// Lists of texts that hold equal texts once.
#pragma once

#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <string>

namespace steplake {

/// Gives each distinct text a number, and writes the texts in the order of their numbers, each
/// ended by a zero byte.
class DistinctTexts {
  std::string &Out;
  llvm::StringMap<int32_t> Known;

public:
  explicit DistinctTexts(std::string &Out) : Out(Out) {}

  int32_t number(llvm::StringRef Text) {
    auto [Entry, IsNew] = Known.try_emplace(Text, Known.size());
    if (IsNew)
      Out.append(Text.data(), Text.size()).push_back('\0');
    return Entry->second;
  }
};

} // namespace steplake
