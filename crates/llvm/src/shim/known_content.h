/// Hashes of what belongs to a context, and the words that are hashed.
#pragma once

#include "content.h"

#include "llvm/ADT/APInt.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/IR/Metadata.h"
#include "llvm/Support/Alignment.h"

namespace steplake {

/// The input of a hash. Whatever has no fixed length begins with its length.
using Words = llvm::SmallVector<uint32_t, 0>;

Digest hashOf(llvm::ArrayRef<uint32_t> Content);
void addHash(Words &Out, const Digest &Hash);
/// Adds the length of a text in bytes, and the text, filled up with zeros to a whole word.
void addText(Words &Out, llvm::StringRef Text);
/// Adds a number by its width in bits and its words.
void addNumber(Words &Out, const llvm::APInt &Number);
void addAlignment(Words &Out, llvm::MaybeAlign Alignment);

/// Adds all of a type but the types that it is made of.
void addTypeFields(Words &Out, const llvm::Type *T);
/// Returns whether only its place distinguishes a structure from another of equal content.
bool isNameless(const llvm::Type *T);
/// Adds all of an attribute but the type that it may have.
void addAttributeFields(Words &Out, llvm::Attribute A);
/// Returns the type of an attribute; null if it has none.
const llvm::Type *typeOf(llvm::Attribute A);
/// Adds all of a constant but its type, its operands, and what an expression has of its own.
void addConstantFields(Words &Out, const llvm::Constant &C);

/// Computes the hashes of `KnownContent`. Returns none for what mentions something shared, or can
/// die and leave its address to another.
class KnownHasher {
  KnownContent &Known;
  /// Nodes under way: even nodes that are not distinct can lead back to themselves.
  llvm::SmallPtrSet<const llvm::MDNode *, 8> Open;

public:
  explicit KnownHasher(KnownContent &Known) : Known(Known) {}

  std::optional<Digest> type(const llvm::Type *T);
  std::optional<Digest> attributes(const llvm::AttributeList &List);
  std::optional<Digest> constant(const llvm::Constant &C);
  std::optional<Digest> metadata(const llvm::Metadata &MD);

private:
  bool addOperands(Words &Out, const llvm::MDTuple &Node);
};

} // namespace steplake
