//! Shorter sequences of actions that show the same.
//!
//! This is the algorithm `ddmin` (Zeller and Hildebrandt, "Simplifying and Isolating
//! Failure-Inducing Input", IEEE TSE 28(2), 2002). Here the last action is always to blame: without
//! it, the sequence shows nothing.

/// A sequence that shows something which it does not show without its last item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Minimised<A> {
    pub(super) items: Vec<A>,
    /// Whether it shows nothing without any one of its items. If not, trials have run out.
    pub(super) is_minimal: bool,
}

/// Says whether a sequence shows something; `None` if it will try no more.
pub(super) type Shows<'a, A, E> = dyn FnMut(&[A]) -> Result<Option<bool>, E> + 'a;

/// Minimises a sequence that shows something, where the empty one shows nothing.
///
/// # Errors
///
/// Those of `shows`.
pub(super) fn minimise<A: Copy, E>(
    items: &[A],
    shows: &mut Shows<'_, A, E>,
) -> Result<Minimised<A>, E> {
    let given_up = |items| Ok(Minimised { items, is_minimal: false });
    let Some(mut items) = shortest_prefix(items, shows)? else {
        return given_up(items.to_vec());
    };
    let mut parts = 2.min(items.len());
    while items.len() > 1 {
        let mut shorter = None;
        for part in 0..parts {
            let begin = part * items.len() / parts;
            let end = (part + 1) * items.len() / parts;
            let rest = [&items[..begin], &items[end..]].concat();
            match shows(&rest)? {
                None => return given_up(items),
                Some(true) => {
                    shorter = Some(rest);
                    break;
                }
                Some(false) => {}
            }
        }
        match shorter {
            Some(rest) => match shortest_prefix(&rest, shows)? {
                Some(prefix) => {
                    items = prefix;
                    parts = parts.saturating_sub(1).clamp(2, items.len().max(2));
                }
                None => return given_up(items),
            },
            None if parts >= items.len() => break,
            None => parts = (2 * parts).min(items.len()),
        }
        parts = parts.min(items.len());
    }
    Ok(Minimised { items, is_minimal: true })
}

/// Returns a prefix of a sequence that shows something: one that does not without its last item.
/// It is found by bisection, so it may not be the shortest if longer prefixes show nothing again.
fn shortest_prefix<A: Copy, E>(
    items: &[A],
    shows: &mut Shows<'_, A, E>,
) -> Result<Option<Vec<A>>, E> {
    let (mut without, mut with) = (0, items.len());
    while with - without > 1 {
        let middle = without.midpoint(with);
        match shows(&items[..middle])? {
            None => return Ok(None),
            Some(true) => with = middle,
            Some(false) => without = middle,
        }
    }
    Ok(Some(items[..with].to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    fn minimised(items: &[u32], most: usize, shows: impl Fn(&[u32]) -> bool) -> Minimised<u32> {
        let mut trials = 0;
        let mut count = |items: &[u32]| -> Result<Option<bool>, Infallible> {
            trials += 1;
            Ok((trials <= most).then(|| shows(items)))
        };
        minimise(items, &mut count).unwrap()
    }

    /// Whether `wanted` is in `items`, in this order.
    fn has(items: &[u32], wanted: &[u32]) -> bool {
        let mut items = items.iter();
        wanted.iter().all(|wanted| items.any(|item| item == wanted))
    }

    #[test]
    fn what_is_needed_is_left_in_its_order() {
        let all: Vec<u32> = (0..100).collect();
        for wanted in [&[99][..], &[0], &[3, 4], &[0, 50, 98], &[1, 2, 3, 5, 8, 13, 21, 34]] {
            let found = minimised(&all, 10_000, |items| has(items, wanted));
            assert_eq!(found, Minimised { items: wanted.to_vec(), is_minimal: true });
        }
    }

    #[test]
    fn the_result_is_minimal_even_if_longer_sequences_show_nothing_again() {
        let all: Vec<u32> = (0..40).collect();
        let both_or_none = |items: &[u32]| has(items, &[5]) == has(items, &[30]);
        let shows = |items: &[u32]| has(items, &[7]) && both_or_none(items);
        let found = minimised(&all, 10_000, shows);
        assert!(found.is_minimal && shows(&found.items), "{found:?}");
        for place in 0..found.items.len() {
            let mut less = found.items.clone();
            less.remove(place);
            assert!(!shows(&less), "{found:?} without {place}");
        }
        let odd = |items: &[u32]| items.len() % 2 == 1;
        assert_eq!(minimised(&all[..39], 10_000, odd).items.len(), 1);
    }

    #[test]
    fn without_trials_the_sequence_is_only_as_short_as_it_got() {
        let all: Vec<u32> = (0..64).collect();
        let shows = |items: &[u32]| has(items, &[10, 20]);
        for most in 0..40 {
            let found = minimised(&all, most, shows);
            assert!(shows(&found.items), "{found:?}");
            assert!(!found.is_minimal || found.items == [10, 20], "{found:?}");
        }
    }
}
