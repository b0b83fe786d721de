//! The lake of an older scheme: what is known of it in advance, and its episodes one by one.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::num::NonZeroU32;

use super::observed::{self, ObservedState};
use crate::record::is_of_audit;
use steplake_lake::{BenchmarkRow, EpisodeRow, LakeError, RunRow, Snapshot, StepRow, Table};
use steplake_model::{ActionIndex, BenchmarkUri, EpisodeId, RunId, StateId};

/// What is known in advance. Memory grows with the episodes and the states.
pub(super) struct OldLake<'a> {
    pub(super) snapshot: &'a Snapshot,
    /// The closed episodes.
    pub(super) episodes: BTreeMap<EpisodeId, EpisodeRow>,
    pub(super) benchmarks: HashMap<BenchmarkUri, BenchmarkRow>,
    /// The states whose IR is stored.
    pub(super) with_ir: HashSet<StateId>,
    pub(super) observed: HashMap<StateId, ObservedState>,
    /// The runs that audits recorded.
    audits: HashSet<RunId>,
    /// The distance of keyframes in each run.
    keyframes: HashMap<RunId, NonZeroU32>,
    /// What is known of the episodes from which others were forked.
    parents: HashMap<EpisodeId, Parent>,
}

/// An episode from which others were forked.
#[derive(Debug, Default)]
struct Parent {
    first: Option<StateId>,
    actions: Vec<ActionIndex>,
}

/// How to come to the state in which an episode begins.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct WayToStart {
    /// The first state of its program.
    pub(super) first: Option<StateId>,
    /// The actions from there on.
    pub(super) actions: Vec<ActionIndex>,
}

impl<'a> OldLake<'a> {
    pub(super) fn read(snapshot: &'a Snapshot) -> Result<Self, LakeError> {
        let benchmarks = snapshot.benchmark_rows()?.into_iter();
        let episodes = snapshot.episode_rows()?.into_iter().map(|row| (row.id, row));
        let audits = snapshot.runs().iter().filter(|run| is_of_audit(&run.arguments));
        let mut lake = Self {
            snapshot,
            episodes: episodes.collect(),
            benchmarks: benchmarks.map(|row| (row.uri.clone(), row)).collect(),
            with_ir: snapshot.states_in(Table::Ir)?,
            observed: observed::read(snapshot)?,
            audits: audits.map(|run| run.id).collect(),
            keyframes: snapshot.runs().iter().map(|run| (run.id, keyframes(run))).collect(),
            parents: HashMap::new(),
        };
        lake.read_parents()?;
        Ok(lake)
    }

    fn read_parents(&mut self) -> Result<(), LakeError> {
        let parents = self.episodes.values().filter_map(|row| row.parent);
        self.parents = parents.map(|(id, _)| (id, Parent::default())).collect();
        if self.parents.is_empty() {
            return Ok(());
        }
        for steps in self.snapshot.steps() {
            for step in steps?.iter() {
                let Some(parent) = self.parents.get_mut(&step.episode) else { continue };
                match step.action {
                    None => parent.first = step.state,
                    Some(action) => parent.actions.push(action),
                }
            }
        }
        Ok(())
    }

    /// Returns whether an audit recorded an episode.
    pub(super) fn is_of_audit(&self, episode: EpisodeId) -> bool {
        self.audits.contains(&episode.run())
    }

    /// Returns the distance of keyframes in an episode that has IR.
    pub(super) fn keyframes(&self, episode: EpisodeId) -> NonZeroU32 {
        self.keyframes.get(&episode.run()).copied().unwrap_or(NonZeroU32::MIN)
    }

    /// Returns how to come to where an episode begins; none if it was forked from one that is gone.
    pub(super) fn way_to_start(
        &self,
        row: &EpisodeRow,
        first: Option<StateId>,
    ) -> Option<WayToStart> {
        let mut way = WayToStart { first, actions: Vec::new() };
        let mut row = row;
        while let Some((id, step)) = row.parent {
            let parent = self.parents.get(&id)?;
            let taken = parent.actions.get(..usize::try_from(step).ok()?)?;
            way.actions.splice(..0, taken.iter().copied());
            way.first = parent.first;
            // A fork is younger than its parent, so this ends.
            row = self.episodes.get(&id).filter(|parent| parent.id < row.id)?;
        }
        Some(way)
    }
}

/// Returns the distance of keyframes in a run, which its arguments say. If they do not, each change
/// of state is one.
fn keyframes(run: &RunRow) -> NonZeroU32 {
    let arguments = serde_json::from_str::<serde_json::Value>(&run.arguments).unwrap_or_default();
    let every = arguments["ir"].as_str().and_then(|ir| ir.strip_prefix("keyframes=")?.parse().ok());
    every.unwrap_or(NonZeroU32::MIN)
}

/// A closed episode with its steps.
#[derive(Debug)]
pub(super) struct RecordedEpisode {
    pub(super) row: EpisodeRow,
    pub(super) steps: Vec<StepRow>,
}

/// The closed episodes that have steps, in the order of the lake's files. Keeps one batch of steps
/// in memory.
pub(super) struct RecordedEpisodes<'a> {
    lake: &'a OldLake<'a>,
    steps: Box<dyn Iterator<Item = Result<Vec<StepRow>, LakeError>> + Send + 'a>,
    ahead: VecDeque<StepRow>,
    is_over: bool,
}

impl<'a> RecordedEpisodes<'a> {
    pub(super) fn new(lake: &'a OldLake<'a>) -> Self {
        let steps = Box::new(lake.snapshot.step_rows());
        Self { lake, steps, ahead: VecDeque::new(), is_over: false }
    }

    /// Returns the steps of the next episode; none at the end.
    fn next_steps(&mut self) -> Result<Vec<StepRow>, LakeError> {
        let mut steps: Vec<StepRow> = Vec::new();
        loop {
            while let Some(step) = self.ahead.pop_front() {
                if steps.first().is_some_and(|first| first.episode != step.episode) {
                    self.ahead.push_front(step);
                    return Ok(steps);
                }
                steps.push(step);
            }
            if self.is_over {
                return Ok(steps);
            }
            match self.steps.next() {
                Some(more) => self.ahead = more?.into(),
                None => self.is_over = true,
            }
        }
    }
}

impl Iterator for RecordedEpisodes<'_> {
    type Item = Result<RecordedEpisode, LakeError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let steps = match self.next_steps() {
                Ok(steps) => steps,
                Err(error) => return Some(Err(error)),
            };
            let id = steps.first()?.episode;
            // The others are open.
            if let Some(row) = self.lake.episodes.get(&id).cloned() {
                return Some(Ok(RecordedEpisode { row, steps }));
            }
        }
    }
}
