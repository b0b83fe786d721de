#include "known_content.h"

#include "llvm/Support/BLAKE3.h"
#include "llvm/Support/MathExtras.h"

#include <cstring>

using namespace llvm;

namespace steplake {

Digest hashOf(ArrayRef<uint32_t> Content) {
  auto *Bytes = reinterpret_cast<const uint8_t *>(Content.data());
  auto Hash = BLAKE3::hash<sizeof(Digest)>({Bytes, Content.size() * 4});
  Digest Result;
  std::memcpy(Result.data(), Hash.data(), sizeof Result);
  return Result;
}

static void addWide(Words &Out, uint64_t Word) {
  Out.push_back(static_cast<uint32_t>(Word));
  Out.push_back(static_cast<uint32_t>(Word >> 32));
}

void addHash(Words &Out, const Digest &Hash) { Out.append(Hash.begin(), Hash.end()); }

void addText(Words &Out, StringRef Text) {
  addWide(Out, Text.size());
  size_t Begin = Out.size();
  Out.resize(Begin + divideCeil(Text.size(), 4));
  if (!Text.empty())
    std::memcpy(&Out[Begin], Text.data(), Text.size());
}

void addNumber(Words &Out, const APInt &Number) {
  Out.push_back(Number.getBitWidth());
  for (unsigned I = 0; I < Number.getNumWords(); ++I)
    addWide(Out, Number.getRawData()[I]);
}

void addAlignment(Words &Out, MaybeAlign Alignment) {
  Out.push_back(Alignment ? 1 + Log2(*Alignment) : 0);
}

void addTypeFields(Words &Out, const Type *T) {
  Out.push_back(T->getTypeID());
  Out.push_back(T->getNumContainedTypes());
  if (auto *Struct = dyn_cast<StructType>(T)) {
    Out.push_back(Struct->isPacked() | Struct->isLiteral() << 1 |
                  Struct->isOpaque() << 2);
    addText(Out, Struct->hasName() ? Struct->getName() : "");
  } else if (auto *Integer = dyn_cast<IntegerType>(T)) {
    Out.push_back(Integer->getBitWidth());
  } else if (auto *Pointer = dyn_cast<PointerType>(T)) {
    Out.push_back(Pointer->getAddressSpace());
  } else if (auto *Array = dyn_cast<ArrayType>(T)) {
    addWide(Out, Array->getNumElements());
  } else if (auto *Vector = dyn_cast<VectorType>(T)) {
    Out.push_back(Vector->getElementCount().getKnownMinValue());
  } else if (auto *Function = dyn_cast<FunctionType>(T)) {
    Out.push_back(Function->isVarArg());
  } else if (auto *Target = dyn_cast<TargetExtType>(T)) {
    addText(Out, Target->getName());
    Out.push_back(Target->int_params().size());
    for (unsigned Parameter : Target->int_params())
      Out.push_back(Parameter);
  }
}

bool isNameless(const Type *T) {
  auto *Struct = dyn_cast<StructType>(T);
  return Struct && !Struct->isLiteral() && !Struct->hasName();
}

static void addRange(Words &Out, const ConstantRange &Range) {
  addNumber(Out, Range.getLower());
  addNumber(Out, Range.getUpper());
}

void addAttributeFields(Words &Out, Attribute A) {
  if (A.isStringAttribute()) {
    Out.push_back(0);
    addText(Out, A.getKindAsString());
    addText(Out, A.getValueAsString());
    return;
  }
  Out.push_back(A.getKindAsEnum());
  if (A.isIntAttribute()) {
    addWide(Out, A.getValueAsInt());
  } else if (A.isConstantRangeAttribute()) {
    addRange(Out, A.getValueAsConstantRange());
  } else if (A.isConstantRangeListAttribute()) {
    Out.push_back(A.getValueAsConstantRangeList().size());
    for (const ConstantRange &Range : A.getValueAsConstantRangeList())
      addRange(Out, Range);
  }
}

const Type *typeOf(Attribute A) {
  return A.isTypeAttribute() ? A.getValueAsType() : nullptr;
}

void addConstantFields(Words &Out, const Constant &C) {
  Out.push_back(C.getValueID());
  Out.push_back(C.getNumOperands());
  if (auto *Integer = dyn_cast<ConstantInt>(&C))
    addNumber(Out, Integer->getValue());
  else if (auto *Float = dyn_cast<ConstantFP>(&C))
    addNumber(Out, Float->getValueAPF().bitcastToAPInt());
  else if (auto *Data = dyn_cast<ConstantDataSequential>(&C))
    addText(Out, Data->getRawDataValues());
}

static bool add(Words &Out, std::optional<Digest> Hash) {
  if (Hash)
    addHash(Out, *Hash);
  return Hash.has_value();
}

std::optional<Digest> KnownHasher::type(const Type *T) {
  Known.Named.add(T);
  auto Found = Known.Types.find(T);
  if (Found != Known.Types.end())
    return Found->second;
  if (isNameless(T))
    return std::nullopt;
  Words Out;
  addTypeFields(Out, T);
  for (const Type *Part : T->subtypes())
    if (!add(Out, type(Part)))
      return std::nullopt;
  return Known.Types[T] = hashOf(Out);
}

std::optional<Digest> KnownHasher::attributes(const AttributeList &List) {
  auto Found = Known.Attributes.find(List.getRawPointer());
  if (Found != Known.Attributes.end())
    return Found->second;
  Words Out;
  for (unsigned Index : List.indexes()) {
    AttributeSet Set = List.getAttributes(Index);
    Out.push_back(Set.getNumAttributes());
    for (Attribute A : Set) {
      addAttributeFields(Out, A);
      if (const Type *T = typeOf(A))
        if (!add(Out, type(T)))
          return std::nullopt;
    }
  }
  return Known.Attributes[List.getRawPointer()] = hashOf(Out);
}

std::optional<Digest> KnownHasher::constant(const Constant &C) {
  // Any other constant can die.
  if (!isa<ConstantData>(C))
    return std::nullopt;
  auto Found = Known.Constants.find(&C);
  if (Found != Known.Constants.end())
    return Found->second;
  Words Out;
  addConstantFields(Out, C);
  if (!add(Out, type(C.getType())))
    return std::nullopt;
  return Known.Constants[&C] = hashOf(Out);
}

std::optional<Digest> KnownHasher::metadata(const Metadata &MD) {
  auto Found = Known.Metadata.find(&MD);
  if (Found != Known.Metadata.end())
    return Found->second;
  Words Out;
  Out.push_back(MD.getMetadataID());
  if (auto *Text = dyn_cast<MDString>(&MD)) {
    addText(Out, Text->getString());
  } else if (auto *Value = dyn_cast<ConstantAsMetadata>(&MD)) {
    if (!add(Out, constant(*Value->getValue())))
      return std::nullopt;
  } else {
    auto *Node = dyn_cast<MDTuple>(&MD);
    if (!Node || Node->isDistinct() || !addOperands(Out, *Node))
      return std::nullopt;
  }
  return Known.Metadata[&MD] = hashOf(Out);
}

bool KnownHasher::addOperands(Words &Out, const MDTuple &Node) {
  if (!Open.insert(&Node).second)
    return false;
  Out.push_back(Node.getNumOperands());
  bool All = true;
  for (const MDOperand &Operand : Node.operands()) {
    Out.push_back(Operand.get() != nullptr);
    All = All && (!Operand.get() || add(Out, metadata(*Operand.get())));
  }
  Open.erase(&Node);
  return All;
}

void KnownContent::clear() {
  Types.clear();
  Attributes.clear();
  Constants.clear();
  Metadata.clear();
}

} // namespace steplake
