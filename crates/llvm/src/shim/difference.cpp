/// Finds the difference between two fingerprints of one module.
#include "fingerprint.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/Instructions.h"

using namespace llvm;

namespace steplake {

namespace {

/// Finds the users of constants that are new or rewritten.
class Users {
  SmallPtrSetImpl<const Function *> &Functions;
  SmallPtrSet<const Constant *, 16> Seen;

public:
  /// Whether something outside functions uses one.
  bool Module = false;

  explicit Users(SmallPtrSetImpl<const Function *> &Functions)
      : Functions(Functions) {}

  void add(const Constant &C) {
    if (!Seen.insert(&C).second)
      return;
    for (const User *U : C.users()) {
      if (auto *I = dyn_cast<Instruction>(U)) {
        if (I->getParent())
          Functions.insert(I->getFunction());
      } else if (auto *F = dyn_cast<Function>(U)) {
        Functions.insert(F);
      } else if (isa<GlobalValue>(U)) {
        Module = true;
      } else if (auto *Outer = dyn_cast<Constant>(U)) {
        add(*Outer);
      }
    }
  }
};

} // namespace

void compare(Module &M, const Fingerprint &Before, const Fingerprint &After,
             Difference &Result) {
  Result.Module = Before.Content != After.Content;
  Result.Everywhere = Before.TypeNames != After.TypeNames;
  Result.Order = Before.Order != After.Order;
  Result.List = Before.Functions.size() != After.Functions.size();
  Result.Functions.clear();
  Result.Aligned.clear();
  Result.Unordered.clear();
  SmallPtrSet<const Function *, 8> Touched;
  Users Mentioning(Touched);
  After.Constants.forEachNew(Before.Constants, [&](const Constant &C, bool) {
    // Metadata that wraps a constant is not among its users.
    Result.Everywhere |= C.isUsedByMetadata();
    Mentioning.add(C);
  });
  Result.Module |= Mentioning.Module;
  for (const Constant *Aggregate : Before.Aggregates)
    Result.Everywhere |= !After.Constants.contains(Aggregate);
  Result.Nodes = !(After.Nodes == Before.Nodes);
  After.Nodes.forEachNew(Before.Nodes, [&](const MDNode &, bool WasThere) {
    Result.Everywhere |= WasThere;
  });
  DenseMap<const Function *, const FunctionPrint *> Known;
  auto Find = [&](size_t Index, const Function *F) -> const FunctionPrint * {
    // Hardly any pass reorders functions.
    if (Index < Before.Functions.size() && Before.Functions[Index].Function == F)
      return &Before.Functions[Index];
    Result.List = true;
    if (Known.empty())
      for (const FunctionPrint &P : Before.Functions)
        Known[P.Function] = &P;
    return Known.lookup(F);
  };
  size_t Index = 0;
  for (Function &F : M) {
    const FunctionPrint &Now = After.Functions[Index];
    const FunctionPrint *Then = Find(Index++, &F);
    bool Changed = Result.Everywhere || !Then ||
                   Then->Content != Now.Content || Touched.contains(&F);
    if (Changed)
      Result.Functions.push_back(&F);
    if (Changed && Now.HasAlignment)
      Result.Aligned.push_back(&F);
    if (Changed || Then->Order != Now.Order)
      Result.Unordered.insert(&F);
  }
}

} // namespace steplake
