#include "module.h"
#include "private_access.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/Intrinsics.h"
#include "llvm/IR/LLVMContext.h"

using namespace llvm;

namespace steplake {

/// Version 1 of the list: the kinds that LLVM 22's transform passes and clang register by name. The
/// list is part of every state's bitcode, so adding or moving a name changes every state.
static const char *const MetadataKinds[] = {
    "loop_constrainer.loop.clone", // irce
    "is_base_value",               // rewrite-statepoints-for-gc
    "sandboxvec",                  // sandbox-vectorizer
    "sandboxaux",                  // sandbox-vectorizer
    "structurizecfg.uniform",      // structurizecfg
    "srcloc",                      // inline assembly, clang
    "heapallocsite",               // clang
};

/// Version 1 of the list: the bundle tags of assume-builder and assume-simplify. It is part of
/// every state's bitcode too.
static const char *const BundleTags[] = {
    "align",   "cold",    "dereferenceable", "dereferenceable_or_null",
    "ignore",  "nonnull", "noundef",         "separate_storage",
};

void registerFixedNames(LLVMContext &Context) {
  for (const char *Kind : MetadataKinds)
    Context.getMDKindID(Kind);
  for (const char *Tag : BundleTags)
    Context.getOrInsertBundleTag(Tag);
}

void canonicaliseIntrinsics(SteplakeModule &Module) {
  for (Function &F : *Module.IR) {
    Intrinsic::ID ID = F.getIntrinsicID();
    if (ID == Intrinsic::not_intrinsic)
      continue;
    FunctionType *Type = F.getFunctionType();
    auto [Known, Fresh] = Module.IntrinsicAttributes.try_emplace({ID, Type});
    if (Fresh)
      Known->second = Intrinsic::getAttributes(F.getContext(), ID, Type);
    if (F.getAttributes() != Known->second)
      F.setAttributes(Known->second);
  }
}

/// Returns the list without alignments of 2^32.
static AttributeList readable(LLVMContext &Context, AttributeList List) {
  for (unsigned Index : List.indexes()) {
    MaybeAlign Alignment = List.getAttributes(Index).getAlignment();
    if (Alignment && Alignment->value() >= Value::MaximumAlignment)
      List = List.removeAttributeAtIndex(Context, Index, Attribute::Alignment);
  }
  return List;
}

bool dropUnreadable(Function &F) {
  bool Dropped = false;
  auto Drop = [&](auto &Holder) {
    AttributeList Before = Holder.getAttributes();
    if (!Before.hasAttrSomewhere(Attribute::Alignment))
      return;
    AttributeList After = readable(F.getContext(), Before);
    if (Before == After)
      return;
    Holder.setAttributes(After);
    Dropped = true;
  };
  Drop(F);
  for (Instruction &I : instructions(F))
    if (auto *Call = dyn_cast<CallBase>(&I))
      Drop(*Call);
  return Dropped;
}

/// Destroys the address of a block if nothing uses it. No global that it mentions would tell.
static void dropDeadAddress(BasicBlock &B) {
  BlockAddress *Address = BlockAddress::lookup(&B);
  if (!Address)
    return;
  Address->removeDeadConstantUsers();
  if (Address->use_empty())
    Address->destroyConstant();
}

void dropDeadConstants(Module &M) {
  for (GlobalValue &G : M.global_values())
    G.removeDeadConstantUsers();
  for (Function &F : M)
    for (BasicBlock &B : F)
      if (B.hasAddressTaken())
        dropDeadAddress(B);
}

void resetUniqueNames(Module &M) { lastUnique(M.getValueSymbolTable()) = 0; }

/// Numbers the blocks of `F` by their places, counted from 0.
static void numberBlocks(Function &F) {
  unsigned Place = 0;
  for (const BasicBlock &B : F)
    if (B.getNumber() != Place++)
      return F.renumberBlocks();
  if (F.getMaxBlockNumber() != Place)
    F.renumberBlocks();
}

/// Orders the entries of a phi node by the numbers of their blocks. Entries of one block are equal.
static void orderEntries(PHINode &Phi) {
  auto Number = [](const BasicBlock *B) { return B->getNumber(); };
  auto IsBefore = [&](const BasicBlock *A, const BasicBlock *B) { return Number(A) < Number(B); };
  if (is_sorted(Phi.blocks(), IsBefore))
    return;
  SmallVector<std::pair<BasicBlock *, Value *>, 8> Entries;
  for (unsigned I = 0; I < Phi.getNumIncomingValues(); ++I)
    Entries.push_back({Phi.getIncomingBlock(I), Phi.getIncomingValue(I)});
  stable_sort(Entries, [&](auto &A, auto &B) { return IsBefore(A.first, B.first); });
  for (auto [I, Entry] : enumerate(Entries)) {
    Phi.setIncomingBlock(I, Entry.first);
    Phi.setIncomingValue(I, Entry.second);
  }
}

void canonicalisePhis(Module &M) {
  for (Function &F : M) {
    numberBlocks(F);
    for (BasicBlock &B : F)
      for (PHINode &Phi : B.phis())
        orderEntries(Phi);
  }
}

namespace {

/// Rebuilds use-lists in linear time. Setting a use again moves it to the head of its list, so
/// visiting all uses from the last to the first leaves every list ascending.
class UseLists {
  SmallPtrSet<Constant *, 32> Seen;
  SmallVector<Constant *, 32> Constants;

  void raise(Use &Operand, bool Locals) {
    Value *V = Operand.get();
    if (!V || !V->hasUseList())
      return;
    auto *C = dyn_cast<Constant>(V);
    if ((C || Locals || isa<MetadataAsValue>(V) || isa<InlineAsm>(V)) &&
        !V->hasOneUse())
      Operand.set(V);
    if (C && !isa<GlobalValue>(C) && Seen.insert(C).second)
      Constants.push_back(C);
  }

public:
  /// Moves the uses in `U` to the heads of their lists; uses of function-local values only if
  /// `Locals`.
  void raise(User &U, bool Locals) {
    for (unsigned N = U.getNumOperands(); N-- > 0;)
      raise(U.getOperandUse(N), Locals);
  }

  /// Raises all uses in a function, including those of its own values.
  void raiseAll(Function &F) {
    for (BasicBlock &B : reverse(F))
      for (Instruction &I : reverse(B))
        raise(static_cast<User &>(I), true);
    raise(static_cast<User &>(F), true);
  }

  /// Raises a function's uses of values that belong to no function, as listed in a fingerprint.
  void raiseShared(Function &F, ArrayRef<Use *> Shared) {
    for (Use *Operand : reverse(Shared))
      raise(*Operand, false);
    raise(static_cast<User &>(F), false);
  }

  /// Raises all uses outside functions, and then those in all constants met on the way, which thus
  /// come before all other users.
  void raiseRest(Module &M) {
    for (GlobalIFunc &G : reverse(M.ifuncs()))
      raise(G, true);
    for (GlobalAlias &G : reverse(M.aliases()))
      raise(G, true);
    for (GlobalVariable &G : reverse(M.globals()))
      raise(G, true);
    for (size_t I = 0; I < Constants.size(); ++I)
      raise(static_cast<User &>(*Constants[I]), true);
  }
};

} // namespace

void canonicaliseUseLists(Module &M) {
  UseLists Lists;
  for (Function &F : reverse(M))
    Lists.raiseAll(F);
  Lists.raiseRest(M);
}

void canonicaliseUseLists(Module &M, const Difference &Changed,
                          const Fingerprint &Print) {
  UseLists Lists;
  size_t Index = Print.Functions.size();
  for (Function &F : reverse(M)) {
    --Index;
    if (Changed.Unordered.contains(&F))
      Lists.raiseAll(F);
    else
      Lists.raiseShared(F, Print.shared(Index));
  }
  Lists.raiseRest(M);
}

} // namespace steplake
