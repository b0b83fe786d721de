/// Naming a module by its content, function by function.
///
/// The name of a state (see `ContentIds::summary`) is made of hashes that depend on no address, so
/// that equal modules have equal names in every process, and of which only those of changed
/// functions are taken anew. It says exactly what canonical bitcode says, without writing it.
#pragma once

#include "feature_counts.h"
#include "fingerprint.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/PointerUnion.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/IR/Attributes.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/DerivedTypes.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/xxhash.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace steplake {

using Hash128 = llvm::XXH128_hash_t;

/// A thing that a part of a module mentions and that other parts may mention too, so that its
/// identity is settled for the whole module: a global, a block whose address is taken, a distinct
/// metadata node, a structure without a name that is no literal.
using Shared = llvm::PointerUnion<const llvm::GlobalValue *,
                                  const llvm::BasicBlock *,
                                  const llvm::MDNode *, const llvm::StructType *>;

/// A function, or what belongs to none, by itself: what it mentions is numbered in the order of
/// mention.
struct PartContent {
  Hash128 Hash = {0, 0};
  std::vector<Shared> Mentions;
  /// It has something that is not hashed here: debug info.
  bool NeedsBitcode = false;
};

/// Hashes of what belongs to the context, stays as it is while the context lives, and mentions
/// nothing that is shared.
struct KnownContent {
  /// Takes in the types that are mentioned: the fingerprint tells when one gets another name.
  KnownTypes &Named;
  explicit KnownContent(KnownTypes &Named) : Named(Named) {}
  llvm::DenseMap<const llvm::Type *, Hash128> Types;
  llvm::DenseMap<const void *, Hash128> Attributes;
  llvm::DenseMap<const llvm::Constant *, Hash128> Constants;
  llvm::DenseMap<const llvm::Metadata *, Hash128> Metadata;

  void clear();
};

/// The content of a module, kept from step to step.
class ContentIds {
  KnownContent Known;
  llvm::DenseMap<const llvm::Function *, std::unique_ptr<PartContent>> Functions;
  /// Those of functions that were asked for.
  llvm::DenseMap<const llvm::Function *, std::unique_ptr<FunctionCounts>> Counts;
  std::optional<PartContent> Rest;

public:
  explicit ContentIds(KnownTypes &Named) : Known(Named) {}

  /// Forgets everything.
  void forget();
  /// Forgets the hashes of metadata. What is attached nowhere can be rewritten unseen.
  void forgetMetadata() { Known.Metadata.clear(); }
  /// Forgets what was found out about a function.
  void forget(const llvm::Function &F) {
    Functions.erase(&F);
    Counts.erase(&F);
  }
  /// Forgets what was found out about that which belongs to no function.
  void forgetRest() { Rest.reset(); }

  /// Writes the text whose SHA-1 names the state to `Out`. Block numbers must be canonical. False:
  /// the module holds something that has no hash here; its bitcode names it.
  bool summary(llvm::Module &M, llvm::SmallVectorImpl<char> &Out);

  /// What features count in a function of a canonical module.
  const FunctionCounts &counts(const llvm::Function &F);

private:
  void hashParts(llvm::Module &M);
};

} // namespace steplake
