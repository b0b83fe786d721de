/// Telling whether a pass changed a module, without writing it.
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

/// A hash over a function's content (identities of instructions, operands, types, attributes,
/// metadata and every field that is none of these) and one over the order of its local use-lists.
struct FunctionPrint {
  const llvm::Function *Function = nullptr;
  uint64_t Content = 0;
  uint64_t Order = 0;
  uint64_t Instructions = 0;
  /// Some attribute of it or of its calls gives an alignment.
  bool HasAlignment = false;
  /// Where its part of `Fingerprint::Shared` ends; it begins where that of the function before
  /// ends.
  size_t SharedEnd = 0;
};

/// Hashes of things that belong to the context, by their addresses. They can be rewritten in place,
/// and one can die and leave its address to another: while address and users stay, the content is
/// another.
template <typename T> class InPlace {
  llvm::DenseMap<const T *, uint64_t> Hashes;
  uint64_t Sum = 0;

public:
  void clear() {
    Hashes.clear();
    Sum = 0;
  }
  /// Takes in one more piece of what there is to say of a thing. True: it is the first.
  bool add(const T &Thing, uint64_t Hash) {
    auto [Known, Fresh] = Hashes.try_emplace(&Thing, 0);
    Known->second += Hash;
    Sum += Hash;
    return Fresh;
  }
  bool operator==(const InPlace &Other) const {
    return Sum == Other.Sum && Hashes.size() == Other.Hashes.size();
  }
  /// Calls `Visit(Thing, WasThere)` for everything that is not as it is in `Before`, in any order.
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

/// A module's fingerprint. It rests on addresses: two are comparable only if they were taken of the
/// same module object, within one process.
struct Fingerprint {
  /// Globals, aliases, module-level metadata and text.
  uint64_t Content = 0;
  /// The names of types. They belong to the context.
  uint64_t TypeNames = 0;
  /// The constants that use globals or blocks, whatever their order.
  InPlace<llvm::Constant> Constants;
  /// Those of them that are arrays, structures or vectors.
  std::vector<const llvm::Constant *> Aggregates;
  /// The metadata nodes that are attached, and those that they lead to.
  InPlace<llvm::MDNode> Nodes;
  /// The blocks whose address is taken.
  std::vector<const llvm::BasicBlock *> AddressTaken;
  /// The order of the use-lists of globals, and of constants that use globals.
  uint64_t Order = 0;
  std::vector<FunctionPrint> Functions;
  /// The uses that instructions make of values that belong to no function, function by function, in
  /// order.
  std::vector<llvm::Use *> Shared;

  /// Those of the function at `Index`.
  llvm::ArrayRef<llvm::Use *> shared(size_t Index) const {
    size_t Begin = Index == 0 ? 0 : Functions[Index - 1].SharedEnd;
    return llvm::ArrayRef(Shared).slice(Begin,
                                        Functions[Index].SharedEnd - Begin);
  }
  uint64_t instructions() const;
};

/// The named types that a module has been seen to use. They belong to the context, where a pass can
/// rename them without touching the module.
class KnownTypes {
  llvm::DenseSet<const llvm::Type *> Seen;
  std::vector<const llvm::StructType *> Named;

public:
  /// Takes in a type and all that it is made of.
  void add(const llvm::Type *T) {
    // Structures can have a name and no parts.
    bool MayBeNamed = T->getNumContainedTypes() != 0 || T->isStructTy();
    if (MayBeNamed && Seen.insert(T).second)
      addParts(T);
  }
  const std::vector<const llvm::StructType *> &named() const { return Named; }

private:
  void addParts(const llvm::Type *T);
};

/// What differs between two fingerprints.
struct Difference {
  /// Globals or module-level content.
  bool Module = false;
  /// Names of types, nodes of metadata that were rewritten in place, or aggregates that use globals
  /// no more: it is not known who mentions them.
  bool Everywhere = false;
  /// Metadata nodes: some are gone, new, or rewritten.
  bool Nodes = false;
  /// The list of functions: some are gone, new, or in another place.
  bool List = false;
  /// The order of the use-list of some global.
  bool Order = false;
  /// Functions with other content, or new ones, or such as use a constant that is another now.
  llvm::SmallVector<llvm::Function *, 8> Functions;
  /// Those of them that have attributes which give alignments.
  llvm::SmallVector<llvm::Function *, 8> Aligned;
  /// Functions whose local use-lists may be out of order: those, and those where nothing but the
  /// order is another.
  llvm::SmallPtrSet<const llvm::Function *, 8> Unordered;

  bool order() const { return Order || !Unordered.empty(); }
  bool content() const {
    return Module || Everywhere || List || !Functions.empty();
  }
};

/// A hash over the names of types.
uint64_t hashTypeNames(const KnownTypes &Types);

/// Takes the fingerprint of `M` into `Print`, whose storage is used again, and the types of `M`
/// into `Types`.
void takeFingerprint(llvm::Module &M, KnownTypes &Types, Fingerprint &Print);

/// Takes the part of the fingerprint that use-lists tell anew: all of the module's, and those of
/// the functions that were out of order.
void takeOrder(llvm::Module &M, const Difference &Changed, Fingerprint &Print);

/// Compares the fingerprints of `M` before and after.
void compare(llvm::Module &M, const Fingerprint &Before,
             const Fingerprint &After, Difference &Result);

} // namespace steplake
