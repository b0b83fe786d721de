//! Beam search over sequences of actions.

use std::collections::HashMap;

use super::name::{PolicyName, Property};
use super::policy::{Listed, Policy};
use crate::generate::walk::{Walk, WalkStep};
use steplake_model::{ActionIndex, Dice, StateId};

pub(super) const GREEDY: Listed = Listed {
    name: PolicyName {
        name: "greedy",
        summary: "A search: the action that lowers the cost most, again and again, until none does",
        ..BEAM.name
    },
    make: |setting| {
        let depth_max = setting.plan.episode_length;
        Ok(Box::new(Beam { is_greedy: true, ..Beam::new(setting.actions(), depth_max) }))
    },
};

pub(super) const BEAM: Listed = Listed {
    name: PolicyName {
        name: "beam",
        summary: "A search: the best states that one more action leads to, twice as many in each pass",
        properties: &[Property::Searches, Property::LooksBack, Property::IsSystematic],
    },
    make: |setting| Ok(Box::new(Beam::new(setting.actions(), setting.plan.episode_length))),
};

/// Of states with equal costs, a level has its width divided by this, and at least one: most
/// changes alter no cost, and a level of what they lead to would leave no room for states that cost
/// a little more now and much less later. With 4, good schedules of a matrix product were not
/// found.
const KINDS: usize = 8;

/// What to apply from a program's first state on: the way to a state, and then the actions that
/// were not tried there, until one changes the state.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct BeamTrial {
    /// The way, and then the new actions; nothing once all is known.
    actions: Vec<ActionIndex>,
    /// The length of the way.
    way: usize,
    /// The place of the state to which the way leads.
    place: StateNumber,
}

/// The place of a state among those that are known.
type StateNumber = usize;

/// A known state.
#[derive(Debug)]
struct KnownState {
    id: StateId,
    /// Infinity as long as nobody has said what it costs.
    cost: f64,
    /// The number of actions that were tried, in the order of their indexes.
    tried: usize,
    /// The other states to which actions led, in the same order.
    next: Vec<(ActionIndex, StateNumber)>,
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
/// The greedy search ends where no action lowers the cost.
#[derive(Debug)]
struct Beam {
    actions: usize,
    depth_max: usize,
    is_greedy: bool,
    places: HashMap<StateId, StateNumber>,
    known: Vec<KnownState>,
    width: usize,
    depth: usize,
    /// The states of the present level, the best first, and the one that is being expanded.
    level: Vec<StateNumber>,
    at: usize,
    /// The states to which those before lead.
    next: Vec<StateNumber>,
    /// From where this pass came to each of its states.
    came: HashMap<StateNumber, (StateNumber, ActionIndex)>,
    left_out: bool,
    is_over: bool,
    /// What the episode under way tries.
    trial: BeamTrial,
}

impl Policy for Beam {
    fn propose(&mut self, walk: &Walk, _: usize, _: &mut Dice) -> Vec<ActionIndex> {
        let taken = walk.steps.len();
        if taken == 0 {
            if let (true, Some((first, cost))) = (self.known.is_empty(), walk.first) {
                self.place(first, cost);
            }
            self.trial = self.ask();
        }
        // The last action led somewhere else, or the way did not lead where it led before.
        let state = walk.reached(taken).map(|(state, _)| state);
        let is_over =
            taken >= self.trial.way.max(1) && state != Some(self.known[self.trial.place].id);
        self.trial.actions.get(taken).filter(|_| !is_over).copied().into_iter().collect()
    }

    fn learn(&mut self, walk: &Walk) {
        if walk.first.is_some() {
            self.tell(&walk.steps);
        }
    }

    fn wants_cost(&self, after: usize, state: StateId) -> bool {
        // Nothing is compared with the first state in a search that does not end there.
        !self.places.contains_key(&state) && (after > 0 || self.is_greedy)
    }
}

impl Beam {
    fn new(actions: u32, depth_max: u32) -> Self {
        Self {
            actions: actions as usize,
            depth_max: depth_max as usize,
            is_greedy: false,
            places: HashMap::new(),
            known: Vec::new(),
            width: 1,
            depth: 0,
            level: vec![0],
            at: 0,
            next: Vec::new(),
            came: HashMap::new(),
            left_out: false,
            is_over: false,
            trial: BeamTrial::default(),
        }
    }

    /// Returns what to try next. The answer is the same until [`Beam::tell`].
    fn ask(&mut self) -> BeamTrial {
        let Some(place) = self.expanded() else { return BeamTrial::default() };
        let mut actions = self.way(place);
        let (way, tried) = (actions.len(), self.known[place].tried);
        let last = self.actions.min(tried + self.depth_max - way);
        actions.extend((tried..last).filter_map(|new| u32::try_from(new).ok().map(ActionIndex)));
        BeamTrial { actions, way, place }
    }

    /// Learns what came of the last trial.
    fn tell(&mut self, taken: &[WalkStep]) {
        let BeamTrial { way, place, .. } = self.trial;
        let id = self.known[place].id;
        let state = |(_, reached): &WalkStep| reached.map(|(state, _)| state);
        let reached = taken[..way.min(taken.len())].last().map_or((way == 0).then_some(id), state);
        let new = taken.get(way..).unwrap_or_default();
        if reached != Some(id) || new.is_empty() {
            // The state cannot be reached again, or nothing can be applied to it.
            self.known[place].tried = self.actions;
            return;
        }
        for &(action, reached) in new {
            self.known[place].tried += 1;
            let Some((state, cost)) = reached.filter(|(state, _)| *state != id) else { continue };
            let next = self.place(state, cost);
            if self.known[place].next.iter().all(|&(_, known)| known != next) {
                self.known[place].next.push((action, next));
            }
        }
    }

    /// Returns the place of a state, a new one with this cost if it has none.
    fn place(&mut self, id: StateId, cost: Option<f64>) -> StateNumber {
        *self.places.entry(id).or_insert_with(|| {
            let cost = cost.unwrap_or(f64::INFINITY);
            self.known.push(KnownState { id, cost, tried: 0, next: Vec::new() });
            self.known.len() - 1
        })
    }

    /// Returns the actions that lead to a state of this pass.
    fn way(&self, place: StateNumber) -> Vec<ActionIndex> {
        let steps = std::iter::successors(self.came.get(&place), |(from, _)| self.came.get(from));
        let mut way = steps.map(|&(_, action)| action).collect::<Vec<_>>();
        way.reverse();
        way
    }

    /// Goes on to a state that has actions to be tried, through levels and passes; none once all
    /// is known.
    fn expanded(&mut self) -> Option<StateNumber> {
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
        let lowest = |level: &[StateNumber]| {
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
    use crate::generate::walk::PricedState;
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

    fn reached(graph: &Graph, state: u8) -> PricedState {
        (id(state), Some(f64::from(graph.1[usize::from(state)])))
    }

    /// Asks for the next trial.
    fn begin(beam: &mut Beam, graph: &Graph) -> (Walk, BeamTrial) {
        let walk = Walk { first: Some(reached(graph, 0)), steps: Vec::new() };
        beam.propose(&walk, 1, &mut Dice::new(0, 0));
        (walk, beam.trial.clone())
    }

    /// Plays the next trial, with the graph's costs.
    fn play(beam: &mut Beam, graph: &Graph) -> Walk {
        let ((mut walk, _), mut at) = (begin(beam, graph), 0);
        while let [action] = *beam.propose(&walk, 1, &mut Dice::new(0, 0)) {
            let next = graph.0[usize::from(at)][action.place()];
            walk.steps.push((action, next.map(|next| reached(graph, next))));
            let Some(next) = next else { break };
            at = next;
        }
        beam.learn(&walk);
        walk
    }

    /// The numbers of the last states of the next trials; none of a trial of nothing.
    fn ends(beam: &mut Beam, graph: &Graph, count: usize) -> Vec<Option<u8>> {
        let end = |walk: Walk| Some(walk.steps.last()?.1.unwrap().0.0[0]);
        (0..count).map(|_| end(play(beam, graph))).collect()
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
            let mut beam = Beam::new(ACTIONS.into(), depth);
            let mut tried = std::collections::BTreeSet::new();
            loop {
                let (_, BeamTrial { way, .. }) = begin(&mut beam, &graph);
                let walk = play(&mut beam, &graph);
                if walk.steps.is_empty() {
                    break;
                }
                prop_assert!(walk.steps.len() <= depth as usize);
                for after in way..walk.steps.len() {
                    let at = walk.reached(after).unwrap().0;
                    let action = walk.steps[after].0;
                    prop_assert!(tried.insert((at, action)), "{at} {action:?} twice");
                }
            }
            let known = beam.places.keys().map(|state| state.0[0]).collect();
            prop_assert_eq!(within(&graph, depth), known);
        }

        #[test]
        fn what_is_asked_depends_on_what_was_told_alone(graph in graphs(), count in 0_usize..60) {
            let [mut one, mut other] = [(); 2].map(|()| Beam::new(ACTIONS.into(), 5));
            let past = (0..count).map(|_| play(&mut one, &graph)).collect::<Vec<_>>();
            for walk in past {
                begin(&mut other, &graph);
                other.learn(&walk);
            }
            for _ in 0..20 {
                prop_assert_eq!(begin(&mut one, &graph), begin(&mut other, &graph));
                prop_assert_eq!(play(&mut one, &graph), play(&mut other, &graph));
            }
        }
    }

    #[test]
    fn the_first_pass_is_greedy() {
        // From each number, three actions lead to the next ones, of which the middle one is best.
        let next = |at: u8| [Some(at), Some(3 * at + 1), Some(3 * at + 2), Some(3 * at + 3)];
        let graph: Graph = ((0..80).map(next).collect(), (0..=255).map(|at| at % 3).collect());
        let mut beam = Beam::new(ACTIONS.into(), 3);
        // Of 1, 2 and 3 the last costs least, and so it does of 10, 11 and 12. The first action
        // leads nowhere, and an episode that goes to 12 ends with it.
        let tried = [1, 2, 3, 10, 11, 12, 12, 37, 38, 39].map(Some);
        assert_eq!(ends(&mut beam, &graph, 10), tried);
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
        let mut beam = Beam { is_greedy: true, ..Beam::new(ACTIONS.into(), 20) };
        let tried = [1, 2, 3, 10, 11, 12, 34, 35, 36].map(Some);
        assert_eq!(ends(&mut beam, &graph, 11), [&tried[..], &[None; 2]].concat());
    }

    #[test]
    fn equal_costs_leave_room_for_others() {
        // Of 1, 2 and 3 the last costs a little more, and from there it goes down.
        let next = |at: u8| [Some(at), Some(3 * at + 1), Some(3 * at + 2), Some(3 * at + 3)];
        let cost = |at: u8| if at == 3 { 6 } else { 5 };
        let graph: Graph = ((0..80).map(next).collect(), (0..=255).map(cost).collect());
        let mut beam = Beam::new(ACTIONS.into(), 2);
        // The first action leads nowhere, and an episode that goes to 1 or 3 ends with it.
        let tried = [1, 2, 3, 1, 4, 5, 6, 3, 10, 11, 12].map(Some);
        assert_eq!(ends(&mut beam, &graph, 11), tried);
    }

    #[test]
    fn a_state_that_is_reached_no_more_is_left_alone() {
        let (mut beam, graph) = (Beam::new(2, 3), (Vec::new(), vec![1; 3]));
        let told = |beam: &mut Beam, taken: &[(u32, Option<u8>)]| {
            let (mut walk, _) = begin(beam, &graph);
            let reached = |state| reached(&graph, state);
            let taken = taken.iter().map(|&(action, to)| (ActionIndex(action), to.map(reached)));
            walk.steps.extend(taken);
            beam.learn(&walk);
        };
        told(&mut beam, &[(0, Some(1))]);
        told(&mut beam, &[(1, None)]);
        assert_eq!(begin(&mut beam, &graph).1.actions, [0, 0, 1].map(ActionIndex));
        // The way leads to another state this time.
        told(&mut beam, &[(0, Some(2))]);
        assert!(begin(&mut beam, &graph).1.actions.is_empty());
    }
}
