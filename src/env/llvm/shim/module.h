/// What stands behind the handles, for the shim's own files.
#pragma once

#include "content.h"
#include "fingerprint.h"
#include "steplake_llvm.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/IR/Attributes.h"
#include "llvm/IR/Module.h"

#include <memory>
#include <string>

namespace steplake {

/// What runs have changed since the verifier last looked.
struct Unverified {
  /// All of the module, for want of knowing better.
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
  /// Of the canonical form that the module was in last.
  steplake::Fingerprint Print;
  /// Of the module after the last run. Between steps nothing reads it; kept for its storage.
  steplake::Fingerprint Next;
  /// What differs between the two. Set by a run that changed something.
  steplake::Difference Changes;
  /// What has changed since the verifier looked at it.
  steplake::Unverified Unverified;
  steplake::ContentIds Ids{Types};
  /// The attributes that declarations of intrinsics have after a read.
  llvm::DenseMap<std::pair<unsigned, llvm::FunctionType *>, llvm::AttributeList>
      IntrinsicAttributes;
  /// What was written last: storage, for nothing says whether the module is still like that.
  llvm::SmallVector<char, 0> Bitcode;
  /// The text that names the state.
  llvm::SmallVector<char, 0> Summary;
  std::string Text;
};

namespace steplake {

/// Gives the declarations of intrinsics the attributes that reading bitcode gives them. Passes may
/// infer more; that would be lost on the next read.
void canonicaliseIntrinsics(SteplakeModule &Module);

/// Destroys constants that nothing uses any more. They live on in the context, as users of the
/// globals that they mention.
void dropDeadConstants(llvm::Module &M);

/// Puts every use-list into an order that follows from the module's content: ascending by the place
/// of the user. Optimisers see use-lists, and bitcode does not hold their order. Dead constants
/// must be gone: they are users too.
void canonicaliseUseLists(llvm::Module &M);

/// The same for a module that was canonical before `Changed` came about, and whose content `Print`
/// is of.
void canonicaliseUseLists(llvm::Module &M, const Difference &Changed,
                          const Fingerprint &Print);

/// Drops attributes of `F` and of its calls that bitcode can hold but its reader does not take:
/// alignments of 2^32, which inference arrives at for unreachable code. True if there were any.
bool dropUnreadable(llvm::Function &F);

/// Starts the numbers that LLVM appends to clashing global names from 1 again, as after a read.
void resetUniqueNames(llvm::Module &M);

/// Registers a fixed list of metadata kinds and bundle tags: bitcode lists every registered one, so
/// a pass that registers its own on first use would make equal modules differ.
void registerFixedNames(llvm::LLVMContext &Context);

} // namespace steplake
