/// Returns the name among `names` closest to `wanted`, if one is close.
pub(super) fn nearest<'a>(
    wanted: &str,
    names: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let far = wanted.chars().count().div_ceil(3).max(2);
    let distances = names.into_iter().map(|name| (distance(wanted, name), name));
    distances.filter(|(distance, _)| *distance <= far).min().map(|(_, name)| name)
}

/// Returns ` (did you mean …?)` if a name is close, else nothing.
pub(crate) fn did_you_mean<'a>(wanted: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    nearest(wanted, names).map_or_else(String::new, |name| format!(" (did you mean `{name}`?)"))
}

/// Returns the edit distance: the number of insertions, deletions and replacements from `a` to `b`.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let change = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = change.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        for (a, b, expected) in
            [("", "", 0), ("abc", "", 3), ("kitten", "sitting", 3), ("ab", "ba", 2)]
        {
            assert_eq!(distance(a, b), expected, "{a} {b}");
        }
    }

    #[test]
    fn only_what_is_near_is_named() {
        assert_eq!(nearest("hufman", ["huffman", "orbits"]), Some("huffman"));
        assert_eq!(nearest("zebra", ["huffman", "orbits"]), None);
        assert_eq!(did_you_mean("orbit", ["orbits"]), " (did you mean `orbits`?)");
    }
}
