#include "content.h"
#include "fields.h"
#include "known_content.h"
#include "local_numbers.h"

#include "llvm/IR/Comdat.h"
#include "llvm/IR/DebugProgramInstruction.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Metadata.h"

using namespace llvm;

namespace steplake {

namespace {

/// The beginning of every text that names a state. The number is that of the scheme: changing what
/// is hashed, or how, changes the id of every state.
constexpr char Scheme[] = "steplake llvm state 2\n";

/// The kinds of description that follow the first mention of something.
enum Tag : uint32_t {
  TagKnown = 1,
  TagShared,
  TagCompound,
  TagWrapped,
  TagForeign,
};

/// Hashes one part of a module. Everything that the part mentions gets a number: its own values in
/// their order, all else in the order of mention. The first mention is followed by a description.
class PartHasher {
  KnownHasher Known;
  bool NeedsBitcode = false;
  LocalNumbers Locals;
  DenseMap<const void *, uint32_t> Numbers;
  uint32_t Next = 0;
  Words Out;
  std::vector<Shared> Mentions;

  /// Writes the number of something. Returns true at its first mention, when a description must
  /// follow.
  bool mention(const void *Thing) {
    auto [Found, Fresh] = Numbers.try_emplace(Thing, Next);
    Next += Fresh;
    Out.push_back(Found->second);
    return Fresh;
  }

  void known(const Digest &Hash) {
    Out.push_back(TagKnown);
    addHash(Out, Hash);
  }

  void share(Shared Thing) {
    Out.push_back(TagShared);
    Mentions.push_back(Thing);
  }

  void describe(const Value &V) {
    if (auto *C = dyn_cast<Constant>(&V))
      return describeConstant(*C);
    if (auto *Wrapped = dyn_cast<MetadataAsValue>(&V)) {
      Out.push_back(TagWrapped);
      return metadata(Wrapped->getMetadata());
    }
    if (auto *Assembly = dyn_cast<InlineAsm>(&V)) {
      Out.push_back(TagWrapped);
      addText(Out, Assembly->getAsmString());
      addText(Out, Assembly->getConstraintString());
      Out.push_back(Assembly->hasSideEffects() | Assembly->isAlignStack() << 1 |
                    Assembly->getDialect() << 2 | Assembly->canThrow() << 3);
      return type(Assembly->getFunctionType());
    }
    // Only a module that the verifier rejects mentions a value of another function.
    Out.push_back(TagForeign);
  }

  void describeConstant(const Constant &C) {
    if (auto *G = dyn_cast<GlobalValue>(&C))
      return share(G);
    if (auto *Address = dyn_cast<BlockAddress>(&C))
      return share(Address->getBasicBlock());
    if (std::optional<Digest> Hash = Known.constant(C))
      return known(*Hash);
    Out.push_back(TagCompound);
    addConstantFields(Out, C);
    type(C.getType());
    if (auto *Expression = dyn_cast<ConstantExpr>(&C))
      visitExpression(*this, *Expression);
    for (const Use &Operand : C.operands())
      value(Operand.get());
  }

  void describe(const Metadata &MD) {
    if (auto *Wrapped = dyn_cast<ValueAsMetadata>(&MD)) {
      Out.push_back(TagWrapped);
      return value(Wrapped->getValue());
    }
    auto *Node = dyn_cast<MDTuple>(&MD);
    if (!Node && !isa<MDString>(MD)) {
      NeedsBitcode = true;
      return;
    }
    if (std::optional<Digest> Hash = Known.metadata(MD))
      return known(*Hash);
    if (Node->isDistinct())
      share(static_cast<const MDNode *>(Node));
    else
      Out.push_back(TagCompound);
    Out.push_back(Node->getNumOperands());
    for (const MDOperand &Operand : Node->operands())
      metadata(Operand.get());
  }

  PartContent finish() {
    return {hashOf(Out), std::move(Mentions), NeedsBitcode};
  }

public:
  explicit PartHasher(KnownContent &Known) : Known(Known) {}

  PartContent function(Function &F) {
    Next = Locals.take(F);
    Out.reserve(Next * size_t(8));
    Out.push_back(Next);
    Out.push_back(F.size());
    visitFunction(*this, F);
    for (BasicBlock &B : F) {
      Out.push_back(LocalNumbers::instructions(B));
      for (Instruction &I : B)
        visitInstruction(*this, I);
    }
    return finish();
  }

  /// Hashes everything outside functions.
  PartContent rest(const Module &M) {
    visitRest(*this, M);
    return finish();
  }

  // What a sink of `fields.h` has.
  void self(const Value &) {}
  void number(uint32_t Number) { Out.push_back(Number); }
  void text(StringRef Text) { addText(Out, Text); }
  void integer(const APInt &Number) { addNumber(Out, Number); }
  void alignment(MaybeAlign Alignment) { addAlignment(Out, Alignment); }
  void operand(const Use &Operand) { value(Operand.get()); }
  void debugRecords(const Instruction &) { NeedsBitcode = true; }

  void type(const Type *T) {
    if (!mention(T))
      return;
    if (std::optional<Digest> Hash = Known.type(T))
      return known(*Hash);
    if (isNameless(T))
      share(cast<StructType>(T));
    else
      Out.push_back(TagCompound);
    addTypeFields(Out, T);
    for (const Type *Part : T->subtypes())
      type(Part);
  }

  void attributes(const AttributeSet &Set) {
    Out.push_back(Set.getNumAttributes());
    for (Attribute A : Set) {
      addAttributeFields(Out, A);
      if (const Type *T = typeOf(A))
        type(T);
    }
  }

  void attributes(const AttributeList &List) {
    if (List.isEmpty())
      return Out.push_back(~0u);
    if (!mention(List.getRawPointer()))
      return;
    if (std::optional<Digest> Hash = Known.attributes(List))
      return known(*Hash);
    Out.push_back(TagCompound);
    for (unsigned Index : List.indexes())
      attributes(List.getAttributes(Index));
  }

  void value(const Value *V) {
    if (!V)
      Out.push_back(~0u);
    else if (std::optional<uint32_t> Number = Locals.of(*V))
      Out.push_back(*Number);
    else if (mention(V))
      describe(*V);
  }

  void metadata(const Metadata *MD) {
    if (!MD)
      Out.push_back(~0u);
    else if (mention(MD))
      describe(*MD);
  }
};

/// Identifies what parts share: globals by their places, blocks by function and number, distinct
/// nodes and nameless types by the order in which the module mentions them.
class Binder {
  enum Kind : uint32_t { MentionsGlobal = 1, MentionsBlock, MentionsOther };

  DenseMap<const GlobalValue *, uint32_t> Places;
  DenseMap<const void *, uint32_t> Mentioned;
  Words Out;

public:
  explicit Binder(const Module &M) {
    Places.reserve(M.global_size() + M.size() + M.alias_size() + M.ifunc_size());
    auto Place = [&](const auto &List) {
      for (const GlobalValue &G : List)
        Places.try_emplace(&G, Places.size());
    };
    Place(M.globals());
    Place(M.functions());
    Place(M.aliases());
    Place(M.ifuncs());
  }

  /// Returns the place of a global, counted from 1; 0 if it is not in the module, which the
  /// verifier rejects.
  uint32_t place(const GlobalValue *G) const {
    auto Found = Places.find(G);
    return Found == Places.end() ? 0 : 1 + Found->second;
  }

  void bind(const PartContent &Part) {
    Out.push_back(Part.Mentions.size());
    for (Shared Thing : Part.Mentions) {
      if (auto *G = dyn_cast<const GlobalValue *>(Thing)) {
        Out.push_back(MentionsGlobal);
        Out.push_back(place(G));
      } else if (auto *Block = dyn_cast<const BasicBlock *>(Thing)) {
        Out.push_back(MentionsBlock);
        Out.push_back(place(Block->getParent()));
        Out.push_back(Block->getNumber());
      } else {
        const void *Key = Thing.getOpaqueValue();
        Out.push_back(MentionsOther);
        Out.push_back(
            Mentioned.try_emplace(Key, Mentioned.size()).first->second);
      }
    }
  }

  Digest finish() const { return hashOf(Out); }
};

} // namespace

void ContentIds::forget() {
  Known.clear();
  Functions.clear();
  Counts.clear();
  Rest.reset();
}

/// Adds the names that the context has registered: bitcode lists all of them, used or not.
static void addRegistered(Words &Out, const LLVMContext &Context) {
  auto Add = [&](auto Get) {
    SmallVector<StringRef, 64> Names;
    (Context.*Get)(Names);
    Out.push_back(Names.size());
    for (StringRef Name : Names)
      addText(Out, Name);
  };
  Add(&LLVMContext::getMDKindNames);
  Add(&LLVMContext::getOperandBundleTags);
  Add(&LLVMContext::getSyncScopeNames);
}

void ContentIds::hashParts(Module &M) {
  // Removed functions leave their entries behind.
  if (Functions.size() > 2 * M.size() + 16) {
    Functions.clear();
    Counts.clear();
  }
  for (Function &F : M) {
    std::unique_ptr<PartContent> &Part = Functions[&F];
    if (!Part)
      Part = std::make_unique<PartContent>(
          PartHasher(Known).function(F));
  }
  if (!Rest)
    Rest = PartHasher(Known).rest(M);
}

const FunctionCounts &ContentIds::counts(const Function &F) {
  std::unique_ptr<FunctionCounts> &Known = Counts[&F];
  if (!Known)
    Known = std::make_unique<FunctionCounts>(F);
  return *Known;
}

bool ContentIds::summary(Module &M, SmallVectorImpl<char> &Out) {
  hashParts(M);
  Words Hashes;
  Hashes.push_back(M.size());
  Binder Bound(M);
  bool NeedsBitcode = false;
  auto Add = [&](const PartContent &Part) {
    NeedsBitcode |= Part.NeedsBitcode;
    addHash(Hashes, Part.Hash);
    Bound.bind(Part);
  };
  Add(*Rest);
  for (const Function &F : M)
    Add(*Functions[&F]);
  if (NeedsBitcode)
    return false;
  addHash(Hashes, Bound.finish());
  Words Registered;
  addRegistered(Registered, M.getContext());
  addHash(Hashes, hashOf(Registered));
  Out.assign(std::begin(Scheme), std::end(Scheme) - 1);
  auto *Bytes = reinterpret_cast<const char *>(Hashes.data());
  Out.append(Bytes, Bytes + Hashes.size() * 4);
  return true;
}

} // namespace steplake
