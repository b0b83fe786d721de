#include "pointees.h"

#include "llvm/IR/DerivedTypes.h"
#include "llvm/IR/GlobalVariable.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Operator.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;
using namespace steplake;

namespace {

/// Types of functions of functions and so on end here.
constexpr unsigned DepthMax = 8;

bool holdsPointers(Type *T) {
  while (auto *Array = dyn_cast<ArrayType>(T))
    T = Array->getElementType();
  return T->isPtrOrPtrVectorTy();
}

/// The pointee of a variable where only its address is known: that of its first element.
Type *decayed(Type *T) {
  auto *Array = dyn_cast<ArrayType>(T);
  return Array ? Array->getElementType() : T;
}

unsigned rankOf(Type *T) {
  if (T->isAggregateType() || T->isFunctionTy())
    return 2;
  return T->isIntegerTy(8) ? 0 : 1;
}

} // namespace

Pointees::Pointees(const Module &M) {
  for (const GlobalVariable &G : M.globals()) {
    Node *N = nodeOf(G);
    vote(N, G.getValueType());
    if (G.hasInitializer())
      readInitializer(*G.getInitializer(), contentOf(N));
  }
  for (const Function &F : M)
    for (const Instruction &I : instructions(F))
      read(I);
}

Pointees::Node *Pointees::make() {
  Nodes.push_back(std::make_unique<Node>());
  return Nodes.back().get();
}

Pointees::Node *Pointees::find(Node *N) {
  while (N->Parent) {
    if (N->Parent->Parent)
      N->Parent = N->Parent->Parent;
    N = N->Parent;
  }
  return N;
}

Pointees::Node *Pointees::nodeOf(const Value &V) {
  Node *&N = OfValues[&V];
  return N = N ? find(N) : make();
}

Pointees::Node *Pointees::returnOf(const Function &F) {
  Node *&N = OfReturns[&F];
  return N = N ? find(N) : make();
}

Pointees::Node *Pointees::fieldOf(StructType &T, unsigned Field) {
  Node *&N = OfFields[{&T, Field}];
  return N = N ? find(N) : make();
}

Pointees::Node *Pointees::contentOf(Node *N) {
  N = find(N);
  if (!N->Content)
    N->Content = make();
  return N->Content = find(N->Content);
}

void Pointees::unify(Node *A, Node *B) {
  // Pairs that are still to be joined: the contents of joined nodes are joined too.
  SmallVector<std::pair<Node *, Node *>, 4> Pairs = {{A, B}};
  while (!Pairs.empty()) {
    auto [First, Second] = Pairs.pop_back_val();
    First = find(First), Second = find(Second);
    if (First == Second)
      continue;
    Second->Parent = First;
    for (auto [T, Count] : Second->Votes)
      First->Votes[T] += Count;
    Second->Votes.clear();
    if (!First->Called || isa_and_nonnull<Function>(Second->Called))
      First->Called = Second->Called;
    if (First->Content && Second->Content)
      Pairs.push_back({First->Content, Second->Content});
    else if (Second->Content)
      First->Content = Second->Content;
  }
}

void Pointees::vote(Node *N, Type *T) { ++find(N)->Votes[T]; }

void Pointees::called(Node *N, const Value &By) {
  N = find(N);
  if (!N->Called || (isa<Function>(By) && !isa<Function>(*N->Called)))
    N->Called = &By;
}

/// A value is among those that the pointers of a node hold.
void Pointees::flow(const Value &V, Node *To) {
  if (const auto *G = dyn_cast<GlobalVariable>(&V))
    return vote(To, decayed(G->getValueType()));
  if (const auto *F = dyn_cast<Function>(&V)) {
    called(To, *F);
    return vote(To, F->getFunctionType());
  }
  if (const auto *A = dyn_cast<AllocaInst>(&V); A && A->getAllocatedType()->isArrayTy())
    return vote(To, decayed(A->getAllocatedType()));
  if (isa<GEPOperator>(V) && isa<Constant>(V)) {
    Type *T = cast<GEPOperator>(V).getResultElementType();
    if (!T->isIntegerTy(8))
      vote(To, T);
    return;
  }
  if (!isa<Constant>(V))
    unify(nodeOf(V), To);
}

/// A constant is in memory that holds the pointers of a node.
void Pointees::readInitializer(const Constant &C, Node *Held) {
  if (C.getType()->isPointerTy() && Held)
    return flow(C, Held);
  if (!isa<ConstantAggregate>(C))
    return;
  auto *Struct = dyn_cast<StructType>(C.getType());
  for (const Use &U : C.operands()) {
    bool IsNamed = Struct && !Struct->isLiteral();
    Node *Inner = IsNamed ? fieldOf(*Struct, U.getOperandNo()) : Struct ? nullptr : Held;
    readInitializer(*cast<Constant>(U), Inner);
  }
}

void Pointees::read(const Instruction &I) {
  auto Access = [&](const Value &P, Type *T, const Value *Held) {
    vote(nodeOf(P), T);
    if (Held && holdsPointers(T))
      flow(*Held, contentOf(nodeOf(P)));
  };
  if (const auto *A = dyn_cast<AllocaInst>(&I))
    vote(nodeOf(I), A->getAllocatedType());
  else if (const auto *L = dyn_cast<LoadInst>(&I))
    Access(*L->getPointerOperand(), L->getType(), L);
  else if (const auto *S = dyn_cast<StoreInst>(&I))
    Access(*S->getPointerOperand(), S->getValueOperand()->getType(), S->getValueOperand());
  else if (const auto *C = dyn_cast<AtomicCmpXchgInst>(&I))
    Access(*C->getPointerOperand(), C->getNewValOperand()->getType(), C->getNewValOperand());
  else if (const auto *R = dyn_cast<AtomicRMWInst>(&I))
    Access(*R->getPointerOperand(), R->getType(), R->getValOperand());
  else if (const auto *G = dyn_cast<GEPOperator>(&I))
    readIndices(*G);
  else if (const auto *Call = dyn_cast<CallBase>(&I))
    readCall(*Call);
  else if (!I.getType()->isPtrOrPtrVectorTy()) {
    const auto *Return = dyn_cast<ReturnInst>(&I);
    const Value *V = Return ? Return->getReturnValue() : nullptr;
    if (V && V->getType()->isPointerTy())
      flow(*V, returnOf(*I.getFunction()));
    const auto *Compare = dyn_cast<ICmpInst>(&I);
    if (Compare && !isa<Constant>(Compare->getOperand(0)) &&
        Compare->getOperand(0)->getType()->isPtrOrPtrVectorTy())
      flow(*Compare->getOperand(1), nodeOf(*Compare->getOperand(0)));
  } else if (isa<PHINode, SelectInst, FreezeInst>(I))
    for (const Value *V : I.operand_values())
      if (V->getType() == I.getType())
        flow(*V, nodeOf(I));
}

void Pointees::readCall(const CallBase &Call) {
  const Function *F = Call.getCalledFunction();
  if (!F) {
    called(nodeOf(*Call.getCalledOperand()), Call);
    return vote(nodeOf(*Call.getCalledOperand()), Call.getFunctionType());
  }
  if (Call.getType()->isPointerTy() && !F->isDeclaration())
    unify(nodeOf(Call), returnOf(*F));
  for (const Argument &A : F->args()) {
    const Value &V = *Call.getArgOperand(A.getArgNo());
    // What is declared elsewhere tells nothing, but for the functions that it calls back.
    if (A.getType()->isPointerTy() && (!F->isDeclaration() || isa<Function>(V)))
      flow(V, nodeOf(A));
  }
}

void Pointees::readIndices(const GEPOperator &G) {
  Node *Base = nodeOf(*G.getPointerOperand()), *Result = nodeOf(G);
  Type *T = G.getSourceElementType();
  if (G.getNumIndices() == 1 && !T->isIntegerTy(8)) {
    vote(Base, T);
    if (!isa<Constant>(G.getPointerOperand()))
      unify(Base, Result);
    else
      vote(Result, T);
    return;
  }
  vote(Base, T);
  Node *Held = contentOf(Base);
  for (auto Index = G.idx_begin() + 1; Index < G.idx_end(); ++Index) {
    if (auto *Struct = dyn_cast<StructType>(T)) {
      unsigned Field = cast<Constant>(*Index)->getUniqueInteger().getZExtValue();
      Held = Struct->isLiteral() ? nullptr : fieldOf(*Struct, Field);
      T = Struct->getElementType(Field);
    } else {
      T = GetElementPtrInst::getTypeAtIndex(T, Index->get());
    }
  }
  if (!T->isIntegerTy(8) || G.getNumIndices() > 1)
    vote(Result, T);
  if (holdsPointers(T) && Held)
    unify(contentOf(Result), Held);
}

Type *Pointees::pointee(Node *N) {
  Type *Best = nullptr;
  unsigned Most = 0;
  for (auto [T, Count] : find(N)->Votes)
    if (!Best || rankOf(T) > rankOf(Best) || (rankOf(T) == rankOf(Best) && Count > Most))
      Best = T, Most = Count;
  return Best;
}

std::string Pointees::spellPointer(Node *N, unsigned Depth) {
  N = N ? find(N) : nullptr;
  Type *T = N && !N->IsOpen && Depth < DepthMax ? pointee(N) : nullptr;
  if (!T)
    return "i8*";
  N->IsOpen = true;
  std::string Text = T->isFunctionTy() && N->Called
                         ? spellCalled(*N->Called, Depth + 1)
                         : spell(*T, holdsPointers(T) ? contentOf(N) : nullptr, Depth + 1);
  N->IsOpen = false;
  return Text + "*";
}

std::string Pointees::spellCalled(const Value &Called, unsigned Depth) {
  if (const auto *F = dyn_cast<Function>(&Called))
    return signature(*F, Depth);
  const auto &Call = cast<CallBase>(Called);
  if (Call.getFunctionType()->isVarArg())
    return spell(*Call.getFunctionType(), nullptr, Depth);
  std::string Parameters;
  for (const Use &U : Call.args())
    Parameters += (Call.getArgOperandNo(&U) ? ", " : "") + typeOf(*U, Depth);
  return typeOf(Call, Depth) + " (" + Parameters + ")";
}

/// Spells a type. If it holds pointers, they are those of the node.
std::string Pointees::spell(Type &T, Node *N, unsigned Depth) {
  auto List = [&](ArrayRef<Type *> Types) {
    std::string Text;
    for (Type *Inner : Types)
      Text += (Text.empty() ? "" : ", ") + spell(*Inner, nullptr, Depth);
    return Text;
  };
  if (T.isPointerTy())
    return spellPointer(N, Depth);
  if (auto *Array = dyn_cast<ArrayType>(&T))
    return "[" + std::to_string(Array->getNumElements()) + " x " +
           spell(*Array->getElementType(), N, Depth) + "]";
  if (auto *Vector = dyn_cast<FixedVectorType>(&T))
    return "<" + std::to_string(Vector->getNumElements()) + " x " +
           spell(*Vector->getElementType(), N, Depth) + ">";
  if (auto *Struct = dyn_cast<StructType>(&T); Struct && Struct->isLiteral()) {
    if (Struct->getNumElements() == 0)
      return Struct->isPacked() ? "<{}>" : "{}";
    return (Struct->isPacked() ? "<{ " : "{ ") + List(Struct->elements()) +
           (Struct->isPacked() ? " }>" : " }");
  }
  if (auto *Function = dyn_cast<FunctionType>(&T)) {
    std::string Parameters = List(Function->params());
    if (Function->isVarArg())
      Parameters += Parameters.empty() ? "..." : ", ...";
    return spell(*Function->getReturnType(), nullptr, Depth) + " (" + Parameters + ")";
  }
  std::string Text;
  raw_string_ostream Out(Text);
  T.print(Out, /*IsForDebug=*/false, /*NoDetails=*/true);
  return Text;
}

std::string Pointees::spell(Type &T) { return spell(T, nullptr, 0); }

std::string Pointees::typeOf(const Value &V, unsigned Depth) {
  if (const auto *F = dyn_cast<Function>(&V))
    return signature(*F, Depth) + "*";
  const auto *Call = dyn_cast<CallBase>(&V);
  const Function *F = Call ? Call->getCalledFunction() : nullptr;
  bool IsForeign = F && F->isDeclaration();
  if (const auto *A = dyn_cast<Argument>(&V))
    IsForeign = A->getParent()->isDeclaration() && !pointee(nodeOf(V));
  if (isa<GEPOperator>(V) && isa<Constant>(V)) {
    Type *T = cast<GEPOperator>(V).getResultElementType();
    return pointedTo(*T, V) + "*";
  }
  return spell(*V.getType(), IsForeign ? nullptr : nodeOf(V), Depth);
}

std::string Pointees::pointedTo(Type &T, const Value &P) {
  return spell(T, holdsPointers(&T) ? contentOf(nodeOf(P)) : nullptr, 0);
}

std::string Pointees::returned(const Function &F, unsigned Depth) {
  return spell(*F.getReturnType(), F.isDeclaration() ? nullptr : returnOf(F), Depth);
}

std::string Pointees::signature(const Function &F, unsigned Depth) {
  std::string Parameters;
  for (const Argument &A : F.args())
    Parameters += (A.getArgNo() ? ", " : "") + typeOf(A, Depth);
  if (F.isVarArg())
    Parameters += Parameters.empty() ? "..." : ", ...";
  return returned(F, Depth) + " (" + Parameters + ")";
}

std::string Pointees::fieldType(StructType &T, unsigned Field) {
  return spell(*T.getElementType(Field), T.isLiteral() ? nullptr : fieldOf(T, Field), 0);
}

std::string Pointees::body(StructType &T) {
  if (T.isOpaque())
    return "opaque";
  std::string Fields;
  for (unsigned Field = 0; Field < T.getNumElements(); ++Field)
    Fields += (Field ? ", " : " ") + fieldType(T, Field);
  if (!Fields.empty())
    Fields += ' ';
  return (T.isPacked() ? "<{" : "{") + Fields + (T.isPacked() ? "}>" : "}");
}
