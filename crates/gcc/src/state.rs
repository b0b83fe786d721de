//! A state: a program, and the choice of each option.

use std::fmt::Write as _;
use std::sync::Arc;

use sha1::{Digest as _, Sha1};

use super::options::GccOptions;
use steplake_model::StateId;

/// Begins the first line of a serialised state in which an option is set. The line ends with the
/// options, as a command line has them; then comes the source.
const HEADER: &str = "// gcc-v0 state 1:";

/// Begins the header of every version.
const HEADER_START: &str = "// gcc-v0 state ";

/// What precedes the content in the hash of a state, with the version of the hash.
const HASHED_HEADER: &str = "gcc-v0 state 1\n";

/// The directives that stay in a source only if nobody has preprocessed it. The compiler proper
/// ignores them or fails on what they were to bring.
const DIRECTIVES: [&str; 16] = [
    "define",
    "elif",
    "elifdef",
    "elifndef",
    "else",
    "embed",
    "endif",
    "error",
    "if",
    "ifdef",
    "ifndef",
    "import",
    "include",
    "include_next",
    "undef",
    "warning",
];

/// The most characters of a line that a message shows.
const SHOWN_MAX: usize = 60;

/// A preprocessed source, with its digest.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PreprocessedSource {
    pub(super) text: Box<[u8]>,
    pub(super) sha1: [u8; 20],
}

impl PreprocessedSource {
    /// Takes a text, if it is preprocessed C. The error says why it is not.
    fn read(text: &[u8]) -> Result<Self, String> {
        if text.contains(&0) {
            return Err("a program of gcc-v0 is preprocessed C, which has no zero bytes".to_owned());
        }
        let mut lines = text.split(|&byte| byte == b'\n').zip(1..);
        if let Some((line, number)) = lines.find(|(line, _)| is_unprocessed(line)) {
            return Err(format!(
                "line {number} of its source is `{}`, and programs of gcc-v0 are preprocessed C: name \
                 the file by its path, which preprocesses it, or give what `gcc -E -P` makes of it",
                String::from_utf8_lossy(line).trim().chars().take(SHOWN_MAX).collect::<String>()
            ));
        }
        Ok(Self { text: text.into(), sha1: Sha1::digest(text).into() })
    }
}

/// Whether a line is for the preprocessor. Line markers (`# 1 "a.c"`) and pragmas are not.
fn is_unprocessed(line: &[u8]) -> bool {
    let Some(directive) = line.trim_ascii_start().strip_prefix(b"#") else { return false };
    let directive = directive.trim_ascii_start();
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let end = directive.iter().position(|byte| !is_name(byte)).unwrap_or(directive.len());
    DIRECTIVES.iter().any(|name| name.as_bytes() == &directive[..end])
}

/// The choice of each option, in the options' order: -1 if it is absent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OptionChoices(pub(super) Box<[i32]>);

impl OptionChoices {
    /// No option is set.
    pub(super) fn none(options: &GccOptions) -> Self {
        Self(vec![-1; options.list().len()].into())
    }

    /// Reads the options that a command line sets. The error names one that there is not.
    pub(super) fn parse(options: &GccOptions, line: &str) -> Result<Self, String> {
        let mut choices = Self::none(options);
        for word in line.split_whitespace() {
            let known = options.parse(word);
            let (at, choice) = known.ok_or_else(|| format!("there is no option `{word}`"))?;
            choices.0[at] = choice;
        }
        Ok(choices)
    }

    /// Writes each option that is set to `text`, and `end` after it.
    pub(super) fn write(&self, options: &GccOptions, text: &mut String, end: char) {
        for (option, &choice) in options.list().iter().zip(&self.0) {
            if choice >= 0 {
                option.write(choice, text);
                text.push(end);
            }
        }
    }

    /// Returns the options that are set, as a command line has them.
    pub(super) fn words(&self, options: &GccOptions) -> Vec<String> {
        let mut text = String::new();
        self.write(options, &mut text, '\n');
        text.lines().map(str::to_owned).collect()
    }
}

/// A state of the environment, which no compiler has to see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct GccState {
    pub(super) source: Arc<PreprocessedSource>,
    pub(super) choices: OptionChoices,
}

impl GccState {
    /// Reads a program of the environment: a preprocessed source, or a serialised state. The error
    /// says why it is neither.
    pub(super) fn parse(options: &GccOptions, program: &[u8]) -> Result<Self, String> {
        let Some(rest) = program.strip_prefix(HEADER.as_bytes()) else {
            if program.starts_with(HEADER_START.as_bytes()) {
                return Err(format!(
                    "its first line is no header of a state: write `{HEADER} -O2`"
                ));
            }
            let source = Arc::new(PreprocessedSource::read(program)?);
            return Ok(Self { source, choices: OptionChoices::none(options) });
        };
        let end = rest.iter().position(|&byte| byte == b'\n').unwrap_or(rest.len());
        let (line, source) = rest.split_at(end);
        let line =
            str::from_utf8(line).map_err(|error| format!("its first line is no text: {error}"))?;
        let choices = OptionChoices::parse(options, line)?;
        let source = PreprocessedSource::read(source.get(1..).unwrap_or_default())?;
        Ok(Self { source: Arc::new(source), choices })
    }

    /// Returns the bytes of which [`parse`](Self::parse) makes this state. Equal states have equal
    /// bytes, and without options they are the source.
    pub(super) fn serialise(&self, options: &GccOptions) -> Vec<u8> {
        let mut line = String::new();
        self.choices.write(options, &mut line, ' ');
        if line.is_empty() {
            return self.source.text.to_vec();
        }
        let mut header = String::new();
        writeln!(header, "{HEADER} {}", line.trim_end()).expect("a string takes it");
        [header.as_bytes(), &self.source.text].concat()
    }

    /// Returns the state's name: a hash of the source, and of the options that are set.
    pub(super) fn identify(&self, options: &GccOptions) -> StateId {
        let mut text = String::new();
        self.choices.write(options, &mut text, '\n');
        let hash = Sha1::new().chain_update(HASHED_HEADER).chain_update(self.source.sha1);
        StateId(hash.chain_update(text).finalize().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::help::kept;

    const SOURCE: &[u8] = b"# 1 \"a.c\"\nint f(void) { return 1; }\n";

    #[test]
    fn a_state_is_read_from_its_bytes() {
        let options = kept(12);
        let untouched = GccState::parse(&options, SOURCE).unwrap();
        assert_eq!(untouched.serialise(&options), SOURCE);
        let line = "-O2 -fno-gcse --param=max-slsr-cand-scan=1000";
        let choices = OptionChoices::parse(&options, line).unwrap();
        let state = GccState { choices, source: Arc::clone(&untouched.source) };
        let bytes = state.serialise(&options);
        let text = format!("// gcc-v0 state 1: {line}\n{}", str::from_utf8(SOURCE).unwrap());
        assert_eq!(str::from_utf8(&bytes).unwrap(), text);
        assert_eq!(GccState::parse(&options, &bytes).unwrap(), state);
        assert_eq!(state.choices.words(&options).join(" "), line);
    }

    #[test]
    fn the_name_of_a_state_is_that_of_its_source_and_of_the_options_that_are_set() {
        let options = kept(12);
        let with = |line: &str| {
            let text = format!("// gcc-v0 state 1: {line}\n").into_bytes();
            GccState::parse(&options, &[&text, SOURCE].concat()).unwrap().identify(&options)
        };
        let untouched = GccState::parse(&options, SOURCE).unwrap().identify(&options);
        assert_eq!(with(""), untouched);
        assert_eq!(
            with("-fno-gcse -O2"),
            with("-O2 -fno-gcse"),
            "the order is that of the options"
        );
        assert_ne!(with("-O2"), with("-O3"));
        assert_ne!(with("-fgcse"), with("-fno-gcse"));
        assert_eq!(untouched.to_string(), "143e66c4c5daff68152db93228b3e210b2db0a0c");
        assert_eq!(
            GccState::parse(&kept(7), SOURCE).unwrap().identify(&kept(7)),
            untouched,
            "another compiler has other options"
        );
        let other = GccState::parse(&options, b"int f;").unwrap().identify(&options);
        assert_ne!(other, untouched);
    }

    #[test]
    fn what_is_no_program_is_refused() {
        let options = kept(12);
        for program in [
            &b"BC\xc0\xde\0\0"[..],
            b"// gcc-v0 state 1: -O9\n",
            b"// gcc-v0 state 1: \xff\n",
            b"// gcc-v0 state 2: -O2\n",
            b"// gcc-v0 state 1: -O2\n#include <stdio.h>\n",
        ] {
            GccState::parse(&options, program).unwrap_err();
        }
        let error = GccState::parse(&options, b"int a;\n # define N 7\nint b = N;\n").unwrap_err();
        assert!(error.starts_with("line 2 of its source is `# define N 7`"), "{error}");
        let preprocessed = b"# 1 \"a.c\"\n#pragma GCC ivdep\n#line 3\n#\nint definition;\n";
        GccState::parse(&options, preprocessed).unwrap();
        let headless = GccState::parse(&options, b"// gcc-v0 state 1: -O2").unwrap();
        assert!(headless.source.text.is_empty());
    }
}
