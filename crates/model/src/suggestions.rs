//! Suggestions for misspelt names.

use std::fmt::Display;

use strsim::levenshtein;

/// The most names that a suggestion lists.
const NEAR_MAX: usize = 5;

/// The candidates nearest to `wanted`, best first: those that contain it or are a few typing errors
/// away. The case of letters is ignored.
pub fn near<'a>(wanted: &str, candidates: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    near_as(wanted, candidates.into_iter().map(|name| (name, name)))
}

/// The same for names that are compared in one spelling, which comes first, and shown in another.
pub fn near_as<'a>(
    wanted: &str,
    candidates: impl IntoIterator<Item = (impl AsRef<str>, &'a str)>,
) -> Vec<&'a str> {
    let wanted = wanted.to_lowercase();
    let errors_max = (wanted.chars().count() / 3).max(2);
    let mut ranked: Vec<(usize, &str)> = candidates
        .into_iter()
        .filter_map(|(compared, name)| {
            let lower = compared.as_ref().to_lowercase();
            let errors = levenshtein(&wanted, &lower);
            let contained = wanted.len() >= 3 && lower.contains(&wanted);
            (errors <= errors_max || contained).then_some((errors, name))
        })
        .collect();
    ranked.sort_unstable();
    ranked.dedup();
    ranked.into_iter().map(|(_, name)| name).take(NEAR_MAX).collect()
}

/// A suggestion for a name: the nearest names, or else all names.
pub fn meant(name: &str, names: &[&str]) -> String {
    match &near(name, names.iter().copied())[..] {
        [] if names.is_empty() => "it has none".to_owned(),
        [] => format!("there are {}", list(names)),
        near => format!("did you mean {}?", list(near)),
    }
}

/// Returns ` (did you mean …?)` if a name is near, else nothing.
pub fn did_you_mean<'a>(wanted: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    let near = near(wanted, names);
    near.first().map_or_else(String::new, |name| format!(" (did you mean `{name}`?)"))
}

/// Names for a message: `a`, `b`, `c`.
pub fn list(names: &[impl Display]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    quoted.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_come_first() {
        let names = ["TotalInsts", "TotalBlocks", "RetInst", "total"];
        assert_eq!(near("totalinst", names), ["TotalInsts"]);
        assert_eq!(near("total", names), ["total", "TotalInsts", "TotalBlocks"]);
        assert!(near("zzzzzz", names).is_empty());
    }

    #[test]
    fn only_what_is_near_is_named() {
        assert_eq!(did_you_mean("hufman", ["huffman", "orbits"]), " (did you mean `huffman`?)");
        assert_eq!(did_you_mean("zebra", ["huffman", "orbits"]), "");
    }
}
