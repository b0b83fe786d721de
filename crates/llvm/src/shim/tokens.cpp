/// LexedIr: the tokens of a program's text, as LLVM's own lexer gives them.
#include "tokens.h"
#include "distinct_texts.h"
#include "module.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/AsmParser/LLLexer.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Type.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/raw_ostream.h"

#include <array>

using namespace llvm;
using namespace steplake;

namespace {

/// What a token has beside its kind. The names are those of CompilerGym.
enum class Category { Marker, Keyword, Uint, String, Type, Float, Int };

Category categoryOf(lltok::Kind Kind) {
  if (Kind <= lltok::Error)
    return Category::Marker;
  if (Kind < lltok::LabelID)
    return Category::Keyword;
  if (Kind <= lltok::SummaryID)
    return Category::Uint;
  if (Kind < lltok::Type)
    return Category::String;
  if (Kind == lltok::Type)
    return Category::Type;
  return Kind == lltok::APFloat ? Category::Float : Category::Int;
}

StringRef nameOf(Category C) {
  switch (C) {
  case Category::Marker:
    return "marker";
  case Category::Keyword:
    return "keyword";
  case Category::Uint:
    return "uintval";
  case Category::String:
    return "strval";
  case Category::Type:
    return "type";
  case Category::Float:
    return "apfloat";
  case Category::Int:
    return "apsint";
  }
  llvm_unreachable("every category has a name");
}

/// The name of a kind in `lltok::Kind`. Words are spelled as their kinds are called, so their names
/// follow from the text at `Begin`. One is not: the lexer takes `cc` off `cc10`.
std::string nameOf(lltok::Kind Kind, const char *Begin) {
#define NAME(KIND)                                                             \
  case lltok::KIND:                                                            \
    return #KIND
  switch (Kind) {
    NAME(Error);
    NAME(dotdotdot);
    NAME(equal);
    NAME(comma);
    NAME(star);
    NAME(lsquare);
    NAME(rsquare);
    NAME(lbrace);
    NAME(rbrace);
    NAME(less);
    NAME(greater);
    NAME(lparen);
    NAME(rparen);
    NAME(exclaim);
    NAME(bar);
    NAME(colon);
    NAME(hash);
    NAME(kw_cc);
    NAME(LabelID);
    NAME(GlobalID);
    NAME(LocalVarID);
    NAME(AttrGrpID);
    NAME(SummaryID);
    NAME(LabelStr);
    NAME(GlobalVar);
    NAME(ComdatVar);
    NAME(LocalVar);
    NAME(MetadataVar);
    NAME(StringConstant);
    NAME(DwarfTag);
    NAME(DwarfAttEncoding);
    NAME(DwarfVirtuality);
    NAME(DwarfLang);
    NAME(DwarfSourceLangName);
    NAME(DwarfCC);
    NAME(EmissionKind);
    NAME(NameTableKind);
    NAME(FixedPointKind);
    NAME(DwarfOp);
    NAME(DIFlag);
    NAME(DISPFlag);
    NAME(DwarfMacinfo);
    NAME(ChecksumKind);
    NAME(DbgRecordType);
    NAME(DwarfEnumKind);
    NAME(Type);
    NAME(APFloat);
    NAME(APSInt);
  default:
    break;
  }
#undef NAME
  const char *End = Begin;
  while (isAlnum(*End) || *End == '_')
    ++End;
  return "kw_" + std::string(Begin, End);
}

/// Writes what a token has beside its kind.
void printValue(const LLLexer &Lexer, Category C, raw_ostream &Out) {
  switch (C) {
  case Category::Marker:
  case Category::Keyword:
    break;
  case Category::Uint:
    Out << Lexer.getUIntVal();
    break;
  case Category::String:
    printEscapedString(Lexer.getStrVal(), Out);
    break;
  case Category::Type:
    Lexer.getTyVal()->print(Out);
    break;
  case Category::Float: {
    SmallString<32> Digits;
    Lexer.getAPFloatVal().toString(Digits);
    Out << Digits;
    break;
  }
  case Category::Int:
    Lexer.getAPSIntVal().print(Out, Lexer.getAPSIntVal().isSigned());
    break;
  }
}

/// Appends the tokens of a text that a zero byte follows.
void lex(StringRef Text, Tokens &Out) {
  DistinctTexts Kinds(Out.Kinds.Texts), Categories(Out.Categories.Texts),
      Values(Out.Values.Texts);
  std::array<int32_t, lltok::APSInt + 1> KnownKinds;
  KnownKinds.fill(-1);
  // The lexer makes types in a context, and the program's own is to stay as it is.
  LLVMContext Context;
  SourceMgr Sources;
  SMDiagnostic Problem;
  Sources.AddNewSourceBuffer(MemoryBuffer::getMemBuffer(Text), SMLoc());
  LLLexer Lexer(Text, Sources, Problem, Context);
  SmallString<64> Value;
  while (lltok::Kind Kind = Lexer.Lex()) {
    int32_t &Name = KnownKinds[Kind];
    if (Name < 0)
      Name = Kinds.number(nameOf(Kind, Lexer.getLoc().getPointer()));
    // As in LLVM's parser: a word before a colon is no label here.
    if (Kind == lltok::kw_memory || Kind == lltok::kw_captures)
      Lexer.setIgnoreColonInIdentifiers(true);
    else if (Kind == lltok::rparen)
      Lexer.setIgnoreColonInIdentifiers(false);
    Category C = categoryOf(Kind);
    Value.clear();
    raw_svector_ostream Stream(Value);
    printValue(Lexer, C, Stream);
    Out.Ids.push_back(Kind);
    Out.Kinds.Places.push_back(Name);
    Out.Categories.Places.push_back(Categories.number(nameOf(C)));
    Out.Values.Places.push_back(Values.number(Value));
  }
}

SteplakeTextList borrow(const TextList &List) {
  return {{List.Texts.data(), List.Texts.size()}, List.Places.data()};
}

} // namespace

extern "C" void steplake_llvm_module_tokens(SteplakeModule *Module,
                                            SteplakeTokens *Out) {
  Tokens &Found = Module->Tokens;
  Found.clear();
  steplake_llvm_module_print(Module, /*HasUseLists=*/0);
  lex(Module->Text, Found);
  *Out = {Found.Ids.size(), Found.Ids.data(), borrow(Found.Kinds),
          borrow(Found.Categories), borrow(Found.Values)};
}
