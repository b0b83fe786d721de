/// InstCount and Autophase, as CompilerGym defines them for LLVM 10's opcodes.
#include "feature_counts.h"
#include "module.h"

#include "llvm/Analysis/CFG.h"
#include "llvm/IR/CFG.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/InstrTypes.h"
#include "llvm/IR/Instructions.h"

#include <algorithm>
#include <limits>

using namespace llvm;
using namespace steplake;

namespace {

/// InstCount's opcodes from position 3 on, in LLVM 10's order. LLVM 22 numbers opcodes differently,
/// and its additional opcode (`PtrToAddr`) counts only in the totals.
const unsigned InstCountOpcodes[] = {
    Instruction::Ret,           Instruction::Br,
    Instruction::Switch,        Instruction::IndirectBr,
    Instruction::Invoke,        Instruction::Resume,
    Instruction::Unreachable,   Instruction::CleanupRet,
    Instruction::CatchRet,      Instruction::CatchSwitch,
    Instruction::CallBr,        Instruction::FNeg,
    Instruction::Add,           Instruction::FAdd,
    Instruction::Sub,           Instruction::FSub,
    Instruction::Mul,           Instruction::FMul,
    Instruction::UDiv,          Instruction::SDiv,
    Instruction::FDiv,          Instruction::URem,
    Instruction::SRem,          Instruction::FRem,
    Instruction::Shl,           Instruction::LShr,
    Instruction::AShr,          Instruction::And,
    Instruction::Or,            Instruction::Xor,
    Instruction::Alloca,        Instruction::Load,
    Instruction::Store,         Instruction::GetElementPtr,
    Instruction::Fence,         Instruction::AtomicCmpXchg,
    Instruction::AtomicRMW,     Instruction::Trunc,
    Instruction::ZExt,          Instruction::SExt,
    Instruction::FPToUI,        Instruction::FPToSI,
    Instruction::UIToFP,        Instruction::SIToFP,
    Instruction::FPTrunc,       Instruction::FPExt,
    Instruction::PtrToInt,      Instruction::IntToPtr,
    Instruction::BitCast,       Instruction::AddrSpaceCast,
    Instruction::CleanupPad,    Instruction::CatchPad,
    Instruction::ICmp,          Instruction::FCmp,
    Instruction::PHI,           Instruction::Call,
    Instruction::Select,        Instruction::UserOp1,
    Instruction::UserOp2,       Instruction::VAArg,
    Instruction::ExtractElement, Instruction::InsertElement,
    Instruction::ShuffleVector, Instruction::ExtractValue,
    Instruction::InsertValue,   Instruction::LandingPad,
    Instruction::Freeze,
};
static_assert(std::size(InstCountOpcodes) + 3 == SteplakeInstCountSize,
              "three totals and one count an opcode");

/// The positions of Autophase that count one opcode.
const std::pair<unsigned, unsigned> AutophaseOpcodes[] = {
    {15, Instruction::Br},     {25, Instruction::AShr},
    {26, Instruction::Add},    {27, Instruction::Alloca},
    {28, Instruction::And},    {31, Instruction::BitCast},
    {32, Instruction::Br},     {33, Instruction::Call},
    {34, Instruction::GetElementPtr}, {35, Instruction::ICmp},
    {36, Instruction::LShr},   {37, Instruction::Load},
    {38, Instruction::Mul},    {39, Instruction::Or},
    {40, Instruction::PHI},    {41, Instruction::Ret},
    {42, Instruction::SExt},   {43, Instruction::Select},
    {44, Instruction::Shl},    {45, Instruction::Store},
    {46, Instruction::Sub},    {47, Instruction::Trunc},
    {48, Instruction::Xor},    {49, Instruction::ZExt},
};

/// The positions of Autophase that are counted on the walk, with CompilerGym's names.
enum Position : unsigned {
  BBNumArgsHi = 0,
  BBNumArgsLo = 1,
  OnePred = 2,
  OnePredOneSuc = 3,
  OnePredTwoSuc = 4,
  OneSuccessor = 5,
  TwoPred = 6,
  TwoPredOneSuc = 7,
  TwoEach = 8,
  TwoSuccessor = 9,
  MorePreds = 10,
  BB03Phi = 11,
  BBHiPhi = 12,
  BBNoPhi = 13,
  BeginPhi = 14,
  ReturnInt = 16,
  CriticalCount = 17,
  NumEdges = 18,
  Const32Bit = 19,
  Const64Bit = 20,
  NumConstZeroes = 21,
  NumConstOnes = 22,
  UncondBranches = 23,
  BinaryConstArg = 24,
  BlockMid = 29,
  BlockLow = 30,
  TotalBlocks = 50,
  TotalInsts = 51,
  TotalMemInst = 52,
  TotalFuncs = 53,
  ArgsPhi = 54,
  TestUnary = 55,
};

int32_t clamp(uint64_t Count) {
  return static_cast<int32_t>(
      std::min<uint64_t>(Count, std::numeric_limits<int32_t>::max()));
}

/// Counts the features of one function.
class FunctionWalk {
  FunctionCounts &Found;
  std::array<uint32_t, Instruction::OtherOpsEnd> &Opcodes = Found.Opcodes;
  std::array<uint32_t, SteplakeAutophaseSize> &Counts = Found.Counts;

  void constant(const ConstantInt &C) {
    unsigned Width = C.getValue().getBitWidth();
    if (Width == 32)
      ++Counts[Const32Bit];
    else if (Width == 64)
      ++Counts[Const64Bit];
    if (C.isZero())
      ++Counts[NumConstZeroes];
    else if (C.isOne())
      ++Counts[NumConstOnes];
  }

  void instruction(const Instruction &I) {
    ++Opcodes[I.getOpcode()];
    for (const Value *Operand : I.operand_values())
      if (auto *C = dyn_cast<ConstantInt>(Operand))
        constant(*C);
    if (isa<UnaryInstruction>(I))
      ++Counts[TestUnary];
    if (isa<BinaryOperator>(I) &&
        (isa<Constant>(I.getOperand(0)) || isa<Constant>(I.getOperand(1))))
      ++Counts[BinaryConstArg];
    if (auto *Branch = dyn_cast<BranchInst>(&I)) {
      Counts[UncondBranches] += Branch->isUnconditional();
    } else if (auto *Switch = dyn_cast<SwitchInst>(&I)) {
      // These were operands in LLVM 10; LLVM 22 keeps them apart.
      for (auto Case : Switch->cases())
        constant(*Case.getCaseValue());
    } else if (auto *Call = dyn_cast<CallInst>(&I)) {
      const Function *Callee = Call->getCalledFunction();
      if (Callee && Callee->getReturnType()->isIntegerTy())
        ++Counts[ReturnInt];
    }
  }

  void edges(const BasicBlock &B) {
    const Instruction *Terminator = B.getTerminator();
    unsigned Successors = Terminator->getNumSuccessors();
    Counts[NumEdges] += Successors;
    if (Successors > 1)
      for (unsigned N = 0; N < Successors; ++N)
        Counts[CriticalCount] += isCriticalEdge(Terminator, N);
    auto Predecessors = static_cast<unsigned>(pred_size(&B));
    Counts[OneSuccessor] += Successors == 1;
    Counts[TwoSuccessor] += Successors == 2;
    Counts[OnePred] += Predecessors == 1;
    Counts[TwoPred] += Predecessors == 2;
    Counts[MorePreds] += Predecessors > 2;
    Counts[OnePredOneSuc] += Predecessors == 1 && Successors == 1;
    Counts[OnePredTwoSuc] += Predecessors == 1 && Successors == 2;
    Counts[TwoPredOneSuc] += Predecessors == 2 && Successors == 1;
    Counts[TwoEach] += Predecessors == 2 && Successors == 2;
  }

  void block(const BasicBlock &B) {
    uint64_t Instructions = 0, Phis = 0, Incoming = 0;
    for (const Instruction &I : B) {
      ++Instructions;
      instruction(I);
      if (auto *Phi = dyn_cast<PHINode>(&I)) {
        ++Phis;
        Incoming += Phi->getNumIncomingValues();
      }
    }
    edges(B);
    ++Counts[TotalBlocks];
    Counts[TotalInsts] += Instructions;
    Counts[ArgsPhi] += Incoming;
    Counts[BeginPhi] += Phis > 0; // verified modules have phis first
    Counts[Phis == 0 ? BBNoPhi : Phis <= 3 ? BB03Phi : BBHiPhi] += 1;
    if (Incoming > 0)
      ++Counts[Incoming > 5 ? BBNumArgsHi : BBNumArgsLo];
    if (Instructions <= 500)
      ++Counts[Instructions < 15 ? BlockLow : BlockMid];
  }

public:
  FunctionWalk(const Function &F, FunctionCounts &Found) : Found(Found) {
    for (const BasicBlock &B : F)
      block(B);
  }
};

/// The sums over all functions.
class FeatureSums {
  std::array<uint64_t, Instruction::OtherOpsEnd> Opcodes = {};
  std::array<uint64_t, SteplakeAutophaseSize> Counts = {};

  void add(const FunctionCounts &Found) {
    for (size_t N = 0; N < Opcodes.size(); ++N)
      Opcodes[N] += Found.Opcodes[N];
    for (size_t N = 0; N < Counts.size(); ++N)
      Counts[N] += Found.Counts[N];
  }

public:
  FeatureSums(const Module &M, ContentIds &Known) {
    for (const Function &F : M)
      if (!F.isDeclaration())
        add(Known.counts(F));
    Counts[TotalFuncs] = M.size();
    for (auto [Position, Opcode] : AutophaseOpcodes)
      Counts[Position] = Opcodes[Opcode];
    for (unsigned Opcode :
         {Instruction::GetElementPtr, Instruction::Load, Instruction::Store})
      Counts[TotalMemInst] += Opcodes[Opcode];
    Counts[TotalMemInst] += Opcodes[Instruction::Call] +
                            Opcodes[Instruction::Invoke] +
                            Opcodes[Instruction::Alloca];
  }

  void instCount(int32_t *Out) const {
    *Out++ = clamp(Counts[TotalInsts]);
    *Out++ = clamp(Counts[TotalBlocks]);
    *Out++ = clamp(Counts[TotalFuncs]);
    for (unsigned Opcode : InstCountOpcodes)
      *Out++ = clamp(Opcodes[Opcode]);
  }

  void autophase(int32_t *Out) const {
    for (uint64_t Count : Counts)
      *Out++ = clamp(Count);
  }
};

} // namespace

FunctionCounts::FunctionCounts(const Function &F) { FunctionWalk(F, *this); }

extern "C" void steplake_llvm_module_features(SteplakeModule *Module,
                                              int32_t *InstCount,
                                              int32_t *Autophase) {
  FeatureSums Sums(*Module->IR, Module->Ids);
  Sums.instCount(InstCount);
  Sums.autophase(Autophase);
}
