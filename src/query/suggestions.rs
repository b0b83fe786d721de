//! Suggestions for a mistyped name.

/// The most names that a suggestion lists.
const NEAR_MAX: usize = 5;

/// The candidates nearest to `wanted`, best first: those that contain it or are a few typing errors
/// away. The case of letters is ignored.
pub(super) fn near<'a>(
    wanted: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Vec<&'a str> {
    near_as(wanted, candidates.into_iter().map(|name| (name, name)))
}

/// The same for names that are compared in one spelling, which comes first, and shown in another.
pub(super) fn near_as<'a>(
    wanted: &str,
    candidates: impl IntoIterator<Item = (impl AsRef<str>, &'a str)>,
) -> Vec<&'a str> {
    let wanted = wanted.to_lowercase();
    let errors_max = (wanted.chars().count() / 3).max(2);
    let mut ranked: Vec<(usize, &str)> = candidates
        .into_iter()
        .filter_map(|(compared, name)| {
            let lower = compared.as_ref().to_lowercase();
            let errors = distance(&wanted, &lower);
            let contained = wanted.len() >= 3 && lower.contains(&wanted);
            (errors <= errors_max || contained).then_some((errors, name))
        })
        .collect();
    ranked.sort_unstable();
    ranked.dedup();
    ranked.into_iter().map(|(_, name)| name).take(NEAR_MAX).collect()
}

/// A suggestion for a name: the nearest names, or else all names.
pub(super) fn meant(name: &str, names: &[&str]) -> String {
    let near = near(name, names.iter().copied());
    if near.is_empty() {
        return format!("there are {}", list(names));
    }
    format!("did you mean {}?", list(&near))
}

/// Names for a message: `a`, `b`, `c`.
pub(super) fn list(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    quoted.join(", ")
}

/// Levenshtein's distance, in characters.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, &y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typing_errors_are_counted() {
        for (a, b, errors) in [("", "", 0), ("abc", "", 3), ("kitten", "sitting", 3), ("é", "e", 1)]
        {
            assert_eq!(distance(a, b), errors, "{a} {b}");
        }
    }

    #[test]
    fn the_nearest_come_first() {
        let names = ["TotalInsts", "TotalBlocks", "RetInst", "total"];
        assert_eq!(near("totalinst", names), ["TotalInsts"]);
        assert_eq!(near("total", names), ["total", "TotalInsts", "TotalBlocks"]);
        assert!(near("zzzzzz", names).is_empty());
    }
}
