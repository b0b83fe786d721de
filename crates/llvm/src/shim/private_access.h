/// Opens three private members of LLVM's classes that have no complete public accessor.
///
/// The standard itself allows it: access is not checked in an explicit instantiation
/// ([temp.spec.general]), which can hand out a member pointer. If LLVM renames a member, this file
/// stops compiling, and nothing breaks silently.
#pragma once

#include "llvm/IR/Instruction.h"
#include "llvm/IR/Value.h"
#include "llvm/IR/ValueSymbolTable.h"

#include <cstdint>

namespace steplake {

template <typename Tag, typename Tag::Member Pointer> struct Expose {
  friend typename Tag::Member expose(Tag) { return Pointer; }
};

struct SubclassDataOf {
  using Member = unsigned short llvm::Value::*;
  friend Member expose(SubclassDataOf);
};
template struct Expose<SubclassDataOf, &llvm::Value::SubclassData>;

struct LastUniqueOf {
  using Member = uint32_t llvm::ValueSymbolTable::*;
  friend Member expose(LastUniqueOf);
};
template struct Expose<LastUniqueOf, &llvm::ValueSymbolTable::LastUnique>;

struct OrderOf {
  using Member = unsigned llvm::Instruction::*;
  friend Member expose(OrderOf);
};
template struct Expose<OrderOf, &llvm::Instruction::Order>;

/// Returns the sixteen bits in which an instruction keeps its own fields: alignment, volatility,
/// atomic ordering, predicate, calling convention, tail call kind, read-modify-write operation,
/// clean-up flag and so on. Read as a whole, no field can be forgotten.
inline unsigned subclassData(const llvm::Value &V) {
  return V.*expose(SubclassDataOf{});
}

/// Returns the number that was last appended to a clashing name.
inline uint32_t &lastUnique(llvm::ValueSymbolTable &Table) {
  return Table.*expose(LastUniqueOf{});
}

/// Returns the place of an instruction in its block; `BasicBlock::renumberInstructions` updates it.
inline unsigned orderInBlock(const llvm::Instruction &I) {
  return I.*expose(OrderOf{});
}

} // namespace steplake
