#include "parameters.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Analysis/InlineCost.h"
#include "llvm/IR/PassManager.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/Error.h"
#include "llvm/Transforms/IPO/Inliner.h"

#include <string>

using namespace llvm;
using namespace steplake;

namespace {

std::shared_mutex OptionsMutex;

/// The options that a pipeline may set. None makes LLVM print or write anything.
constexpr StringLiteral Settable[] = {
    "force-vector-interleave", "force-vector-width", "funcspec-min-function-size",
    "jump-threading-threshold", "slp-threshold",     "unroll-count",
    "unswitch-threshold",
};

/// An option that has another value for as long as this lives. The value before is the default,
/// since nothing else sets options.
class Setting {
  cl::Option &Option;

public:
  Setting(cl::Option &Option, StringRef Value) : Option(Option) {
    IsValid = !Option.addOccurrence(0, Option.ArgStr, Value);
  }
  Setting(const Setting &) = delete;
  Setting &operator=(const Setting &) = delete;
  ~Setting() { Option.reset(); }

  bool IsValid;
};

/// Runs passes under a setting.
class WithOption : public PassInfoMixin<WithOption> {
  cl::Option *Option;
  std::string Value;
  ModulePassManager Passes;

public:
  WithOption(cl::Option &Option, StringRef Value, ModulePassManager Passes)
      : Option(&Option), Value(Value), Passes(std::move(Passes)) {}

  PreservedAnalyses run(Module &M, ModuleAnalysisManager &Analyses) {
    Setting Changed(*Option, Value);
    return Passes.run(M, Analyses);
  }

  static bool isRequired() { return true; }
};

/// The text of parsed elements.
std::string textOf(ArrayRef<PassBuilder::PipelineElement> Elements) {
  std::string Text;
  for (const PassBuilder::PipelineElement &Element : Elements) {
    Text += (Text.empty() ? "" : ",") + Element.Name.str();
    if (!Element.InnerPipeline.empty())
      Text += "(" + textOf(Element.InnerPipeline) + ")";
  }
  return Text;
}

/// Takes what is between `Prefix` and a closing bracket.
bool takeParameter(StringRef &Text, StringRef Prefix) {
  return Text.consume_front(Prefix) && Text.consume_back(">");
}

bool parseWith(PassBuilder &Builder, StringRef Parameter, ModulePassManager &Passes,
               ArrayRef<PassBuilder::PipelineElement> Inner) {
  auto [Name, Value] = Parameter.split('=');
  auto &Known = cl::getRegisteredOptions();
  auto Found = Known.find(Name);
  std::string Text = textOf(Inner);
  if (!is_contained(Settable, Name) || Found == Known.end() || StringRef(Text).contains("with<"))
    return false;
  // Some passes read options when they are made, others when they run.
  Setting Changed(*Found->second, Value);
  ModulePassManager Made;
  if (!Changed.IsValid)
    return false;
  // LLVM asks without the inner pipeline whether the name is known.
  if (Text.empty())
    return true;
  if (errorToBool(Builder.parsePassPipeline(Made, Text)))
    return false;
  Passes.addPass(WithOption(*Found->second, Value, std::move(Made)));
  return true;
}

} // namespace

void steplake::registerParameters(PassBuilder &Builder) {
  Builder.registerPipelineParsingCallback(
      [&Builder](StringRef Name, ModulePassManager &Passes,
                 ArrayRef<PassBuilder::PipelineElement> Inner) {
        if (takeParameter(Name, "with<"))
          return parseWith(Builder, Name, Passes, Inner);
        int Threshold;
        if (!Inner.empty() || !takeParameter(Name, "inliner-wrapper<threshold=") ||
            Name.getAsInteger(10, Threshold))
          return false;
        Passes.addPass(ModuleInlinerWrapperPass(getInlineParams(Threshold)));
        return true;
      });
}

OptionsLock::OptionsLock(StringRef Pipeline) {
  if (Pipeline.contains("with<"))
    Exclusive = std::unique_lock(OptionsMutex);
  else
    Shared = std::shared_lock(OptionsMutex);
}
