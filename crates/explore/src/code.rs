//! Programs as text, function by function, and what differs between two of them.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde::Serialize;
use similar::{Algorithm, ChangeTag, TextDiff};
use steplake::model::StateId;

/// After this time, the rest of two texts counts as one change.
const SEARCH_TIME_MAX: Duration = Duration::from_secs(2);

/// The bytes of texts that are kept for the next request.
const KEPT_BYTES_MAX: usize = 64 << 20;

/// The text of a program, split at its functions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Code {
    /// The whole text.
    pub(super) text: String,
    /// The functions in their order, each with its text.
    functions: Vec<(String, String)>,
    /// What lies outside of functions.
    module: String,
}

impl Code {
    /// Splits LLVM's text. Another text is what lies outside of functions.
    pub(super) fn new(text: String) -> Self {
        let mut functions: Vec<(String, String)> = Vec::new();
        let mut module = SqueezedLines::default();
        let mut comments: Vec<&str> = Vec::new();
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            if line.starts_with("; Function Attrs:") {
                comments.push(line);
                continue;
            }
            let Some(name) = line.strip_prefix("define ").and_then(defined) else {
                comments.drain(..).for_each(|comment| module.push(comment));
                module.push(line);
                continue;
            };
            let mut body: Vec<&str> = std::mem::take(&mut comments);
            body.push(line);
            for line in lines.by_ref() {
                body.push(line);
                if line == "}" {
                    break;
                }
            }
            functions.push((name, body.join("\n") + "\n"));
        }
        comments.drain(..).for_each(|comment| module.push(comment));
        let module = module.0;
        Self { text, functions, module }
    }

    /// Returns the text of a function, or of what lies outside of functions for an empty name;
    /// none if there is no such function.
    pub(super) fn part(&self, function: &str) -> Option<&str> {
        if function.is_empty() {
            return Some(&self.module);
        }
        let found = self.functions.iter().find(|(name, _)| name == function);
        found.map(|(_, text)| text.as_str())
    }
}

/// Lines without several empty ones in a row.
#[derive(Default)]
struct SqueezedLines(String);

impl SqueezedLines {
    fn push(&mut self, line: &str) {
        let is_first_empty = !self.0.is_empty() && !self.0.ends_with("\n\n");
        if !line.is_empty() || is_first_empty {
            self.0.push_str(line);
            self.0.push('\n');
        }
    }
}

/// Returns the name of the function that the rest of a line after `define` begins.
fn defined(line: &str) -> Option<String> {
    // A type or an attribute before the name may be quoted, and so have anything in it.
    let mut quoted = false;
    let at = line.char_indices().find(|&(_, character)| {
        quoted ^= character == '"';
        character == '@' && !quoted
    });
    let rest = &line[at?.0 + 1..];
    match rest.strip_prefix('"') {
        Some(rest) => rest.split_once('"').map(|(name, _)| name.to_owned()),
        None => rest.split_once('(').map(|(name, _)| name.to_owned()),
    }
}

/// How a part of a program changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Change {
    Same,
    Changed,
    Added,
    Removed,
}

/// A part of two programs: a function, or what lies outside of functions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct PartDiff {
    /// Empty for what lies outside of functions.
    name: String,
    change: Change,
    lines_before: usize,
    lines_after: usize,
    /// The lines that only the text after has, and those that only the text before has.
    added: usize,
    removed: usize,
}

/// What differs between two programs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct CodeDiff {
    functions: Vec<PartDiff>,
    module: PartDiff,
}

/// A part of two programs as text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct PartTexts {
    before: String,
    after: String,
}

/// Compares two programs, function by function: in the order of the second one, and those that it
/// lacks where the first one has them.
pub(super) fn compare(before: &Code, after: &Code) -> CodeDiff {
    let old: HashMap<&str, &str> = by_name(before);
    let new: HashMap<&str, &str> = by_name(after);
    let mut functions = Vec::new();
    let mut gone = before.functions.iter().peekable();
    for (name, text) in &after.functions {
        let text_before = old.get(name.as_str()).copied();
        if text_before.is_some() {
            // Those before this one that are gone come first.
            while let Some((other, removed)) = gone.next_if(|(other, _)| other != name) {
                if !new.contains_key(other.as_str()) {
                    functions.push(part(other, Some(removed), None));
                }
            }
            gone.next();
        }
        functions.push(part(name, text_before, Some(text)));
    }
    for (name, text) in gone.filter(|(name, _)| !new.contains_key(name.as_str())) {
        functions.push(part(name, Some(text), None));
    }
    CodeDiff { functions, module: part("", Some(&before.module), Some(&after.module)) }
}

/// Returns a part of two programs; none if neither has it.
pub(super) fn texts(before: &Code, after: &Code, function: &str) -> Option<PartTexts> {
    let parts = [before, after].map(|code| code.part(function));
    if parts.iter().all(Option::is_none) {
        return None;
    }
    let [before, after] = parts.map(|part| part.unwrap_or_default().to_owned());
    Some(PartTexts { before, after })
}

fn by_name(code: &Code) -> HashMap<&str, &str> {
    code.functions.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect()
}

fn part(name: &str, before: Option<&str>, after: Option<&str>) -> PartDiff {
    let change = match (before, after) {
        (None, _) => Change::Added,
        (_, None) => Change::Removed,
        (Some(before), Some(after)) if before == after => Change::Same,
        _ => Change::Changed,
    };
    let (before, after) = (before.unwrap_or_default(), after.unwrap_or_default());
    let (lines_before, lines_after) = (before.lines().count(), after.lines().count());
    let (added, removed) = match change {
        Change::Same => (0, 0),
        Change::Added => (lines_after, 0),
        Change::Removed => (0, lines_before),
        Change::Changed => changed_lines(before, after),
    };
    PartDiff { name: name.to_owned(), change, lines_before, lines_after, added, removed }
}

/// Counts the lines that only the second text has, and those that only the first one has.
fn changed_lines(before: &str, after: &str) -> (usize, usize) {
    let mut config = TextDiff::configure();
    config.algorithm(Algorithm::Patience).timeout(SEARCH_TIME_MAX);
    let diff = config.diff_lines(before, after);
    let count = |tag| diff.iter_all_changes().filter(|change| change.tag() == tag).count();
    (count(ChangeTag::Insert), count(ChangeTag::Delete))
}

/// The texts of the states that were asked for last: a page asks for several parts of the same two.
#[derive(Debug, Default)]
pub(super) struct KeptCode(Mutex<VecDeque<(StateId, Arc<Code>)>>);

impl KeptCode {
    /// Returns the text of a state if it is kept.
    pub(super) fn get(&self, state: StateId) -> Option<Arc<Code>> {
        let mut kept = self.0.lock();
        let place = kept.iter().position(|(other, _)| *other == state)?;
        let found = kept.remove(place)?;
        let code = Arc::clone(&found.1);
        kept.push_back(found);
        Some(code)
    }

    /// Keeps the text of a state, in the place of those that nobody has asked for in the longest
    /// time.
    pub(super) fn keep(&self, state: StateId, text: String) -> Arc<Code> {
        let code = Arc::new(Code::new(text));
        let mut kept = self.0.lock();
        kept.retain(|(other, _)| *other != state);
        kept.push_back((state, Arc::clone(&code)));
        // Each text is there twice: whole, and in parts.
        let bytes = |kept: &VecDeque<(StateId, Arc<Code>)>| {
            kept.iter().map(|(_, code)| 2 * code.text.len()).sum::<usize>()
        };
        while kept.len() > 1 && bytes(&kept) > KEPT_BYTES_MAX {
            kept.pop_front();
        }
        code
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: &str = "\
; ModuleID = 'm'
target triple = \"x\"

@g = global i32 0

; Function Attrs: nounwind
define dso_local i32 @main() #0 {
  %1 = alloca i32
  ret i32 0
}

define internal %\"class.@a\" @\"odd name\"(ptr %0) {
  ret void
}

declare void @other()

attributes #0 = { nounwind }
";

    const AFTER: &str = "\
; ModuleID = 'm'
target triple = \"x\"

@g = global i32 0

; Function Attrs: nounwind
define dso_local i32 @main() #0 {
  ret i32 0
}

define void @new() {
  ret void
}

declare void @other()

attributes #0 = { nounwind }
";

    #[test]
    fn a_program_is_split_at_its_functions() {
        let code = Code::new(BEFORE.to_owned());
        let names: Vec<&str> = code.functions.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["main", "odd name"]);
        let main = code.part("main").unwrap();
        assert!(main.starts_with("; Function Attrs: nounwind\ndefine") && main.ends_with("\n}\n"));
        let module = code.part("").unwrap();
        assert!(module.contains("declare void @other()") && !module.contains("define"), "{module}");
        assert!(!module.contains("\n\n\n"), "{module}");
        assert_eq!(code.part("gone"), None);
        let other = Code::new("state 7\n".to_owned());
        assert_eq!(other.part(""), Some("state 7\n"));
    }

    #[test]
    fn two_programs_are_compared_function_by_function() {
        let [before, after] = [BEFORE, AFTER].map(|text| Code::new(text.to_owned()));
        let diff = compare(&before, &after);
        let told: Vec<_> = diff.functions.iter().map(|f| (f.name.as_str(), f.change)).collect();
        let wanted =
            [("main", Change::Changed), ("new", Change::Added), ("odd name", Change::Removed)];
        assert_eq!(told, wanted);
        let main = &diff.functions[0];
        assert_eq!((main.lines_before, main.lines_after, main.added, main.removed), (5, 4, 0, 1));
        assert_eq!(diff.module.change, Change::Same);
        let same = compare(&before, &before);
        assert!(same.functions.iter().all(|part| part.change == Change::Same));
        assert_eq!(texts(&before, &after, "new").unwrap().before, "");
        assert_eq!(texts(&before, &after, "none"), None);
    }

    #[test]
    fn only_so_much_text_is_kept() {
        let kept = KeptCode::default();
        let large = "x".repeat(KEPT_BYTES_MAX / 5);
        for state in 0..4 {
            kept.keep(StateId([state; 20]), large.clone());
        }
        assert!(kept.get(StateId([0; 20])).is_none() && kept.get(StateId([3; 20])).is_some());
    }
}
