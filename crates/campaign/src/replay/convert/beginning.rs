//! The beginnings of episodes: their programs, and the ids of the states whose IR is stored.

use std::sync::Arc;

use super::super::stored_state::begin;
use super::LeftOut;
use super::old_lake::{RecordedEpisode, WayToStart};
use super::played::Playing;
use super::player::{Player, ProgramOrNot, Stop};
use steplake_env::{SessionError, Start};
use steplake_lake::LakeError;
use steplake_model::{Benchmark, BenchmarkUri, Failure, Provenance, StateId};

impl Player<'_> {
    /// Computes the ids here of those states of an episode whose IR the old lake has. Returns the
    /// IR of the first one, if it is stored.
    pub(super) fn identify(&mut self, recorded: &RecordedEpisode) -> Result<Option<Vec<u8>>, Stop> {
        let players = self.players;
        let old = players.old;
        let first = recorded.steps.first().and_then(|step| step.state);
        let benchmark = old.benchmarks.get(&recorded.row.benchmark).map(|row| row.initial_state);
        let of_fork = benchmark.filter(|_| recorded.row.parent.is_some());
        let states = recorded.steps.iter().filter_map(|step| step.state).chain(of_fork);
        let mut wanted = Vec::new();
        for state in states.filter(|state| old.with_ir.contains(state)) {
            let is_known = players.identified.lock().contains_key(&state);
            if (!is_known || Some(state) == first) && !wanted.contains(&state) {
                wanted.push(state);
            }
        }
        let mut own = None;
        for (state, bitcode) in wanted.iter().zip(old.snapshot.ir(&wanted)?) {
            let Some(bitcode) = bitcode else { continue };
            if !players.identified.lock().contains_key(state) {
                let environment = players.environment;
                let begun = begin(environment, self.session()?, old.snapshot, *state, &bitcode);
                let id = match begun {
                    Ok(outcome) => outcome.state(),
                    Err(SessionError::BadProgram { .. }) => None,
                    Err(error) => return Err(error.into()),
                };
                players.identified.lock().insert(*state, id);
            }
            if Some(*state) == first {
                own = Some(bitcode);
            }
        }
        Ok(own)
    }

    /// Brings the session to where an episode begins, in `own` if the old lake has that state.
    /// Returns the state there.
    pub(super) fn begin(
        &mut self,
        recorded: &RecordedEpisode,
        own: Option<Vec<u8>>,
        playing: &mut Playing,
    ) -> Result<Result<StateId, Failure>, Stop> {
        let RecordedEpisode { row, steps } = recorded;
        let players = self.players;
        if let Some(program) = own {
            let begun = self.start(&row.benchmark, program.into())?;
            let known = players.old.benchmarks.get(&row.benchmark);
            let identified = players.identified.lock();
            playing.done.initial = match row.parent {
                None => begun.as_ref().ok().copied(),
                Some(_) => known.and_then(|row| *identified.get(&row.initial_state)?),
            };
            return Ok(begun);
        }
        let first = steps.first().and_then(|step| step.state);
        let way = players.old.way_to_start(row, first).ok_or(Stop::LeftOut(LeftOut::NoWay))?;
        let program = self.program(&row.benchmark, &way)?.map_err(Stop::LeftOut)?;
        let begun = self.start(&row.benchmark, program)?;
        playing.done.initial = begun.as_ref().ok().copied();
        let (Ok(mut state), actions) = (begun.clone(), way.actions) else { return Ok(begun) };
        for action in actions {
            let step = self.session()?.apply(action)?;
            let ends = step.outcome.ends_episode();
            state = step.outcome.state().filter(|_| !ends).ok_or(Stop::LeftOut(LeftOut::NoWay))?;
        }
        Ok(Ok(state))
    }

    fn start(
        &mut self,
        uri: &BenchmarkUri,
        program: Arc<[u8]>,
    ) -> Result<Result<StateId, Failure>, Stop> {
        let (provenance, execution) = (Provenance::default(), None);
        let players = self.players;
        let start = Start {
            benchmark: &Benchmark { uri: uri.clone(), program, provenance, execution },
            action_space: &players.new.action_space.name,
            baselines: players.baselines(uri),
            watch: &players.watch,
        };
        match self.session()?.start(&start) {
            Ok(started) => Ok(Ok(started.state)),
            Err(SessionError::StartFailed { failure, .. }) => Ok(Err(failure)),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns a program: its first state if the old lake has it, or else what its dataset has.
    fn program(&mut self, uri: &BenchmarkUri, way: &WayToStart) -> Result<ProgramOrNot, LakeError> {
        if let Some((_, known)) = self.program.as_ref().filter(|(known, _)| known == uri) {
            return Ok(known.clone());
        }
        let old = self.players.old;
        let stored = way.first.filter(|state| old.with_ir.contains(state));
        let stored = match stored {
            Some(state) => old.snapshot.ir(&[state])?.pop().flatten(),
            None => None,
        };
        let program = stored.map_or_else(|| self.of_dataset(uri), |stored| Ok(stored.into()));
        self.program = Some((uri.clone(), program.clone()));
        Ok(program)
    }

    /// Loads a program, which has to be the recorded one.
    fn of_dataset(&self, uri: &BenchmarkUri) -> ProgramOrNot {
        let players = self.players;
        let loaded = players.programs.load(uri).map_err(|error| {
            tracing::debug!(%uri, %error, "no program");
            players.unloadable.call_once(|| {
                tracing::warn!(%uri, %error, "a program cannot be loaded; the report counts all such");
            });
            LeftOut::NoProgram
        });
        let program = loaded?.program;
        let recorded = players.old.benchmarks.get(uri).map(|row| row.program_digest.as_str());
        let is_recorded = recorded == Some(&*blake3::hash(&program).to_hex());
        if is_recorded { Ok(program) } else { Err(LeftOut::OtherProgram) }
    }
}
