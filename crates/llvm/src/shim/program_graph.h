/// The ProGraML graph of a program, as arrays.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace steplake {

/// The lists of `SteplakeProgramGraph`.
struct ProgramGraph {
  std::string Texts;
  std::vector<int8_t> NodeTypes;
  std::vector<int32_t> NodeTexts, NodeFunctions, NodeBlocks;
  std::vector<int8_t> EdgeFlows;
  std::vector<int32_t> EdgePositions, EdgeSources, EdgeTargets;

  /// Empties the lists and keeps their storage.
  void clear() {
    Texts.clear();
    NodeTypes.clear();
    EdgeFlows.clear();
    for (auto *List : {&NodeTexts, &NodeFunctions, &NodeBlocks, &EdgePositions,
                       &EdgeSources, &EdgeTargets})
      List->clear();
  }
};

} // namespace steplake
