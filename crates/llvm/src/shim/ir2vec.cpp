/// IR2Vec: the embedding of a program, by LLVM's own analysis.
#include "module.h"

#include "llvm/Analysis/IR2Vec.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/JSON.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

using namespace llvm;
using ir2vec::Embedder;
using ir2vec::Embedding;
using ir2vec::Vocabulary;

struct SteplakeVocabulary {
  Vocabulary Entries;
};

namespace {

/// A section of the vocabulary: the JSON object that has its entries, how many there are, and what
/// they are multiplied by.
struct Section {
  StringRef Name;
  unsigned Entries;
  double Weight;
};

/// Reads an embedding, multiplied by a weight. Returns whether it has the right length.
bool readEmbedding(const json::Array &Numbers, double Weight, Embedding &Out) {
  if (Numbers.size() != Out.size())
    return false;
  auto Place = Out.begin();
  for (const json::Value &Number : Numbers) {
    std::optional<double> Value = Number.getAsNumber();
    if (!Value)
      return false;
    *Place++ = *Value * Weight;
  }
  return true;
}

/// Reads the entries of a section, which begin at the position `First` of the vocabulary. What the
/// JSON lacks is zero, as for LLVM.
bool readSection(const json::Object &Json, const Section &Of, unsigned First,
                 std::vector<Embedding> &Out) {
  const json::Object *Entries = Json.getObject(Of.Name);
  if (!Entries)
    return false;
  for (unsigned Entry = 0; Entry < Of.Entries; ++Entry) {
    Out.emplace_back(size_t(SteplakeEmbeddingSize), 0.0);
    const json::Value *Numbers =
        Entries->get(Vocabulary::getStringKey(First + Entry));
    if (Numbers && !(Numbers->getAsArray() &&
                     readEmbedding(*Numbers->getAsArray(), Of.Weight, Out.back())))
      return false;
  }
  return true;
}

} // namespace

extern "C" {

SteplakeVocabulary *steplake_llvm_vocabulary_create(SteplakeBytes Text) {
  Expected<json::Value> Json = json::parse({Text.Data, Text.Size});
  if (!Json) {
    consumeError(Json.takeError());
    return nullptr;
  }
  const json::Object *Object = Json->getAsObject();
  const Section Sections[] = {
      {"Opcodes", Vocabulary::MaxOpcodes, ir2vec::OpcWeight},
      {"Types", Vocabulary::MaxCanonicalTypeIDs, ir2vec::TypeWeight},
      {"Arguments", Vocabulary::MaxOperandKinds, ir2vec::ArgWeight},
      {"Arguments", Vocabulary::MaxPredicateKinds, ir2vec::ArgWeight},
  };
  std::vector<std::vector<Embedding>> Read;
  unsigned First = 0;
  for (const Section &Of : Sections) {
    if (!Object || !readSection(*Object, Of, First, Read.emplace_back()))
      return nullptr;
    First += Of.Entries;
  }
  return new SteplakeVocabulary{
      Vocabulary(ir2vec::VocabStorage(std::move(Read)))};
}

void steplake_llvm_module_embedding(const SteplakeModule *Module,
                                    const SteplakeVocabulary *Vocabulary,
                                    double *Out) {
  Embedding Sum(size_t(SteplakeEmbeddingSize), 0.0);
  for (const Function &F : *Module->IR)
    if (!F.isDeclaration())
      Sum += Embedder::create(IR2VecKind::Symbolic, F, Vocabulary->Entries)
                 ->getFunctionVector();
  std::copy(Sum.begin(), Sum.end(), Out);
}

} // extern "C"
