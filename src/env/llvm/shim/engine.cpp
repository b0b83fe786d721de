#include "module.h"
#include "parameters.h"

#include "llvm/Analysis/CGSCCPassManager.h"
#include "llvm/Analysis/LoopAnalysisManager.h"
#include "llvm/IR/PassManager.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/ErrorHandling.h"
#include "llvm/Target/TargetMachine.h"

using namespace llvm;
using namespace steplake;

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
    registerParameters(Builder);
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
  OptionsLock Options({Pipeline, Size});
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
