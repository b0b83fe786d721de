#include "steplake_llvm.h"

#include "llvm/Analysis/TargetLibraryInfo.h"
#include "llvm/Bitcode/BitcodeReader.h"
#include "llvm/IR/DiagnosticHandler.h"
#include "llvm/IR/DiagnosticInfo.h"
#include "llvm/IR/DiagnosticPrinter.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/PassManager.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Object/ObjectFile.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/Target/TargetOptions.h"
#include "llvm/Transforms/Instrumentation/AddressSanitizer.h"
#include "llvm/Transforms/Instrumentation/MemorySanitizer.h"
#include "llvm/Transforms/Instrumentation/ThreadSanitizer.h"

#include <memory>
#include <string>

using namespace llvm;

struct SteplakeObject {
  SmallVector<char, 0> Bytes;
};

namespace {

/// Ends the process with the words of an error, as other failures of code generation do. One error is
/// that of inline assembly which the assembler rejects.
[[noreturn]] void fail(const Twine &Reason) {
  report_fatal_error("no machine code: " + Reason);
}

struct FatalErrors final : DiagnosticHandler {
  bool handleDiagnostics(const DiagnosticInfo &Info) override {
    if (Info.getSeverity() == DS_Error) {
      std::string Message;
      raw_string_ostream Stream(Message);
      DiagnosticPrinterRawOStream Printer(Stream);
      Info.print(Printer);
      fail(Message);
    }
    return true;
  }
};

CodeGenOptLevel level(SteplakeCodeGeneration Generation) {
  switch (Generation) {
  case SteplakeCodeGenerationO0:
    return CodeGenOptLevel::None;
  case SteplakeCodeGenerationOs:
  case SteplakeCodeGenerationOz:
    return CodeGenOptLevel::Default;
  case SteplakeCodeGenerationO3:
    return CodeGenOptLevel::Aggressive;
  }
  llvm_unreachable("there is no other code generation");
}

/// Marks all functions as ones to be optimised for size, as clang does with `-Os` and `-Oz`. Code
/// generation for speed takes the marks that they have.
void optimiseForSize(Module &M, SteplakeCodeGeneration Generation) {
  if (Generation != SteplakeCodeGenerationOs &&
      Generation != SteplakeCodeGenerationOz)
    return;
  for (Function &F : M) {
    // The verifier forbids both on functions that are not to be optimised.
    if (F.isDeclaration() || F.hasFnAttribute(Attribute::OptimizeNone))
      continue;
    F.addFnAttr(Attribute::OptimizeForSize);
    if (Generation == SteplakeCodeGenerationOz)
      F.addFnAttr(Attribute::MinSize);
  }
}

/// Marks all functions as ones to be checked, as clang does where a sanitizer is on: without the
/// attribute, the passes insert no check.
void markForSanitizer(Module &M, SteplakeSanitizer Sanitizer) {
  if (Sanitizer == SteplakeSanitizerNone)
    return;
  Attribute::AttrKind Kind = Sanitizer == SteplakeSanitizerAddress
                                 ? Attribute::SanitizeAddress
                             : Sanitizer == SteplakeSanitizerMemory
                                 ? Attribute::SanitizeMemory
                                 : Attribute::SanitizeThread;
  for (Function &F : M)
    if (!F.isDeclaration() && !F.hasFnAttribute(Attribute::Naked))
      F.addFnAttr(Kind);
}

void addSanitizer(ModulePassManager &Passes, SteplakeSanitizer Sanitizer) {
  switch (Sanitizer) {
  case SteplakeSanitizerNone:
    break;
  case SteplakeSanitizerAddress:
    Passes.addPass(AddressSanitizerPass(AddressSanitizerOptions()));
    break;
  case SteplakeSanitizerMemory:
    Passes.addPass(MemorySanitizerPass(MemorySanitizerOptions()));
    break;
  case SteplakeSanitizerThread:
    Passes.addPass(ModuleThreadSanitizerPass());
    Passes.addPass(createModuleToFunctionPassAdaptor(ThreadSanitizerPass()));
    break;
  }
}

/// Runs the passes on IR that clang runs at `-O0` too: it inlines functions that must be inlined,
/// lowers coroutines, and inserts the checks of a sanitizer.
void runRequiredPasses(Module &M, TargetMachine &Machine,
                       SteplakeSanitizer Sanitizer) {
  LoopAnalysisManager Loops;
  FunctionAnalysisManager Functions;
  CGSCCAnalysisManager Components;
  ModuleAnalysisManager Modules;
  PassBuilder Builder(&Machine);
  Builder.registerModuleAnalyses(Modules);
  Builder.registerCGSCCAnalyses(Components);
  Builder.registerFunctionAnalyses(Functions);
  Builder.registerLoopAnalyses(Loops);
  Builder.crossRegisterProxies(Loops, Functions, Components, Modules);
  ModulePassManager Passes =
      Builder.buildO0DefaultPipeline(OptimizationLevel::O0);
  addSanitizer(Passes, Sanitizer);
  Passes.run(M, Modules);
}

void compile(Module &M, SteplakeCodeGeneration Generation,
             SteplakeSanitizer Sanitizer, SmallVectorImpl<char> &Object) {
  const Triple &T = M.getTargetTriple();
  std::string Problem;
  const Target *Registered = TargetRegistry::lookupTarget(T, Problem);
  if (!Registered)
    fail(Problem);
  // A machine of its own: one that has compiled keeps the options of the last function.
  std::unique_ptr<TargetMachine> Machine(Registered->createTargetMachine(
      T, "x86-64", "", TargetOptions(), Reloc::PIC_, std::nullopt,
      level(Generation)));
  runRequiredPasses(M, *Machine, Sanitizer);
  TargetLibraryInfoImpl Library(T);
  legacy::PassManager Passes;
  Passes.add(new TargetLibraryInfoWrapperPass(Library));
  raw_svector_ostream Stream(Object);
  if (Machine->addPassesToEmitFile(Passes, Stream, nullptr,
                                   CodeGenFileType::ObjectFile))
    fail("the target has no object files");
  Passes.run(M);
}

} // namespace

extern "C" {

SteplakeObject *steplake_llvm_object_create(SteplakeBytes Bitcode,
                                            SteplakeCodeGeneration Generation,
                                            SteplakeSanitizer Sanitizer) {
  // Generating code changes the module, and may register names in its context.
  LLVMContext Context;
  Context.setDiscardValueNames(true);
  Context.setDiagnosticHandler(std::make_unique<FatalErrors>());
  Expected<std::unique_ptr<Module>> M = parseBitcodeFile(
      MemoryBufferRef({Bitcode.Data, Bitcode.Size}, "-"), Context);
  if (!M)
    fail(toString(M.takeError()));
  optimiseForSize(**M, Generation);
  markForSanitizer(**M, Sanitizer);
  auto *Object = new SteplakeObject();
  compile(**M, Generation, Sanitizer, Object->Bytes);
  return Object;
}

void steplake_llvm_object_dispose(SteplakeObject *Object) { delete Object; }

SteplakeBytes steplake_llvm_object_bytes(const SteplakeObject *Object) {
  return {Object->Bytes.data(), Object->Bytes.size()};
}

uint64_t steplake_llvm_object_text_size(const SteplakeObject *Object) {
  MemoryBufferRef Buffer({Object->Bytes.data(), Object->Bytes.size()}, "-");
  Expected<std::unique_ptr<object::ObjectFile>> File =
      object::ObjectFile::createObjectFile(Buffer);
  if (!File)
    fail(toString(File.takeError()));
  uint64_t Size = 0;
  for (const object::SectionRef &Section : (*File)->sections())
    if (Section.isBerkeleyText())
      Size += Section.getSize();
  return Size;
}

} // extern "C"
