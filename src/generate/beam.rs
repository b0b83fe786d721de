//! Beam search over sequences of actions.

use std::collections::HashMap;

use crate::model::{ActionIndex, StateId};

/// Of states with equal costs, a level has its width divided by this, and at least one: most
/// changes alter no cost, and a level of what they lead to would leave no room for states that cost
/// a little more now and much less later. With 4, good schedules of a matrix product were not
/// found.
const KINDS: usize = 8;

/// What came of an action: the state, or none if the compiler failed.
pub(super) type Taken = (ActionIndex, Option<StateId>);

/// What to apply from a program's first state on: the way to a state, and then the actions that
/// were not tried there, until one changes the state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Trial {
    /// The way, and then the new actions; nothing once all is known.
    pub(super) actions: Vec<ActionIndex>,
    /// The length of the way.
    way: usize,
    /// The state to which the way leads.
    state: StateId,
}

impl Trial {
    /// Takes the same actions once more, to the last one.
    pub(super) fn again(actions: Vec<ActionIndex>) -> Self {
        Self { way: usize::MAX, actions, state: StateId([0; StateId::LEN]) }
    }

    /// Whether the trial is over once these of its actions were taken: the last one led somewhere
    /// else, or the way did not lead where it led before.
    pub(super) fn is_over(&self, taken: &[Taken]) -> bool {
        let state = taken.last().and_then(|(_, state)| *state);
        taken.len() >= self.way.max(1) && state != Some(self.state)
    }
}

/// The place of a state among those that are known.
type Place = usize;

/// A known state.
#[derive(Debug)]
struct Known {
    id: StateId,
    /// Infinity as long as nobody has said what it costs.
    cost: f64,
    /// The number of actions that were tried, in the order of their indexes.
    tried: usize,
    /// The other states to which actions led, in the same order.
    next: Vec<(ActionIndex, Place)>,
}

/// Beam search: of the states that a change of a level's states leads to, those with the lowest
/// costs are the next level; of equal ones, those with the smallest ids.
///
/// Of states with equal costs, a level has an eighth of its width, at least one.
///
/// Each pass begins at the program and goes as deep as an episode is long. The first one keeps one
/// state of a level, so it is the greedy search, and each later one twice as many as the one before
/// it. What is known is not tried again. Once a pass leaves out no state, there is nothing more to
/// find.
///
/// Pure: a function of what it was told. So an interrupted run is continued by telling a new search
/// what the past trials did.
#[derive(Debug)]
pub(super) struct Beam {
    actions: usize,
    depth_max: usize,
    is_greedy: bool,
    places: HashMap<StateId, Place>,
    known: Vec<Known>,
    width: usize,
    depth: usize,
    /// The states of the present level, the best first, and the one that is being expanded.
    level: Vec<Place>,
    at: usize,
    /// The states to which those before lead.
    next: Vec<Place>,
    /// From where this pass came to each of its states.
    came: HashMap<Place, (Place, ActionIndex)>,
    left_out: bool,
    is_over: bool,
}

impl Beam {
    /// Begins a search at a program's first state.
    pub(super) fn new(first: StateId, actions: u32, depth_max: u32) -> Self {
        let mut beam = Self {
            actions: actions as usize,
            depth_max: depth_max as usize,
            is_greedy: false,
            places: HashMap::new(),
            known: Vec::new(),
            width: 1,
            depth: 0,
            level: Vec::new(),
            at: 0,
            next: Vec::new(),
            came: HashMap::new(),
            left_out: false,
            is_over: false,
        };
        beam.place(first);
        beam.level.push(0);
        beam
    }

    /// Begins a greedy search at a program's first state, which costs so much: one pass, which ends
    /// where no action lowers the cost.
    pub(super) fn greedy(first: StateId, cost: f64, actions: u32, depth_max: u32) -> Self {
        let mut beam = Self::new(first, actions, depth_max);
        (beam.is_greedy, beam.known[0].cost) = (true, cost);
        beam
    }

    /// Returns whether it is known what a state costs.
    pub(super) fn knows(&self, state: StateId) -> bool {
        self.places.contains_key(&state)
    }

    /// Returns what to try next. The answer is the same until [`Beam::tell`].
    pub(super) fn ask(&mut self) -> Trial {
        let Some(place) = self.expanded() else {
            return Trial { actions: Vec::new(), way: 0, state: self.known[0].id };
        };
        let way = self.way(place);
        let Known { id, tried, .. } = self.known[place];
        let last = self.actions.min(tried + self.depth_max - way.len());
        let new = (tried..last).filter_map(|action| u32::try_from(action).ok().map(ActionIndex));
        Trial { way: way.len(), actions: way.into_iter().chain(new).collect(), state: id }
    }

    /// Learns what came of the last trial. `costs` are those of the states that were not known.
    pub(super) fn tell(&mut self, taken: &[Taken], costs: &HashMap<StateId, f64>) {
        let trial = self.ask();
        let Some(&place) = self.places.get(&trial.state) else { return };
        let reached = taken[..trial.way.min(taken.len())]
            .last()
            .map_or((trial.way == 0).then_some(trial.state), |(_, state)| *state);
        let new = taken.get(trial.way..).unwrap_or_default();
        if reached != Some(trial.state) || new.is_empty() {
            // The state cannot be reached again, or nothing can be applied to it.
            self.known[place].tried = self.actions;
            return;
        }
        for &(action, state) in new {
            self.known[place].tried += 1;
            let Some(state) = state.filter(|state| *state != trial.state) else { continue };
            let next = self.place(state);
            if let Some(&cost) = costs.get(&state) {
                self.known[next].cost = cost;
            }
            if self.known[place].next.iter().all(|&(_, known)| known != next) {
                self.known[place].next.push((action, next));
            }
        }
    }

    /// Returns the place of a state, a new one if it has none.
    fn place(&mut self, id: StateId) -> Place {
        *self.places.entry(id).or_insert_with(|| {
            self.known.push(Known { id, cost: f64::INFINITY, tried: 0, next: Vec::new() });
            self.known.len() - 1
        })
    }

    /// Returns the actions that lead to a state of this pass.
    fn way(&self, place: Place) -> Vec<ActionIndex> {
        let steps = std::iter::successors(self.came.get(&place), |(from, _)| self.came.get(from));
        let mut way = steps.map(|&(_, action)| action).collect::<Vec<_>>();
        way.reverse();
        way
    }

    /// Goes on to a state that has actions to be tried, through levels and passes; none once all
    /// is known.
    fn expanded(&mut self) -> Option<Place> {
        while !self.is_over {
            let Some(&place) = self.level.get(self.at) else {
                self.descend();
                continue;
            };
            if self.known[place].tried < self.actions {
                return Some(place);
            }
            for &(action, next) in &self.known[place].next {
                if next != 0 && !self.came.contains_key(&next) {
                    self.came.insert(next, (place, action));
                    self.next.push(next);
                }
            }
            self.at += 1;
        }
        None
    }

    /// Goes on to the next level, or to the next pass if there is none.
    fn descend(&mut self) {
        (self.depth, self.at) = (self.depth + 1, 0);
        let lowest = |level: &[Place]| {
            level.iter().map(|&place| self.known[place].cost).fold(f64::INFINITY, f64::min)
        };
        let is_lower = lowest(&self.next) < lowest(&self.level);
        self.level = std::mem::take(&mut self.next);
        if self.is_greedy && !is_lower {
            self.level.clear();
        }
        if self.depth >= self.depth_max || self.level.is_empty() {
            self.is_over = self.is_greedy || !self.left_out;
            (self.width, self.depth, self.left_out) = (self.width * 2, 0, false);
            self.level = vec![0];
            self.came.clear();
            return;
        }
        let known = &self.known;
        self.level.sort_by(|&one, &other| {
            let (one, other) = (&known[one], &known[other]);
            one.cost.total_cmp(&other.cost).then_with(|| one.id.cmp(&other.id))
        });
        let reached = self.level.len();
        let (mut equal, mut last) = (0, f64::NAN);
        self.level.retain(|&place| {
            let cost = known[place].cost;
            equal = if cost.total_cmp(&last).is_eq() { equal + 1 } else { 1 };
            last = cost;
            equal <= (self.width / KINDS).max(1)
        });
        self.level.truncate(self.width);
        self.left_out |= self.level.len() < reached;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ACTIONS: u8 = 4;

    fn id(number: u8) -> StateId {
        StateId([number; StateId::LEN])
    }

    /// A graph with so many states: where each action leads, and what each state costs.
    type Graph = (Vec<[Option<u8>; ACTIONS as usize]>, Vec<u8>);

    fn graphs() -> impl Strategy<Value = Graph> {
        (1_u8..30).prop_flat_map(|states| {
            let next = prop::option::weighted(0.9, 0..states);
            let count = usize::from(states);
            (
                prop::collection::vec(prop::array::uniform4(next), count),
                prop::collection::vec(any::<u8>(), count),
            )
        })
    }

    /// Plays the next trial, with the graph's costs.
    fn play(beam: &mut Beam, graph: &Graph) -> Vec<Taken> {
        let trial = beam.ask();
        let (mut at, mut taken) = (0, Vec::new());
        for &action in &trial.actions {
            let next = graph.0[usize::from(at)][action.place()];
            taken.push((action, next.map(id)));
            if trial.is_over(&taken) {
                break;
            }
            at = next.unwrap_or(at);
        }
        beam.tell(&taken, &costs(&taken, graph));
        taken
    }

    fn costs(taken: &[Taken], graph: &Graph) -> HashMap<StateId, f64> {
        let states = taken.iter().filter_map(|(_, state)| *state);
        states.map(|state| (state, f64::from(graph.1[usize::from(state.0[0])]))).collect()
    }

    /// The states within so many changes of the first one.
    fn within(graph: &Graph, depth: u32) -> std::collections::BTreeSet<u8> {
        let mut reached = std::collections::BTreeSet::from([0]);
        for _ in 0..depth {
            let next = reached.iter().flat_map(|&at| graph.0[usize::from(at)]).flatten();
            reached = reached.iter().copied().chain(next).collect();
        }
        reached
    }

    proptest! {
        #[test]
        fn in_the_end_everything_is_found_and_nothing_was_tried_twice(
            graph in graphs(),
            depth in 1_u32..7,
        ) {
            let mut beam = Beam::new(id(0), ACTIONS.into(), depth);
            let mut tried = std::collections::BTreeSet::new();
            loop {
                let way = beam.ask().way;
                let taken = play(&mut beam, &graph);
                if taken.is_empty() {
                    break;
                }
                prop_assert!(taken.len() <= depth as usize);
                let mut at = way.checked_sub(1).map_or(Some(id(0)), |last| taken[last].1).unwrap();
                for &(action, state) in &taken[way..] {
                    prop_assert!(tried.insert((at, action)), "{at} {action:?} twice");
                    at = state.unwrap_or(at);
                }
            }
            let known = beam.places.keys().map(|state| state.0[0]).collect();
            prop_assert_eq!(within(&graph, depth), known);
        }

        #[test]
        fn what_is_asked_depends_on_what_was_told_alone(graph in graphs(), count in 0_usize..60) {
            let [mut one, mut other] = [(); 2].map(|()| Beam::new(id(0), ACTIONS.into(), 5));
            let past = (0..count).map(|_| play(&mut one, &graph)).collect::<Vec<_>>();
            for taken in past {
                other.tell(&taken, &costs(&taken, &graph));
            }
            for _ in 0..20 {
                prop_assert_eq!(one.ask(), other.ask());
                prop_assert_eq!(play(&mut one, &graph), play(&mut other, &graph));
            }
        }
    }

    #[test]
    fn the_first_pass_is_greedy() {
        // From each number, three actions lead to the next ones, of which the middle one is best.
        let next = |at: u8| [Some(at), Some(3 * at + 1), Some(3 * at + 2), Some(3 * at + 3)];
        let graph: Graph = ((0..80).map(next).collect(), (0..=255).map(|at| at % 3).collect());
        let mut beam = Beam::new(id(0), ACTIONS.into(), 3);
        // Of 1, 2 and 3 the last costs least, and so it does of 10, 11 and 12. The first action
        // leads nowhere, and an episode that goes to 12 ends with it.
        let trials = (0..10).map(|_| play(&mut beam, &graph)).collect::<Vec<_>>();
        let ends = trials.iter().map(|taken| taken.last().unwrap().1.unwrap().0[0]);
        assert_eq!(ends.collect::<Vec<_>>(), [1, 2, 3, 10, 11, 12, 12, 37, 38, 39]);
    }

    #[test]
    fn a_greedy_search_ends_where_no_action_lowers_the_cost() {
        let next = |at: u8| [Some(at), Some(3 * at + 1), Some(3 * at + 2), Some(3 * at + 3)];
        // From 0 it goes down to 3, from there to 11, and from there nowhere.
        let cost = |at: u8| match at {
            0 => 9,
            3 => 5,
            11 => 4,
            at if at < 34 => 7,
            _ => 4,
        };
        let graph: Graph = ((0..80).map(next).collect(), (0..=255).map(cost).collect());
        let mut beam = Beam::greedy(id(0), 9.0, ACTIONS.into(), 20);
        let trials = (0..11).map(|_| play(&mut beam, &graph)).collect::<Vec<_>>();
        let ends = trials.iter().map(|taken| taken.last().map(|last| last.1.unwrap().0[0]));
        let tried = [1, 2, 3, 10, 11, 12, 34, 35, 36].map(Some);
        assert_eq!(ends.collect::<Vec<_>>(), [&tried[..], &[None; 2]].concat());
    }

    #[test]
    fn equal_costs_leave_room_for_others() {
        // Of 1, 2 and 3 the last costs a little more, and from there it goes down.
        let next = |at: u8| [Some(at), Some(3 * at + 1), Some(3 * at + 2), Some(3 * at + 3)];
        let cost = |at: u8| if at == 3 { 6 } else { 5 };
        let graph: Graph = ((0..80).map(next).collect(), (0..=255).map(cost).collect());
        let mut beam = Beam::new(id(0), ACTIONS.into(), 2);
        // The first action leads nowhere, and an episode that goes to 1 or 3 ends with it.
        let trials = (0..11).map(|_| play(&mut beam, &graph)).collect::<Vec<_>>();
        let ends = trials.iter().map(|taken| taken.last().unwrap().1.unwrap().0[0]);
        assert_eq!(ends.collect::<Vec<_>>(), [1, 2, 3, 1, 4, 5, 6, 3, 10, 11, 12]);
    }

    #[test]
    fn a_state_that_is_reached_no_more_is_left_alone() {
        let mut beam = Beam::new(id(0), 2, 3);
        let told = |beam: &mut Beam, taken: &[(u32, Option<u8>)]| {
            let taken = taken.iter().map(|&(action, state)| (ActionIndex(action), state.map(id)));
            let taken = taken.collect::<Vec<_>>();
            let states = taken.iter().filter_map(|(_, state)| *state);
            let costs = states.map(|state| (state, 1.0)).collect();
            beam.tell(&taken, &costs);
        };
        told(&mut beam, &[(0, Some(1))]);
        told(&mut beam, &[(1, None)]);
        assert_eq!(beam.ask().actions, [0, 0, 1].map(ActionIndex));
        // The way leads to another state this time.
        told(&mut beam, &[(0, Some(2))]);
        assert!(beam.ask().actions.is_empty());
    }
}
