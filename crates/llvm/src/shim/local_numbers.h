/// Numbers the values that a function owns.
#pragma once

#include "private_access.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/IR/Function.h"
#include "llvm/IR/Instruction.h"

#include <cstdint>
#include <optional>

namespace steplake {

/// The numbers of a function's own values: first its arguments, then block by block the block and
/// its instructions.
class LocalNumbers {
  const llvm::Function *Owner = nullptr;
  llvm::SmallVector<uint32_t, 0> Blocks;

public:
  /// Numbers the values of `F`, whose block numbers must be canonical, and returns their count.
  /// LLVM itself numbers instructions within their blocks, which saves a table.
  uint32_t take(llvm::Function &F) {
    Owner = &F;
    Blocks.resize(F.getMaxBlockNumber());
    uint32_t Next = F.arg_size();
    for (llvm::BasicBlock &B : F) {
      Blocks[B.getNumber()] = Next;
      B.renumberInstructions();
      Next += 1 + instructions(B);
    }
    return Next;
  }

  /// Returns the number of instructions in a numbered block.
  static uint32_t instructions(const llvm::BasicBlock &B) {
    return B.empty() ? 0 : 1 + orderInBlock(B.back());
  }

  /// Returns the number of a value; none if the function does not own it.
  std::optional<uint32_t> of(const llvm::Value &V) const {
    if (auto *I = llvm::dyn_cast<llvm::Instruction>(&V)) {
      const llvm::BasicBlock *B = I->getParent();
      if (!B || B->getParent() != Owner)
        return std::nullopt;
      return Blocks[B->getNumber()] + 1 + orderInBlock(*I);
    }
    if (auto *A = llvm::dyn_cast<llvm::Argument>(&V)) {
      if (A->getParent() == Owner)
        return A->getArgNo();
    } else if (auto *B = llvm::dyn_cast<llvm::BasicBlock>(&V)) {
      if (Owner && B->getParent() == Owner)
        return Blocks[B->getNumber()];
    }
    return std::nullopt;
  }
};

} // namespace steplake
