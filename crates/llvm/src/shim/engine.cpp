#include "module.h"

#include "llvm-c/Target.h"
#include "llvm/Analysis/CGSCCPassManager.h"
#include "llvm/Analysis/LoopAnalysisManager.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/PassManager.h"
#include "llvm/IR/PatternMatch.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/ErrorHandling.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"

using namespace llvm;
using namespace llvm::PatternMatch;
using namespace steplake;

namespace {

/// A pass that miscompiles on purpose, for tests: it replaces a function's first operation of one
/// kind by another, if its operands are values in registers, neither constants nor just loaded. So
/// it does harm only after a pass that promotes memory to registers. No action of a public
/// environment names it.
struct PlantedBug : PassInfoMixin<PlantedBug> {
  Instruction::BinaryOps Right, Wrong;

  PlantedBug(Instruction::BinaryOps Right, Instruction::BinaryOps Wrong)
      : Right(Right), Wrong(Wrong) {}

  PreservedAnalyses run(Function &F, FunctionAnalysisManager &) {
    auto IsInRegister = [](Value *V) {
      return !isa<Constant>(V) && !isa<LoadInst>(V);
    };
    for (Instruction &I : instructions(F)) {
      if (I.getOpcode() != Right || !IsInRegister(I.getOperand(0)) ||
          !IsInRegister(I.getOperand(1)))
        continue;
      ReplaceInstWithInst(&I, BinaryOperator::Create(Wrong, I.getOperand(0), I.getOperand(1)));
      return PreservedAnalyses::none();
    }
    return PreservedAnalyses::all();
  }
};

bool parsePlantedBug(StringRef Name, FunctionPassManager &Passes,
                     ArrayRef<PassBuilder::PipelineElement>) {
  if (Name == "steplake-planted-bug")
    Passes.addPass(PlantedBug(Instruction::Sub, Instruction::Add));
  else if (Name == "steplake-planted-other-bug")
    Passes.addPass(PlantedBug(Instruction::And, Instruction::Or));
  else
    return false;
  return true;
}

} // namespace

/// Parses pipelines and runs them.
struct SteplakeEngine {
  PassBuilder Builder;
  LoopAnalysisManager Loops;
  FunctionAnalysisManager Functions;
  CGSCCAnalysisManager Components;
  ModuleAnalysisManager Modules;

  explicit SteplakeEngine(TargetMachine &Machine) : Builder(&Machine) {
    Builder.registerModuleAnalyses(Modules);
    Builder.registerCGSCCAnalyses(Components);
    Builder.registerFunctionAnalyses(Functions);
    Builder.registerLoopAnalyses(Loops);
    Builder.crossRegisterProxies(Loops, Functions, Components, Modules);
    Builder.registerPipelineParsingCallback(parsePlantedBug);
  }

  /// Forgets all analysis results. If they were kept, passes would decide otherwise than on a
  /// module just read.
  ///
  /// What else outlives a step, in LLVM 22, affects no later step of the same program:
  /// - The target machine keeps the subtargets that functions asked for, by all that defines one:
  ///   CPU, tuning, features, vector widths, soft float. Each new subtarget sets three options
  ///   (`NoInfsFPMath`, `NoNaNsFPMath`, `NoSignedZerosFPMath`) to those of the asking function, so
  ///   they depend on the steps before. Only the selection of machine instructions reads them: no
  ///   subtarget constructor, no cost and no action does.
  /// - `TargetLibraryAnalysis` and `RuntimeLibraryAnalysis` keep what they found for the first
  ///   module. It follows from the target triple, which no action changes.
  void clear() {
    Loops.clear();
    Functions.clear();
    Components.clear();
    Modules.clear();
  }
};

extern "C" {

void steplake_llvm_initialize_x86() {
  // Once: LLVM's registry has no lock.
  static const bool Registered = [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    // Code generation parses inline assembly.
    LLVMInitializeX86AsmParser();
    return true;
  }();
  (void)Registered;
}

SteplakeEngine *steplake_llvm_engine_create(LLVMTargetMachineRef Machine) {
  // Nothing here can go on without memory. LLVM's handler says so and ends the process, where
  // `operator new` would throw through LLVM.
  static bool Installed = (install_out_of_memory_new_handler(), true);
  (void)Installed;
  return new SteplakeEngine(*reinterpret_cast<TargetMachine *>(Machine));
}

void steplake_llvm_engine_dispose(SteplakeEngine *Engine) { delete Engine; }

int steplake_llvm_engine_run_alone(SteplakeEngine *Engine,
                                   SteplakeModule *Module, const char *Pipeline,
                                   size_t Size) {
  // Pass managers cannot be kept: some passes keep state between runs.
  ModulePassManager Passes;
  if (Error E = Engine->Builder.parsePassPipeline(Passes, {Pipeline, Size})) {
    Module->Message = toString(std::move(E));
    return false;
  }
  Passes.run(*Module->IR, Engine->Modules);
  Engine->clear();
  return true;
}

SteplakeRunResult steplake_llvm_engine_run(SteplakeEngine *Engine,
                                           SteplakeModule *Module,
                                           const char *Pipeline, size_t Size) {
  llvm::Module &M = *Module->IR;
  resetUniqueNames(M);
  if (!steplake_llvm_engine_run_alone(Engine, Module, Pipeline, Size))
    return SteplakeBadPipeline;
  canonicaliseIntrinsics(*Module);
  dropDeadConstants(M);
  canonicalisePhis(M);
  takeFingerprint(M, Module->Types, Module->Next);
  compare(M, Module->Print, Module->Next, Module->Changes);
  if (Module->Changes.content()) {
    Module->Unverified.add(Module->Changes);
    return SteplakeChanged;
  }
  // The content is unchanged, so its canonical order is the one from before.
  if (Module->Changes.order())
    canonicaliseUseLists(M, Module->Changes, Module->Next);
  return SteplakeUnchanged;
}

} // extern "C"
