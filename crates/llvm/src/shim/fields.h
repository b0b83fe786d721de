/// Lists the fields of a module, once for all who look at every one of them.
///
/// A sink receives the fields in a fixed order. The fingerprint takes them by address, the id of a
/// state by content. A field that a new version of LLVM adds has its place here, and nowhere else.
///
/// What a sink has:
/// - `self(const Value &)`: the thing whose fields come next
/// - `number(uint32_t)`, `text(StringRef)`, `integer(const APInt &)`, `alignment(MaybeAlign)`
/// - `type(const Type *)`, `value(const Value *)`, `metadata(const Metadata *)`: a thing that is
///   mentioned, or null
/// - `operand(Use &)`: a value that an instruction uses
/// - `attributes(const AttributeList &)`, `attributes(const AttributeSet &)`
/// - `debugRecords(const Instruction &)`: debug records, whose fields are not listed here
#pragma once

#include "private_access.h"

#include "llvm/ADT/APInt.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/IR/Comdat.h"
#include "llvm/IR/ConstantRange.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/Metadata.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/Operator.h"
#include "llvm/Support/Casting.h"

#include <cstdint>

namespace steplake {

/// Gives a list of numbers, after its length.
template <typename Sink, typename Range> void visitNumbers(Sink &S, const Range &Numbers) {
  S.number(Numbers.size());
  for (auto Number : Numbers)
    S.number(static_cast<uint32_t>(Number));
}

/// Gives the nodes that are attached to an instruction or a global.
template <typename Sink, typename T> void visitAttachments(Sink &S, const T &Owner) {
  if (!Owner.hasMetadata())
    return S.number(0);
  llvm::SmallVector<std::pair<unsigned, llvm::MDNode *>, 8> Attached;
  Owner.getAllMetadata(Attached);
  S.number(Attached.size());
  for (auto &[Kind, Node] : Attached) {
    S.number(Kind);
    S.metadata(Node);
  }
}

/// Gives what a constant expression has besides its type and its operands.
template <typename Sink> void visitExpression(Sink &S, const llvm::ConstantExpr &Expression) {
  S.number(Expression.getOpcode() | Expression.getRawSubclassOptionalData() << 16);
  if (auto *Address = llvm::dyn_cast<llvm::GEPOperator>(&Expression)) {
    S.type(Address->getSourceElementType());
    std::optional<llvm::ConstantRange> Range = Address->getInRange();
    S.number(Range.has_value());
    if (Range) {
      S.integer(Range->getLower());
      S.integer(Range->getUpper());
    }
  }
  if (Expression.getOpcode() == llvm::Instruction::ShuffleVector)
    visitNumbers(S, Expression.getShuffleMask());
}

template <typename Sink> void visitCall(Sink &S, const llvm::CallBase &Call) {
  S.attributes(Call.getAttributes());
  S.type(Call.getFunctionType());
  S.number(Call.getNumOperandBundles());
  for (const llvm::CallBase::BundleOpInfo &Bundle : Call.bundle_op_infos()) {
    S.number(Bundle.Tag->getValue());
    S.number(Bundle.Begin);
    S.number(Bundle.End);
  }
}

/// Gives what an instruction of its opcode has besides what all instructions have.
template <typename Sink> void visitOwnFields(Sink &S, const llvm::Instruction &I) {
  using namespace llvm;
  switch (I.getOpcode()) {
  case Instruction::Call:
  case Instruction::Invoke:
  case Instruction::CallBr:
    return visitCall(S, cast<CallBase>(I));
  case Instruction::PHI:
    for (const BasicBlock *Block : cast<PHINode>(I).blocks())
      S.value(Block);
    return;
  case Instruction::Switch:
    for (auto Case : cast<SwitchInst>(I).cases())
      S.value(Case.getCaseValue());
    return;
  case Instruction::GetElementPtr:
    return S.type(cast<GetElementPtrInst>(I).getSourceElementType());
  case Instruction::Alloca:
    return S.type(cast<AllocaInst>(I).getAllocatedType());
  case Instruction::ShuffleVector:
    return visitNumbers(S, cast<ShuffleVectorInst>(I).getShuffleMask());
  case Instruction::ExtractValue:
    return visitNumbers(S, cast<ExtractValueInst>(I).getIndices());
  case Instruction::InsertValue:
    return visitNumbers(S, cast<InsertValueInst>(I).getIndices());
  case Instruction::Load:
  case Instruction::Store:
  case Instruction::Fence:
  case Instruction::AtomicRMW:
  case Instruction::AtomicCmpXchg:
    // Bitcode has a scope only where there is an ordering.
    return S.number(getAtomicSyncScopeID(&I).value_or(0));
  default:
    return;
  }
}

template <typename Sink> void visitInstruction(Sink &S, llvm::Instruction &I) {
  S.self(I);
  S.number(I.getOpcode() | I.getRawSubclassOptionalData() << 8 | subclassData(I) << 16);
  S.number(I.getNumOperands());
  S.type(I.getType());
  for (llvm::Use &Operand : I.operands())
    S.operand(Operand);
  visitOwnFields(S, I);
  if (I.hasDbgRecords())
    S.debugRecords(I);
  visitAttachments(S, I);
}

template <typename Sink> void visitGlobalValue(Sink &S, const llvm::GlobalValue &G) {
  S.self(G);
  S.text(G.getName());
  S.type(G.getValueType());
  S.number(G.getLinkage() | G.getVisibility() << 8 |
           static_cast<unsigned>(G.getUnnamedAddr()) << 12 | G.isDSOLocal() << 16 |
           G.getThreadLocalMode() << 20 | G.getDLLStorageClass() << 24);
  S.number(G.getAddressSpace());
  S.text(G.getPartition());
  if (!G.hasSanitizerMetadata())
    return S.number(0);
  const llvm::GlobalValue::SanitizerMetadata &Sanitizers = G.getSanitizerMetadata();
  S.number(0x100 | Sanitizers.NoAddress << 3 | Sanitizers.NoHWAddress << 2 |
           Sanitizers.Memtag << 1 | Sanitizers.IsDynInit);
}

template <typename Sink> void visitGlobalObject(Sink &S, const llvm::GlobalObject &G) {
  visitGlobalValue(S, G);
  S.text(G.getSection());
  const llvm::Comdat *Comdat = G.getComdat();
  S.text(Comdat ? Comdat->getName() : "");
  S.number(Comdat ? 1 + Comdat->getSelectionKind() : 0);
  visitAttachments(S, G);
}

/// Gives what a function has besides its body.
template <typename Sink> void visitFunction(Sink &S, const llvm::Function &F) {
  visitGlobalObject(S, F);
  S.alignment(F.getAlign());
  S.attributes(F.getAttributes());
  S.number(F.getCallingConv());
  S.text(F.hasGC() ? llvm::StringRef(F.getGC()) : "");
  // Not by the operands, since removed ones leave their slots behind.
  S.value(F.hasPersonalityFn() ? F.getPersonalityFn() : nullptr);
  S.value(F.hasPrefixData() ? F.getPrefixData() : nullptr);
  S.value(F.hasPrologueData() ? F.getPrologueData() : nullptr);
}

/// Gives everything outside functions.
template <typename Sink> void visitRest(Sink &S, const llvm::Module &M) {
  S.text(M.getTargetTriple().str());
  S.text(M.getDataLayoutStr());
  S.text(M.getModuleInlineAsm());
  S.number(M.global_size());
  for (const llvm::GlobalVariable &G : M.globals()) {
    visitGlobalObject(S, G);
    S.alignment(G.getAlign());
    S.number(G.isConstant() | G.isExternallyInitialized() << 1);
    S.number(G.getCodeModel() ? 1 + *G.getCodeModel() : 0);
    S.attributes(G.getAttributes());
    S.value(G.hasInitializer() ? G.getInitializer() : nullptr);
  }
  S.number(M.alias_size());
  for (const llvm::GlobalAlias &G : M.aliases()) {
    visitGlobalValue(S, G);
    S.value(G.getAliasee());
  }
  S.number(M.ifunc_size());
  for (const llvm::GlobalIFunc &G : M.ifuncs()) {
    visitGlobalObject(S, G);
    S.value(G.getResolver());
  }
  S.number(M.named_metadata_size());
  for (const llvm::NamedMDNode &Named : M.named_metadata()) {
    S.text(Named.getName());
    S.number(Named.getNumOperands());
    for (const llvm::MDNode *Node : Named.operands())
      S.metadata(Node);
  }
}

} // namespace steplake
