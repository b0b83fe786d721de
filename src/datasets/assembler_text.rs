//! Finds assembler text in a program that would read files when assembled.
//!
//! Bitcode holds the text unchanged, so it does not contain any file's content yet. But whatever is
//! later made from the bitcode would contain it, so a program whose text names a directive that
//! reads a file is refused. The text may compose such a name in ways that only an assembler sees
//! through; therefore whatever assembles a program has to be confined as well.

/// Words that precede an assembler text in LLVM's text form.
const BEFORE: [&[u8]; 5] = [b"asm", b"sideeffect", b"alignstack", b"inteldialect", b"unwind"];

/// Directives that read a file, and those that can compose another directive's name.
const DIRECTIVES: [&str; 5] = ["incbin", ".include", ".macro", ".irp", ".altmacro"];

/// Returns the first such directive in a program in LLVM's text form.
pub(super) fn reading_directive(program: &[u8]) -> Option<&'static str> {
    texts(program).find_map(|text| {
        let variants = [0, 1].map(|variant| of_dialect(&text, variant).to_ascii_lowercase());
        DIRECTIVES.into_iter().find(|name| variants.iter().any(|text| text.contains(name)))
    })
}

/// Returns the assembler texts of a program, those of the module and those of calls.
fn texts(program: &[u8]) -> impl Iterator<Item = String> {
    let mut rest = program;
    let mut word: &[u8] = &[];
    std::iter::from_fn(move || {
        while let Some((&byte, after)) = rest.split_first() {
            match byte {
                b'"' => {
                    let end = after.iter().position(|byte| *byte == b'"').unwrap_or(after.len());
                    let text = &after[..end];
                    rest = after.get(end + 1..).unwrap_or_default();
                    if BEFORE.contains(&std::mem::take(&mut word)) {
                        return Some(unescaped(text));
                    }
                }
                b';' => {
                    let end = after.iter().position(|byte| *byte == b'\n').unwrap_or(after.len());
                    rest = &after[end..];
                }
                b'a'..=b'z' => {
                    let end = rest.iter().position(|byte| !byte.is_ascii_lowercase());
                    (word, rest) = rest.split_at(end.unwrap_or(rest.len()));
                }
                _ => {
                    if !byte.is_ascii_whitespace() {
                        word = &[];
                    }
                    rest = after;
                }
            }
        }
        None
    })
}

/// Decodes LLVM's escapes: a backslash and two hexadecimal digits for an unprintable byte.
fn unescaped(text: &[u8]) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, after)) = rest.split_first() {
        let digits = after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(escaped) if byte == b'\\' => {
                bytes.push(escaped);
                rest = &after[2..];
            }
            _ => {
                bytes.push(byte);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Returns the text in one of the assembler's dialects: `$(one$|other$)` stands for either.
fn of_dialect(text: &str, variant: usize) -> String {
    let mut out = String::new();
    let (mut current, mut characters) = (None, text.chars());
    while let Some(character) = characters.next() {
        let mark = if character == '$' { characters.clone().next() } else { None };
        match (mark, current) {
            (Some('('), _) => current = Some(0),
            (Some('|'), Some(place)) => current = Some(place + 1),
            (Some(')'), Some(_)) => current = None,
            _ => {
                if current.is_none_or(|place| place == variant) {
                    out.push(character);
                }
                continue;
            }
        }
        characters.next();
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assembler_texts_that_read_files_are_found() {
        for program in [
            r#"module asm "x: .incbin \22/etc/hostname\22""#,
            r#"module asm ".IncBin \22f\22""#,
            r#"module asm "\2einc\62in \22f\22""#,
            r#"module asm ".include \22f\22""#,
            "module asm \".macro m x\"\nmodule asm \".inc\\\\x \\22f\\22\"",
            r#"call void asm sideeffect "nop; .incbin \22f\22", "~{memory}"()"#,
            r#"call void asm "$(.inc$|nop$)bin \22f\22", ""()"#,
            r#"call void asm "$(nop$|.in$)cbin \22f\22", ""()"#,
            r#"call void asm alignstack inteldialect unwind ".incbin 'f'", ""()"#,
        ] {
            assert!(reading_directive(program.as_bytes()).is_some(), "{program}");
        }
    }

    #[test]
    fn other_texts_are_not() {
        for program in [
            r#"@s = constant [9 x i8] c".incbin\00\00""#,
            r#"; asm ".incbin""#,
            r#"@".incbin" = global i32 0, section ".include""#,
            r#"call void asm sideeffect "nop", "~{memory}"() ; ".incbin""#,
            r#"call i32 asm "mov $1, $0; $(a$|b$) $$3", "=r,r"(i32 3)"#,
            r#"attributes #0 = { nounwind "asm"=".incbin" }"#,
            r#"module asm ".globl z""#,
            r#"module asm "unterminated"#,
        ] {
            assert_eq!(reading_directive(program.as_bytes()), None, "{program}");
        }
    }
}
