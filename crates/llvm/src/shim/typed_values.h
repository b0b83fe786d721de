/// Operands as LLVM before opaque pointers wrote them.
#pragma once

#include "pointees.h"

#include "llvm/IR/Attributes.h"
#include "llvm/IR/ModuleSlotTracker.h"
#include "llvm/IR/Operator.h"

#include <string>

namespace steplake {

class TypedValues {
protected:
  explicit TypedValues(const llvm::Module &M)
      : Types(M), Slots(&M, /*ShouldInitializeAllMetadata=*/false) {}

  Pointees Types;
  llvm::ModuleSlotTracker Slots;

  /// A value as LLVM writes it.
  std::string name(const llvm::Value &V);
  /// A value without its type.
  std::string operand(const llvm::Value &V);
  std::string typed(const llvm::Value &V) { return Types.typeOf(V) + " " + operand(V); }
  /// A value where one of the type `Wanted` is asked for: a variable of another type is indexed or
  /// cast.
  std::string valueAs(const llvm::Value &V, const std::string &Wanted);
  /// The same after the type. Functions have their own.
  std::string typedAs(const llvm::Value &V, const std::string &Wanted);
  /// The pointer of an access to memory of type `Pointee`.
  std::string pointer(const llvm::Value &P, const std::string &Pointee);
  /// The source and the operands of `getelementptr`.
  std::string indices(const llvm::GEPOperator &G);
  /// The attributes of an argument or a result, each followed by a blank.
  std::string attributes(llvm::AttributeSet Set);

private:
  std::string constant(const llvm::Constant &C);
  std::string elements(const llvm::Constant &C, unsigned Count, llvm::StringRef Own);
  std::string expression(const llvm::ConstantExpr &E);
};

} // namespace steplake
