//! Plays what searches propose: all choices at once, or the actions of an episode.

use std::sync::Arc;

use super::coreset::{Coreset, Features};
use super::effects::least_cost;
use super::past_costs::{Reached, lowest};
use super::schedule::Played;
use super::search::{
    CoresetSearch, Gene, Genetic, HillClimbing, Lamcts, Proposal, Search, Space, Subject,
};
use super::starts::lock;
use super::{Campaign, Costed, GenerateError, Policy};
use crate::env::{Choosable, Session, SessionError, Start, Watch};
use crate::model::{
    ActionIndex, Benchmark, BenchmarkUri, Dice, ObservationIndex, Outcome, Step, Value, as_f64,
};
use crate::record::Recorder;

impl Campaign<'_> {
    /// Plays the episode of a proposal; `None` if it was interrupted.
    pub(super) fn play_proposal(
        &self,
        recorder: &mut Recorder,
        ordinal: u32,
        steps_max: u32,
        uri: &BenchmarkUri,
    ) -> Result<Option<Played>, GenerateError> {
        if !self.plan.policy.looks_back() {
            let space = self.space();
            let is_first = (ordinal as usize) < self.plan.benchmarks.len();
            // So the lake has the program untouched too, as with other searches.
            let proposal = match space.starts().first().filter(|_| is_first) {
                Some(untouched) => untouched.clone(),
                None => space.draw(&mut Dice::new(self.plan.seed, ordinal)),
            };
            let tried = self.try_out(recorder, uri, steps_max, &proposal)?;
            return Ok(tried.map(|(played, _)| played));
        }
        let mut search = self.search(uri, ordinal)?;
        let proposal = search.ask();
        let tried = self.try_out(recorder, uri, steps_max, &proposal)?;
        let Some((played, (cost, after))) = tried else { return Ok(None) };
        search.tell(cost, after);
        // Choices are made at once.
        let part = if self.environment.choices().is_some() { proposal.len() } else { after };
        let part: Proposal = proposal[..part.min(proposal.len())].into();
        lock(&self.progress.best).entry(uri.clone()).or_default().note(&part, cost);
        lock(&self.board).searches.insert(uri.clone(), search);
        Ok(Some(played))
    }

    /// Records the episode of a proposal, and returns what the proposal costs.
    fn try_out(
        &self,
        recorder: &mut Recorder,
        uri: &BenchmarkUri,
        steps_max: u32,
        proposal: &Proposal,
    ) -> Result<Option<(Played, Reached)>, GenerateError> {
        let choices = self.environment.choices().is_some().then_some(&**proposal);
        let actions = self.actions_of(proposal).take(steps_max as usize);
        let costed = self.costed_step(uri, actions.clone())?;
        if let Some(step) = costed {
            recorder.record_only(self.objective()?, u32::try_from(step).unwrap_or(u32::MAX));
        }
        let state = match self.start(recorder, uri, choices)? {
            Ok(state) => state,
            Err(failure) => {
                let played = self.failed_start(recorder, uri, &failure)?;
                return Ok(played.map(|played| (played, (f64::INFINITY, 0))));
            }
        };
        let mut states = vec![state];
        let reached = self.cost_of_actions(recorder, actions, costed, &mut |step| {
            self.count(step);
            states.extend(step.outcome.state());
        })?;
        if self.is_interrupted() {
            return Ok(None);
        }
        self.count_states();
        Ok(recorder.finish()?.map(|row| (Played { row, states }, reached)))
    }

    /// Returns the actions that a proposal stands for: none if it stands for choices.
    fn actions_of(&self, proposal: &Proposal) -> impl Iterator<Item = ActionIndex> + Clone {
        let are_choices = self.environment.choices().is_some();
        let actions = if are_choices { &[] } else { &**proposal };
        // No action has a negative number.
        actions.iter().filter_map(|&gene| gene.try_into().ok().map(ActionIndex))
    }

    /// Returns the step of a sequence whose state says what the sequence costs; none if each state
    /// may.
    fn costed_step(
        &self,
        uri: &BenchmarkUri,
        actions: impl Iterator<Item = ActionIndex>,
    ) -> Result<Option<usize>, GenerateError> {
        let guide = match &self.plan.costed {
            Costed::EachState => return Ok(None),
            Costed::LastState => return Ok(Some(actions.count())),
            Costed::LowestOf(space) => self.space_called(space)?,
        };
        let mut session = match self.unrecorded(uri, None) {
            // The episode records how the start failed.
            Err(GenerateError::Session(SessionError::StartFailed { .. })) => return Ok(Some(0)),
            session => session?,
        };
        let value = |session: &mut dyn Session| -> Result<f64, SessionError> {
            Ok(number(session, guide)?.unwrap_or(f64::INFINITY))
        };
        let mut values = vec![value(session.as_mut())?];
        for action in actions {
            if self.is_interrupted() {
                break;
            }
            let outcome = session.apply(action)?.outcome;
            if outcome.state().is_some() {
                values.push(value(session.as_mut())?);
            }
            if outcome.ends_episode() {
                break;
            }
        }
        Ok(Some(lowest(values.into_iter()).1))
    }

    /// Applies actions until one ends the episode, or an interrupt, and returns what they cost: the
    /// lowest cost of the states on the way, and after how many actions it is first reached; or the
    /// cost of the state after the step `costed`, and after how many actions nothing changes any
    /// more before that. A state on which the compiler fails has none.
    fn cost_of_actions(
        &self,
        session: &mut dyn Session,
        actions: impl Iterator<Item = ActionIndex>,
        costed: Option<usize>,
        visit: &mut dyn FnMut(&Step),
    ) -> Result<Reached, SessionError> {
        let (mut costs, mut taken, mut changed) = (Vec::new(), 0, 0);
        let is_costed = |taken: usize| costed.is_none_or(|costed| costed == taken);
        if is_costed(0) {
            costs.push(self.cost(session)?);
        }
        for action in actions {
            if self.is_interrupted() {
                break;
            }
            let step = session.apply(action)?;
            visit(&step);
            taken += 1;
            let ends = step.outcome.ends_episode();
            if let Outcome::State { changed: is_new, .. } = step.outcome {
                // An episode that the environment ends earlier has its last state there.
                if is_costed(taken) || ends && costed.is_some_and(|costed| taken < costed) {
                    costs.push(self.cost(session)?);
                }
                if is_new && costed.is_some_and(|costed| taken <= costed) {
                    changed = taken;
                }
            }
            if ends {
                break;
            }
        }
        let (cost, after) = lowest(costs.into_iter());
        Ok((cost, if costed.is_some() { changed } else { after }))
    }

    /// Returns what the present state costs; infinity if that is not known.
    pub(super) fn cost(&self, session: &mut dyn Session) -> Result<f64, SessionError> {
        Ok(number(session, self.objective()?)?.unwrap_or(f64::INFINITY))
    }

    /// Returns the least cost that is told from nothing.
    pub(super) fn least_cost(&self) -> f64 {
        let spec = self.environment.spec();
        let space = spec.observation_index(&self.plan.objective);
        least_cost(space.and_then(|space| spec.observation_space(space)).map(|it| it.value_type))
    }

    /// Returns the observation space of costs.
    fn objective(&self) -> Result<ObservationIndex, SessionError> {
        self.space_called(&self.plan.objective)
    }

    fn space_called(&self, name: &str) -> Result<ObservationIndex, SessionError> {
        let spec = self.environment.spec();
        spec.observation_index(name).ok_or_else(|| SessionError::UnknownSpace {
            name: name.to_owned(),
            environment: spec.name.to_string(),
        })
    }

    /// Returns what a search looks through: choices, where states are given by them, or else the
    /// actions of an episode.
    fn space(&self) -> Space {
        let Some(choices) = self.environment.choices() else {
            let last = i32::try_from(self.actions().saturating_sub(1)).unwrap_or(i32::MAX);
            let genes = vec![Gene::named(0, last); self.plan.episode_length as usize];
            return Space::new(genes.into(), Vec::new());
        };
        let gene = |option: Choosable| match option {
            Choosable { last, are_numbers: true } => Gene::number(-1, last),
            Choosable { last, are_numbers: false } => Gene::named(-1, last),
        };
        Space::new(choices.options().into_iter().map(gene).collect(), choices.starts())
    }

    /// Takes the search of a program off the board, and tells it what the settled episodes before
    /// this one cost. The schedule ensures that no other job plays this benchmark now.
    fn search(&self, uri: &BenchmarkUri, ordinal: u32) -> Result<Box<dyn Search>, GenerateError> {
        let (known, past) = {
            let mut board = lock(&self.board);
            (board.searches.remove(uri), board.past_costs.take_before(uri, ordinal))
        };
        let mut search = match known {
            Some(known) => known,
            None => self.new_search(uri)?,
        };
        for reached in past.into_values() {
            let proposal = search.ask();
            let (cost, after) = match reached {
                Some(reached) => reached,
                None => self.cost_again(uri, &proposal)?,
            };
            search.tell(cost, after);
        }
        Ok(search)
    }

    fn new_search(&self, uri: &BenchmarkUri) -> Result<Box<dyn Search>, GenerateError> {
        let number = self.plan.benchmarks.iter().position(|one| one == uri).unwrap_or_default();
        let dice = Dice::new(self.plan.seed, u32::try_from(number).unwrap_or(u32::MAX));
        Ok(match self.plan.policy {
            Policy::Genetic => Box::new(Genetic::new(self.space(), dice)),
            Policy::Lamcts => Box::new(Lamcts::new(self.space(), dice)),
            Policy::Coreset => {
                let coreset = Arc::clone(&self.plan.coreset);
                let subject = match self.subject(uri) {
                    // The episode records how the start failed.
                    Err(GenerateError::Session(SessionError::StartFailed { .. })) => {
                        Subject { features: None, reference: 1.0, least: 1.0, length_max: 0 }
                    }
                    subject => subject?,
                };
                Box::new(CoresetSearch::new(coreset, subject, dice))
            }
            _ => Box::new(HillClimbing::new(self.space(), dice)),
        })
    }

    /// Looks at a program before its search begins.
    fn subject(&self, uri: &BenchmarkUri) -> Result<Subject, GenerateError> {
        let (mut session, spec) = (self.unrecorded(uri, None)?, self.environment.spec());
        let session = session.as_mut();
        let baseline = spec.usual_baseline(&self.plan.objective);
        let baseline = baseline.and_then(|name| spec.observation_index(name));
        let baseline = baseline.map(|space| number(session, space)).transpose()?.flatten();
        let reference = match self.plan.reference.or(baseline) {
            Some(reference) => reference,
            None => self.cost(session)?,
        };
        let least = self.least_cost();
        let counts = spec.observation_index(Coreset::FEATURES);
        let features = match counts.map(|space| session.observe(space)) {
            Some(Ok(Value::IntVector(counts))) => {
                let counts: Vec<f64> = counts.iter().map(|&count| f64::from(count)).collect();
                Some(Features::of(&counts))
            }
            Some(Err(SessionError::Unobservable(_)) | Ok(_)) | None => None,
            Some(Err(error)) => return Err(error.into()),
        };
        let length_max = self.plan.episode_length as usize;
        Ok(Subject { features, reference, least, length_max })
    }

    /// Computes what a proposal costs whose episode is settled, without recording it again: the
    /// lake does not say what all its states cost.
    fn cost_again(
        &self,
        uri: &BenchmarkUri,
        proposal: &Proposal,
    ) -> Result<Reached, GenerateError> {
        let choices = self.environment.choices().is_some().then_some(&**proposal);
        let mut session = self.unrecorded(uri, choices)?;
        let actions = self.actions_of(proposal);
        let costed = self.costed_step(uri, actions.clone())?;
        Ok(self.cost_of_actions(session.as_mut(), actions, costed, &mut |_| {})?)
    }

    /// Starts a program in a session that is not recorded.
    pub(super) fn unrecorded(
        &self,
        uri: &BenchmarkUri,
        choices: Option<&[i32]>,
    ) -> Result<Box<dyn Session>, GenerateError> {
        let mut session = self.environment.session()?;
        let (benchmark, baselines) = self.program(uri)?;
        let benchmark = self.beginning(session.as_mut(), benchmark, choices)?;
        session.start(&Start {
            benchmark: &benchmark,
            action_space: &self.plan.action_space,
            baselines: baselines.as_deref(),
            watch: &Watch::default(),
        })?;
        Ok(session)
    }

    /// Returns the program that begins where all choices of a program are made; itself without
    /// choices.
    pub(super) fn beginning(
        &self,
        session: &mut dyn Session,
        benchmark: Benchmark,
        choices: Option<&[i32]>,
    ) -> Result<Benchmark, SessionError> {
        let (Some(all), Some(choices)) = (self.environment.choices(), choices) else {
            return Ok(benchmark);
        };
        let program = all.program(&benchmark.program, choices)?;
        if *program == *benchmark.program {
            return Ok(benchmark);
        }
        let state = session.identify(&program)?;
        Ok(Benchmark { uri: benchmark.uri.at(state), program: program.into(), ..benchmark })
    }
}

/// Observes a number; none if it has no value there.
fn number(session: &mut dyn Session, space: ObservationIndex) -> Result<Option<f64>, SessionError> {
    match session.observe(space) {
        Ok(Value::Int(number)) => Ok(Some(as_f64(number))),
        Ok(Value::Float(number)) => Ok(Some(number).filter(|number| !number.is_nan())),
        Ok(_) | Err(SessionError::Unobservable(_)) => Ok(None),
        Err(error) => Err(error),
    }
}
