// The words of LLVM IR, for colours.

import { StreamLanguage } from "@codemirror/language";

const TYPES = /^(?:i[0-9]+|ptr|void|float|double|half|bfloat|x86_fp80|fp128|label|metadata|token|x86_amx|opaque|type)\b/;
const WORDS = new Set(
  ("define declare global constant private internal external linkonce_odr weak common dso_local local_unnamed_addr " +
    "unnamed_addr target datalayout triple source_filename attributes section comdat align addrspace " +
    "ret br switch indirectbr invoke resume unreachable callbr fneg add fadd sub fsub mul fmul udiv sdiv fdiv urem srem " +
    "frem shl lshr ashr and or xor extractelement insertelement shufflevector extractvalue insertvalue alloca load store " +
    "fence cmpxchg atomicrmw getelementptr trunc zext sext fptrunc fpext fptoui fptosi uitofp sitofp ptrtoint inttoptr " +
    "bitcast addrspacecast icmp fcmp phi select freeze call tail musttail notail va_arg landingpad to x").split(" "),
);
const FLAGS = new Set(
  ("nsw nuw exact inbounds nneg disjoint fast nnan ninf nsz arcp contract reassoc afn volatile noundef nonnull noalias " +
    "nocapture readonly readnone writeonly signext zeroext byval sret returned zeroinitializer undef poison null true " +
    "false none samesign nusw dead_on_unwind writable captures dereferenceable memory nofree norecurse nounwind").split(" "),
);

export const irLanguage = StreamLanguage.define<null>({
  name: "llvm",
  startState: () => null,
  token(stream) {
    if (stream.eatSpace()) return null;
    if (stream.sol() && stream.match(/^(?:[\w.$-]+|"[^"]*"):/)) return "labelName";
    if (stream.match(/^;.*/)) return "comment";
    if (stream.match(/^c?"(?:[^"\\]|\\.)*"/)) return "string";
    if (stream.match(/^%(?:[\w.$-]+|"[^"]*")/)) return "variableName";
    if (stream.match(/^@(?:[\w.$-]+|"[^"]*")/)) return "className";
    if (stream.match(/^[!#][\w.$-]*/)) return "meta";
    if (stream.match(TYPES)) return "typeName";
    if (stream.match(/^-?(?:0x[0-9a-fA-F]+|[0-9]+(?:\.[0-9]+(?:e[+-]?[0-9]+)?)?)/)) return "number";
    const word = stream.match(/^[a-zA-Z_][\w.]*/);
    if (Array.isArray(word)) {
      const text = word[0] ?? "";
      return WORDS.has(text) ? "keyword" : FLAGS.has(text) ? "modifier" : null;
    }
    stream.next();
    return null;
  },
});
