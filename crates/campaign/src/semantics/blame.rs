//! Which actions are to blame that a program behaves otherwise.

use std::collections::HashMap;

use parking_lot::Mutex;

use super::finding::Miscompilation;
use super::judge::{ExpectedBehaviour, Judge};
use super::minimise::minimise;
use super::{CheckedProgram, SemanticsError};
use steplake_model::{ActionIndex, StateId};

/// The search for what is to blame in a program. Nobody else searches in it meanwhile, so that what
/// is found depends on the order of its states alone.
pub(super) struct BlameSearch<'a, 'b> {
    pub(super) judge: &'a mut Judge<'b>,
    /// The place of the program.
    pub(super) place: usize,
    pub(super) subject: &'a CheckedProgram,
    pub(super) reference: &'a ExpectedBehaviour,
    /// What is known of all programs.
    pub(super) findings: &'a Mutex<Vec<Miscompilation>>,
    /// Is asked before each trial whether to go on.
    pub(super) ask: &'a dyn Fn() -> Result<(), SemanticsError>,
    /// How many sequences are tried at most to minimise one.
    pub(super) trials_max: usize,
}

impl BlameSearch<'_, '_> {
    /// Finds all that is to blame for a difference that shows after `recorded` actions: known
    /// findings, whose states it counts, and new ones. The inner error says why nothing is.
    pub(super) fn of(
        &mut self,
        recorded: &[ActionIndex],
    ) -> Result<Result<(), String>, SemanticsError> {
        let mut actions = recorded.to_vec();
        let mut is_blamed = false;
        loop {
            let guilty = match self.known(&actions) {
                Some(guilty) => guilty,
                None => match self.minimised(&actions, recorded.len())? {
                    Ok(guilty) => guilty,
                    Err(_) if is_blamed => return Ok(Ok(())),
                    Err(why) => return Ok(Err(why)),
                },
            };
            is_blamed = true;
            // What differs without this action is the fault of another one.
            actions.retain(|&action| action != guilty);
            (self.ask)()?;
            let differs = !actions.is_empty()
                && matches!(self.judge.after(self.subject, self.reference, &actions)?, Ok(Some(_)));
            if !differs {
                return Ok(Ok(()));
            }
        }
    }

    /// Finds one action that is to blame for a difference that shows after actions: that of a known
    /// finding, or a new one. The inner error says why nothing is.
    pub(super) fn one_of(
        &mut self,
        actions: &[ActionIndex],
    ) -> Result<Result<(), String>, SemanticsError> {
        if self.known(actions).is_some() {
            return Ok(Ok(()));
        }
        Ok(self.minimised(actions, actions.len())?.map(drop))
    }

    /// Looks for a known finding of the program that is part of the actions, counts the state
    /// there, and returns the action to blame.
    fn known(&self, actions: &[ActionIndex]) -> Option<ActionIndex> {
        let mut findings = self.findings.lock();
        let mut of_program = findings.iter_mut().filter(|known| known.subject == self.place);
        let known = of_program.find(|known| {
            let mut actions = actions.iter();
            known.actions.iter().all(|wanted| actions.any(|action| action == wanted))
        })?;
        known.states += 1;
        known.actions.last().copied()
    }

    /// Minimises actions to a new finding, and returns the action to blame. The inner error says
    /// why there is none. `recorded` is the length of the recorded sequence.
    fn minimised(
        &mut self,
        actions: &[ActionIndex],
        recorded: usize,
    ) -> Result<Result<ActionIndex, String>, SemanticsError> {
        let mut trials = Trials { blame: self, verdicts: HashMap::new(), count: 0 };
        let minimised = minimise(actions, &mut |actions| trials.shows(actions))?;
        let actions = minimised.items;
        let Ok(played) = self.judge.player.play(self.subject, &actions)? else {
            return Ok(Err("its minimised actions cannot be repeated".to_owned()));
        };
        let Some(difference) = self.judge.here(self.subject, self.reference)? else {
            return Ok(Err("its minimised actions do not show it again".to_owned()));
        };
        // The machine may have changed while they were minimised.
        if let Some(why) = self.judge.doubt_of_all(self.subject, self.reference)? {
            return Ok(Err(why));
        }
        let states: Vec<StateId> = played.iter().map(|(state, _)| *state).collect();
        let ([before @ .., next_state], Some(&guilty)) = (states.as_slice(), actions.last()) else {
            unreachable!("the program behaves as expected without actions")
        };
        let finding = Miscompilation {
            subject: self.place,
            state: before.last().copied().unwrap_or(self.subject.initial),
            next_state: *next_state,
            difference,
            minimised: minimised.is_minimal,
            recorded,
            states: 1,
            actions,
        };
        self.findings.lock().push(finding);
        Ok(Ok(guilty))
    }
}

/// The trials of a minimisation. Many sequences lead to few states, and a state is run once.
struct Trials<'a, 'b, 'c> {
    blame: &'a mut BlameSearch<'b, 'c>,
    verdicts: HashMap<StateId, bool>,
    count: usize,
}

impl Trials<'_, '_, '_> {
    /// Whether the program behaves otherwise after these actions; `None` if it is not tried any
    /// more. Where the compiler fails, it does not.
    fn shows(&mut self, actions: &[ActionIndex]) -> Result<Option<bool>, SemanticsError> {
        let BlameSearch { judge, subject, reference, ask, trials_max, .. } = &mut *self.blame;
        ask()?;
        if self.count == *trials_max {
            return Ok(None);
        }
        self.count += 1;
        let Ok(played) = judge.player.play(subject, actions)? else { return Ok(Some(false)) };
        let state = played.last().map_or(subject.initial, |(state, _)| *state);
        if state == subject.initial {
            return Ok(Some(false));
        }
        if let Some(&known) = self.verdicts.get(&state) {
            return Ok(Some(known));
        }
        let shows = judge.here(subject, reference)?.is_some();
        self.verdicts.insert(state, shows);
        Ok(Some(shows))
    }
}
