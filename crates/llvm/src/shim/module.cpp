#include "module.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/AsmParser/Parser.h"
#include "llvm/Bitcode/BitcodeReader.h"
#include "llvm/Bitcode/BitcodeWriter.h"
#include "llvm/IR/DebugInfo.h"
#include "llvm/IR/DiagnosticHandler.h"
#include "llvm/IR/Intrinsics.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Verifier.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Target/TargetMachine.h"

using namespace llvm;
using namespace steplake;

namespace {

/// Swallows every diagnostic: the standard streams belong to the surrounding program, and LLVM's
/// own handler ends the process on an error.
struct SilentHandler final : DiagnosticHandler {
  bool handleDiagnostics(const DiagnosticInfo &) override { return true; }
};

SteplakeBytes borrow(StringRef Text) { return {Text.data(), Text.size()}; }

/// Returns the first line: messages go into one-line reports.
std::string firstLine(StringRef Text) {
  return Text.trim().split('\n').first.str();
}

/// Drops the module flags that only give the format of debug info, so that `-g` makes no
/// difference.
void dropDebugInfoFlags(Module &M) {
  NamedMDNode *Flags = M.getModuleFlagsMetadata();
  if (!Flags)
    return;
  SmallVector<MDNode *, 8> Kept;
  for (MDNode *Flag : Flags->operands()) {
    auto *Name = dyn_cast<MDString>(Flag->getOperand(1));
    bool IsDropped =
        Name && StringSwitch<bool>(Name->getString())
                    .Cases({"Debug Info Version", "Dwarf Version", "DWARF64",
                            "CodeView", "CodeViewGHash"},
                           true)
                    .Default(false);
    if (!IsDropped)
      Kept.push_back(Flag);
  }
  Flags->clearOperands();
  for (MDNode *Flag : Kept)
    Flags->addOperand(Flag);
  if (Kept.empty())
    Flags->eraseFromParent();
}

/// Drops the compiler's name, which does not belong to the program.
void dropIdent(Module &M) {
  if (NamedMDNode *Ident = M.getNamedMetadata("llvm.ident"))
    Ident->eraseFromParent();
}

/// Writes the summary of a canonical module. Returns false if it has none.
bool hashContent(SteplakeModule &Module) {
  bool IsHashed = Module.Ids.summary(*Module.IR, Module.Summary);
  // Hashing may have found new types.
  Module.Print.TypeNames = hashTypeNames(Module.Types);
  return IsHashed;
}

std::unique_ptr<Module> parse(SteplakeModule &Module, MemoryBufferRef Buffer) {
  auto *Start =
      reinterpret_cast<const unsigned char *>(Buffer.getBufferStart());
  if (isBitcode(Start, Start + Buffer.getBufferSize())) {
    Expected<std::unique_ptr<llvm::Module>> Read =
        parseBitcodeFile(Buffer, Module.Context);
    if (Read)
      return std::move(*Read);
    Module.Message = firstLine(toString(Read.takeError()));
    return nullptr;
  }
  if (Module.Context.shouldDiscardValueNames()) {
    Module.Message = "it is not LLVM bitcode";
    return nullptr;
  }
  SMDiagnostic Problem;
  std::unique_ptr<llvm::Module> Read =
      parseAssembly(Buffer, Problem, Module.Context);
  if (!Read)
    Module.Message = "line " + std::to_string(Problem.getLineNo()) + ": " +
                     Problem.getMessage().str();
  return Read;
}

} // namespace

/// Erases declarations that have the name of an intrinsic and another type. LLVM leaves them behind
/// where it upgrades programs of older versions, and nothing calls them. The attributes of the
/// intrinsic, which canonical form gives to all declarations, would make the module invalid.
static void dropObsoleteIntrinsics(Module &M) {
  for (Function &F : make_early_inc_range(M)) {
    Intrinsic::ID ID = F.getIntrinsicID();
    SmallVector<Type *, 4> Overloads;
    if (ID != Intrinsic::not_intrinsic && F.use_empty() &&
        !Intrinsic::getIntrinsicSignature(&F, Overloads))
      F.eraseFromParent();
  }
}

void Unverified::add(const Difference &Changes) {
  Module |= Changes.Module || Changes.Everywhere;
  Functions.insert(Changes.Functions.begin(), Changes.Functions.end());
}

extern "C" {

void steplake_llvm_context_prepare(LLVMContextRef Context, int DiscardNames) {
  LLVMContext &C = *unwrap(Context);
  C.setDiscardValueNames(DiscardNames != 0);
  C.setDiagnosticHandler(std::make_unique<SilentHandler>());
  registerFixedNames(C);
}

SteplakeModule *steplake_llvm_module_create(LLVMContextRef Context) {
  return new SteplakeModule(*unwrap(Context));
}

void steplake_llvm_module_dispose(SteplakeModule *Module) { delete Module; }

int steplake_llvm_module_parse(SteplakeModule *Module, const char *Data,
                               size_t Size) {
  // The parser of textual IR reads up to a terminating zero, hence the copy.
  auto Buffer = MemoryBuffer::getMemBufferCopy({Data, Size}, "-");
  Module->IR = parse(*Module, *Buffer);
  return Module->IR != nullptr;
}

int steplake_llvm_module_verify(SteplakeModule *Module) {
  std::string Broken;
  raw_string_ostream Stream(Broken);
  // Broken debug info does not make a program invalid: adopting the program strips it.
  bool BrokenDebugInfo = false;
  bool IsBroken = verifyModule(*Module->IR, &Stream, &BrokenDebugInfo);
  if (IsBroken)
    Module->Message = firstLine(Broken);
  return !IsBroken;
}

SteplakeBytes steplake_llvm_module_message(const SteplakeModule *Module) {
  return borrow(Module->Message);
}

int steplake_llvm_module_adopt(SteplakeModule *Module,
                               LLVMTargetMachineRef Machine) {
  auto &Target = *reinterpret_cast<TargetMachine *>(Machine);
  llvm::Module &M = *Module->IR;
  if (M.getTargetTriple().empty())
    M.setTargetTriple(Target.getTargetTriple());
  if (M.getTargetTriple().getArch() != Target.getTargetTriple().getArch()) {
    Module->Message = "it is for " + M.getTargetTriple().str() + ", not for " +
                      Target.getTargetTriple().str();
    return false;
  }
  if (M.getDataLayoutStr().empty())
    M.setDataLayout(Target.createDataLayout());
  StripDebugInfo(M);
  dropDebugInfoFlags(M);
  dropIdent(M);
  dropObsoleteIntrinsics(M);
  M.setModuleIdentifier("-");
  M.setSourceFileName("-");
  return true;
}

void steplake_llvm_module_canonicalise(SteplakeModule *Module) {
  canonicaliseIntrinsics(*Module);
  dropDeadConstants(*Module->IR);
  canonicalisePhis(*Module->IR);
  canonicaliseUseLists(*Module->IR);
  takeFingerprint(*Module->IR, Module->Types, Module->Print);
  Module->Ids.forget();
  // This collects all mentioned types, so that renaming one is noticed from now on.
  hashContent(*Module);
}

int steplake_llvm_module_verify_changes(SteplakeModule *Module) {
  std::string Broken;
  raw_string_ostream Stream(Broken);
  bool IsBroken = false;
  Unverified &Changed = Module->Unverified;
  if (Changed.Module)
    IsBroken = verifyModule(*Module->IR, &Stream);
  else if (!Changed.Functions.empty())
    // This loops over the module, since some of `Changed.Functions` may be gone.
    for (Function &F : *Module->IR)
      if (Changed.Functions.contains(&F))
        IsBroken |= verifyFunction(F, &Stream);
  Changed = Unverified();
  if (IsBroken)
    Module->Message = firstLine(Broken);
  return !IsBroken;
}

void steplake_llvm_module_settle(SteplakeModule *Module) {
  bool Dropped = false;
  const Difference &Changes = Module->Changes;
  for (Function *F : Changes.Functions)
    Module->Ids.forget(*F);
  for (Function *F : Changes.Aligned)
    Dropped |= dropUnreadable(*F);
  if (Changes.Module)
    Module->Ids.forgetRest();
  if (Changes.Nodes)
    Module->Ids.forgetMetadata();
  if (Changes.Everywhere)
    Module->Ids.forget();
  canonicaliseUseLists(*Module->IR, Changes, Module->Next);
  if (Dropped) {
    takeFingerprint(*Module->IR, Module->Types, Module->Print);
    return;
  }
  // The content is that after the run; only the order has changed since.
  std::swap(Module->Print, Module->Next);
  takeOrder(*Module->IR, Changes, Module->Print);
}

SteplakeBytes steplake_llvm_module_summary(SteplakeModule *Module) {
  SmallVectorImpl<char> &Summary = Module->Summary;
  if (!hashContent(*Module)) {
    SteplakeBytes Bitcode = steplake_llvm_module_write(Module, false);
    constexpr StringRef Scheme = "steplake llvm bitcode 2\n";
    Summary.assign(Scheme.begin(), Scheme.end());
    Summary.append(Bitcode.Data, Bitcode.Data + Bitcode.Size);
  }
  return {Summary.data(), Summary.size()};
}

SteplakeBytes steplake_llvm_module_write(SteplakeModule *Module, int HasUseLists) {
  // Steps leave the lists of constants alone that no change concerns.
  if (HasUseLists)
    canonicaliseUseLists(*Module->IR);
  SmallVectorImpl<char> &Bitcode = Module->Bitcode;
  Bitcode.clear();
  // The symbol table for linkers would be much of the work, and no state needs one.
  BitcodeWriter Writer(Bitcode);
  Writer.writeModule(*Module->IR, /*ShouldPreserveUseListOrder=*/HasUseLists != 0);
  Writer.writeStrtab();
  return {Bitcode.data(), Bitcode.size()};
}

SteplakeBytes steplake_llvm_module_print(SteplakeModule *Module, int HasUseLists) {
  if (HasUseLists)
    canonicaliseUseLists(*Module->IR);
  Module->Text.clear();
  raw_string_ostream Stream(Module->Text);
  Module->IR->print(Stream, nullptr, /*ShouldPreserveUseListOrder=*/HasUseLists != 0);
  return borrow(Module->Text);
}

uint64_t steplake_llvm_module_instructions(const SteplakeModule *Module) {
  return Module->Print.instructions();
}

SteplakeBytes steplake_llvm_module_registered(SteplakeModule *Module) {
  LLVMContext Fresh;
  registerFixedNames(Fresh);
  Module->Text.clear();
  auto List = [&](StringRef What, auto Names) {
    SmallVector<StringRef, 64> Ours, Usual;
    (Module->Context.*Names)(Ours);
    (Fresh.*Names)(Usual);
    for (StringRef Name : ArrayRef(Ours).drop_front(Usual.size()))
      Module->Text += (What + " " + Name + "\n").str();
  };
  List("metadata kind", &LLVMContext::getMDKindNames);
  List("bundle tag", &LLVMContext::getOperandBundleTags);
  List("synchronisation scope", &LLVMContext::getSyncScopeNames);
  return borrow(Module->Text);
}

} // extern "C"
