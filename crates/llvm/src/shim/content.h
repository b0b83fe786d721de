/// Names a module by its content, function by function.
///
/// The name of a state (see `ContentIds::summary`) is made of hashes that depend on no address. So
/// equal modules have equal names in every process, and only the hashes of changed functions are
/// taken anew. The name says exactly what canonical bitcode says, without writing it.
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

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace steplake {

/// The first 20 bytes of a BLAKE3 hash, as many as a state's id has.
using Digest = std::array<uint32_t, 5>;

/// A thing that several parts of a module may mention, so that its identity is settled for the
/// whole module: a global, a block whose address is taken, a distinct metadata node, or a structure
/// type that is neither named nor literal.
using Shared = llvm::PointerUnion<const llvm::GlobalValue *,
                                  const llvm::BasicBlock *,
                                  const llvm::MDNode *, const llvm::StructType *>;

/// One function, or everything outside functions, by itself. What it mentions is numbered in the
/// order of mention.
struct PartContent {
  Digest Hash = {};
  std::vector<Shared> Mentions;
  /// Whether it has something that is not hashed here: debug info.
  bool NeedsBitcode = false;
};

/// Hashes of things that belong to the context, stay the same while it lives, and mention nothing
/// shared.
struct KnownContent {
  /// Collects the mentioned types: the fingerprint shows when one is renamed.
  KnownTypes &Named;
  explicit KnownContent(KnownTypes &Named) : Named(Named) {}
  llvm::DenseMap<const llvm::Type *, Digest> Types;
  llvm::DenseMap<const void *, Digest> Attributes;
  llvm::DenseMap<const llvm::Constant *, Digest> Constants;
  llvm::DenseMap<const llvm::Metadata *, Digest> Metadata;

  void clear();
};

/// The content of a module, kept from step to step.
class ContentIds {
  KnownContent Known;
  llvm::DenseMap<const llvm::Function *, std::unique_ptr<PartContent>> Functions;
  /// The feature counts that were asked for.
  llvm::DenseMap<const llvm::Function *, std::unique_ptr<FunctionCounts>> Counts;
  std::optional<PartContent> Rest;

public:
  explicit ContentIds(KnownTypes &Named) : Known(Named) {}

  /// Forgets everything.
  void forget();
  /// Forgets the hashes of metadata. Nodes that are attached nowhere can be rewritten unseen.
  void forgetMetadata() { Known.Metadata.clear(); }
  /// Forgets what is known about a function.
  void forget(const llvm::Function &F) {
    Functions.erase(&F);
    Counts.erase(&F);
  }
  /// Forgets what is known about everything outside functions.
  void forgetRest() { Rest.reset(); }

  /// Writes the text whose BLAKE3 hash names the state to `Out`. Block numbers must be canonical.
  /// Returns false if the module holds something that has no hash here; then its bitcode names it.
  bool summary(llvm::Module &M, llvm::SmallVectorImpl<char> &Out);

  /// Returns the feature counts of a function in a canonical module.
  const FunctionCounts &counts(const llvm::Function &F);

private:
  void hashParts(llvm::Module &M);
};

} // namespace steplake
