//! Suggestions for misspelt names.

use datafusion::common::utils::datafusion_strsim::levenshtein;

/// Returns the name among `names` closest to `wanted`, if one is close.
pub(super) fn nearest<'a>(
    wanted: &str,
    names: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let far = wanted.chars().count().div_ceil(3).max(2);
    let distances = names.into_iter().map(|name| (levenshtein(wanted, name), name));
    distances.filter(|(distance, _)| *distance <= far).min().map(|(_, name)| name)
}

/// Returns ` (did you mean …?)` if a name is close, else nothing.
pub(crate) fn did_you_mean<'a>(wanted: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    nearest(wanted, names).map_or_else(String::new, |name| format!(" (did you mean `{name}`?)"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_near_is_named() {
        assert_eq!(nearest("hufman", ["huffman", "orbits"]), Some("huffman"));
        assert_eq!(nearest("zebra", ["huffman", "orbits"]), None);
        assert_eq!(did_you_mean("orbit", ["orbits"]), " (did you mean `orbits`?)");
    }
}
