//! The audit of a recording: a sample of its episodes is played again in another process, whose
//! heap is laid out otherwise, and compared with what was recorded: states, rewards and
//! observations.
//!
//! One episode of so many is chosen, by its number alone. A [`Tape`] of its rows goes to a thread
//! with a session of its own. After a difference the rest of the episode is not compared. How a
//! compiler runs out of time or memory says nothing about an action, so such steps do not count.
//!
//! # What is durable when
//!
//! The audit ends with its recording. The numbers of steps that were compared and that differed are
//! then added to the run, in one transaction; a kill before that loses them, and no row. An action
//! that led elsewhere is flagged as not replayable: in this recording from the next episode on, and
//! in the lake when the recording ends. The other step is then recorded, in an episode of a run of
//! its own, so that a dedup finds the conflict.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use parking_lot::Mutex;
use serde_json::json;

use super::recorder::{EpisodePlan, Recorder, Settle};
use super::recording::{RecordError, Recording, RecordingOptions};
use super::shared::RecorderContext;
use steplake_env::{RequestedRewards, Session, SessionError, Start, Started, Watch, forward};
use steplake_lake::{EpisodeRow, StepRow, Writer};
use steplake_model::{
    ActionIndex, ActionSpec, Baselines, Benchmark, EnvironmentSpec, EpisodeId, EpisodeOutcome,
    Failure, FailureKind, ObservationIndex, Outcome, RunId, StateId, Step, Value,
};
use steplake_sandbox::Interrupt;

/// The policy of the episodes that an audit records.
const POLICY: &str = "audit";

/// Returns whether a run of these arguments has what an audit recorded.
pub(crate) fn is_of_audit(arguments: &str) -> bool {
    let arguments = serde_json::from_str::<serde_json::Value>(arguments);
    arguments.is_ok_and(|arguments| arguments["recorder"] == POLICY)
}

/// Episodes that may wait for the audit; beyond this, recorders wait.
const WAITING_MAX: usize = 8;

/// How many steps that led elsewhere are recorded. Until its end, a recording keeps them in memory.
const FINDINGS_MAX: usize = 100;

/// The most steps of an episode that are kept to be compared: a tape lies in memory, and an episode
/// may have a million steps.
const TAPED_MAX: usize = 1 << 14;

/// What was recorded of an episode.
#[derive(Debug)]
pub(super) struct Tape {
    benchmark: Benchmark,
    action_space: String,
    baselines: Baselines,
    /// From step 0 on, at most [`TAPED_MAX`].
    steps: Vec<TapedStep>,
    /// How its last step failed, if it did.
    failure: Option<FailureKind>,
}

/// What was recorded of a step.
#[derive(Debug)]
struct TapedStep {
    row: StepRow,
    /// The values of the lake's observation columns, if the step brought them.
    observations: Option<Vec<Option<Value>>>,
}

impl Tape {
    pub(super) fn new(start: &Start<'_>, started: &Started) -> Self {
        Self {
            benchmark: start.benchmark.clone(),
            action_space: start.action_space.to_owned(),
            baselines: started.baselines.clone(),
            steps: Vec::new(),
            failure: None,
        }
    }

    /// Takes down a step that is written, while there is room.
    pub(super) fn push(&mut self, row: StepRow, observations: Option<Vec<Option<Value>>>) {
        if self.steps.len() < TAPED_MAX {
            self.steps.push(TapedStep { row, observations });
        }
    }
}

/// Where recorders hand in their tapes; nobody takes them if there is no audit.
#[derive(Debug, Default)]
pub(super) struct AuditQueue(Mutex<Option<OpenQueue>>);

#[derive(Debug)]
struct OpenQueue {
    sender: SyncSender<Tape>,
    every: NonZeroU32,
    /// The tapes of episodes that are over, and may be taken back as long as they are not settled.
    unsettled: HashMap<EpisodeId, Tape>,
}

impl AuditQueue {
    /// Returns whether an episode is to be played again.
    pub(super) fn wants(&self, episode: EpisodeId) -> bool {
        self.0.lock().as_ref().is_some_and(|queue| is_chosen(episode, queue.every))
    }

    /// Keeps the tape of an episode that is over until it is [handed in](Self::hand_in).
    pub(super) fn keep(&self, mut tape: Tape, row: &EpisodeRow) {
        if let EpisodeOutcome::Failed(kind) = row.outcome {
            tape.failure = Some(kind);
        }
        if let Some(queue) = self.0.lock().as_mut() {
            queue.unsettled.insert(row.id, tape);
        }
    }

    /// Hands in the tape, if there is one, of an episode whose row is written. Waits while too many
    /// wait.
    pub(super) fn hand_in(&self, episode: EpisodeId) {
        let handed_in = self.0.lock().as_mut().and_then(|queue| {
            let tape = queue.unsettled.remove(&episode)?;
            Some((queue.sender.clone(), tape))
        });
        if let Some((sender, tape)) = handed_in {
            // An audit that ended early has said why.
            let _ = sender.send(tape);
        }
    }
}

/// Returns whether an episode is the one of its block of `every` that is played again. Programs
/// come in turns, so the place in the block must not be the same in each.
fn is_chosen(episode: EpisodeId, every: NonZeroU32) -> bool {
    let (ordinal, every) = (u64::from(episode.ordinal()), u64::from(every.get()));
    let block = ordinal / every;
    let mixed = blake3::hash(&block.to_le_bytes());
    let [a, b, c, d, ..] = *mixed.as_bytes();
    ordinal % every == u64::from(u32::from_le_bytes([a, b, c, d])) % every
}

/// A running audit.
#[derive(Debug)]
pub(super) struct Audit(JoinHandle<(AuditReport, Box<dyn Session>)>);

/// What an audit found.
#[derive(Debug, Default)]
struct AuditReport {
    compared: u64,
    differing: u64,
    /// The actions that led elsewhere.
    actions: BTreeSet<ActionIndex>,
    findings: VecDeque<Finding>,
}

/// A step that led elsewhere.
#[derive(Debug)]
struct Finding {
    benchmark: Benchmark,
    action_space: String,
    baselines: Baselines,
    /// The actions from the start on, the last one included, and the states before each.
    way: Vec<(ActionIndex, StateId)>,
    /// What the last one did in the other process.
    step: Step,
    /// What was observed after it.
    values: Vec<(ObservationIndex, Result<Value, Failure>)>,
}

impl Audit {
    /// Begins to play one episode of `every` again, in `session`, until `interrupt`.
    pub(super) fn begin(
        shared: &Arc<RecorderContext>,
        session: Box<dyn Session>,
        every: NonZeroU32,
        interrupt: Interrupt,
    ) -> Result<Self, RecordError> {
        let (sender, tapes) = sync_channel(WAITING_MAX);
        let (spec, requested) = (Arc::clone(&shared.spec), Arc::clone(&shared.requested));
        let session = Box::new(RequestedRewards::new(session, spec, requested));
        let report = AuditReport::default();
        let auditor = Auditor { shared: Arc::clone(shared), session, interrupt, report };
        let thread = std::thread::Builder::new().name("steplake-audit".into());
        let thread = thread.spawn(move || auditor.play_all(&tapes));
        let thread = thread.map_err(RecordError::NoThread)?;
        let unsettled = HashMap::new();
        *shared.audit.0.lock() = Some(OpenQueue { sender, every, unsettled });
        Ok(Self(thread))
    }

    /// Waits until what was handed in is compared.
    pub(super) fn end(self, shared: &RecorderContext) -> Result<EndedAudit, RecordError> {
        shared.audit.0.lock().take();
        let (report, session) = self.0.join().map_err(|_panic| RecordError::AuditPanicked)?;
        Ok(EndedAudit { report, session })
    }
}

/// An audit that has compared all that it is going to compare.
pub(super) struct EndedAudit {
    report: AuditReport,
    session: Box<dyn Session>,
}

impl EndedAudit {
    /// Notes in the lake what the audit of `run` found.
    pub(super) fn note(
        self,
        mut writer: Writer,
        run: RunId,
        spec: &EnvironmentSpec,
        options: &RecordingOptions,
    ) -> Result<Writer, RecordError> {
        let AuditReport { compared, differing, actions, findings } = self.report;
        writer.add_audited_steps(run, compared, differing)?;
        if !actions.is_empty() {
            writer.flag_unreplayable(&actions.into_iter().collect::<Vec<_>>())?;
        }
        if findings.is_empty() {
            return Ok(writer);
        }
        let runs = writer.runs()?;
        let of = runs.iter().find(|row| row.id == run).map(|row| row.uid.as_str());
        let arguments = json!({ "recorder": POLICY, "of": of }).to_string();
        let now = writer.lake().now_ms();
        let noting = writer.begin_run(&arguments, now)?;
        let recording = Recording::begin(writer, spec, noting, options)?;
        let ways: Vec<_> = findings.iter().map(Finding::way).collect();
        let again = SecondPlay { live: self.session, findings, playing: None };
        let mut recorder = Recorder::new(Box::new(again), Arc::clone(&recording.shared));
        // What leads elsewhere on its way is taken back.
        let settle = Settle::ByCaller;
        recorder.plan(EpisodePlan { policy: POLICY.into(), settle, ..EpisodePlan::default() });
        for (benchmark, action_space, baselines, actions) in ways {
            let watch = Watch::default();
            let (benchmark, action_space) = (&benchmark, action_space.as_str());
            let baselines = Some(&baselines);
            let start = Start { benchmark, action_space, baselines, watch: &watch };
            let mut play = || -> Result<(), SessionError> {
                recorder.start(&start)?;
                actions.iter().try_for_each(|&action| recorder.apply(action).map(drop))?;
                recording.settle(recorder.finish()?.into_iter().collect())
            };
            if let Err(error) = play() {
                tracing::warn!(%error, "a step that led elsewhere is counted, and not recorded");
            }
        }
        drop(recorder);
        let mut writer = recording.close()?;
        writer.discard_open(noting)?;
        writer.finish_run(noting)?;
        Ok(writer)
    }
}

/// What a step was compared to be.
enum Verdict {
    Same,
    /// The step led to the same state, and something else differs.
    OtherValue,
    /// The step led elsewhere.
    OtherState,
    /// Nothing can be said.
    Open,
}

/// Plays tapes again.
struct Auditor {
    shared: Arc<RecorderContext>,
    session: Box<dyn Session>,
    /// Asked before each step.
    interrupt: Interrupt,
    report: AuditReport,
}

impl Auditor {
    fn play_all(mut self, tapes: &Receiver<Tape>) -> (AuditReport, Box<dyn Session>) {
        for tape in tapes {
            match self.play(&tape) {
                Ok(()) => {}
                Err(SessionError::Interrupted) => break,
                // The worker died, and its actions do not lead to the same state again.
                Err(
                    error @ (SessionError::Unrepeatable { .. } | SessionError::BadProgram { .. }),
                ) => {
                    let uri = &tape.benchmark.uri;
                    tracing::warn!(%error, %uri, "the rest of an episode is not compared");
                }
                Err(error) => {
                    tracing::warn!(%error, "the audit ends early: no more steps are compared");
                    break;
                }
            }
        }
        (self.report, self.session)
    }

    fn play(&mut self, tape: &Tape) -> Result<(), SessionError> {
        let Some((first, steps)) = tape.steps.split_first() else { return Ok(()) };
        let shared = Arc::clone(&self.shared);
        let start = Start {
            benchmark: &tape.benchmark,
            action_space: &tape.action_space,
            baselines: Some(&tape.baselines),
            watch: &Watch::default(),
        };
        let started = match self.session.start(&start) {
            Ok(started) => started,
            // The recorded one began. Whatever this says, it says nothing about an action.
            Err(SessionError::StartFailed { failure, .. }) => {
                tracing::warn!(%failure, uri = %tape.benchmark.uri, "a program does not start again");
                self.differs_at_the_start(says_something(failure.kind));
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let values = self.compare_values(first)?;
        if Some(started.state) != first.row.state || values == Some(false) {
            tracing::warn!(uri = %tape.benchmark.uri, "a program begins otherwise elsewhere");
            self.differs_at_the_start(true);
            return Ok(());
        }
        let mut way = Vec::new();
        let mut before = started.state;
        for taped in steps {
            let Some(action) = taped.row.action else { break };
            way.push((action, before));
            if self.interrupt.is_raised() {
                return Err(SessionError::Interrupted);
            }
            let step = self.session.apply(action)?;
            let verdict = self.compare(taped, &step, tape.failure)?;
            if matches!(verdict, Verdict::Open) {
                break;
            }
            // A state that is made of the actions alone says nothing of the compiler.
            let is_told = shared.compiled.is_empty() || taped.observations.is_some();
            let differs = matches!(verdict, Verdict::OtherValue | Verdict::OtherState);
            self.report.compared += u64::from(is_told || differs);
            match (verdict, taped.row.state) {
                (Verdict::Same, Some(state)) => before = state,
                (Verdict::Same | Verdict::Open, _) => break,
                (Verdict::OtherValue, _) => {
                    self.report.differing += 1;
                    let (episode, index) = (taped.row.episode.0, taped.row.index);
                    tracing::warn!(
                        episode,
                        index,
                        "equal states have other rewards or observations"
                    );
                    break;
                }
                (Verdict::OtherState, _) => {
                    self.report.differing += 1;
                    if self.report.actions.insert(action) {
                        let space = shared.spec.action_space(&tape.action_space);
                        say_elsewhere(space.and_then(|space| space.get(action)), taped);
                    }
                    shared.doubt(action);
                    if self.report.findings.len() < FINDINGS_MAX {
                        let finding = self.found(tape, way, step)?;
                        self.report.findings.push_back(finding);
                    }
                    break;
                }
            }
        }
        Ok(())
    }

    /// Counts step 0, which was compared only if it `differs`: it has no action.
    fn differs_at_the_start(&mut self, differs: bool) {
        self.report.compared += u64::from(differs);
        self.report.differing += u64::from(differs);
    }

    /// Compares a step, after which the session is, with what was recorded of it.
    fn compare(
        &mut self,
        taped: &TapedStep,
        step: &Step,
        failure: Option<FailureKind>,
    ) -> Result<Verdict, SessionError> {
        let recorded = taped.row.state;
        Ok(match (recorded, &step.outcome) {
            (Some(state), Outcome::State { id, .. }) if state == *id => {
                if !self.has_same_rewards(taped, step) {
                    return Ok(Verdict::OtherValue);
                }
                match self.compare_values(taped)? {
                    Some(true) => Verdict::Same,
                    Some(false) => Verdict::OtherValue,
                    None => Verdict::Open,
                }
            }
            (Some(_), Outcome::State { .. }) => Verdict::OtherState,
            (Some(_), Outcome::Crashed(now)) if says_something(now.kind) => Verdict::OtherState,
            // A step also fails if the compiler fails on what is recorded of its state.
            (None, _) if !self.shared.compiled.is_empty() => Verdict::Open,
            (None, Outcome::Crashed(now)) if Some(now.kind) == failure => Verdict::Same,
            (None, Outcome::Crashed(now)) if !says_something(now.kind) => Verdict::Open,
            (None, _) if failure.is_some_and(says_something) => Verdict::OtherState,
            (_, _) => Verdict::Open,
        })
    }

    fn has_same_rewards(&self, taped: &TapedStep, step: &Step) -> bool {
        let spec = &self.shared.spec;
        let recorded = taped.row.rewards.iter().flatten();
        recorded.zip(&self.shared.rewards).all(|(recorded, &place)| {
            let Some((place, now)) = place.and_then(|at| Some((at, step.rewards.get(at)?))) else {
                return true;
            };
            match (recorded.is_nan(), now.is_nan()) {
                (false, false) => recorded.to_bits() == now.to_bits(),
                (true, true) => true,
                // An observation on request may have taken too long, once.
                _ => spec.is_on_request(&spec.reward_spaces[place]),
            }
        })
    }

    /// Compares the observations that a step brought with those of the present state. Nothing can
    /// be said where one takes too long, or too much memory.
    fn compare_values(&mut self, taped: &TapedStep) -> Result<Option<bool>, SessionError> {
        let values = taped.observations.iter().flatten();
        for (value, space) in values.zip(&self.shared.observed) {
            let (Some(value), &Some(space)) = (value, space) else { continue };
            match self.session.observe(space) {
                Ok(now) if is_same(&now, value) => {}
                Err(SessionError::Unobservable(failure)) if !says_something(failure.kind) => {
                    return Ok(None);
                }
                Ok(_) | Err(SessionError::Unobservable(_)) => return Ok(Some(false)),
                Err(error) => return Err(error),
            }
        }
        Ok(Some(true))
    }

    /// Looks at the state to which a step led elsewhere.
    fn found(
        &mut self,
        tape: &Tape,
        way: Vec<(ActionIndex, StateId)>,
        step: Step,
    ) -> Result<Finding, SessionError> {
        let mut values = Vec::new();
        let spaces = self.shared.observed.iter().flatten().chain([&self.shared.state_space]);
        for &space in spaces.filter(|_| step.outcome.state().is_some()) {
            let value = match self.session.observe(space) {
                Ok(value) => Ok(value),
                Err(SessionError::Unobservable(failure)) => Err(failure),
                Err(error) => return Err(error),
            };
            values.push((space, value));
        }
        Ok(Finding {
            benchmark: tape.benchmark.clone(),
            action_space: tape.action_space.clone(),
            baselines: tape.baselines.clone(),
            way,
            step,
            values,
        })
    }
}

impl Finding {
    /// Returns the arguments of its start, and its actions.
    fn way(&self) -> (Benchmark, String, Baselines, Vec<ActionIndex>) {
        let actions = self.way.iter().map(|&(action, _)| action).collect();
        (self.benchmark.clone(), self.action_space.clone(), self.baselines.clone(), actions)
    }
}

/// Whether a failure depends on the program and the action alone. Time and memory also depend on
/// the machine, and on the allocator.
fn says_something(kind: FailureKind) -> bool {
    !matches!(kind, FailureKind::TimeOut | FailureKind::OutOfMemory)
}

/// Compares values by their bits.
fn is_same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Float(a), Value::Float(b)) => a.to_bits() == b.to_bits(),
        (Value::FloatVector(a), Value::FloatVector(b)) => {
            a.iter().map(|one| one.to_bits()).eq(b.iter().map(|one| one.to_bits()))
        }
        (a, b) => a == b,
    }
}

/// Names an action that led elsewhere.
fn say_elsewhere(action: Option<&ActionSpec>, taped: &TapedStep) {
    let action = action.map_or("", |action| action.name.as_str());
    let (episode, index) = (taped.row.episode.0, taped.row.index);
    tracing::warn!(action, episode, index, "an action led elsewhere in another process");
}

/// A session that plays the ways of findings, each of whose last steps is the one that was seen.
struct SecondPlay {
    live: Box<dyn Session>,
    /// Those that are not played yet.
    findings: VecDeque<Finding>,
    /// The present one, and how many of its actions were taken.
    playing: Option<(Finding, usize)>,
}

impl SecondPlay {
    /// Returns the finding that is played to its end.
    fn ended(&self) -> Option<&Finding> {
        let (finding, taken) = self.playing.as_ref()?;
        (*taken == finding.way.len()).then_some(finding)
    }
}

#[deny(clippy::missing_trait_methods)]
impl Session for SecondPlay {
    fn start(&mut self, start: &Start<'_>) -> Result<Started, SessionError> {
        self.playing = self.findings.pop_front().map(|finding| (finding, 0));
        let started = self.live.start(start)?;
        self.demand(started.state)?;
        Ok(started)
    }

    fn apply(&mut self, action: ActionIndex) -> Result<Step, SessionError> {
        let (finding, taken) = self.playing.as_mut().ok_or(SessionError::NoEpisode)?;
        *taken += 1;
        if *taken == finding.way.len() {
            return Ok(finding.step.clone());
        }
        let step = self.live.apply(action)?;
        match step.outcome.state() {
            Some(state) => self.demand(state)?,
            None => return Err(strayed()),
        }
        Ok(step)
    }

    fn apply_unchecked(&mut self, action: ActionIndex) -> Result<Step, SessionError> {
        self.apply(action)
    }

    fn check(&mut self) -> Result<Option<Failure>, SessionError> {
        Ok(None)
    }

    fn multistep(
        &mut self,
        actions: &[ActionIndex],
        visit: &mut steplake_env::Visit<'_>,
    ) -> Result<(), SessionError> {
        steplake_env::apply_each(self, actions, visit)
    }

    fn announce(&mut self, _actions: &[ActionIndex]) {}

    fn observe(&mut self, space: ObservationIndex) -> Result<Value, SessionError> {
        let Some(finding) = self.ended() else { return self.live.observe(space) };
        match finding.values.iter().find(|(seen, _)| *seen == space) {
            Some((_, Ok(value))) => Ok(value.clone()),
            Some((_, Err(failure))) => Err(SessionError::Unobservable(failure.clone())),
            None => Err(SessionError::NoEpisode),
        }
    }

    fn fork(&mut self) -> Result<Box<dyn Session>, SessionError> {
        Err(SessionError::NoEpisode)
    }

    forward!(self => self.live; identify, text);
}

impl SecondPlay {
    /// Refuses a way that leads elsewhere before its last step.
    fn demand(&self, state: StateId) -> Result<(), SessionError> {
        let way = self.playing.as_ref().and_then(|(finding, taken)| finding.way.get(*taken));
        if way.is_some_and(|&(_, before)| before == state) { Ok(()) } else { Err(strayed()) }
    }
}

fn strayed() -> SessionError {
    SessionError::Broken("the actions before it led elsewhere when they were played again".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_episode_of_each_block_is_chosen_and_not_always_the_same() {
        let every = NonZeroU32::new(20).unwrap();
        let chosen: Vec<u32> = (0..2000)
            .filter(|&ordinal| is_chosen(EpisodeId::new(RunId(1), ordinal), every))
            .collect();
        assert_eq!(chosen.len(), 100);
        let places: BTreeSet<u32> = chosen.iter().map(|ordinal| ordinal % 20).collect();
        assert!(places.len() > 15, "{places:?}");
        let all = |ordinal| is_chosen(EpisodeId::new(RunId(1), ordinal), NonZeroU32::MIN);
        assert!((0..100).all(all));
    }
}
