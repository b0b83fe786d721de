//! The identity of several lakes.

use super::error::MergeError;
use super::source::SourceLake;
use crate::kernel::{FORMAT_VERSION, Identity};

/// Returns the identity of all of the lakes, with the actions and spaces that any of them has. The
/// flags of actions are combined: a warning stays if one lake has it, a guarantee only if all have
/// it. With `keep_first`, the spaces of the first lake are the first ones; otherwise the order of
/// spaces does not depend on that of the lakes.
pub(super) fn common(sources: &[SourceLake], keep_first: bool) -> Result<Identity, MergeError> {
    let mut common = sources.first().expect("there is a lake to merge").snapshot.identity().clone();
    common.format_version = FORMAT_VERSION;
    for (place, second) in sources.iter().enumerate() {
        let other = second.snapshot.identity();
        for first in &sources[..place] {
            if let Some(difference) = first.snapshot.identity().difference(other) {
                let (what, in_first, in_second) = difference;
                let (first, second) = (first.path(), second.path());
                return Err(MergeError::OtherIdentity { what, first, in_first, second, in_second });
            }
        }
        let actions = &mut common.action_space.actions;
        for (action, other) in actions.iter_mut().zip(&other.action_space.actions) {
            let (flags, other) = (&mut action.flags, other.flags);
            flags.replayable &= other.replayable;
            flags.crashes |= other.crashes;
            flags.slow |= other.slow;
            flags.never_changes &= other.never_changes;
        }
        let appended = other.action_space.actions.iter().skip(actions.len());
        actions.extend(appended.cloned());
        if keep_first {
            append(&mut common.observations, &other.observations);
            append(&mut common.rewards, &other.rewards);
            append(&mut common.baselines, &other.baselines);
        } else {
            common.observations =
                united(&common.observations, &other.observations, |space| &space.name);
            common.rewards = united(&common.rewards, &other.rewards, |space| &space.name);
            common.baselines = united(&common.baselines, &other.baselines, String::as_str);
        }
    }
    Ok(common)
}

/// Appends the items that a list lacks.
fn append<T: Clone + PartialEq>(list: &mut Vec<T>, other: &[T]) {
    for item in other {
        if !list.contains(item) {
            list.push(item.clone());
        }
    }
}

/// Returns all items of two lists, neither of which has an item twice:
///
/// - If one list begins with the other, that list: columns of a lake that only grew keep their
///   places.
/// - If the sorted beginning of one list has all items of the other, that list: it may be the
///   result of a merge with the other, so the first rule does not depend on grouping.
/// - Otherwise, the items sorted by name.
///
/// This is the join of a semilattice: neither the order of lists nor their grouping matters.
fn united<T: Clone + PartialEq>(one: &[T], other: &[T], name: fn(&T) -> &str) -> Vec<T> {
    for (list, part) in [(one, other), (other, one)] {
        let sorted = list.chunk_by(|a, b| name(a) < name(b)).next().unwrap_or_default();
        if list.starts_with(part) || part.iter().all(|item| sorted.contains(item)) {
            return list.to_vec();
        }
    }
    let mut all = [one, other].concat();
    all.sort_by(|a, b| name(a).cmp(name(b)));
    all.dedup();
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uniting_lists_depends_neither_on_order_nor_on_grouping_and_keeps_beginnings() {
        let mut lists = vec![Vec::new()];
        for place in 0.. {
            let Some(list) = lists.get(place).cloned() else { break };
            let more = ["a", "b", "c", "d"].into_iter().filter(|item| !list.contains(item));
            lists.extend(more.map(|item| [list.clone(), vec![item]].concat()));
        }
        assert_eq!(lists.len(), 65);
        let unite = |one: &[&'static str], other: &[&'static str]| united(one, other, |name| name);
        for a in &lists {
            assert_eq!(unite(a, a), *a);
            for b in &lists {
                let ab = unite(a, b);
                assert_eq!(unite(b, a), ab);
                assert!(!b.starts_with(a) || ab == *b, "{a:?}, {b:?}: {ab:?}");
                assert!(a.iter().chain(b).all(|item| ab.contains(item)));
                for c in &lists {
                    assert_eq!(unite(&ab, c), unite(a, &unite(b, c)), "{a:?}, {b:?}, {c:?}");
                }
            }
        }
    }
}
