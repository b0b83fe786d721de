#include "fingerprint.h"
#include "fields.h"
#include "hasher.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/DebugProgramInstruction.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/Operator.h"
#include "llvm/Support/xxhash.h"

#include <array>

using namespace llvm;

namespace steplake {

namespace {

/// Hashes constant expressions. They can be rewritten in place, even so that they no longer use a
/// global.
class ExpressionHashes {
  /// Memoised: the number of paths to an expression can be exponential in its depth.
  DenseMap<const ConstantExpr *, uint64_t> Known;

  /// Takes the fields of an expression.
  struct Fields {
    Hasher H;
    void number(uint64_t Number) { H.word(Number); }
    void integer(const APInt &Number) {
      for (unsigned I = 0; I < Number.getNumWords(); ++I)
        H.word(Number.getRawData()[I]);
    }
    void type(const Type *T) { H.pointer(T); }
  };

  uint64_t hash(const ConstantExpr &Expression) {
    auto Found = Known.find(&Expression);
    if (Found != Known.end())
      return Found->second;
    Fields Own;
    visitExpression(Own, Expression);
    for (const Use &Operand : Expression.operands()) {
      Own.H.pointer(Operand.get());
      add(Own.H, Operand.get());
    }
    return Known[&Expression] = Own.H.finish();
  }

public:
  /// Adds the content of `V` if it is an expression.
  void add(Hasher &H, const Value *V) {
    if (auto *Expression = dyn_cast_or_null<ConstantExpr>(V))
      H.word(hash(*Expression));
  }
};

/// Collects the attached nodes and those that they lead to.
class NodePrinter {
  InPlace<MDNode> &Nodes;
  ExpressionHashes &Expressions;
  SmallVector<const MDNode *, 16> Pending;
  /// Nodes already collected, by address: a few nodes are attached everywhere.
  std::array<const MDNode *, 256> Recent = {};

public:
  NodePrinter(InPlace<MDNode> &Nodes, ExpressionHashes &Expressions)
      : Nodes(Nodes), Expressions(Expressions) {}

  void add(const MDNode &Node) {
    const MDNode *&Known =
        Recent[reinterpret_cast<uintptr_t>(&Node) / 16 % Recent.size()];
    if (Known == &Node)
      return;
    Known = &Node;
    if (Nodes.add(Node, 0))
      Pending.push_back(&Node);
  }

  /// Includes the wrapped value: when a global is replaced, its replacement takes over the metadata
  /// that wraps it.
  void hash(Hasher &H, const Metadata *MD) {
    H.pointer(MD);
    if (auto *Node = dyn_cast_or_null<MDNode>(MD)) {
      add(*Node);
    } else if (auto *Wrapped = dyn_cast_or_null<ValueAsMetadata>(MD)) {
      H.pointer(Wrapped->getValue());
      Expressions.add(H, Wrapped->getValue());
    }
  }

  void finish() {
    while (!Pending.empty()) {
      const MDNode &Node = *Pending.pop_back_val();
      Hasher H;
      H.pointer(&Node);
      H.word(Node.getMetadataID() << 1 | Node.isDistinct());
      for (const MDOperand &Operand : Node.operands())
        hash(H, Operand.get());
      Nodes.add(Node, H.finish());
    }
  }
};

bool isLocal(const Value *V) {
  return isa_and_nonnull<Instruction, Argument, BasicBlock>(V);
}

/// Hashes the order of use-lists by the links between uses. Only local values count here: the lists
/// of other values run through many functions, and `hashGlobalUses` covers those that passes look
/// at.
uint64_t hashLocalUses(const Function &F) {
  Hasher Order;
  for (const BasicBlock &B : F)
    for (const Instruction &I : B)
      for (const Use &Operand : I.operands())
        if (isLocal(Operand.get()))
          Order.pointer(Operand.getNext());
  return Order.finish();
}

/// Takes fields by address.
class AddressSink {
  KnownTypes &Types;
  NodePrinter &Nodes;
  ExpressionHashes &Expressions;

  Fingerprint &Print;
  Hasher Content, Order;
  bool HasAlignment = false;

public:
  AddressSink(KnownTypes &Types, NodePrinter &Nodes,
              ExpressionHashes &Expressions, Fingerprint &Print)
      : Types(Types), Nodes(Nodes), Expressions(Expressions), Print(Print) {}

  void self(const Value &V) { Content.pointer(&V); }
  void number(uint32_t Number) { Content.word(Number); }
  void text(StringRef Text) { Content.text(Text); }
  void alignment(MaybeAlign Alignment) { Content.alignment(Alignment); }
  void type(const Type *T) {
    Types.add(T);
    Content.pointer(T);
  }
  void value(const Value *V) {
    Content.pointer(V);
    Expressions.add(Content, V);
  }
  void metadata(const Metadata *MD) { Nodes.hash(Content, MD); }
  void attributes(const AttributeList &List) {
    Content.pointer(List.getRawPointer());
    HasAlignment |= List.hasAttrSomewhere(Attribute::Alignment);
  }
  void attributes(const AttributeSet &Set) {
    for (Attribute A : Set)
      Content.pointer(A.getRawPointer());
  }
  void operand(Use &Operand) {
    const Value *V = Operand.get();
    Content.pointer(V);
    if (isLocal(V)) {
      Order.pointer(Operand.getNext());
    } else if (V && V->hasUseList()) {
      Print.Shared.push_back(&Operand);
      if (auto *Wrapped = dyn_cast<MetadataAsValue>(V))
        Nodes.hash(Content, Wrapped->getMetadata());
      else
        Expressions.add(Content, V);
    }
  }
  void debugRecords(const Instruction &I) {
    for (const DbgRecord &Record : I.getDbgRecordRange())
      Content.pointer(&Record);
  }

  FunctionPrint function(Function &F) {
    Content = Hasher();
    Order = Hasher();
    HasAlignment = false;
    uint64_t Instructions = 0;
    visitFunction(*this, F);
    for (BasicBlock &B : F) {
      Content.pointer(&B);
      if (B.hasAddressTaken())
        Print.AddressTaken.push_back(&B);
      for (Instruction &I : B) {
        ++Instructions;
        visitInstruction(*this, I);
      }
    }
    return {&F,           Content.finish(), Order.finish(),
            Instructions, HasAlignment,     Print.Shared.size()};
  }

  uint64_t rest(const Module &M) {
    Content = Hasher();
    visitRest(*this, M);
    return Content.finish();
  }
};

/// Hashes the uses of globals by constants, and by the constants that use those.
class GlobalUses {
  Fingerprint &Print;
  ExpressionHashes &Expressions;
  Hasher Order;

  /// Hashes all operands of an expression, which are few, but only the given operand of an
  /// aggregate: each operand that matters arrives here as a use of its own.
  uint64_t constant(const Constant &C, const Use &Operand) {
    Hasher H;
    H.pointer(&C);
    H.pointer(C.getType());
    H.pointer(&Operand);
    H.pointer(Operand.get());
    Expressions.add(H, &C);
    return H.finish();
  }

public:
  GlobalUses(Fingerprint &Print, ExpressionHashes &Expressions)
      : Print(Print), Expressions(Expressions) {
    Print.Constants.clear();
    Print.Aggregates.clear();
  }

  /// Follows a constant's users only once, however many paths lead to it.
  void add(const Value &V) {
    for (const Use &U : V.uses()) {
      Order.pointer(&U);
      const auto *C = dyn_cast<Constant>(U.getUser());
      if (!C || isa<GlobalValue>(C) ||
          !Print.Constants.add(*C, constant(*C, U)))
        continue;
      if (isa<ConstantAggregate>(C))
        Print.Aggregates.push_back(C);
      add(*C);
    }
  }

  void add(const BlockAddress &Address) {
    const Use &Block = Address.getOperandUse(0);
    if (Print.Constants.add(Address, constant(Address, Block)))
      add(static_cast<const Value &>(Address));
  }

  uint64_t finish() const { return Order.finish(); }
};

void hashGlobalUses(const Module &M, ExpressionHashes &Expressions,
                    Fingerprint &Print) {
  GlobalUses Uses(Print, Expressions);
  for (const GlobalVariable &G : M.globals())
    Uses.add(G);
  for (const Function &F : M)
    Uses.add(F);
  for (const GlobalAlias &G : M.aliases())
    Uses.add(G);
  for (const GlobalIFunc &G : M.ifuncs())
    Uses.add(G);
  for (const BasicBlock *Block : Print.AddressTaken)
    if (const BlockAddress *Address = BlockAddress::lookup(Block))
      Uses.add(*Address);
  Print.Order = Uses.finish();
}

} // namespace

uint64_t Fingerprint::instructions() const {
  uint64_t Sum = 0;
  for (const FunctionPrint &F : Functions)
    Sum += F.Instructions;
  return Sum;
}

void KnownTypes::addParts(const Type *T) {
  auto *Struct = dyn_cast<StructType>(T);
  if (Struct && !Struct->isLiteral())
    Named.push_back(Struct);
  for (const Type *Part : T->subtypes())
    add(Part);
}

uint64_t hashTypeNames(const KnownTypes &Types) {
  Hasher H;
  for (const StructType *Type : Types.named())
    H.text(Type->getName());
  return H.finish();
}

void takeFingerprint(Module &M, KnownTypes &Types, Fingerprint &Print) {
  Print.Functions.clear();
  Print.Shared.clear();
  Print.Nodes.clear();
  Print.AddressTaken.clear();
  ExpressionHashes Expressions;
  NodePrinter Nodes(Print.Nodes, Expressions);
  AddressSink Sink(Types, Nodes, Expressions, Print);
  for (Function &F : M)
    Print.Functions.push_back(Sink.function(F));
  // After the functions, since types may first turn up there.
  Print.Content = Sink.rest(M);
  Print.TypeNames = hashTypeNames(Types);
  Nodes.finish();
  hashGlobalUses(M, Expressions, Print);
}

void takeOrder(Module &M, const Difference &Changed, Fingerprint &Print) {
  ExpressionHashes Expressions;
  hashGlobalUses(M, Expressions, Print);
  for (FunctionPrint &P : Print.Functions)
    if (Changed.Unordered.contains(P.Function))
      P.Order = hashLocalUses(*P.Function);
}

} // namespace steplake
