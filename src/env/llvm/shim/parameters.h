/// Pipelines with parameters that LLVM's own syntax does not have.
#pragma once

#include "llvm/ADT/StringRef.h"
#include "llvm/Passes/PassBuilder.h"

#include <mutex>
#include <shared_mutex>

namespace steplake {

/// Makes `Builder` know two more elements of a module's pipeline:
///
/// - `inliner-wrapper<threshold=N>`: the inliner of `-O2` and `-O3` with another threshold;
/// - `with<OPTION=VALUE>(PIPELINE)`: a pipeline that is made and run while an option of LLVM's
///   command line has another value. Only options that change decisions of passes can be named, and
///   the inner pipeline names no option.
void registerParameters(llvm::PassBuilder &Builder);

/// Holds the options of LLVM's command line, which belong to the process, while a pipeline is made
/// and run: others may read them meanwhile, unless the pipeline changes them.
class OptionsLock {
  std::shared_lock<std::shared_mutex> Shared;
  std::unique_lock<std::shared_mutex> Exclusive;

public:
  explicit OptionsLock(llvm::StringRef Pipeline);
};

} // namespace steplake
