//! Writes what was played, in the order of the old lake, and counts what it shows.

use std::collections::{BTreeMap, HashSet};

use super::super::stored_state::ReplayError;
use super::old_lake::RecordedEpisode;
use super::played::{Comparison, ConvertedEpisode, ConvertedStep};
use super::player::Player;
use super::players::Players;
use super::{ConversionReport, LeftOut};
use steplake_lake::transfer::ConvertedLake;
use steplake_lake::{BenchmarkRow, Lake, LakeError, ObservationRow, Rows};
use steplake_model::{BenchmarkUri, EpisodeId, StateId};

/// What became of some episodes.
pub(super) type Played = Vec<(RecordedEpisode, Result<ConvertedEpisode, LeftOut>)>;

/// Pieces of work that come in any order and are written in theirs.
pub(super) struct Order {
    /// The number of the next piece to be written.
    pub(super) next: u64,
    waiting: BTreeMap<u64, Played>,
    pub(super) sink: Sink,
}

impl Order {
    pub(super) fn new(sink: Sink) -> Self {
        Self { next: 0, waiting: BTreeMap::new(), sink }
    }

    /// Takes a piece, and writes it and those that waited for it. What cannot be written as it was
    /// played, `player` plays again.
    pub(super) fn deliver(
        &mut self,
        number: u64,
        played: Played,
        player: &mut Player<'_>,
    ) -> Result<(), ReplayError> {
        self.waiting.insert(number, played);
        while let Some(played) = self.waiting.remove(&self.next) {
            self.sink.write(played, player)?;
            self.next += 1;
        }
        Ok(())
    }
}

/// The new lake, and what is known of it.
pub(super) struct Sink {
    lake: ConvertedLake,
    report: ConversionReport,
    benchmarks: HashSet<BenchmarkUri>,
    /// The episodes that had steps to play.
    played: HashSet<EpisodeId>,
}

impl Sink {
    pub(super) fn new(lake: ConvertedLake) -> Self {
        let report = ConversionReport::default();
        Self { lake, report, benchmarks: HashSet::new(), played: HashSet::new() }
    }

    fn write(&mut self, played: Played, player: &mut Player<'_>) -> Result<(), ReplayError> {
        let players = player.players;
        let (mut rows, mut late) = (Rows::default(), Vec::new());
        for (recorded, mut played) in played {
            self.played.insert(recorded.row.id);
            let taken = recorded.steps.iter().filter(|step| step.action.is_some()).count() as u64;
            let written_before = self.report.steps;
            // Sessions do not wait for each other, and an earlier episode decides.
            if played.as_ref().is_ok_and(|episode| is_contradicted(episode, players)) {
                played = player.play(&recorded)?;
            }
            let written =
                played.and_then(|episode| self.add(episode, players, &mut rows, &mut late));
            if let Err(why) = written {
                *self.report.left_out.entry(why).or_default() += 1;
            }
            self.report.steps_dropped += taken - (self.report.steps - written_before);
        }
        self.lake.append(&rows)?;
        Ok(self.lake.fill(late)?)
    }

    fn add(
        &mut self,
        episode: ConvertedEpisode,
        players: &Players<'_>,
        rows: &mut Rows,
        late: &mut Vec<ObservationRow>,
    ) -> Result<(), LeftOut> {
        let ConvertedEpisode { row, steps, observations, ir, initial } = episode;
        if !steps.is_empty() && !self.benchmarks.contains(&row.benchmark) {
            let initial_state = initial.ok_or(LeftOut::NoProgram)?;
            let known = players.old.benchmarks.get(&row.benchmark).cloned();
            let new = || BenchmarkRow::new(row.benchmark.clone(), initial_state);
            let known = known.unwrap_or_else(new);
            rows.benchmarks.push(BenchmarkRow { initial_state, ..known });
            self.benchmarks.insert(row.benchmark.clone());
        }
        let (mut observed, mut stored) = (players.observed.write(), players.stored.write());
        for (columns, row) in observations {
            let known = observed.get(&row.state).copied();
            observed.insert(row.state, known.unwrap_or_default().with(columns));
            match known {
                None => rows.observations.push(row),
                Some(known) if !columns.are_in(known) => late.push(row),
                Some(_) => {}
            }
        }
        rows.ir.extend(ir.into_iter().filter(|row| stored.insert(row.state)));
        drop((observed, stored));
        self.count(&steps, players);
        self.report.episodes += 1;
        self.report.steps += u64::from(row.steps);
        rows.steps.extend(steps.into_iter().map(|step| step.row));
        rows.episodes.push(row);
        Ok(())
    }

    /// Counts what the steps of an episode show. The program of one without steps does not start
    /// any more.
    fn count(&mut self, steps: &[ConvertedStep], players: &Players<'_>) {
        let mut proven = players.proven.write();
        for step in steps {
            let mut proves = || {
                let states = step.old.zip(step.row.state);
                u64::from(states.is_some_and(|(old, new)| proven.insert(old, new).is_none()))
            };
            match step.comparison {
                Comparison::ByIr => self.report.proven_by_ir += proves(),
                Comparison::ByValues => self.report.proven_by_values += proves(),
                Comparison::Unproven => self.report.steps_unproven += 1,
                Comparison::FailedAgain => {}
                Comparison::Elsewhere => {
                    let action = players.action_name(&step.row);
                    *self.report.elsewhere.entry(action).or_default() += 1;
                }
                Comparison::NotCompared => self.report.steps_not_compared += 1,
            }
        }
        if steps.is_empty() {
            *self.report.elsewhere.entry("the start".to_owned()).or_default() += 1;
        }
    }

    /// Writes the rows of episodes that have no steps, and those that are of states.
    pub(super) fn write_rest(&mut self, players: &Players<'_>) -> Result<(), LakeError> {
        let old = players.old;
        let mut rows = Rows::default();
        for row in old.episodes.values().filter(|row| !self.played.contains(&row.id)) {
            let why = match row.steps {
                _ if old.is_of_audit(row.id) => LeftOut::Audit,
                // The compiler failed on the program: such a row names no state.
                0 => {
                    rows.episodes.push(row.clone());
                    self.report.episodes += 1;
                    continue;
                }
                _ => LeftOut::NoSteps,
            };
            *self.report.left_out.entry(why).or_default() += 1;
        }
        let proven = players.proven.read();
        let new_state = |benchmark: &BenchmarkUri, state: &StateId| {
            let is_there = self.benchmarks.contains(benchmark);
            proven.get(state).copied().filter(|_| is_there)
        };
        for row in old.snapshot.measurements() {
            let mut row = row?;
            if let Some(state) = new_state(&row.benchmark, &row.state) {
                row.state = state;
                rows.measurements.push(row);
            } else {
                self.report.rows_left_out += 1;
            }
        }
        for row in old.snapshot.miscompilations() {
            let mut row = row?;
            let states = [row.state, row.next_state];
            if let [Some(state), Some(next)] = states.map(|state| new_state(&row.benchmark, &state))
            {
                (row.state, row.next_state) = (state, next);
                rows.miscompilations.push(row);
            } else {
                self.report.rows_left_out += 1;
            }
        }
        self.lake.append(&rows)
    }

    /// Seals the new lake, and makes it one.
    pub(super) fn complete(self) -> Result<(Lake, ConversionReport), LakeError> {
        Ok((self.lake.complete()?, self.report))
    }

    pub(super) fn abandon(self) {
        self.lake.abandon();
    }
}

/// Returns whether an episode takes a state for the recorded one, by its values or for want of any,
/// that an earlier one has shown to have another id.
fn is_contradicted(episode: &ConvertedEpisode, players: &Players<'_>) -> bool {
    let proven = players.proven.read();
    episode.steps.iter().any(|step| {
        let known = step.old.and_then(|old| proven.get(&old).copied());
        let is_taken = matches!(step.comparison, Comparison::ByValues | Comparison::Unproven);
        is_taken && known.is_some() && known != step.row.state
    })
}
