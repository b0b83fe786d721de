//! Recorded states, with a recorded path to each.

use std::collections::{BTreeMap, HashMap, HashSet};

use steplake_lake::{EpisodeStep, LakeError, Snapshot};
use steplake_model::{ActionIndex, BenchmarkUri, StateId};

/// A recorded state of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DrawnState {
    /// The place of its program among those to draw from.
    pub program: usize,
    /// The state.
    pub state: StateId,
    /// The actions that changed the state, from the first state of the program on, each with the
    /// state to which it led.
    pub path: Vec<(ActionIndex, StateId)>,
}

impl DrawnState {
    /// Returns the actions of its path.
    pub(super) fn actions(&self) -> Vec<ActionIndex> {
        self.path.iter().map(|(action, _)| *action).collect()
    }
}

/// Draws `count` states that closed episodes of these programs reached, without repetition (all, if
/// there are fewer), in a random order fixed by `seed`. Each program comes with its first state,
/// which is not among them. Of several paths to a state, a shortest is taken. Only episodes that
/// begin in the first state have paths: a fork begins where its parent was.
///
/// Keeps the drawn paths and that of one episode in memory.
///
/// # Errors
///
/// [`LakeError::Corrupt`] with the file that is damaged.
pub fn draw_states(
    snapshot: &Snapshot,
    programs: &[(BenchmarkUri, StateId)],
    count: usize,
    seed: i64,
) -> Result<Vec<DrawnState>, LakeError> {
    let drawn = BTreeMap::new();
    scan(snapshot, programs, Draw { places: HashMap::new(), count, seed, wanted: None, drawn })
}

/// Finds a shortest recorded path to each of some states, from the first states of programs, as
/// [`draw_states`] does.
///
/// # Errors
///
/// [`LakeError::Corrupt`] with the file that is damaged.
pub(super) fn paths_to(
    snapshot: &Snapshot,
    programs: &[(BenchmarkUri, StateId)],
    wanted: &HashSet<StateId>,
) -> Result<Vec<DrawnState>, LakeError> {
    let (places, drawn) = (HashMap::new(), BTreeMap::new());
    let wanted = Some(wanted);
    scan(snapshot, programs, Draw { places, count: usize::MAX, seed: 0, wanted, drawn })
}

fn scan<'a>(
    snapshot: &Snapshot,
    programs: &'a [(BenchmarkUri, StateId)],
    mut draw: Draw<'a>,
) -> Result<Vec<DrawnState>, LakeError> {
    let mut closed = HashSet::new();
    for episode in snapshot.episodes() {
        closed.insert(episode?.id);
    }
    let programs = programs.iter().enumerate();
    draw.places =
        programs.map(|(place, (uri, initial))| (uri.as_str(), (place, *initial))).collect();
    let mut path = EpisodePath::default();
    for steps in snapshot.steps() {
        for step in steps?.iter().filter(|step| closed.contains(&step.episode)) {
            path.advance(&step);
            draw.note(step.benchmark, &path);
        }
    }
    Ok(draw.drawn.into_values().collect())
}

/// The path of an episode so far: where it begins, and its steps. `None` where its beginning is
/// missing.
#[derive(Debug, Default)]
struct EpisodePath(Option<(StateId, Vec<(ActionIndex, StateId)>)>);

impl EpisodePath {
    fn advance(&mut self, step: &EpisodeStep<'_>) {
        match (step.from, step.action, step.state) {
            (None, None, state) if step.index == 0 => {
                self.0 = state.map(|state| (state, Vec::new()));
            }
            (Some(from), Some(action), Some(state)) => {
                if let Some((_, path)) = self.0.as_mut().filter(|_| from != state) {
                    path.push((action, state));
                }
            }
            _ => self.0 = None,
        }
    }
}

struct Draw<'a> {
    /// The place and the first state of each program.
    places: HashMap<&'a str, (usize, StateId)>,
    count: usize,
    seed: i64,
    /// The only states that count, if there are such.
    wanted: Option<&'a HashSet<StateId>>,
    /// By their tickets: the smallest win.
    drawn: BTreeMap<[u8; 32], DrawnState>,
}

impl Draw<'_> {
    fn note(&mut self, uri: &str, path: &EpisodePath) {
        let Some((begin, path)) = &path.0 else { return };
        let (Some(&(program, initial)), Some(&(_, state))) = (self.places.get(uri), path.last())
        else {
            return;
        };
        let is_wanted = self.wanted.is_none_or(|wanted| wanted.contains(&state));
        if *begin != initial || state == initial || !is_wanted {
            return;
        }
        let ticket = self.ticket(uri, state);
        if let Some(known) = self.drawn.get_mut(&ticket) {
            if path.len() < known.path.len() {
                known.path.clone_from(path);
            }
            return;
        }
        let is_full = self.drawn.len() >= self.count;
        if is_full && self.drawn.last_key_value().is_none_or(|(last, _)| *last < ticket) {
            return;
        }
        if is_full {
            self.drawn.pop_last();
        }
        self.drawn.insert(ticket, DrawnState { program, state, path: path.clone() });
    }

    /// A number that depends on the state alone, so that no state is drawn twice, however often it
    /// was reached.
    fn ticket(&self, uri: &str, state: StateId) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new_derive_key("steplake 2026 draw of states to run");
        hasher.update(&self.seed.to_le_bytes()).update(&state.0).update(uri.as_bytes());
        *hasher.finalize().as_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use steplake_model::EpisodeId;

    fn state(number: u8) -> StateId {
        StateId([number; 20])
    }

    /// What is drawn from episodes of these states, of a program whose first state is 0.
    fn drawn(episodes: &[&[u8]], count: usize, seed: i64) -> Vec<(u8, usize)> {
        let places = HashMap::from([("benchmark://a/b", (0, state(0)))]);
        let mut draw = Draw { places, count, seed, wanted: None, drawn: BTreeMap::new() };
        for states in episodes {
            let (mut path, mut from) = (EpisodePath::default(), None);
            for (&number, index) in states.iter().zip(0..) {
                let (episode, benchmark) = (EpisodeId(0), "benchmark://a/b");
                let action = from.map(|_| ActionIndex(u32::from(number)));
                let state = Some(state(number));
                let keyframe = false;
                path.advance(&EpisodeStep {
                    episode,
                    index,
                    benchmark,
                    from,
                    action,
                    state,
                    keyframe,
                });
                draw.note(benchmark, &path);
                draw.note("benchmark://another/one", &path);
                from = state;
            }
        }
        draw.drawn.into_values().map(|drawn| (drawn.state.0[0], drawn.path.len())).collect()
    }

    #[test]
    fn each_state_is_drawn_once_by_a_shortest_path() {
        let mut all = drawn(&[&[0, 2, 3, 3, 4], &[0, 0, 4, 5], &[0, 2, 0]], 100, 0);
        all.sort_unstable();
        assert_eq!(all, [(2, 1), (3, 2), (4, 1), (5, 2)], "the first state is not drawn");
    }

    #[test]
    fn an_episode_that_begins_elsewhere_has_no_path_from_the_first_state() {
        let mut all = drawn(&[&[0, 1, 2, 3], &[1, 3, 4], &[1, 0, 5]], 100, 0);
        all.sort_unstable();
        assert_eq!(all, [(1, 1), (2, 2), (3, 3)]);
    }

    #[test]
    fn the_seed_and_not_the_order_of_episodes_decides() {
        let one = (0..100).collect::<Vec<_>>();
        let other = std::iter::once(0).chain(100..200).collect::<Vec<_>>();
        let mut alone = drawn(&[&one, &other], 10, 5);
        assert_eq!(alone.len(), 10);
        assert_eq!(alone, drawn(&[&other, &one, &one], 10, 5));
        assert_ne!(alone, drawn(&[&one, &other], 10, 6));
        // More states are the same and others.
        let more = drawn(&[&one, &other], 20, 5);
        alone.retain(|state| !more.contains(state));
        assert_eq!(alone, []);
    }
}
