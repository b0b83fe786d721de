//! Sessions that somebody plays as they please, recorded as one run.

use std::num::NonZeroU32;
use std::path::Path;

use serde_json::json;

use super::identity::identity;
use super::request::{AUDIT_EVERY, demand_of_recording};
use super::{Keyframes, existing, now_ms};
use crate::Error;
use crate::contexts::recorded_by;
use crate::env::Environment;
use crate::environments::{STEP_CPU_SECONDS, WORKER_MEMORY_MIB};
use crate::lake::Lake;
use crate::model::RunId;
use crate::record::{Recording, RecordingOptions, SpaceChoice};
use crate::sandbox::Interrupt;

/// What to record of sessions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionOptions {
    /// The action space; by default that of the lake, and for a new lake the environment's first.
    pub action_space: Option<String>,
    /// Which states' IR to keep; by default [what the environment says][usual].
    ///
    /// [usual]: crate::env::Environment::keyframes
    pub keyframes: Option<Keyframes>,
    /// The observation spaces to record; by default those of the lake, and for a new lake all
    /// spaces of numbers, in both cases without those on request.
    pub observe: Option<Vec<String>>,
    /// The reward spaces to record; by default those of the lake, and for a new lake all.
    pub rewards: Option<Vec<String>>,
    /// The CPU seconds that the environment's workers allow a step. They are kept with the run, so
    /// that a replay allows as much.
    pub step_cpu_seconds: u64,
    /// The address space of the environment's workers in MiB, likewise.
    pub worker_memory_mib: u64,
    /// One episode of so many is played again in another process and compared, as for a
    /// [`RunRequest`](super::RunRequest).
    pub audit: Option<NonZeroU32>,
    /// Whether to seal what was recorded when the run is finished, so that other tools see it.
    pub seal: bool,
}

impl Default for SessionOptions {
    fn default() -> Self {
        Self {
            action_space: None,
            keyframes: None,
            observe: None,
            rewards: None,
            step_cpu_seconds: STEP_CPU_SECONDS,
            worker_memory_mib: WORKER_MEMORY_MIB,
            audit: Some(AUDIT_EVERY),
            seal: true,
        }
    }
}

/// Begins a run in the lake at `lake`, in the context of the environment and the action space, and
/// takes the right to write to it. Both are made if there are none. The run has the episodes of all
/// sessions that are wrapped with [`recorder`](Recording::recorder), in the order in which they
/// begin.
///
/// # Errors
///
/// If the options are wrong, or the lake cannot be recorded into: its context has other meanings of
/// an action or a space, or another process records into it.
pub fn record_sessions(
    lake: &Path,
    environment: &dyn Environment,
    options: &SessionOptions,
) -> Result<SessionRecording, Error> {
    let SessionOptions { action_space, keyframes, observe, rewards, .. } = options;
    demand_of_recording(*keyframes, options.step_cpu_seconds, options.worker_memory_mib)?;
    let keyframes = keyframes.unwrap_or_else(|| Keyframes::usual(environment));
    let lake = &recorded_by(lake, environment.spec(), action_space.as_deref())?;
    let existing = existing(lake)?;
    let choice = SpaceChoice { observations: observe.as_deref(), rewards: rewards.as_deref() };
    let there = existing.as_ref().map(Lake::identity);
    let identity = identity(environment.spec(), there, action_space.as_deref(), &choice)?;
    let mut writer = Lake::open_or_create(lake, &identity)?.writer()?;
    let mut arguments = json!({
        "recorder": "session",
        "action_space": identity.action_space.name,
        "ir": keyframes.to_string(),
        "step_cpu_seconds": options.step_cpu_seconds,
        "worker_memory_mib": options.worker_memory_mib,
    });
    for (key, spaces) in [("observe", observe), ("rewards", rewards)] {
        if let Some(spaces) = spaces {
            arguments[key] = json!(spaces);
        }
    }
    let run = writer.begin_run(&arguments.to_string(), now_ms())?;
    let (seals, audit) = (options.seal, options.audit);
    let options = RecordingOptions {
        keyframes: keyframes.0,
        observations: observe.clone(),
        rewards: rewards.clone(),
        ..RecordingOptions::default()
    };
    let recording = Recording::begin(writer, environment.spec(), run, &options)?;
    // Whoever drops a recording may hold a lock that an interrupt waits for: the audit asks none.
    let recording = Some(audited(recording, environment, audit, Interrupt::default())?);
    Ok(SessionRecording { recording, repeated_before: environment.repeated_windows(), seals })
}

/// Plays one episode of `every` again, if it can be done in another process.
pub(super) fn audited(
    recording: Recording,
    environment: &dyn Environment,
    every: Option<NonZeroU32>,
    interrupt: Interrupt,
) -> Result<Recording, Error> {
    let Some(every) = every else { return Ok(recording) };
    match environment.audit_session()? {
        Some(session) => Ok(recording.audited(session, every, interrupt)?),
        None => Ok(recording),
    }
}

/// A run of recorded sessions. [`finish`](Self::finish) ends it. If it is dropped, what was
/// recorded stays, and the run remains unfinished.
#[derive(Debug)]
pub struct SessionRecording {
    /// There until the end.
    recording: Option<Recording>,
    /// The environment's count before the run.
    repeated_before: u64,
    seals: bool,
}

impl SessionRecording {
    /// Returns the recording, which wraps sessions. A session should start a benchmark with the
    /// [baselines](Recording::baselines) that the lake has of it, if it has them.
    ///
    /// # Panics
    ///
    /// Never: only the end takes the recording.
    pub fn recording(&self) -> &Recording {
        self.recording.as_ref().expect("only the end takes it")
    }

    /// Ends the run: makes durable what was recorded, takes back the steps of episodes that are
    /// still open, marks the run as finished, and seals it. `environment` is that of the sessions.
    /// Recorders that still exist can record no more; drop them first, which closes their episodes.
    ///
    /// # Errors
    ///
    /// If the recording has failed, or the disk does. What was durable by then stays.
    pub fn finish(mut self, environment: &dyn Environment) -> Result<RunId, Error> {
        let recording = self.recording.take().expect("only the end takes it");
        let run = recording.run();
        let mut writer = recording.close()?;
        let repeated = environment.repeated_windows().saturating_sub(self.repeated_before);
        writer.add_repeated_windows(run, u32::try_from(repeated).unwrap_or(u32::MAX))?;
        writer.discard_open(run)?;
        writer.finish_run(run)?;
        if self.seals {
            writer.seal()?;
        }
        Ok(run)
    }
}

impl Drop for SessionRecording {
    fn drop(&mut self) {
        // Otherwise the thread that commits would keep the right to write.
        if let Some(Err(error)) = self.recording.take().map(Recording::close) {
            tracing::warn!(%error, "the last steps of the recorded sessions are lost");
        }
    }
}
