/// Tells whether a pass changed a module, without writing it.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/IR/DerivedTypes.h"
#include "llvm/IR/Module.h"

#include <cstdint>
#include <vector>

namespace steplake {

/// One hash of a function's content (identities of instructions, operands, types, attributes and
/// metadata, and all other fields) and one of the order of its local use-lists.
struct FunctionPrint {
  const llvm::Function *Function = nullptr;
  uint64_t Content = 0;
  uint64_t Order = 0;
  uint64_t Instructions = 0;
  /// Whether an attribute of the function or of one of its calls gives an alignment.
  bool HasAlignment = false;
  /// The end of the function's part of `Fingerprint::Shared`, which begins where the previous
  /// function's part ends.
  size_t SharedEnd = 0;
};

/// Hashes of things that belong to the context, by address. Such a thing can be rewritten in place,
/// or die and leave its address to another. Then its content changes while address and users stay.
template <typename T> class InPlace {
  llvm::DenseMap<const T *, uint64_t> Hashes;
  uint64_t Sum = 0;

public:
  void clear() {
    Hashes.clear();
    Sum = 0;
  }
  /// Adds the hash of one more part of a thing. Returns true if it is the first.
  bool add(const T &Thing, uint64_t Hash) {
    auto [Known, Fresh] = Hashes.try_emplace(&Thing, 0);
    Known->second += Hash;
    Sum += Hash;
    return Fresh;
  }
  bool operator==(const InPlace &Other) const {
    return Sum == Other.Sum && Hashes.size() == Other.Hashes.size();
  }
  /// Calls `Visit(Thing, WasThere)` for everything that is not the same in `Before`, in any order.
  template <typename F> void forEachNew(const InPlace &Before, F Visit) const {
    if (*this == Before)
      return;
    for (auto &[Thing, Hash] : Hashes) {
      auto Known = Before.Hashes.find(Thing);
      bool WasThere = Known != Before.Hashes.end();
      if (!WasThere || Known->second != Hash)
        Visit(*Thing, WasThere);
    }
  }
  bool contains(const T *Thing) const { return Hashes.contains(Thing); }
};

/// A module's fingerprint. It rests on addresses: two fingerprints are comparable only if they were
/// taken of the same module object, in one process.
struct Fingerprint {
  /// Globals, aliases, module-level metadata and text.
  uint64_t Content = 0;
  /// The names of types, which belong to the context.
  uint64_t TypeNames = 0;
  /// The constants that use globals or blocks, in any order.
  InPlace<llvm::Constant> Constants;
  /// The arrays, structures and vectors among `Constants`.
  std::vector<const llvm::Constant *> Aggregates;
  /// The metadata nodes that are attached, and those that they lead to.
  InPlace<llvm::MDNode> Nodes;
  /// The blocks whose address is taken.
  std::vector<const llvm::BasicBlock *> AddressTaken;
  /// The order of the use-lists of globals, and of constants that use globals.
  uint64_t Order = 0;
  std::vector<FunctionPrint> Functions;
  /// The uses by instructions of values that belong to no function, function by function, in order.
  std::vector<llvm::Use *> Shared;

  /// Returns the part of `Shared` of the function at `Index`.
  llvm::ArrayRef<llvm::Use *> shared(size_t Index) const {
    size_t Begin = Index == 0 ? 0 : Functions[Index - 1].SharedEnd;
    return llvm::ArrayRef(Shared).slice(Begin,
                                        Functions[Index].SharedEnd - Begin);
  }
  uint64_t instructions() const;
};

/// The named types that a module has used so far. They belong to the context, where a pass can
/// rename them without touching the module.
class KnownTypes {
  llvm::DenseSet<const llvm::Type *> Seen;
  std::vector<const llvm::StructType *> Named;

public:
  /// Adds a type and all that it is made of.
  void add(const llvm::Type *T) {
    // A structure can have a name and no parts.
    bool MayBeNamed = T->getNumContainedTypes() != 0 || T->isStructTy();
    if (MayBeNamed && Seen.insert(T).second)
      addParts(T);
  }
  const std::vector<const llvm::StructType *> &named() const { return Named; }

private:
  void addParts(const llvm::Type *T);
};

/// The difference between two fingerprints.
struct Difference {
  /// Whether globals or module-level content changed.
  bool Module = false;
  /// Whether something changed whose users are unknown: the name of a type, a metadata node
  /// rewritten in place, a constant that metadata wraps, or an aggregate that no longer uses
  /// globals.
  bool Everywhere = false;
  /// Whether metadata nodes are gone, new, or rewritten.
  bool Nodes = false;
  /// Whether functions are gone, new, or in another place.
  bool List = false;
  /// Whether a use-list of a global, or of a constant that uses globals, is in another order.
  bool Order = false;
  /// Functions that are new, have other content, or use a constant that changed.
  llvm::SmallVector<llvm::Function *, 8> Functions;
  /// Those of `Functions` with attributes that give alignments.
  llvm::SmallVector<llvm::Function *, 8> Aligned;
  /// Functions whose local use-lists may be out of order: `Functions`, and those in which only the
  /// order changed.
  llvm::SmallPtrSet<const llvm::Function *, 8> Unordered;

  bool order() const { return Order || !Unordered.empty(); }
  bool content() const {
    return Module || Everywhere || List || !Functions.empty();
  }
};

/// Returns a hash of the names of types.
uint64_t hashTypeNames(const KnownTypes &Types);

/// Takes the fingerprint of `M` into `Print`, reusing its storage, and adds the types of `M` to
/// `Types`.
void takeFingerprint(llvm::Module &M, KnownTypes &Types, Fingerprint &Print);

/// Takes the parts of the fingerprint that depend on use-lists again: the module's, and those of
/// the functions that were out of order.
void takeOrder(llvm::Module &M, const Difference &Changed, Fingerprint &Print);

/// Compares the fingerprints of `M` before and after a run.
void compare(llvm::Module &M, const Fingerprint &Before,
             const Fingerprint &After, Difference &Result);

} // namespace steplake
