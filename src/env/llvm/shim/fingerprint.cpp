#include "fingerprint.h"
#include "hasher.h"
#include "private_access.h"

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

using Attachments = SmallVector<std::pair<unsigned, MDNode *>, 8>;

/// Hashes constant expressions. They can be rewritten in place, even so that they no longer use a
/// global.
class ExpressionHashes {
  /// Memoised: the number of paths to an expression can be exponential in its depth.
  DenseMap<const ConstantExpr *, uint64_t> Known;

  uint64_t hash(const ConstantExpr &Expression) {
    auto Found = Known.find(&Expression);
    if (Found != Known.end())
      return Found->second;
    Hasher H;
    H.word(Expression.getOpcode() | Expression.getRawSubclassOptionalData() << 8);
    if (auto *Address = dyn_cast<GEPOperator>(&Expression))
      H.pointer(Address->getSourceElementType());
    for (const Use &Operand : Expression.operands()) {
      H.pointer(Operand.get());
      add(H, Operand.get());
    }
    return Known[&Expression] = H.finish();
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

  void attachments(Hasher &H, const Attachments &Attached) {
    for (auto &[Kind, Node] : Attached) {
      H.word(Kind);
      H.pointer(Node);
      add(*Node);
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

void hashCall(Hasher &H, const CallBase &Call) {
  H.pointer(Call.getAttributes().getRawPointer());
  H.pointer(Call.getFunctionType());
  for (const CallBase::BundleOpInfo &Bundle : Call.bundle_op_infos()) {
    H.pointer(Bundle.Tag);
    H.word(static_cast<uint64_t>(Bundle.Begin) << 32 | Bundle.End);
  }
}

/// Hashes what an instruction has besides operands, type and the sixteen bits of `subclassData`.
void hashOwnFields(Hasher &H, const Instruction &I, KnownTypes &Types) {
  switch (I.getOpcode()) {
  case Instruction::Call:
  case Instruction::Invoke:
  case Instruction::CallBr:
    return hashCall(H, cast<CallBase>(I));
  case Instruction::PHI:
    for (const BasicBlock *Block : cast<PHINode>(I).blocks())
      H.pointer(Block);
    return;
  case Instruction::Switch:
    for (auto Case : cast<SwitchInst>(I).cases())
      H.pointer(Case.getCaseValue());
    return;
  case Instruction::GetElementPtr:
    Types.add(cast<GetElementPtrInst>(I).getSourceElementType());
    return H.pointer(cast<GetElementPtrInst>(I).getSourceElementType());
  case Instruction::Alloca:
    Types.add(cast<AllocaInst>(I).getAllocatedType());
    return H.pointer(cast<AllocaInst>(I).getAllocatedType());
  case Instruction::Load:
    return H.word(cast<LoadInst>(I).getSyncScopeID());
  case Instruction::Store:
    return H.word(cast<StoreInst>(I).getSyncScopeID());
  case Instruction::Fence:
    return H.word(cast<FenceInst>(I).getSyncScopeID());
  case Instruction::AtomicRMW:
    return H.word(cast<AtomicRMWInst>(I).getSyncScopeID());
  case Instruction::AtomicCmpXchg:
    return H.word(cast<AtomicCmpXchgInst>(I).getSyncScopeID());
  case Instruction::ShuffleVector:
    for (int Lane : cast<ShuffleVectorInst>(I).getShuffleMask())
      H.word(static_cast<uint32_t>(Lane));
    return;
  case Instruction::ExtractValue:
    for (unsigned Index : cast<ExtractValueInst>(I).indices())
      H.word(Index);
    return;
  case Instruction::InsertValue:
    for (unsigned Index : cast<InsertValueInst>(I).indices())
      H.word(Index);
    return;
  default:
    return;
  }
}

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

void hashGlobalValue(Hasher &H, const GlobalValue &G) {
  H.pointer(&G);
  H.text(G.getName());
  H.pointer(G.getValueType());
  H.word(G.getLinkage() | G.getVisibility() << 8 |
         static_cast<unsigned>(G.getUnnamedAddr()) << 12 | G.isDSOLocal() << 16 |
         G.getThreadLocalMode() << 20 | G.getDLLStorageClass() << 24 |
         static_cast<uint64_t>(G.getAddressSpace()) << 32);
  if (G.hasPartition())
    H.text(G.getPartition());
  if (G.hasSanitizerMetadata()) {
    const GlobalValue::SanitizerMetadata &S = G.getSanitizerMetadata();
    H.word(0x100 | S.NoAddress << 3 | S.NoHWAddress << 2 | S.Memtag << 1 |
           S.IsDynInit);
  }
}

void hashGlobalObject(Hasher &H, const GlobalObject &G, NodePrinter &Nodes) {
  hashGlobalValue(H, G);
  if (G.hasSection())
    H.text(G.getSection());
  if (const Comdat *C = G.getComdat()) {
    H.text(C->getName());
    H.word(C->getSelectionKind());
  }
  if (G.hasMetadata()) {
    Attachments Attached;
    G.getAllMetadata(Attached);
    Nodes.attachments(H, Attached);
  }
}

bool givesAlignment(const AttributeList &List) {
  return List.hasAttrSomewhere(Attribute::Alignment);
}

/// Takes the prints of functions, one after another.
class FunctionPrinter {
  KnownTypes &Types;
  NodePrinter &Nodes;
  ExpressionHashes &Expressions;
  Fingerprint &Print;
  Attachments Attached;
  Hasher Content, Order;
  bool HasAlignment;

  void instruction(Instruction &I) {
    Content.pointer(&I);
    Types.add(I.getType());
    Content.pointer(I.getType());
    Content.word(static_cast<uint64_t>(I.getNumOperands()) << 32 |
                 subclassData(I) << 16 | I.getRawSubclassOptionalData() << 8 |
                 I.getOpcode());
    for (Use &Operand : I.operands()) {
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
    hashOwnFields(Content, I, Types);
    if (auto *Call = dyn_cast<CallBase>(&I))
      HasAlignment |= givesAlignment(Call->getAttributes());
    if (I.hasMetadata()) {
      Attached.clear();
      I.getAllMetadata(Attached);
      Nodes.attachments(Content, Attached);
    }
    if (I.hasDbgRecords())
      for (const DbgRecord &Record : I.getDbgRecordRange())
        Content.pointer(&Record);
  }

  void properties(const Function &F) {
    Types.add(F.getFunctionType());
    hashGlobalObject(Content, F, Nodes);
    Content.pointer(F.getAttributes().getRawPointer());
    Content.alignment(F.getAlign());
    Content.word(F.getCallingConv());
    if (F.hasGC())
      Content.text(F.getGC());
    // Personality, prefix and prologue; the sixteen bits say which of them exist.
    Content.word(subclassData(F));
    for (const Use &Operand : F.operands()) {
      Content.pointer(Operand.get());
      Expressions.add(Content, Operand.get());
    }
  }

public:
  FunctionPrinter(KnownTypes &Types, NodePrinter &Nodes,
                  ExpressionHashes &Expressions, Fingerprint &Print)
      : Types(Types), Nodes(Nodes), Expressions(Expressions), Print(Print) {}

  FunctionPrint print(Function &F) {
    Content = Hasher();
    Order = Hasher();
    HasAlignment = givesAlignment(F.getAttributes());
    uint64_t Instructions = 0;
    properties(F);
    for (BasicBlock &B : F) {
      Content.pointer(&B);
      if (B.hasAddressTaken())
        Print.AddressTaken.push_back(&B);
      for (Instruction &I : B) {
        ++Instructions;
        instruction(I);
      }
    }
    return {&F,           Content.finish(), Order.finish(),
            Instructions, HasAlignment,     Print.Shared.size()};
  }
};

void hashVariable(Hasher &H, const GlobalVariable &G, NodePrinter &Nodes,
                  ExpressionHashes &Expressions) {
  hashGlobalObject(H, G, Nodes);
  H.word(G.isConstant() | G.isExternallyInitialized() << 1);
  const Constant *Initializer = G.hasInitializer() ? G.getInitializer() : nullptr;
  H.pointer(Initializer);
  Expressions.add(H, Initializer);
  H.alignment(G.getAlign());
  H.word(G.getCodeModel() ? 1 + *G.getCodeModel() : 0);
  for (Attribute A : G.getAttributes())
    H.pointer(A.getRawPointer());
}

uint64_t hashModule(const Module &M, KnownTypes &Types, NodePrinter &Nodes,
                    ExpressionHashes &Expressions) {
  Hasher H;
  H.text(M.getTargetTriple().str());
  H.text(M.getDataLayoutStr());
  H.text(M.getModuleInlineAsm());
  for (const GlobalVariable &G : M.globals()) {
    Types.add(G.getValueType());
    hashVariable(H, G, Nodes, Expressions);
  }
  for (const GlobalAlias &G : M.aliases()) {
    hashGlobalValue(H, G);
    H.pointer(G.getAliasee());
    Expressions.add(H, G.getAliasee());
  }
  for (const GlobalIFunc &G : M.ifuncs()) {
    hashGlobalObject(H, G, Nodes);
    H.pointer(G.getResolver());
    Expressions.add(H, G.getResolver());
  }
  for (const NamedMDNode &Named : M.named_metadata()) {
    H.text(Named.getName());
    for (const MDNode *Node : Named.operands())
      Nodes.hash(H, Node);
  }
  return H.finish();
}

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
  FunctionPrinter Printer(Types, Nodes, Expressions, Print);
  for (Function &F : M)
    Print.Functions.push_back(Printer.print(F));
  // After the functions, since types may first turn up there.
  Print.Content = hashModule(M, Types, Nodes, Expressions);
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
