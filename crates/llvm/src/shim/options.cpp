#include "steplake_llvm.h"

#include "llvm/Support/CommandLine.h"

using namespace llvm;

extern "C" {

SteplakeOption *steplake_llvm_option_set(SteplakeBytes Name,
                                         SteplakeBytes Value) {
  cl::Option *Option =
      cl::getRegisteredOptions().lookup({Name.Data, Name.Size});
  if (!Option)
    return nullptr;
  auto *Handle = reinterpret_cast<SteplakeOption *>(Option);
  // It counts as given: LLVM takes some thresholds for a user's only then.
  if (!Option->addOccurrence(0, Option->ArgStr, {Value.Data, Value.Size}))
    return Handle;
  steplake_llvm_option_reset(Handle);
  return nullptr;
}

void steplake_llvm_option_reset(SteplakeOption *Option) {
  reinterpret_cast<cl::Option *>(Option)->reset();
}

} // extern "C"
