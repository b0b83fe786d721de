/// The tokens of a program's text, as arrays.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace steplake {

/// The lists of `SteplakeTextList`.
struct TextList {
  std::string Texts;
  std::vector<int32_t> Places;
};

/// The lists of `SteplakeTokens`.
struct Tokens {
  std::vector<int32_t> Ids;
  TextList Kinds, Categories, Values;

  /// Empties the lists and keeps their storage.
  void clear() {
    Ids.clear();
    for (TextList *List : {&Kinds, &Categories, &Values}) {
      List->Texts.clear();
      List->Places.clear();
    }
  }
};

} // namespace steplake
