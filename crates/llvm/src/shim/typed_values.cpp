#include "typed_values.h"

#include "llvm/IR/Constants.h"
#include "llvm/IR/GlobalVariable.h"
#include "llvm/IR/Operator.h"
#include "llvm/Support/ModRef.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;
using namespace steplake;

namespace {

/// The attributes of arguments and results that LLVM 10 had, in its order.
constexpr Attribute::AttrKind Attributes[] = {
    Attribute::InReg,     Attribute::Nest,       Attribute::NoAlias,  Attribute::Captures,
    Attribute::NoFree,    Attribute::NonNull,    Attribute::ReadNone, Attribute::ReadOnly,
    Attribute::Returned,  Attribute::SExt,       Attribute::StructRet, Attribute::SwiftError,
    Attribute::SwiftSelf, Attribute::WriteOnly,  Attribute::ZExt,     Attribute::InAlloca,
    Attribute::ByVal,     Attribute::Alignment,  Attribute::Dereferenceable,
    Attribute::DereferenceableOrNull,
};

} // namespace

std::string TypedValues::name(const Value &V) {
  std::string Text;
  raw_string_ostream Stream(Text);
  V.printAsOperand(Stream, /*PrintType=*/false, Slots);
  return Text;
}

std::string TypedValues::operand(const Value &V) {
  const auto *C = dyn_cast<Constant>(&V);
  return C && !isa<GlobalValue>(V) ? constant(*C) : name(V);
}

std::string TypedValues::typedAs(const Value &V, const std::string &Wanted) {
  return isa<Function>(V) ? typed(V) : Wanted + " " + valueAs(V, Wanted);
}

std::string TypedValues::valueAs(const Value &V, const std::string &Wanted) {
  if (isa<ConstantAggregate>(V))
    return elements(cast<Constant>(V), cast<Constant>(V).getNumOperands(), Wanted);
  const auto *G = dyn_cast<GlobalVariable>(&V);
  if (!G)
    return operand(V);
  std::string Own = Types.pointedTo(*G->getValueType(), *G);
  if (Own + "*" == Wanted)
    return name(V);
  // The first of a variable's parts is at its address.
  std::string Zeros;
  for (Type *T = G->getValueType(); T->isAggregateType() && T->getNumContainedTypes();) {
    std::string Zero = T->isArrayTy() ? ", i64 0" : ", i32 0";
    Zeros += Zeros.empty() ? Zero + Zero : Zero;
    auto *Struct = dyn_cast<StructType>(T);
    T = T->getContainedType(0);
    if ((Struct ? Types.fieldType(*Struct, 0) : Types.pointedTo(*T, V)) + "*" == Wanted)
      return "getelementptr inbounds (" + Own + ", " + Own + "* " + name(V) + Zeros + ")";
  }
  return "bitcast (" + Own + "* " + name(V) + " to " + Wanted + ")";
}

std::string TypedValues::pointer(const Value &P, const std::string &Pointee) {
  return typedAs(P, Pointee + "*");
}

std::string TypedValues::constant(const Constant &C) {
  if (isa<UndefValue>(C))
    return "undef";
  if (const auto *E = dyn_cast<ConstantExpr>(&C))
    return expression(*E);
  if (const auto *Data = dyn_cast<ConstantDataSequential>(&C); Data && Data->isString())
    return name(C);
  if (const auto *Data = dyn_cast<ConstantDataSequential>(&C))
    return elements(C, Data->getNumElements(), Types.spell(*C.getType()));
  if (isa<ConstantAggregate>(C))
    return elements(C, C.getNumOperands(), Types.spell(*C.getType()));
  // LLVM 10 had no short form of a vector of equal elements.
  if (auto *Vector = dyn_cast<FixedVectorType>(C.getType()); Vector && !C.isNullValue())
    return elements(C, Vector->getNumElements(), Types.spell(*Vector));
  return name(C);
}

/// The elements of a constant that is, where it is used, of the type `Own`.
std::string TypedValues::elements(const Constant &C, unsigned Count, StringRef Own) {
  auto *Struct = dyn_cast<StructType>(C.getType());
  std::string Text;
  for (unsigned Place = 0; Place < Count; ++Place) {
    const Constant &Element = *C.getAggregateElement(Place);
    Text += Place ? ", " : "";
    // `[8 x i8*]` has elements of the type `i8*`.
    Text += typedAs(Element, Struct ? Types.fieldType(*Struct, Place)
                                    : Own.split(" x ").second.drop_back().str());
  }
  if (isa<VectorType>(C.getType()))
    return "<" + Text + ">";
  if (isa<ArrayType>(C.getType()))
    return "[" + Text + "]";
  Text = Count ? "{ " + Text + " }" : "{}";
  return Struct->isPacked() ? "<" + Text + ">" : Text;
}

std::string TypedValues::expression(const ConstantExpr &E) {
  std::string Text = E.getOpcodeName();
  if (const auto *G = dyn_cast<GEPOperator>(&E))
    return Text + (G->isInBounds() ? " inbounds (" : " (") + indices(*G) + ")";
  if (E.isCast())
    return Text + " (" + typed(*E.getOperand(0)) + " to " + Types.spell(*E.getType()) + ")";
  Text += " (";
  for (const Use &U : E.operands())
    Text += (U.getOperandNo() ? ", " : "") + typed(*U);
  return Text + ")";
}

std::string TypedValues::indices(const GEPOperator &G) {
  const Value &Base = *G.getPointerOperand();
  std::string Source = Types.pointedTo(*G.getSourceElementType(), Base);
  std::string Text = Source + ", ";
  if (auto *Vector = dyn_cast<FixedVectorType>(Base.getType()))
    Text += "<" + std::to_string(Vector->getNumElements()) + " x " + Source + "*> " + operand(Base);
  else
    Text += pointer(Base, Source);
  for (const Use &Index : G.indices())
    Text += ", " + typed(*Index);
  return Text;
}

std::string TypedValues::attributes(AttributeSet Set) {
  std::string Text;
  for (Attribute::AttrKind Kind : Attributes) {
    if (!Set.hasAttribute(Kind))
      continue;
    if (Kind == Attribute::Captures) {
      if (capturesNothing(Set.getCaptureInfo()))
        Text += "nocapture ";
    } else if (Kind == Attribute::StructRet) {
      Text += "sret ";
    } else if (Kind == Attribute::ByVal) {
      Text += "byval(" + Types.spell(*Set.getByValType()) + ") ";
    } else {
      Text += Set.getAttribute(Kind).getAsString() + " ";
    }
  }
  return Text;
}
