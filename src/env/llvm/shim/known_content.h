/// Hashes of what belongs to a context, and the words that hashes are taken of.
#pragma once

#include "content.h"

#include "llvm/ADT/APInt.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/IR/Metadata.h"
#include "llvm/Support/Alignment.h"

namespace steplake {

/// What a hash is taken of. Whatever has no fixed length begins with its length.
using Words = llvm::SmallVector<uint32_t, 0>;

Hash128 hashOf(llvm::ArrayRef<uint32_t> Content);
void addWide(Words &Out, uint64_t Word);
void addHash(Words &Out, Hash128 Hash);
/// Texts stand by their length and their hash.
void addText(Words &Out, llvm::StringRef Text);
void addAlignment(Words &Out, llvm::MaybeAlign Alignment);

/// What a type is but for the types that it is made of.
void addTypeFields(Words &Out, const llvm::Type *T);
/// A structure that nothing but its place tells from another of equal content.
bool isNameless(const llvm::Type *T);
/// What an attribute is but for the type that it may have.
void addAttributeFields(Words &Out, llvm::Attribute A);
/// The type of an attribute that has one.
const llvm::Type *typeOf(llvm::Attribute A);
/// What a constant is but for its operands and types.
void addConstantFields(Words &Out, const llvm::Constant &C);
/// The type that a constant mentions beside its own.
const llvm::Type *sourceType(const llvm::Constant &C);

/// Finds out the hashes of `KnownContent`. Each gives none for what mentions something that is
/// shared, or can die and leave its address to another.
class KnownHasher {
  KnownContent &Known;
  /// Nodes under way: those that are not distinct can lead back to themselves as well.
  llvm::SmallPtrSet<const llvm::MDNode *, 8> Open;

public:
  explicit KnownHasher(KnownContent &Known) : Known(Known) {}

  std::optional<Hash128> type(const llvm::Type *T);
  std::optional<Hash128> attributes(const llvm::AttributeList &List);
  std::optional<Hash128> constant(const llvm::Constant &C);
  std::optional<Hash128> metadata(const llvm::Metadata &MD);

private:
  bool addOperands(Words &Out, const llvm::MDTuple &Node);
};

} // namespace steplake
