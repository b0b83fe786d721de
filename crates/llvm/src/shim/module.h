/// The structures behind the handles, for the shim's own files.
#pragma once

#include "content.h"
#include "fingerprint.h"
#include "program_graph.h"
#include "steplake_llvm.h"
#include "tokens.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/IR/Attributes.h"
#include "llvm/IR/Module.h"

#include <memory>
#include <string>

namespace steplake {

/// What runs have changed since the last verification.
struct Unverified {
  /// Whether to verify the whole module, because nothing narrower is known.
  bool Module = false;
  llvm::SmallPtrSet<const llvm::Function *, 8> Functions;

  void add(const Difference &Changes);
};

} // namespace steplake

struct SteplakeModule {
  explicit SteplakeModule(llvm::LLVMContext &Context) : Context(Context) {}

  llvm::LLVMContext &Context;
  std::unique_ptr<llvm::Module> IR;
  /// Why the last call failed.
  std::string Message;
  steplake::KnownTypes Types;
  /// The fingerprint of the last canonical form.
  steplake::Fingerprint Print;
  /// The fingerprint after the last run. Nothing reads it between steps; it is kept for its
  /// storage.
  steplake::Fingerprint Next;
  /// The difference between the two, as of the last run.
  steplake::Difference Changes;
  /// What has changed since the last verification.
  steplake::Unverified Unverified;
  steplake::ContentIds Ids{Types};
  /// The attributes that declarations of intrinsics have after a read.
  llvm::DenseMap<std::pair<unsigned, llvm::FunctionType *>, llvm::AttributeList>
      IntrinsicAttributes;
  /// The storage of the last written bitcode. The module may have changed since.
  llvm::SmallVector<char, 0> Bitcode;
  /// The text that names the state.
  llvm::SmallVector<char, 0> Summary;
  std::string Text;
  /// The storage of the last graph.
  steplake::ProgramGraph Graph;
  /// The storage of the last tokens.
  steplake::Tokens Tokens;
};

namespace steplake {

/// Gives declarations of intrinsics the attributes that reading bitcode gives them. Passes may
/// infer more, which the next read would lose.
void canonicaliseIntrinsics(SteplakeModule &Module);

/// Destroys constants that nothing uses. They would live on in the context as users of the globals
/// and the blocks that they mention, which no bitcode tells.
void dropDeadConstants(llvm::Module &M);

/// Numbers the blocks of each function by their places, and orders the entries of phi nodes by
/// these numbers. Passes leave entries in the order in which they met the predecessors, which can
/// be that of a hash table of addresses, and other passes see it. Changes use-lists.
void canonicalisePhis(llvm::Module &M);

/// Puts every use-list into an order that follows from the module's content: ascending by the
/// user's place. Optimisers see the order of use-lists, and bitcode does not hold it. Dead
/// constants must be gone, since they are users too.
void canonicaliseUseLists(llvm::Module &M);

/// The same, for a module that was canonical before `Changed`; `Print` is of its present content.
void canonicaliseUseLists(llvm::Module &M, const Difference &Changed,
                          const Fingerprint &Print);

/// Drops attributes of `F` and of its calls that bitcode can hold but its reader rejects:
/// alignments of 2^32, which inference yields in unreachable code. Returns whether there were any.
bool dropUnreadable(llvm::Function &F);

/// Restarts the numbers that LLVM appends to clashing global names from 1, as after a read.
void resetUniqueNames(llvm::Module &M);

/// Registers a fixed list of metadata kinds and bundle tags. Bitcode lists every registered name,
/// so a pass that registered its own on first use would make equal modules differ.
void registerFixedNames(llvm::LLVMContext &Context);

} // namespace steplake
