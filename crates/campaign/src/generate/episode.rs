//! Plays episodes: a policy proposes, the recorder's session does it, and the policy learns what
//! came of it.

use super::GenerateError;
use super::attempt::BegunEpisode;
use super::campaign::Campaign;
use super::costs::space_called;
use super::policies::{Policy, Property};
use super::schedule::PlayedEpisode;
use super::setting::Setting;
use crate::record::{EpisodePlan, Recorder, Settle};
use steplake_env::{Session, SessionError, Start, Watch};
use steplake_model::{Benchmark, BenchmarkUri};

impl Campaign<'_> {
    /// Plays one episode; `None` if it was interrupted.
    pub(super) fn play(
        &self,
        recorder: &mut Recorder,
        ordinal: u32,
        steps_max: u32,
    ) -> Result<Option<PlayedEpisode>, GenerateError> {
        let uri = self.plan.benchmark(ordinal);
        recorder.plan(EpisodePlan {
            ordinal: Some(ordinal),
            seed: self.plan.seed,
            policy: self.plan.policy.as_str().to_owned(),
            settle: Settle::ByCaller,
            only: None,
        });
        let (environment, plan, earlier) = (self.environment, self.plan, &self.earlier);
        let open = &|| self.unrecorded(uri, None);
        let setting = Setting { environment, plan, uri, ordinal, earlier, open };
        let mut policy = self.policy(&setting)?;
        let mut attempt = BegunEpisode::new(self, &setting, policy.as_mut(), steps_max)?;
        if let Some(step) = attempt.costed {
            let objective = space_called(environment.spec(), &plan.objective)?;
            recorder.record_only(objective, u32::try_from(step).unwrap_or(u32::MAX));
        }
        let played = match self.start(recorder, uri, attempt.choices())? {
            Err(failure) => self.failed_start(recorder, uri, &failure)?,
            Ok(state) => {
                attempt.play(recorder, state)?;
                if self.is_interrupted() {
                    return Ok(None);
                }
                self.count_states();
                let states = attempt.walk.states().collect();
                recorder.finish()?.map(|row| PlayedEpisode { row, states })
            }
        };
        attempt.end();
        if self.plan.policy.has(Property::LooksBack) {
            self.board.lock().policies.insert(uri.clone(), policy);
        }
        Ok(played)
    }

    /// Returns the policy of a program as it is before an episode: one that looks back has learned
    /// from all earlier ones. The schedule ensures that no other job plays the program then.
    fn policy(&self, setting: &Setting<'_>) -> Result<Box<dyn Policy>, GenerateError> {
        let (known, past) = {
            let mut board = self.board.lock();
            let known = board.policies.remove(setting.uri);
            (known, board.past.take_before(setting.uri, setting.ordinal))
        };
        let mut policy = match known {
            Some(known) => known,
            None => self.plan.policy.make(setting)?,
        };
        for (ordinal, walk) in past {
            let setting = Setting { ordinal, ..*setting };
            let length = self.plan.episode_length;
            BegunEpisode::new(self, &setting, policy.as_mut(), length)?.repeat(walk)?;
        }
        Ok(policy)
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
