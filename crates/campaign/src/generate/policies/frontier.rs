//! Where something new or better is likely: what is known of a program's states, and of what
//! actions do.

use std::collections::{BTreeSet, HashMap};

use super::effects::{Effects, History, drawn};
use super::name::{PolicyName, Property};
use super::policy::{Listed, Policy};
use crate::generate::walk::{PricedState, Walk};
use steplake_model::{ActionIndex, Dice, StateId};

pub(super) const LISTED: Listed = Listed {
    name: PolicyName {
        name: "frontier",
        summary: "Go where the lake says that something new or better is likely",
        properties: &[Property::Searches, Property::LooksBack, Property::KnowsEarlierRuns],
    },
    make: |setting| {
        let depth_max = setting.plan.episode_length / 2;
        let mut frontier = Frontier::new(setting.actions(), setting.least_cost(), depth_max);
        let (effects, walks) = setting.earlier();
        for walk in &walks {
            frontier.begin(walk);
            frontier.go_on(walk);
        }
        // In place of what was learned.
        if effects != Effects::default() {
            frontier.effects = effects;
        }
        Ok(Box::new(frontier))
    },
};

/// The number of actions that are chosen and taken at a time: one call of the compiler's process
/// for each would cost more than what is learned in between is worth.
const BATCH: usize = 8;

/// Of so many of the cheapest states one is chosen to go on from, the cheapest of them most often.
const ELITE: usize = 16;

/// How likely it is that a step leads on that was taken before. Untried actions that are less
/// likely to change the state are rarely taken.
const LEADS_ON: f64 = 0.3;

/// What a walk looks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WalkGoal {
    /// States that nobody has seen.
    New,
    /// A lower cost.
    Better,
}

/// The place of a state among those that are known.
type StateNumber = u32;

/// A known state.
#[derive(Debug)]
struct KnownState {
    /// Infinity if it has none; `None` if nobody has looked yet.
    cost: Option<f64>,
    /// From where it was first reached; none for the program's first state.
    came: Option<(StateNumber, ActionIndex)>,
    /// The number of changes on this way.
    depth: u32,
    /// How often a walk went on from here to find something better.
    chosen: u32,
    tried: Box<[u64]>,
    /// The other states to which actions led.
    next: Vec<(ActionIndex, StateNumber)>,
}

/// What is known of a program, and the walk under way.
///
/// Half of the walks begin at the program, and take actions that are likely to change the state and
/// were not tried in it. The others go to one of the cheapest states, and on by actions that
/// usually lower the cost. How likely an action is to change a state depends on how many changes
/// there were since it was last applied on the way.
///
/// It begins with what the episodes of earlier runs tell: those of its program, and of all programs
/// the effects of actions.
#[derive(Debug)]
struct Frontier {
    actions: u32,
    /// The least cost that is told from nothing.
    least: f64,
    /// The most changes after which a walk goes on from a state.
    depth_max: u32,
    effects: Effects,
    places: HashMap<StateId, StateNumber>,
    known: Vec<KnownState>,
    /// All known states that have a cost, the cheapest first, and of equal ones the one that was
    /// found first.
    by_cost: BTreeSet<(Ordered, StateNumber)>,
    /// What the walk under way looks for, where it is, and after how many of its steps.
    goal: WalkGoal,
    at: StateNumber,
    history: History,
    seen: usize,
}

/// Where a walk is supposed to be after actions that were chosen and not taken yet.
struct Supposed {
    /// None in a state that nobody has seen.
    at: Option<StateNumber>,
    history: History,
    /// The actions that were chosen in this state.
    tried: Vec<u32>,
}

/// A cost by which states are sorted.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Ordered(f64);

impl Eq for Ordered {}

impl PartialOrd for Ordered {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Ordered {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl Policy for Frontier {
    fn propose(&mut self, walk: &Walk, left: usize, dice: &mut Dice) -> Vec<ActionIndex> {
        if walk.steps.is_empty() {
            self.begin(walk);
            self.goal = if dice.below(2) == 0 { WalkGoal::New } else { WalkGoal::Better };
            let way = self.way(dice);
            if !way.is_empty() {
                return way;
            }
        }
        self.go_on(walk);
        self.choose(BATCH.min(left), dice)
    }

    fn learn(&mut self, walk: &Walk) {
        // A failed start has no states.
        if walk.first.is_some() {
            self.go_on(walk);
        }
    }

    fn wants_cost(&self, _: usize, state: StateId) -> bool {
        self.cost_of(state).is_none()
    }
}

impl Frontier {
    /// Nothing is known yet.
    fn new(actions: u32, least: f64, depth_max: u32) -> Self {
        Self {
            actions,
            least,
            depth_max,
            effects: Effects::new(actions),
            places: HashMap::new(),
            known: Vec::new(),
            by_cost: BTreeSet::new(),
            goal: WalkGoal::New,
            at: 0,
            history: History::new(actions),
            seen: 0,
        }
    }

    /// Begins a walk at the program's first state.
    fn begin(&mut self, walk: &Walk) {
        if let Some((first, cost)) = walk.first {
            self.at = self.place(first, cost, None);
        }
        (self.history, self.seen) = (History::new(self.actions), 0);
    }

    /// Learns the steps of the walk that it has not seen yet.
    fn go_on(&mut self, walk: &Walk) {
        for &(action, reached) in &walk.steps[self.seen..] {
            self.note(action, reached);
        }
        self.seen = walk.steps.len();
    }

    /// Returns what leads from the program to the state from which the walk goes on.
    fn way(&mut self, dice: &mut Dice) -> Vec<ActionIndex> {
        let Some(place) = self.chosen(dice).filter(|_| self.goal == WalkGoal::Better) else {
            return Vec::new();
        };
        self.known[place as usize].chosen += 1;
        let step = |&(from, _): &(StateNumber, ActionIndex)| self.known[from as usize].came;
        let steps = std::iter::successors(self.known[place as usize].came, step);
        let mut way: Vec<ActionIndex> = steps.map(|(_, action)| action).collect();
        way.reverse();
        way
    }

    /// Returns the next actions of the walk. Each but the first supposes that those before it
    /// change the state if that is likely, and lead to where they are known to lead, or else to a
    /// state that nobody has seen.
    fn choose(&self, count: usize, dice: &mut Dice) -> Vec<ActionIndex> {
        let mut supposed =
            Supposed { at: Some(self.at), history: self.history.clone(), tried: vec![] };
        (0..count).map(|_| self.choose_one(&mut supposed, dice)).collect()
    }

    fn choose_one(&self, supposed: &mut Supposed, dice: &mut Dice) -> ActionIndex {
        let known = supposed.at.map(|place| &self.known[place as usize]);
        let is_tried = |action: u32| {
            known.is_some_and(|known| known.tried[action as usize / 64] >> (action % 64) & 1 == 1)
        };
        let next = known.map_or(&[][..], |known| &known.next);
        let likely = |action: u32| {
            let leads = || next.iter().any(|(other, _)| other.0 == action);
            match is_tried(action) {
                _ if supposed.tried.contains(&action) => 0.0,
                true if leads() => LEADS_ON,
                true => 0.0,
                false => self.effects.of(ActionIndex(action), &supposed.history).changes(),
            }
        };
        let weight = |action: u32| match self.goal {
            WalkGoal::New => likely(action).powi(4),
            WalkGoal::Better => {
                let gain = self.effects.of(ActionIndex(action), &supposed.history).gain();
                likely(action).powi(2) * (gain + 1e-3)
            }
        };
        let weights: Vec<f64> = (0..self.actions).map(weight).collect();
        let action = drawn(&weights, dice).unwrap_or_else(|| ActionIndex(dice.below(self.actions)));
        let led = next.iter().find(|(other, _)| *other == action).map(|&(_, place)| place);
        let changes = led.is_some() || likely(action.0) >= 0.5;
        supposed.history.advance(action, changes);
        if changes {
            (supposed.at, supposed.tried) = (led, Vec::new());
        } else {
            supposed.tried.push(action.0);
        }
        action
    }

    /// Returns what a state costs, if it is known.
    fn cost_of(&self, state: StateId) -> Option<f64> {
        self.known[*self.places.get(&state)? as usize].cost
    }

    /// Learns what came of an action: the state, with its cost as far as that is known; or none if
    /// the compiler failed.
    fn note(&mut self, action: ActionIndex, reached: Option<PricedState>) {
        let from = self.at;
        self.known[from as usize].tried[action.place() / 64] |= 1 << (action.0 % 64);
        let Some((state, cost)) = reached else { return };
        let next = self.place(state, cost, Some((from, action)));
        let cost = |place: StateNumber| self.known[place as usize].cost.unwrap_or(f64::INFINITY);
        let changed = (next != from).then(|| [from, next].map(cost));
        self.effects.note(action, &mut self.history, changed, self.least);
        if next == from {
            return;
        }
        let known = &mut self.known[from as usize].next;
        if known.iter().all(|&(other, _)| other != action) {
            known.push((action, next));
        }
        self.at = next;
    }

    /// Returns the place of a state, a new one if it has none, and learns what the state costs.
    fn place(
        &mut self,
        id: StateId,
        cost: Option<f64>,
        came: Option<(StateNumber, ActionIndex)>,
    ) -> StateNumber {
        let new = u32::try_from(self.known.len()).expect("fewer than 2^32 states fit in memory");
        let place = *self.places.entry(id).or_insert(new);
        if place == new {
            let depth = came.map_or(0, |(from, _)| self.known[from as usize].depth + 1);
            let tried = vec![0; (self.actions as usize).div_ceil(64)].into();
            self.known.push(KnownState {
                cost: None,
                came,
                depth,
                chosen: 0,
                tried,
                next: Vec::new(),
            });
        }
        let known = &mut self.known[place as usize].cost;
        if let (None, Some(cost)) = (*known, cost) {
            *known = Some(cost);
            if cost.is_finite() {
                self.by_cost.insert((Ordered(cost), place));
            }
        }
        place
    }

    /// Draws one of the cheapest states: the rarer it was chosen, the more likely.
    fn chosen(&self, dice: &mut Dice) -> Option<StateNumber> {
        let is_near = |place: &StateNumber| self.known[*place as usize].depth <= self.depth_max;
        let cheapest = self.by_cost.iter().map(|&(_, place)| place).filter(is_near);
        let cheapest: Vec<StateNumber> = cheapest.take(ELITE).collect();
        let weight = |(rank, place): (u32, &StateNumber)| {
            let chosen = self.known[*place as usize].chosen;
            1.0 / (f64::from(rank + 1) * f64::from(chosen + 1))
        };
        let weights: Vec<f64> = (0..).zip(&cheapest).map(weight).collect();
        drawn(&weights, dice).map(|drawn| cheapest[drawn.place()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u8) -> StateId {
        StateId([number; StateId::LEN])
    }

    /// A walk that begins at state 0.
    fn walk(cost: Option<f64>) -> Walk {
        Walk { first: Some((id(0), cost)), steps: Vec::new() }
    }

    /// Begins at state 0, which costs 100.
    fn frontier(actions: u32) -> Frontier {
        let mut frontier = Frontier::new(actions, 1.0, 9);
        frontier.begin(&walk(Some(100.0)));
        frontier
    }

    #[test]
    fn a_walk_to_something_new_takes_what_was_not_tried_and_changes_states() {
        let (mut frontier, mut dice) = (frontier(100), Dice::new(1, 0));
        // Even actions change nothing, and odd ones lead to a new state each.
        let mut states = 0;
        let mut go = |frontier: &mut Frontier, dice: &mut Dice| {
            let mut changes = 0;
            frontier.begin(&walk(Some(100.0)));
            for _ in 0..20 {
                let action = frontier.choose(1, dice)[0];
                let is_even = action.0.is_multiple_of(2);
                let at = frontier.at;
                let next = frontier.known[at as usize].next.iter().find(|next| next.0 == action);
                let reached = match next {
                    _ if is_even => *frontier.places.iter().find(|known| *known.1 == at).unwrap().0,
                    Some(&(_, next)) => {
                        *frontier.places.iter().find(|known| *known.1 == next).unwrap().0
                    }
                    None => {
                        states += 1;
                        let mut bytes = [0; StateId::LEN];
                        bytes[..4].copy_from_slice(&u32::to_le_bytes(states));
                        StateId(bytes)
                    }
                };
                changes += usize::from(!is_even);
                frontier.note(action, Some((reached, Some(50.0))));
            }
            changes
        };
        let first: usize = (0..3).map(|_| go(&mut frontier, &mut dice)).sum();
        let later: Vec<usize> = (0..20).map(|_| go(&mut frontier, &mut dice)).collect();
        assert!(first < 45, "nothing is known yet: {first} of 60");
        assert!(later[10..].iter().sum::<usize>() > 170, "{later:?}");
        assert!(states > 300, "{states}");
    }

    #[test]
    fn a_walk_to_something_better_goes_on_from_the_cheapest_states() {
        let (mut frontier, mut dice) = (frontier(4), Dice::new(1, 0));
        frontier.note(ActionIndex(2), Some((id(1), Some(60.0))));
        frontier.note(ActionIndex(1), Some((id(2), Some(80.0))));
        frontier.note(ActionIndex(3), None);
        frontier.begin(&walk(Some(100.0)));
        (frontier.goal, frontier.depth_max) = (WalkGoal::Better, 1);
        let ways = (0..200).map(|_| frontier.way(&mut dice)).collect::<Vec<_>>();
        let to_cheapest = ways.iter().filter(|way| **way == [ActionIndex(2)]).count();
        assert!((60..160).contains(&to_cheapest), "{to_cheapest}");
        assert!(ways.iter().all(|way| way.len() <= 1), "80 is two changes away");
        frontier.goal = WalkGoal::New;
        assert!(frontier.way(&mut dice).is_empty());
    }

    #[test]
    fn a_cost_that_is_not_known_yet_is_learned_later() {
        let (mut frontier, mut dice) = (Frontier::new(2, 1e-9, 9), Dice::new(1, 0));
        frontier.goal = WalkGoal::Better;
        let half = |frontier: &mut Frontier, costs: [Option<f64>; 2]| {
            frontier.begin(&walk(costs[0]));
            frontier.note(ActionIndex(1), Some((id(1), costs[1])));
        };
        half(&mut frontier, [None, None]);
        assert_eq!(frontier.cost_of(id(1)), None);
        assert!(frontier.way(&mut dice).is_empty());
        half(&mut frontier, [Some(0.5), Some(0.25)]);
        assert_eq!(frontier.cost_of(id(1)), Some(0.25));
        let ways = (0..50).map(|_| frontier.way(&mut dice));
        assert!(ways.into_iter().any(|way| way == [ActionIndex(1)]));
        let gain =
            |frontier: &Frontier| frontier.effects.of(ActionIndex(1), &History::new(2)).gain();
        assert!(gain(&frontier) > 0.2, "seconds are far below one: {}", gain(&frontier));
    }

    #[test]
    fn several_actions_are_chosen_as_if_they_were_taken() {
        let (mut frontier, mut dice) = (frontier(3), Dice::new(1, 0));
        // The first action changes nothing, the second leads on, and the third was not tried.
        frontier.note(ActionIndex(0), Some((id(0), Some(100.0))));
        frontier.note(ActionIndex(1), Some((id(1), Some(100.0))));
        frontier.begin(&walk(Some(100.0)));
        for _ in 0..50 {
            let chosen = frontier.choose(4, &mut dice);
            assert_eq!(chosen.len(), 4);
            assert_ne!(chosen[0], ActionIndex(0));
        }
        assert_eq!(frontier.cost_of(id(1)), Some(100.0));
        assert_eq!(frontier.cost_of(id(2)), None);
    }

    #[test]
    fn drawing_is_fair() {
        let mut dice = Dice::new(0, 0);
        let mut counts = [0; 4];
        for _ in 0..4000 {
            counts[drawn(&[1.0, 0.0, 2.0, 1.0], &mut dice).unwrap().place()] += 1;
        }
        assert!(counts[1] == 0 && (1800..2200).contains(&counts[2]), "{counts:?}");
        assert_eq!(drawn(&[0.0, 0.0], &mut dice), None);
    }
}
