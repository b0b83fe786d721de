//! Types with names, written out: statements have no names.

use std::collections::BTreeMap;

/// A longer definition stays a name: no statement of the vocabulary is that long, and types that
/// hold one another can be longer than any memory.
const DEFINITION_BYTES_MAX: usize = 32 << 10;

/// The number of rounds after which a type that still has names within is part of a cycle, or
/// holds one.
const ROUNDS_MIN: usize = 3;

/// Returns the definitions of types by name, with the definitions of all types within.
///
/// `types` has names (`%struct.pair`) and definitions (`{ i32, %struct.other* }`) in the order of
/// the program's text. A type that holds itself is `opaque` within itself. Which types of a larger
/// cycle are, follows from the order, as in the preprocessing that made the vocabulary.
pub(super) fn definitions(types: Vec<(String, String)>) -> BTreeMap<String, String> {
    let (mut ready, mut open): (BTreeMap<String, String>, _) = (BTreeMap::new(), types);
    let mut written: Vec<(String, String)> = Vec::new();
    let (mut round, mut is_reusing) = (0, false);
    loop {
        for (name, definition) in &written {
            for (_, text) in &mut open {
                write_out(text, name, definition);
            }
        }
        if is_reusing {
            for (_, text) in &mut open {
                for (name, definition) in &ready {
                    write_out(text, name, definition);
                }
            }
        }
        ready.extend(written.drain(..));
        let before = open.len();
        written.extend(open.extract_if(.., |(_, text)| !text.contains('%')));
        if open.is_empty() {
            ready.extend(written);
            return ready;
        }
        round += 1;
        if open.len() == before && round > ROUNDS_MIN {
            let broken = break_cycle(&mut open);
            if broken.is_empty() && is_reusing {
                // What is left has names of types that are nowhere defined.
                return ready;
            }
            is_reusing = broken.is_empty();
            written.extend(broken.into_iter().map(|name| (name, "opaque".to_owned())));
        }
    }
}

/// Gives types that hold themselves, directly or by way of another, another name where they are
/// held. Returns the new names.
fn break_cycle(open: &mut [(String, String)]) -> Vec<String> {
    let before = open.to_vec();
    let mut broken = Vec::new();
    for (place, (name, definition)) in before.iter().enumerate() {
        let inner = format!("{name}_cyclic");
        if mentions(definition, name) {
            let mut text = definition.clone();
            write_out(&mut text, name, &inner);
            open[place].1 = text;
            broken.push(inner);
        } else if broken.is_empty() {
            for (other, (_, text)) in open.iter_mut().enumerate() {
                if other != place && mentions(text, name) {
                    write_out(text, name, &inner);
                    broken = vec![inner.clone()];
                }
            }
        }
    }
    broken
}

fn mentions(text: &str, name: &str) -> bool {
    text.match_indices(name).any(|(begin, _)| ends_a_name(&text[begin + name.len()..]))
}

/// Whether a name that ends here is not the beginning of a longer one.
fn ends_a_name(rest: &str) -> bool {
    rest.starts_with([' ', ',', '*', ']', '}', ')'])
}

/// Replaces a name, if the result is not too long.
fn write_out(text: &mut String, name: &str, definition: &str) {
    if !mentions(text, name) {
        return;
    }
    let mut result = String::new();
    let mut rest = text.as_str();
    while let Some(begin) = rest.find(name) {
        let end = begin + name.len();
        result += &rest[..begin];
        result += if ends_a_name(&rest[end..]) { definition } else { name };
        rest = &rest[end..];
    }
    result += rest;
    *text = if result.len() > DEFINITION_BYTES_MAX { "opaque".to_owned() } else { result };
}

/// Replaces all names of types in a line by their definitions.
pub(super) fn inline(line: &str, definitions: &BTreeMap<String, String>) -> String {
    let mut result = String::new();
    let mut rest = line;
    while let Some(begin) = rest.find('%') {
        let name = &rest[begin..begin + name_len(&rest[begin..])];
        result += &rest[..begin];
        result += definitions.get(name).map_or(name, String::as_str);
        rest = &rest[begin + name.len()..];
    }
    result + rest
}

/// The length of the name at the beginning of a text, with its `%`.
fn name_len(text: &str) -> usize {
    if let Some(quoted) = text.strip_prefix("%\"") {
        return quoted.find('"').map_or(text.len(), |end| end + 3);
    }
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || "$._-".contains(c);
    text[1..].find(|c| !is_of_name(c)).map_or(text.len(), |end| end + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn defined(types: &[(&str, &str)]) -> BTreeMap<String, String> {
        definitions(types.iter().map(|&(name, text)| (name.to_owned(), text.to_owned())).collect())
    }

    #[test]
    fn types_within_types_are_written_out() {
        let types = defined(&[
            ("%outer", "{ %inner, [2 x %inner]*, %inner.s* }"),
            ("%inner", "{ i32, %leaf }"),
            ("%inner.s", "opaque"),
            ("%leaf", "<{ i8, i32 }>"),
        ]);
        let inner = "{ i32, <{ i8, i32 }> }";
        assert_eq!(types["%inner"], inner);
        assert_eq!(types["%outer"], format!("{{ {inner}, [2 x {inner}]*, opaque* }}"));
        let line = "store %leaf* %5, %\"b c\"** %inner.sx, %leaf";
        let types = defined(&[("%leaf", "{ i8 }"), ("%\"b c\"", "{ i1 }")]);
        assert_eq!(inline(line, &types), "store { i8 }* %5, { i1 }** %inner.sx, { i8 }");
    }

    #[test]
    fn a_type_within_itself_is_opaque() {
        let types = defined(&[("%list", "{ %list*, i32 }"), ("%head", "{ %list*, %list* }")]);
        assert_eq!(types["%list"], "{ opaque*, i32 }");
        assert_eq!(types["%head"], "{ { opaque*, i32 }*, { opaque*, i32 }* }");
    }

    #[test]
    fn one_type_of_a_cycle_is_opaque_within() {
        let types = defined(&[("%a", "{ %b* }"), ("%b", "{ i32, %a* }")]);
        assert_eq!(types["%b"], "{ i32, opaque* }");
        assert_eq!(types["%a"], "{ { i32, opaque* }* }");
    }

    #[test]
    fn types_that_would_fill_the_memory_end_as_opaque() {
        let names: Vec<_> = (0..100).map(|number| format!("%t{number}")).collect();
        let mut types = vec![("%t0".to_owned(), "{ i32 }".to_owned())];
        for pair in names.windows(2) {
            types.push((pair[1].clone(), format!("{{ {0}, {0} }}", pair[0])));
        }
        let types = definitions(types);
        assert_eq!(types.len(), 100);
        assert!(types.values().all(|text| text.len() <= DEFINITION_BYTES_MAX));
        assert_eq!(types["%t1"], "{ { i32 }, { i32 } }");
    }

    #[test]
    fn a_name_without_a_definition_stays() {
        assert!(!defined(&[("%a", "{ %nowhere }")]).contains_key("%a"));
    }
}
