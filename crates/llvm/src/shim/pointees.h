/// What pointers point to: the types that LLVM before opaque pointers wrote into its text.
#pragma once

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/Operator.h"

#include <memory>
#include <string>
#include <vector>

namespace steplake {

/// Finds a pointee for each pointer of a module, from the types of what is loaded, stored, allocated
/// and indexed. Pointers that hold the same values (by `phi`, by memory, by calls) have one pointee.
///
/// It is a guess where the program uses a pointer in several ways: an aggregate is preferred to a
/// number, and anything to `i8`, which is also the pointee of pointers that nothing is known of.
class Pointees {
public:
  explicit Pointees(const llvm::Module &M);

  /// The type of a value, with typed pointers.
  std::string typeOf(const llvm::Value &V, unsigned Depth = 0);
  /// The type `T` of what the pointer `P` points to when it is used with that type.
  std::string pointedTo(llvm::Type &T, const llvm::Value &P);
  /// The type of a function. Pointers of functions without a body are `i8*`.
  std::string signature(const llvm::Function &F, unsigned Depth = 0);
  /// The type that a function returns.
  std::string returned(const llvm::Function &F, unsigned Depth = 0);
  /// A type of which nothing else is known.
  std::string spell(llvm::Type &T);
  std::string fieldType(llvm::StructType &T, unsigned Field);
  /// The definition of a struct that has a name.
  std::string body(llvm::StructType &T);

private:
  /// Pointers that hold the same values. Nodes are joined, so each is found by its `Parent`.
  struct Node {
    Node *Parent = nullptr;
    /// What is held by the memory that the pointers point to, if it is pointers.
    Node *Content = nullptr;
    /// A function that the pointers point to, or else a call of one.
    const llvm::Value *Called = nullptr;
    /// Whether its pointee is being spelled: a type that holds itself has no finite text.
    bool IsOpen = false;
    /// How often the memory is used with each type, in the order of the uses.
    llvm::MapVector<llvm::Type *, unsigned> Votes;
  };

  Node *make();
  static Node *find(Node *N);
  Node *nodeOf(const llvm::Value &V);
  Node *returnOf(const llvm::Function &F);
  Node *fieldOf(llvm::StructType &T, unsigned Field);
  Node *contentOf(Node *N);
  void unify(Node *A, Node *B);
  void vote(Node *N, llvm::Type *T);
  void called(Node *N, const llvm::Value &By);
  void flow(const llvm::Value &V, Node *To);
  void readInitializer(const llvm::Constant &C, Node *Held);
  void read(const llvm::Instruction &I);
  void readCall(const llvm::CallBase &Call);
  void readIndices(const llvm::GEPOperator &G);
  llvm::Type *pointee(Node *N);
  std::string spell(llvm::Type &T, Node *N, unsigned Depth);
  std::string spellPointer(Node *N, unsigned Depth);
  std::string spellCalled(const llvm::Value &Called, unsigned Depth);

  std::vector<std::unique_ptr<Node>> Nodes;
  llvm::DenseMap<const llvm::Value *, Node *> OfValues;
  llvm::DenseMap<const llvm::Function *, Node *> OfReturns;
  llvm::DenseMap<std::pair<llvm::StructType *, unsigned>, Node *> OfFields;
};

} // namespace steplake
