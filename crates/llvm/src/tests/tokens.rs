//! Tokens against LLVM's headers, which name them, and LLVM's parser, which reads them again.

use std::path::Path;

use super::{EVERYTHING, GOLDEN, begin, engine, real_programs};
use crate::assemble;
use crate::module::{LocalNames, Module};
use crate::session::first_state;
use steplake_model::{List, ValueType};

/// Number, kind, category and value.
type Token = (i32, String, String, String);

fn tokens(program: &mut Module) -> Vec<Token> {
    let lists = program.tokens();
    assert!(lists.is_sound() && lists.value_type() == ValueType::Tokens);
    let Some(List::Int32(ids)) = lists.get("token_id") else { panic!("no numbers") };
    let texts = ["token_kind", "token_category", "token_value"].map(|name| match lists.get(name) {
        Some(List::Text(texts)) => texts.iter().map(str::to_owned).collect::<Vec<_>>(),
        _ => panic!("no texts"),
    });
    let [kinds, categories, values] = texts;
    let texts = kinds.into_iter().zip(categories).zip(values);
    let token = |(&id, ((kind, category), value))| (id, kind, category, value);
    ids.iter().zip(texts).map(token).collect()
}

/// The enumerators of `lltok::Kind` in their order, as LLVM's headers list them.
fn kinds() -> Vec<String> {
    let include = Path::new(env!("LLVM_SYS_221_PREFIX")).join("include/llvm");
    let read = |name: &str| std::fs::read_to_string(include.join(name)).unwrap();
    let (attributes, text) = (read("IR/Attributes.inc"), read("AsmParser/LLToken.h"));
    let attribute = |line: &str| {
        let (_, name) = line.strip_prefix("ATTRIBUTE_ENUM(")?.strip_suffix(')')?.split_once(',')?;
        Some(format!("kw_{name}"))
    };
    let (_, body) = text.split_once("enum Kind {").unwrap();
    let (body, _) = body.split_once("};").unwrap();
    let mut kinds = Vec::new();
    for line in body.lines() {
        let (code, _) = line.split_once("//").unwrap_or((line, ""));
        if code.starts_with("#include") {
            kinds.extend(attributes.lines().filter_map(attribute));
        } else if !code.starts_with('#') && !code.contains("kw_##") {
            let names = code.split(',').map(str::trim).filter(|name| !name.is_empty());
            kinds.extend(names.map(str::to_owned));
        }
    }
    kinds
}

/// A token as LLVM writes it.
fn spelled((_, kind, category, value): &Token) -> String {
    let name = match kind.strip_prefix("kw_") {
        Some(word) => word,
        None => match kind.as_str() {
            "dotdotdot" => "...",
            "equal" => "=",
            "comma" => ",",
            "star" => "*",
            "lsquare" => "[",
            "rsquare" => "]",
            "lbrace" => "{",
            "rbrace" => "}",
            "less" => "<",
            "greater" => ">",
            "lparen" => "(",
            "rparen" => ")",
            "exclaim" | "MetadataVar" => "!",
            "bar" => "|",
            "colon" => ":",
            "hash" | "AttrGrpID" => "#",
            "GlobalID" | "GlobalVar" => "@",
            "LocalVarID" | "LocalVar" => "%",
            "ComdatVar" => "$",
            "LabelID" | "LabelStr" | "StringConstant" | "Type" | "APFloat" | "APSInt" => "",
            other => panic!("no token of a program is a {other}"),
        },
    };
    match (category.as_str(), kind.as_str()) {
        ("strval", "MetadataVar") => format!("!{value}"),
        ("strval", "LabelStr") => format!("\"{value}\":"),
        ("strval", _) => format!("{name}\"{value}\""),
        ("uintval", "LabelID") => format!("{value}:"),
        // A number without a point would be an integer.
        ("apfloat", _) if !value.contains('.') => value.find('E').map_or_else(
            || format!("{value}.0"),
            |at| format!("{}.0{}", &value[..at], &value[at..]),
        ),
        _ => format!("{name}{value}"),
    }
}

fn programs() -> Vec<Module> {
    let engine = engine();
    let real = real_programs();
    let real = real.iter().map(|program| first_state(&engine, program).unwrap());
    real.chain([GOLDEN, EVERYTHING].map(|text| begin(&engine, text))).collect()
}

#[test]
fn kinds_are_the_enumerators_of_llvm() {
    let kinds = kinds();
    assert_eq!(&kinds[..4], ["Eof", "Error", "dotdotdot", "equal"]);
    assert_eq!(kinds.last().map(String::as_str), Some("APSInt"));
    let mut seen = std::collections::BTreeSet::new();
    for mut program in programs() {
        for (id, kind, category, value) in tokens(&mut program) {
            assert_eq!(kinds[usize::try_from(id).unwrap()], kind);
            let is_word = kind.starts_with("kw_") || kind.chars().all(char::is_lowercase);
            assert_eq!((category == "keyword"), is_word, "{kind} is a {category}");
            assert!(category != "keyword" || value.is_empty(), "{kind} {value}");
            seen.insert(kind);
        }
    }
    assert!(seen.len() > 100, "only {} kinds were seen: {seen:?}", seen.len());
}

#[test]
fn programs_can_be_read_from_their_tokens() {
    let engine = engine();
    let texts = [GOLDEN, EVERYTHING].map(|text| assemble(text).unwrap());
    for bitcode in real_programs().into_iter().chain(texts) {
        // LLVM does not read the addresses of blocks without names from its own text.
        let mut named = Module::parse(&bitcode, LocalNames::Keep).unwrap();
        named.adopt(engine.machine()).unwrap();
        let text: Vec<_> = tokens(&mut named).iter().map(spelled).collect();
        let again = assemble(text.join(" ").as_bytes()).unwrap();
        let [state, again] =
            [bitcode, again].map(|it| first_state(&engine, &it).unwrap().state_id());
        assert_eq!(state, again);
    }
}

#[test]
fn a_program_has_the_tokens_that_can_be_seen_in_it() {
    let text = b"@s = constant [2 x i8] c\"\\22\\00\"
        define float @f(ptr captures(ret: address, provenance) %p) memory(argmem: read) {
          %y = load float, ptr %p
          %z = call cc1023 float @g(float %y, float -2.5, i8 -1)
          br label %end
        end:
          ret float %z
        }
        declare cc1023 float @g(float, float, i8)";
    let tokens = tokens(&mut begin(&engine(), text));
    let of = |category: &str| -> Vec<String> {
        let found = tokens.iter().filter(|token| token.2 == category);
        found.map(|(_, kind, _, value)| format!("{kind} {value}")).collect()
    };
    let locals = ["0", "2", "0", "3", "2", "4"].map(|number| format!("LocalVarID {number}"));
    let label = ["LabelID 4".to_owned()];
    let result = ["LocalVarID 3".to_owned()];
    let numbers: Vec<_> = of("uintval").into_iter().filter(|it| !it.starts_with("Attr")).collect();
    assert_eq!(numbers, [&locals[..], &label, &result].concat());
    assert_eq!(of("apfloat"), ["APFloat -2.5"]);
    assert_eq!(
        of("apsint"),
        ["2", "4", "1023", "-1", "1023"].map(|number| format!("APSInt {number}"))
    );
    let names = ["GlobalVar s", "StringConstant \\22\\00", "GlobalVar f", "GlobalVar g"];
    let strings = of("strval");
    assert!(names.into_iter().all(|name| strings.iter().any(|it| it == name)), "{strings:?}");
    assert!(!strings.iter().any(|text| text.starts_with("Label")), "{strings:?}");
    assert_eq!(of("type").iter().filter(|text| *text == "Type float").count(), 9);
    let words = ["kw_cc ", "kw_captures ", "kw_ret ", "kw_argmem ", "colon ", "kw_load "];
    let keywords = of("keyword");
    assert!(words.into_iter().all(|word| keywords.iter().any(|it| it == word)), "{keywords:?}");
    assert!(of("marker").is_empty());
}

#[test]
fn tokens_depend_on_the_program_alone_and_leave_it_as_it_was() {
    for mut program in programs() {
        let before = (program.state_id(), program.registered());
        let found = program.tokens();
        assert_eq!(Module::revive(program.write()).unwrap().tokens(), found);
        assert_eq!((program.state_id(), program.registered()), before);
    }
}
