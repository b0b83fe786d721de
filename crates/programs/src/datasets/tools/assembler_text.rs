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

/// The same for assembly, where names such as `my_incbin` are more common. `.mri` lets directives
/// lose their dot.
const DIRECTIVES_OF_GCC: [&str; 9] =
    [".incbin", ".include", ".macro", ".irp", ".irpc", ".irep", ".irepc", ".altmacro", ".mri"];

/// The directives of strings that a GCC writes.
const STRINGS: [&str; 5] = [".string", ".asciz", ".ascii", ".ident", ".file"];

/// Returns the first such directive in a program in LLVM's text form.
pub(in crate::datasets) fn reading_directive(program: &[u8]) -> Option<&'static str> {
    texts(program).find_map(|text| {
        let variants = [0, 1].map(|variant| of_dialect(&text, variant).to_ascii_lowercase());
        DIRECTIVES.into_iter().find(|name| variants.iter().any(|text| text.contains(name)))
    })
}

/// Returns the first such directive in assembly that a GCC made. A GCC marks what is the program's
/// own text, but that text can hold the marks too, so every line counts, except constants of
/// strings, where any word may stand.
pub fn reading_directive_in_assembly(assembly: &[u8]) -> Option<&'static str> {
    // Behind a quote that is not closed in its line, the assembler may take for a constant what
    // looks like a directive, and the other way round.
    let mut is_unclosed = false;
    assembly.split(|&byte| byte == b'\n').find_map(|line| {
        if !is_unclosed && is_string(line) {
            return None;
        }
        is_unclosed |= line.iter().fold(false, |is_odd, &byte| is_odd != (byte == b'"'));
        directive(line)
    })
}

/// Returns whether a line is a constant of a string and nothing else.
fn is_string(line: &[u8]) -> bool {
    let line = line.trim_ascii();
    let rest = STRINGS.iter().find_map(|name| line.strip_prefix(name.as_bytes()));
    let Some(rest) = rest.and_then(|rest| rest.trim_ascii_start().strip_prefix(b"\"")) else {
        return false;
    };
    let mut bytes = rest.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' => {
                bytes.next();
            }
            b'"' => return bytes.next().is_none(),
            _ => {}
        }
    }
    false
}

/// Returns the first such directive in a line, which is not a part of a longer name.
fn directive(line: &[u8]) -> Option<&'static str> {
    let is_of_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"._$".contains(byte);
    let dots = line.iter().enumerate().filter(|&(_, &byte)| byte == b'.');
    dots.filter(|&(at, _)| !line[..at].last().is_some_and(is_of_name)).find_map(|(at, _)| {
        let rest = &line[at..];
        let end = rest.iter().position(|byte| !is_of_name(byte)).unwrap_or(rest.len());
        let is_same = |name: &&str| rest[..end].eq_ignore_ascii_case(name.as_bytes());
        DIRECTIVES_OF_GCC.into_iter().find(is_same)
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
    fn directives_of_assembly_are_found_wherever_its_marks_are() {
        for assembly in [
            "#APP\n\t.incbin \"f\"\n#NO_APP\n",
            "#APP\n#NO_APP\n.incbin \"f\"\n#NO_APP\n",
            "nop; .Include \"f\"",
            "x:.incbin \"f\"",
            "/* \" */ .incbin \"f\"",
            "\t.ascii \"a\"; .incbin \"f\"",
            "# \"\n\t.string \".incbin\"",
            ".mri 1\ninclude \"f\"",
            "\t.irpc x,i\n.\\x\\()ncbin \"f\"\n.endr",
        ] {
            assert!(reading_directive_in_assembly(assembly.as_bytes()).is_some(), "{assembly}");
        }
        for assembly in [
            "\t.string\t\".incbin \\\"f\\\"\"\n\t.ascii \".include\\n\\0\"\n",
            "\t.file\t\".incbin\"\n",
            "my.incbin:\n\tcall\tincbin\n\tcall\tload.include.0\n",
            "#APP\n\tnop\n#NO_APP\n",
        ] {
            assert_eq!(reading_directive_in_assembly(assembly.as_bytes()), None, "{assembly}");
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
