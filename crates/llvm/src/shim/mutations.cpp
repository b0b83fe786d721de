/// Changes one field of a module at a time, for tests that the fingerprint and the id see every
/// field. Only tests refer to this file, so it is not linked into the program.
#include "module.h"
#include "steplake_llvm.h"

#include "llvm/IR/Constants.h"
#include "llvm/IR/DebugProgramInstruction.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Metadata.h"

using namespace llvm;

namespace {

/// Returns the first instruction of a kind.
template <typename T> T &first(Module &M) {
  for (Function &F : M)
    for (BasicBlock &B : F)
      for (Instruction &I : B)
        if (auto *Found = dyn_cast<T>(&I))
          return *Found;
  report_fatal_error("the test's program lacks an instruction");
}

/// Returns the first atomic instruction of a kind.
template <typename T> T &atomic(Module &M) {
  for (Function &F : M)
    for (Instruction &I : instructions(F))
      if (isa<T>(I) && I.isAtomic())
        return cast<T>(I);
  report_fatal_error("the test's program lacks an atomic instruction");
}

Function &function(Module &M) { return *M.getFunction("everything"); }
GlobalVariable &variable(Module &M) { return *M.getNamedGlobal("variable"); }
MDNode *node(Module &M) {
  return MDNode::get(M.getContext(), MDString::get(M.getContext(), "new"));
}
SyncScope::ID scope(Module &M) {
  return M.getContext().getOrInsertSyncScopeID("elsewhere");
}
BinaryOperator &addition(Module &M, Instruction::BinaryOps Opcode) {
  for (Instruction &I : instructions(function(M)))
    if (I.getOpcode() == Opcode)
      return cast<BinaryOperator>(I);
  report_fatal_error("the test's program lacks an operation");
}

/// Returns the node attached to a load of the function `wraps`.
MDNode *wraps(Module &M, StringRef Kind) {
  for (Instruction &I : instructions(*M.getFunction("wraps")))
    if (MDNode *Node = I.getMetadata(Kind))
      return Node;
  report_fatal_error("the test's program lacks an attachment");
}

struct Mutation {
  const char *Name;
  void (*Apply)(Module &);
};

const Mutation Mutations[] = {
    {"switch case value",
     [](Module &M) {
       auto Case = first<SwitchInst>(M).case_begin();
       Case->setValue(ConstantInt::get(M.getContext(), APInt(32, 77)));
     }},
    {"read-modify-write operation",
     [](Module &M) { first<AtomicRMWInst>(M).setOperation(AtomicRMWInst::Sub); }},
    {"read-modify-write ordering",
     [](Module &M) {
       first<AtomicRMWInst>(M).setOrdering(AtomicOrdering::Monotonic);
     }},
    {"read-modify-write volatility",
     [](Module &M) { first<AtomicRMWInst>(M).setVolatile(true); }},
    {"read-modify-write scope",
     [](Module &M) { first<AtomicRMWInst>(M).setSyncScopeID(scope(M)); }},
    {"exchange weakness",
     [](Module &M) { first<AtomicCmpXchgInst>(M).setWeak(true); }},
    {"exchange volatility",
     [](Module &M) { first<AtomicCmpXchgInst>(M).setVolatile(true); }},
    {"exchange success ordering",
     [](Module &M) {
       first<AtomicCmpXchgInst>(M).setSuccessOrdering(AtomicOrdering::Acquire);
     }},
    {"exchange failure ordering",
     [](Module &M) {
       first<AtomicCmpXchgInst>(M).setFailureOrdering(AtomicOrdering::Acquire);
     }},
    {"exchange scope",
     [](Module &M) { first<AtomicCmpXchgInst>(M).setSyncScopeID(scope(M)); }},
    {"fence ordering",
     [](Module &M) { first<FenceInst>(M).setOrdering(AtomicOrdering::Acquire); }},
    {"fence scope",
     [](Module &M) { first<FenceInst>(M).setSyncScopeID(scope(M)); }},
    {"load alignment",
     [](Module &M) { first<LoadInst>(M).setAlignment(Align(64)); }},
    {"load volatility", [](Module &M) { first<LoadInst>(M).setVolatile(true); }},
    {"load ordering",
     [](Module &M) {
       first<LoadInst>(M).setOrdering(AtomicOrdering::Monotonic);
     }},
    {"load scope",
     [](Module &M) { atomic<LoadInst>(M).setSyncScopeID(scope(M)); }},
    {"store alignment",
     [](Module &M) { first<StoreInst>(M).setAlignment(Align(64)); }},
    {"store volatility", [](Module &M) { first<StoreInst>(M).setVolatile(true); }},
    {"store scope",
     [](Module &M) { atomic<StoreInst>(M).setSyncScopeID(scope(M)); }},
    {"alloca alignment",
     [](Module &M) { first<AllocaInst>(M).setAlignment(Align(128)); }},
    {"alloca type",
     [](Module &M) {
       first<AllocaInst>(M).setAllocatedType(Type::getInt8Ty(M.getContext()));
     }},
    {"landing pad clean-up",
     [](Module &M) { first<LandingPadInst>(M).setCleanup(true); }},
    {"operand bundle tag",
     [](Module &M) {
       first<CallInst>(M).bundle_op_info_begin()->Tag =
           M.getContext().getOrInsertBundleTag("another");
     }},
    {"call attribute",
     [](Module &M) { first<CallInst>(M).addFnAttr(Attribute::NoInline); }},
    {"call convention",
     [](Module &M) { first<CallInst>(M).setCallingConv(CallingConv::Fast); }},
    {"tail call kind",
     [](Module &M) { first<CallInst>(M).setTailCallKind(CallInst::TCK_Tail); }},
    {"integer predicate",
     [](Module &M) { first<ICmpInst>(M).setPredicate(CmpInst::ICMP_UGT); }},
    {"float predicate",
     [](Module &M) { first<FCmpInst>(M).setPredicate(CmpInst::FCMP_OLT); }},
    {"fast-math flag", [](Module &M) { first<FCmpInst>(M).setHasNoNaNs(true); }},
    {"no-wrap flag",
     [](Module &M) { addition(M, Instruction::Add).setHasNoSignedWrap(true); }},
    {"exact flag",
     [](Module &M) { addition(M, Instruction::LShr).setIsExact(true); }},
    {"in-bounds flag",
     [](Module &M) {
       first<GetElementPtrInst>(M).setNoWrapFlags(GEPNoWrapFlags::inBounds());
     }},
    {"address source type",
     [](Module &M) {
       first<GetElementPtrInst>(M).setSourceElementType(
           Type::getInt16Ty(M.getContext()));
     }},
    {"non-negative flag", [](Module &M) { first<ZExtInst>(M).setNonNeg(true); }},
    {"operand",
     [](Module &M) {
       addition(M, Instruction::Add)
           .setOperand(1, ConstantInt::get(Type::getInt32Ty(M.getContext()), 99));
     }},
    {"phi blocks",
     [](Module &M) {
       PHINode &Phi = first<PHINode>(M);
       BasicBlock *Other = Phi.getIncomingBlock(1);
       Phi.setIncomingBlock(1, Phi.getIncomingBlock(0));
       Phi.setIncomingBlock(0, Other);
     }},
    {"shuffle mask",
     [](Module &M) { first<ShuffleVectorInst>(M).setShuffleMask({3, 2, 1, 0}); }},
    {"metadata added",
     [](Module &M) {
       first<LoadInst>(M).setMetadata(LLVMContext::MD_invariant_load, node(M));
     }},
    {"metadata removed",
     [](Module &M) { first<StoreInst>(M).setMetadata("marker", nullptr); }},
    {"distinct node",
     [](Module &M) {
       first<StoreInst>(M).getMetadata("marker")->replaceOperandWith(0, node(M));
     }},
    {"debug location",
     [](Module &M) { first<AllocaInst>(M).setDebugLoc(DebugLoc()); }},
    {"debug records",
     [](Module &M) {
       for (Instruction &I : instructions(function(M)))
         I.dropDbgRecords();
     }},
    {"instruction order",
     [](Module &M) {
       Instruction &I = addition(M, Instruction::Add);
       I.moveBefore(I.getPrevNode()->getIterator());
     }},
    {"block order",
     [](Module &M) {
       BasicBlock &Last = function(M).back();
       Last.moveBefore(Last.getPrevNode());
     }},
    {"function order",
     [](Module &M) {
       auto &List = M.getFunctionList();
       List.splice(List.begin(), List, function(M).getIterator());
     }},
    {"function attribute",
     [](Module &M) { function(M).addFnAttr(Attribute::Cold); }},
    {"parameter attribute",
     [](Module &M) { function(M).addParamAttr(0, Attribute::NoUndef); }},
    {"function convention",
     [](Module &M) { function(M).setCallingConv(CallingConv::Fast); }},
    {"garbage collector", [](Module &M) { function(M).clearGC(); }},
    {"personality", [](Module &M) { function(M).setPersonalityFn(nullptr); }},
    {"prefix data", [](Module &M) { function(M).setPrefixData(nullptr); }},
    {"prologue data", [](Module &M) { function(M).setPrologueData(nullptr); }},
    {"function section", [](Module &M) { function(M).setSection("other"); }},
    {"function alignment",
     [](Module &M) { function(M).setAlignment(Align(128)); }},
    {"function linkage",
     [](Module &M) { function(M).setLinkage(GlobalValue::InternalLinkage); }},
    {"function metadata",
     [](Module &M) { function(M).addMetadata("marker", *node(M)); }},
    {"function name", [](Module &M) { function(M).setName("renamed"); }},
    {"function gone", [](Module &M) { M.getFunction("unused")->eraseFromParent(); }},
    {"visibility",
     [](Module &M) { variable(M).setVisibility(GlobalValue::HiddenVisibility); }},
    {"unnamed address",
     [](Module &M) {
       variable(M).setUnnamedAddr(GlobalValue::UnnamedAddr::Global);
     }},
    {"locality", [](Module &M) { variable(M).setDSOLocal(true); }},
    {"storage class",
     [](Module &M) {
       variable(M).setDLLStorageClass(GlobalValue::DLLExportStorageClass);
     }},
    {"partition", [](Module &M) { variable(M).setPartition("part"); }},
    {"thread-locality", [](Module &M) { variable(M).setThreadLocal(true); }},
    {"constancy", [](Module &M) { variable(M).setConstant(true); }},
    {"external initialisation",
     [](Module &M) { variable(M).setExternallyInitialized(true); }},
    {"initialiser",
     [](Module &M) {
       variable(M).setInitializer(
           ConstantInt::get(Type::getInt32Ty(M.getContext()), 99));
     }},
    {"global alignment", [](Module &M) { variable(M).setAlignment(Align(128)); }},
    {"global section", [](Module &M) { variable(M).setSection("other"); }},
    {"global attribute", [](Module &M) { variable(M).addAttribute("marker"); }},
    {"global metadata",
     [](Module &M) { variable(M).addMetadata("marker", *node(M)); }},
    {"code model",
     [](Module &M) { variable(M).setCodeModel(CodeModel::Large); }},
    {"sanitizer metadata",
     [](Module &M) {
       GlobalValue::SanitizerMetadata Sanitizer;
       Sanitizer.NoAddress = true;
       variable(M).setSanitizerMetadata(Sanitizer);
     }},
    {"comdat kind",
     [](Module &M) {
       variable(M).getComdat()->setSelectionKind(Comdat::Largest);
     }},
    {"comdat", [](Module &M) { variable(M).setComdat(nullptr); }},
    {"aliasee",
     [](Module &M) {
       M.alias_begin()->setAliasee(M.getNamedGlobal("another"));
     }},
    {"table rewritten in place",
     [](Module &M) {
       Constant *Table = M.getNamedGlobal("table")->getInitializer();
       M.getFunction("first")->replaceAllUsesWith(M.getFunction("second"));
       if (M.getNamedGlobal("table")->getInitializer() != Table)
         report_fatal_error("the table was to be rewritten in place");
     }},
    {"expression rewritten in place",
     [](Module &M) {
       Constant *Place = M.getNamedGlobal("place")->getInitializer();
       M.getNamedGlobal("another")->replaceAllUsesWith(
           M.getNamedGlobal("variable"));
       if (M.getNamedGlobal("place")->getInitializer() != Place)
         report_fatal_error("the expression was to be rewritten in place");
     }},
    {"resolver",
     [](Module &M) { M.ifunc_begin()->setResolver(M.getFunction("resolve2")); }},
    {"named metadata",
     [](Module &M) { M.getOrInsertNamedMetadata("named")->addOperand(node(M)); }},
    {"module assembly", [](Module &M) { M.setModuleInlineAsm("nop"); }},
    {"triple",
     [](Module &M) { M.setTargetTriple(Triple("x86_64-unknown-freebsd")); }},
    {"type name",
     [](Module &M) {
       StructType::getTypeByName(M.getContext(), "pair")->setName("couple");
     }},
    {"name of a type without parts",
     [](Module &M) {
       StructType::getTypeByName(M.getContext(), "empty")->setName("nothing");
     }},
    {"name of a type that is not known",
     [](Module &M) {
       StructType::getTypeByName(M.getContext(), "unknown")->setName("");
     }},
    {"global name", [](Module &M) { variable(M).setName("renamed"); }},
    {"order of globals without names",
     [](Module &M) {
       for (GlobalVariable &G : M.globals())
         if (!G.hasName()) {
           M.removeGlobalVariable(&G);
           return M.insertGlobalVariable(&G);
         }
     }},
    {"order of blocks that others mention",
     [](Module &M) {
       BasicBlock &Last = M.getFunction("jumps")->back();
       Last.moveBefore(Last.getPrevNode());
     }},
    {"distinct node behind another",
     [](Module &M) {
       MDNode *Outer = wraps(M, "deep");
       cast<MDNode>(Outer->getOperand(0))->replaceOperandWith(0, node(M));
     }},
    {"node rewritten in place",
     [](Module &M) {
       MDNode *Node = wraps(M, "deep");
       Node->replaceOperandWith(0, MDString::get(M.getContext(), "rewritten"));
       if (Node != wraps(M, "deep"))
         report_fatal_error("the node was to be rewritten in place");
     }},
    {"global in a node replaced",
     [](Module &M) {
       M.getNamedGlobal("mentioned")->replaceAllUsesWith(
           M.getNamedGlobal("another"));
     }},
    {"global within an expression in a node replaced",
     [](Module &M) {
       M.getNamedGlobal("within")->replaceAllUsesWith(
           M.getNamedGlobal("another"));
     }},
    {"global within an aggregate in a node replaced",
     [](Module &M) {
       M.getNamedGlobal("in_row")->replaceAllUsesWith(
           M.getNamedGlobal("another"));
     }},
    {"global in an operand replaced",
     [](Module &M) {
       M.getNamedGlobal("wrapped")->replaceAllUsesWith(
           M.getNamedGlobal("another"));
     }},
    {"block in a table replaced",
     [](Module &M) {
       Function &F = *M.getFunction("jumps");
       BasicBlock &Last = F.back();
       BlockAddress::get(&F, &Last)->replaceAllUsesWith(
           BlockAddress::get(&F, Last.getPrevNode()));
     }},
    {"blocks of a table deleted",
     [](Module &M) {
       Constant *Table = M.getNamedGlobal("labels")->getInitializer();
       Function &F = *M.getFunction("jumps");
       F.deleteBody();
       if (M.getNamedGlobal("labels")->getInitializer() != Table)
         report_fatal_error("the table was to be rewritten in place");
     }},
    {"globals of a table replaced by poison",
     [](Module &M) {
       GlobalVariable *Gone = M.getNamedGlobal("gone");
       Constant *Table = M.getNamedGlobal("holes")->getInitializer();
       Gone->replaceAllUsesWith(PoisonValue::get(Gone->getType()));
       if (M.getNamedGlobal("holes")->getInitializer() != Table)
         report_fatal_error("the table was to be rewritten in place");
     }},
    {"global of an expression replaced by null",
     [](Module &M) {
       GlobalVariable *Gone = M.getNamedGlobal("leaves");
       Gone->replaceAllUsesWith(
           ConstantPointerNull::get(cast<PointerType>(Gone->getType())));
     }},
    {"name of a type that an attribute alone mentions",
     [](Module &M) {
       StructType::getTypeByName(M.getContext(), "by_value")->setName("other");
     }},
    {"data layout", [](Module &M) { M.setDataLayout("e-p:64:64"); }},
};

} // namespace

/// Applies the mutation at `Index`. Returns its name; null if there is none.
extern "C" const char *steplake_llvm_mutate(SteplakeModule *Module,
                                            size_t Index) {
  if (Index >= std::size(Mutations))
    return nullptr;
  Mutations[Index].Apply(*Module->IR);
  return Mutations[Index].Name;
}

/// Replaces the function `first` by null wherever it is used.
extern "C" void steplake_llvm_break_constant(SteplakeModule *Module) {
  Function *First = Module->IR->getFunction("first");
  First->replaceAllUsesWith(ConstantPointerNull::get(First->getType()));
}

/// Adds a table of `Depth` dimensions of two equal elements each, filled with the function `first`,
/// and the function's address doubled `Depth` times. In each, 2^`Depth` paths lead to the function
/// through only `Depth` constants.
extern "C" void steplake_llvm_nest_constants(SteplakeModule *Module, size_t Depth) {
  Constant *Table = Module->IR->getFunction("first");
  Constant *Sum = ConstantExpr::getPtrToInt(
      Table, Type::getInt64Ty(Module->IR->getContext()));
  for (size_t I = 0; I < Depth; ++I) {
    Table = ConstantArray::get(ArrayType::get(Table->getType(), 2), {Table, Table});
    Sum = ConstantExpr::getAdd(Sum, Sum);
  }
  for (Constant *Nested : {Table, Sum})
    new GlobalVariable(*Module->IR, Nested->getType(), false,
                       GlobalValue::ExternalLinkage, Nested, "nested");
}

/// Reverses the entries of every phi node, which does not change what it does.
extern "C" void steplake_llvm_reverse_entries(SteplakeModule *Module) {
  for (Function &F : *Module->IR)
    for (BasicBlock &B : F)
      for (PHINode &Phi : B.phis())
        for (unsigned I = 0, J = Phi.getNumIncomingValues() - 1; I < J; ++I, --J) {
          BasicBlock *Block = Phi.getIncomingBlock(I);
          Value *Incoming = Phi.getIncomingValue(I);
          Phi.setIncomingBlock(I, Phi.getIncomingBlock(J));
          Phi.setIncomingValue(I, Phi.getIncomingValue(J));
          Phi.setIncomingBlock(J, Block);
          Phi.setIncomingValue(J, Incoming);
        }
}

/// Reverses every use-list, which does not change the content.
extern "C" void steplake_llvm_reverse_uses(SteplakeModule *Module) {
  for (GlobalVariable &G : Module->IR->globals())
    G.reverseUseList();
  for (Function &F : *Module->IR) {
    F.reverseUseList();
    for (BasicBlock &B : F) {
      B.reverseUseList();
      for (Instruction &I : B)
        I.reverseUseList();
    }
  }
}
