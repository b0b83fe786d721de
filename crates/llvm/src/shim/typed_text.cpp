/// The text of a program as LLVM 10 would have written it: with typed pointers, and without what
/// later versions added. Inst2vec knows the statements of that text.
#include "module.h"
#include "typed_values.h"

#include "llvm/IR/Constants.h"
#include "llvm/IR/DataLayout.h"
#include "llvm/IR/GlobalVariable.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/Operator.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;
using namespace steplake;

namespace {

StringRef linkage(const Function &F) {
  switch (F.getLinkage()) {
  case GlobalValue::InternalLinkage:
    return "internal ";
  case GlobalValue::PrivateLinkage:
    return "private ";
  case GlobalValue::LinkOnceAnyLinkage:
    return "linkonce ";
  case GlobalValue::LinkOnceODRLinkage:
    return "linkonce_odr ";
  case GlobalValue::WeakAnyLinkage:
    return "weak ";
  case GlobalValue::WeakODRLinkage:
    return "weak_odr ";
  case GlobalValue::AvailableExternallyLinkage:
    return "available_externally ";
  default:
    return "";
  }
}

class TypedText : TypedValues {
  const Module &M;
  raw_string_ostream Out;

public:
  TypedText(const Module &M, std::string &Text) : TypedValues(M), M(M), Out(Text) {}

  void print();

private:
  void end() { Out << '\n'; }
  void printType(StructType &T);
  void printGlobal(const GlobalVariable &G);
  void printHead(const Function &F);
  void printLabel(const BasicBlock &B);
  void printStatement(const Instruction &I);
  void printOperation(const Instruction &I);
  void printOperands(const Instruction &I);
  void printAccess(const Instruction &I);
  void printCall(const CallBase &Call);
  void printArguments(const CallBase &Call);
  void printLandingPad(const LandingPadInst &Pad);
  void printSwitch(const SwitchInst &Switch);
};

void TypedText::print() {
  for (StructType *T : M.getIdentifiedStructTypes())
    printType(*T);
  for (const GlobalVariable &G : M.globals())
    printGlobal(G);
  for (const Function &F : M) {
    if (F.isDeclaration())
      continue;
    Slots.incorporateFunction(F);
    printHead(F);
    for (const BasicBlock &B : F) {
      if (&B != &F.getEntryBlock())
        printLabel(B);
      for (const Instruction &I : B)
        printStatement(I);
    }
  }
}

void TypedText::printType(StructType &T) {
  Out << Types.spell(T) << " = type " << Types.body(T);
  end();
}

/// Everything before the type is as it was in LLVM 10, so it is taken from LLVM's own text.
void TypedText::printGlobal(const GlobalVariable &G) {
  std::string Text;
  raw_string_ostream Stream(Text);
  G.print(Stream, Slots);
  std::string Own = Types.pointedTo(*G.getValueType(), G);
  size_t Kind = Text.find(G.isConstant() ? " constant " : " global ");
  Out << StringRef(Text).take_front(Kind) << (G.isConstant() ? " constant " : " global ")
      << Own;
  if (G.hasInitializer())
    Out << ' ' << valueAs(*G.getInitializer(), Own);
  if (G.hasSection())
    Out << ", section \"" << G.getSection() << '"';
  if (G.hasComdat())
    Out << ", comdat";
  if (MaybeAlign Align = G.getAlign())
    Out << ", align " << Align->value();
  end();
}

void TypedText::printHead(const Function &F) {
  Out << "define ";
  Out << linkage(F);
  if (F.isDSOLocal() && !F.isImplicitDSOLocal())
    Out << "dso_local ";
  if (F.hasHiddenVisibility())
    Out << "hidden ";
  else if (F.hasProtectedVisibility())
    Out << "protected ";
  if (F.getCallingConv() == CallingConv::Fast)
    Out << "fastcc ";
  else if (F.getCallingConv() == CallingConv::Cold)
    Out << "coldcc ";
  AttributeList List = F.getAttributes();
  Out << attributes(List.getRetAttrs()) << Types.returned(F) << ' ' << name(F) << '(';
  for (const Argument &A : F.args())
    Out << (A.getArgNo() ? ", " : "") << Types.typeOf(A) << ' '
        << attributes(List.getParamAttrs(A.getArgNo())) << name(A);
  if (F.isVarArg())
    Out << (F.arg_empty() ? "..." : ", ...");
  Out << ')';
  if (F.hasGlobalUnnamedAddr())
    Out << " unnamed_addr";
  else if (F.hasAtLeastLocalUnnamedAddr())
    Out << " local_unnamed_addr";
  // The group of a function's attributes hides all that is behind it.
  if (List.hasFnAttrs()) {
    Out << " #0 {";
    return end();
  }
  if (F.hasSection())
    Out << " section \"" << F.getSection() << '"';
  if (F.hasComdat())
    Out << " comdat";
  if (MaybeAlign Align = F.getAlign())
    Out << " align " << Align->value();
  if (F.hasPersonalityFn())
    Out << " personality " << typedAs(*F.getPersonalityFn(), "i8*");
  Out << " {";
  end();
}

void TypedText::printLabel(const BasicBlock &B) {
  std::string Label = StringRef(name(B)).drop_front().str() + ":";
  Out << left_justify(Label, 50) << "; ";
  if (pred_empty(&B))
    Out << "No predecessors!";
  else
    Out << "preds = ";
  bool IsFirst = true;
  for (const BasicBlock *Before : predecessors(&B)) {
    Out << (IsFirst ? "" : ", ") << name(*Before);
    IsFirst = false;
  }
  end();
}

void TypedText::printStatement(const Instruction &I) {
  if (!I.getType()->isVoidTy())
    Out << name(I) << " = ";
  if (const auto *Call = dyn_cast<CallBase>(&I); Call && !isa<CallBrInst>(I))
    printCall(*Call);
  else if (const auto *Pad = dyn_cast<LandingPadInst>(&I))
    printLandingPad(*Pad);
  else if (const auto *Switch = dyn_cast<SwitchInst>(&I))
    printSwitch(*Switch);
  else if (isa<AllocaInst, LoadInst, StoreInst, AtomicRMWInst, AtomicCmpXchgInst, VAArgInst>(I))
    printAccess(I);
  else
    printOperation(I);
  end();
}

void TypedText::printOperation(const Instruction &I) {
  if (const auto *Jump = dyn_cast<IndirectBrInst>(&I)) {
    Out << "indirectbr " << typed(*Jump->getAddress()) << ", [";
    for (unsigned Place = 0; Place < Jump->getNumDestinations(); ++Place)
      Out << (Place ? ", label " : "label ") << name(*Jump->getDestination(Place));
    Out << ']';
    return;
  }
  if (isa<BranchInst, FenceInst, CallBrInst, FuncletPadInst, CatchSwitchInst, CatchReturnInst,
          CleanupReturnInst>(I)) {
    std::string Text;
    raw_string_ostream Stream(Text);
    I.print(Stream, Slots);
    StringRef Line = StringRef(Text).trim();
    Out << (I.getType()->isVoidTy() ? Line : Line.split(" = ").second);
    return;
  }
  Out << I.getOpcodeName();
  // Flags that later versions gave to other instructions are left out.
  if (isa<FPMathOperator>(I) && !isa<CastInst>(I) && I.getFastMathFlags().any())
    I.getFastMathFlags().print(Out);
  if (const auto *Flags = dyn_cast<OverflowingBinaryOperator>(&I))
    Out << (Flags->hasNoUnsignedWrap() ? " nuw" : "") << (Flags->hasNoSignedWrap() ? " nsw" : "");
  if (const auto *Flags = dyn_cast<PossiblyExactOperator>(&I))
    Out << (Flags->isExact() ? " exact" : "");
  if (const auto *Compare = dyn_cast<CmpInst>(&I))
    Out << ' ' << CmpInst::getPredicateName(Compare->getPredicate());
  if (I.getNumOperands() == 0)
    Out << (isa<ReturnInst>(I) ? " void" : "");
  else
    printOperands(I);
}

void TypedText::printOperands(const Instruction &I) {
  Out << ' ';
  if (const auto *G = dyn_cast<GEPOperator>(&I)) {
    Out << (G->isInBounds() ? "inbounds " : "") << indices(*G);
  } else if (const auto *Phi = dyn_cast<PHINode>(&I)) {
    std::string Type = Types.typeOf(I);
    Out << Type;
    for (unsigned Edge = 0; Edge < Phi->getNumIncomingValues(); ++Edge)
      Out << (Edge ? ", [ " : " [ ")
          << valueAs(*Phi->getIncomingValue(Edge), Type) << ", " << name(*Phi->getIncomingBlock(Edge)) << " ]";
  } else if (isa<CastInst>(I)) {
    Out << typed(*I.getOperand(0)) << " to " << Types.typeOf(I);
  } else if (isa<SelectInst>(I)) {
    std::string Type = Types.typeOf(I);
    Out << typed(*I.getOperand(0)) << ", " << typedAs(*I.getOperand(1), Type) << ", "
        << typedAs(*I.getOperand(2), Type);
  } else if (isa<BinaryOperator, CmpInst>(I)) {
    const Value &First = *I.getOperand(0), &Second = *I.getOperand(1);
    std::string Type = Types.typeOf(isa<Constant>(First) ? Second : First);
    Out << typedAs(First, Type) << ", " << valueAs(Second, Type);
  } else if (isa<ReturnInst>(I)) {
    Out << typedAs(*I.getOperand(0), Types.returned(*I.getFunction()));
  } else {
    for (const Use &U : I.operands())
      Out << (U.getOperandNo() ? ", " : "") << typed(*U);
    if (const auto *Extract = dyn_cast<ExtractValueInst>(&I))
      for (unsigned Index : Extract->indices())
        Out << ", " << Index;
    if (const auto *Insert = dyn_cast<InsertValueInst>(&I))
      for (unsigned Index : Insert->indices())
        Out << ", " << Index;
    if (const auto *Shuffle = dyn_cast<ShuffleVectorInst>(&I))
      Out << ", " << typed(*Shuffle->getShuffleMaskForBitcode());
  }
}

void TypedText::printAccess(const Instruction &I) {
  Out << I.getOpcodeName();
  auto Access = [&](const Value &P, const Value &Held) {
    std::string Type = Types.pointedTo(*Held.getType(), P);
    return pointer(P, Type) + ", " + typedAs(Held, Type);
  };
  auto End = [&](bool IsAtomic, AtomicOrdering Ordering, Align Alignment) {
    Out << (IsAtomic ? std::string(" ") + toIRString(Ordering) : "") << ", align "
        << Alignment.value();
  };
  if (const auto *A = dyn_cast<AllocaInst>(&I)) {
    Out << (A->isUsedWithInAlloca() ? " inalloca " : " ")
        << Types.pointedTo(*A->getAllocatedType(), I);
    if (A->isArrayAllocation())
      Out << ", " << typed(*A->getArraySize());
    Out << ", align " << A->getAlign().value();
  } else if (const auto *L = dyn_cast<LoadInst>(&I)) {
    std::string Type = Types.pointedTo(*I.getType(), *L->getPointerOperand());
    Out << (L->isAtomic() ? " atomic" : "") << (L->isVolatile() ? " volatile " : " ") << Type
        << ", " << pointer(*L->getPointerOperand(), Type);
    End(L->isAtomic(), L->getOrdering(), L->getAlign());
  } else if (const auto *S = dyn_cast<StoreInst>(&I)) {
    const Value &P = *S->getPointerOperand(), &Held = *S->getValueOperand();
    std::string Type = Types.pointedTo(*Held.getType(), P);
    Out << (S->isAtomic() ? " atomic" : "") << (S->isVolatile() ? " volatile " : " ")
        << typedAs(Held, Type) << ", " << pointer(P, Type);
    End(S->isAtomic(), S->getOrdering(), S->getAlign());
  } else if (const auto *R = dyn_cast<AtomicRMWInst>(&I)) {
    Out << (R->isVolatile() ? " volatile " : " ")
        << AtomicRMWInst::getOperationName(R->getOperation()) << ' '
        << Access(*R->getPointerOperand(), *R->getValOperand()) << ' '
        << toIRString(R->getOrdering());
  } else if (const auto *C = dyn_cast<AtomicCmpXchgInst>(&I)) {
    Out << (C->isWeak() ? " weak" : "") << (C->isVolatile() ? " volatile " : " ")
        << Access(*C->getPointerOperand(), *C->getCompareOperand()) << ", "
        << typed(*C->getNewValOperand()) << ' ' << toIRString(C->getSuccessOrdering()) << ' '
        << toIRString(C->getFailureOrdering());
  } else {
    Out << ' ' << typed(*I.getOperand(0)) << ", " << Types.typeOf(I);
  }
}

void TypedText::printCall(const CallBase &Call) {
  if (const auto *Plain = dyn_cast<CallInst>(&Call))
    Out << (Plain->isMustTailCall()  ? "musttail "
            : Plain->isNoTailCall()  ? "notail "
            : Plain->isTailCall()    ? "tail "
                                     : "");
  Out << Call.getOpcodeName();
  if (isa<FPMathOperator>(Call) && Call.getFastMathFlags().any())
    Call.getFastMathFlags().print(Out);
  if (Call.getCallingConv() == CallingConv::Fast)
    Out << " fastcc";
  else if (Call.getCallingConv() == CallingConv::Cold)
    Out << " coldcc";
  const Function *F = Call.getCalledFunction();
  AttributeList List = Call.getAttributes();
  Out << ' ' << attributes(List.getRetAttrs());
  // The whole type of what is called is needed where the arguments do not tell it.
  if (Call.getFunctionType()->isVarArg())
    Out << (F ? Types.signature(*F) : Types.spell(*Call.getFunctionType()));
  else
    Out << (F ? Types.returned(*F) : Types.typeOf(Call));
  Out << ' ' << operand(*Call.getCalledOperand()) << '(';
  if (const auto *Life = dyn_cast<LifetimeIntrinsic>(&Call)) {
    // Its first argument was the size of the variable.
    const auto *A = dyn_cast<AllocaInst>(Life->getArgOperand(0));
    std::optional<TypeSize> Size = A ? A->getAllocationSize(M.getDataLayout()) : std::nullopt;
    Out << "i64 " << (Size ? static_cast<int64_t>(Size->getKnownMinValue()) : -1) << ", ";
  }
  printArguments(Call);
  Out << ')';
  if (List.hasFnAttrs())
    Out << " #0";
  if (const auto *Invoke = dyn_cast<InvokeInst>(&Call))
    Out << "\n          to label " << name(*Invoke->getNormalDest()) << " unwind label "
        << name(*Invoke->getUnwindDest());
}

void TypedText::printArguments(const CallBase &Call) {
  const Function *F = Call.getCalledFunction();
  for (const Use &U : Call.args()) {
    unsigned Place = Call.getArgOperandNo(&U);
    if (Place)
      Out << ", ";
    if (const auto *Meta = dyn_cast<MetadataAsValue>(U.get())) {
      const auto *Held = dyn_cast<ValueAsMetadata>(Meta->getMetadata());
      Out << "metadata " << (Held ? typed(*Held->getValue()) : name(*U));
      continue;
    }
    bool IsNamed = F && Place < F->arg_size() && !isa<Function>(*U);
    std::string Type = Types.typeOf(IsNamed ? *F->getArg(Place) : *U);
    Out << Type << ' ' << attributes(Call.getAttributes().getParamAttrs(Place))
        << valueAs(*U, Type);
  }
}

void TypedText::printLandingPad(const LandingPadInst &Pad) {
  Out << "landingpad " << Types.spell(*Pad.getType());
  if (Pad.isCleanup())
    Out << "\n          cleanup";
  for (unsigned Clause = 0; Clause < Pad.getNumClauses(); ++Clause) {
    const Constant &C = *Pad.getClause(Clause);
    Out << "\n          "
        << (Pad.isCatch(Clause) ? "catch " + typedAs(C, "i8*") : "filter " + typed(C));
  }
}

void TypedText::printSwitch(const SwitchInst &Switch) {
  Out << "switch " << typed(*Switch.getCondition()) << ", label "
      << name(*Switch.getDefaultDest()) << " [";
  for (const auto &Case : Switch.cases())
    Out << "\n    " << typed(*Case.getCaseValue()) << ", label " << name(*Case.getCaseSuccessor());
  Out << "\n  ]";
}

} // namespace

extern "C" SteplakeBytes steplake_llvm_module_typed_text(SteplakeModule *Module) {
  Module->Text.clear();
  TypedText(*Module->IR, Module->Text).print();
  return {Module->Text.data(), Module->Text.size()};
}
