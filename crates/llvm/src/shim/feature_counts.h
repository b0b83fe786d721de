/// What InstCount and Autophase count, function by function.
#pragma once

#include "steplake_llvm.h"

#include "llvm/IR/Function.h"
#include "llvm/IR/Instruction.h"

#include <array>
#include <cstdint>

namespace steplake {

/// The counts of one function; those of a module are the sums.
struct FunctionCounts {
  std::array<uint32_t, llvm::Instruction::OtherOpsEnd> Opcodes = {};
  /// Counts by their positions in Autophase; those that follow from the opcodes are 0.
  std::array<uint32_t, SteplakeAutophaseSize> Counts = {};

  explicit FunctionCounts(const llvm::Function &F);
};

} // namespace steplake
