//! What a run is to record.

use std::num::{NonZeroU32, NonZeroUsize};
use std::sync::Arc;

use serde_json::json;

use super::timed::time_space;
use super::{Keyframes, Stopwatch};
use crate::Error;
use crate::compilers;
use crate::datasets::as_pattern;
use crate::environments::catalogue::Catalogue;
use crate::environments::{STEP_CPU_SECONDS, WORKER_MEMORY_MIB, demand_worker_limits, within};
use crate::generate::{Coreset, Costed, PolicyName, Property, RunPlan, Shard, Stop};
use crate::lake::{PATH_STEPS_MAX, RunRow};
use crate::model::{ActionSpace, Execution, Remedy};

/// The usual number of steps of an episode.
pub const EPISODE_LENGTH: u32 = 50;

/// The usual patience of `random-patience`: that of `CompilerGym`'s experiments.
pub const PATIENCE: u32 = 50;

/// How many episodes there usually are for each that is played again to be compared.
pub const AUDIT_EVERY: NonZeroU32 = NonZeroU32::new(100).expect("100 is not 0");

/// The most steps of an episode.
pub const EPISODE_LENGTH_MAX: u32 = 1_000_000;

/// A run to record. What is recorded depends on all of it but `jobs`, `audit` and `seal`, and never
/// on timing.
#[derive(Debug, Clone)]
pub struct RunRequest {
    /// The environment.
    pub environment: String,
    /// The benchmarks: URIs, ranges and globs, and paths of files.
    pub benchmarks: Vec<String>,
    /// The flags with which those are compiled that are files of C or C++. They become part of
    /// their URIs.
    pub flags: Vec<String>,
    /// The action space; by default that of the lake, and for a new lake the environment's first.
    pub action_space: Option<String>,
    /// How actions are chosen.
    pub policy: PolicyName,
    /// The observation space, of single numbers, of which a policy that searches looks for the
    /// lowest value; by default the cost of the environment's first reward. It is recorded. In
    /// `loops-v0` it may also be `Runtime`: states are measured on this machine, and what is
    /// recorded then depends on the times as well.
    pub objective: Option<String>,
    /// After how many steps in a row that lower no cost an episode of `random-patience` ends.
    pub patience: u32,
    /// What the policy `coreset` knows; by default the coreset of this program.
    pub coreset: Option<Arc<Coreset>>,
    /// What the compiler's own pipeline leaves of the programs, if `coreset` needs to be told.
    pub reference: Option<f64>,
    /// How the programs are built and run; by default as their datasets say.
    pub execution: Option<Execution>,
    /// What times the programs, of one benchmark: then `objective` may be `Runtime` where states
    /// are programs.
    pub stopwatch: Option<Arc<Stopwatch>>,
    /// Which state says what a sequence costs that a policy proposes.
    pub costed: Costed,
    /// When the run is complete.
    pub stop: Stop,
    /// Steps of an episode, from 1 to [`EPISODE_LENGTH_MAX`].
    pub episode_length: u32,
    /// Fixes every choice.
    pub seed: i64,
    /// The number of concurrent sessions; by default the number of cores, and 1 where states are
    /// timed.
    pub jobs: Option<NonZeroUsize>,
    /// The part of the run to play; by default all of it. Only a run that stops after a number of
    /// episodes has parts.
    pub shard: Option<Shard>,
    /// Which states' IR to keep; by default [what the environment says][usual].
    ///
    /// [usual]: crate::env::Environment::keyframes
    pub keyframes: Option<Keyframes>,
    /// The observation spaces to record; by default those of the lake, and for a new lake all
    /// spaces of numbers, in both cases without those on request.
    pub observe: Option<Vec<String>>,
    /// The reward spaces to record; by default those of the lake, and for a new lake all.
    pub rewards: Option<Vec<String>>,
    /// The CPU seconds that a step may take, from 1 to [the most][cpu].
    ///
    /// [cpu]: crate::environments::STEP_CPU_SECONDS_MAX
    pub step_cpu_seconds: u64,
    /// The address space of a worker in MiB, from 256 to [the most][memory].
    ///
    /// [memory]: crate::environments::WORKER_MEMORY_MIB_MAX
    pub worker_memory_mib: u64,
    /// One episode of so many is played again in another process and compared, to find actions that
    /// depend on more than the state; none if nothing is to be compared. What differs is recorded.
    pub audit: Option<NonZeroU32>,
    /// Whether to continue the run with the same arguments where it stopped, if there is one.
    pub resume: bool,
    /// Whether to seal what is recorded at the end, however the run ends, so that other tools see
    /// it. What is recorded does not depend on it.
    pub seal: bool,
}

impl RunRequest {
    /// Asks for a run over these benchmarks until `stop`. All else is as `steplake generate` has it
    /// by default.
    pub fn new(benchmarks: impl IntoIterator<Item = impl Into<String>>, stop: Stop) -> Self {
        Self {
            environment: compilers::DEFAULT.to_owned(),
            benchmarks: benchmarks.into_iter().map(Into::into).collect(),
            flags: Vec::new(),
            action_space: None,
            policy: PolicyName::RANDOM,
            objective: None,
            patience: PATIENCE,
            coreset: None,
            reference: None,
            execution: None,
            stopwatch: None,
            costed: Costed::EachState,
            stop,
            episode_length: EPISODE_LENGTH,
            seed: 0,
            jobs: None,
            shard: None,
            keyframes: None,
            observe: None,
            rewards: None,
            step_cpu_seconds: STEP_CPU_SECONDS,
            worker_memory_mib: WORKER_MEMORY_MIB,
            audit: Some(AUDIT_EVERY),
            resume: false,
            seal: true,
        }
    }

    /// Refuses numbers out of their ranges.
    pub(super) fn demand(&self) -> Result<(), Error> {
        if self.benchmarks.is_empty() {
            return Err(Error::usage("name one benchmark at least"));
        }
        let (Stop::Steps(stop) | Stop::States(stop) | Stop::Episodes(stop)) = self.stop;
        within("the number at which the run stops", stop, 1..=u64::MAX)?;
        let length = self.episode_length.into();
        within("the length of an episode", length, 1..=EPISODE_LENGTH_MAX.into())?;
        demand_of_recording(self.keyframes, self.step_cpu_seconds, self.worker_memory_mib)
    }

    /// Plans the run.
    pub(super) fn plan(
        &self,
        action_space: &ActionSpace,
        objective: &str,
        catalogue: &Catalogue,
    ) -> Result<RunPlan, Error> {
        if self.shard.is_some() && !matches!(self.stop, Stop::Episodes(_)) {
            return Err(Error::usage(
                "a shard requires a number of episodes, that of all shards together: no shard can tell \
                 without the others where a number of steps or states would end the run",
            )
            .with(Remedy::Field("episodes")));
        }
        // Nothing else should run while a kernel or a program is timed.
        let usual = if objective == time_space() {
            1
        } else {
            std::thread::available_parallelism().map_or(1, usize::from)
        };
        let plan = RunPlan {
            benchmarks: catalogue.expand_with(&self.benchmarks, &self.flags)?,
            action_space: action_space.name.clone(),
            policy: self.policy,
            objective: objective.to_owned(),
            patience: self.patience,
            coreset: self.coreset(action_space)?,
            reference: self.reference,
            costed: self.costed.clone(),
            stop: self.stop,
            episode_length: self.episode_length,
            seed: self.seed,
            jobs: self.jobs.map_or(usual, usize::from),
            shard: self.shard.unwrap_or(Shard::WHOLE),
        };
        let (shard, benchmarks) = (plan.shard, plan.benchmarks.len() as u64);
        if plan.policy.has(Property::LooksBack) && u64::from(shard.count()) > benchmarks {
            return Err(Error::usage(format!(
                "`{}` looks at earlier episodes of the same benchmark, so its shards go by benchmark: there \
                 {}, for {} shards; use fewer shards",
                plan.policy,
                if benchmarks == 1 { "is 1".to_owned() } else { format!("are {benchmarks}") },
                shard.count(),
            )));
        }
        Ok(plan)
    }

    /// Returns what the policy knows before the run.
    fn coreset(&self, action_space: &ActionSpace) -> Result<Arc<Coreset>, Error> {
        if !self.policy.has(Property::HasCoreset) {
            return Ok(Arc::default());
        }
        let shipped = || Arc::new(Coreset::shipped(action_space));
        let known = self.coreset.as_ref().map_or_else(shipped, Arc::clone);
        if known.is_empty() {
            return Err(Error::usage(format!(
                "nothing is known of sequences of {}: `coreset` is for llvm22-v1, \
                 llvm22-v0 and llvm22-param-v0; `beam` and `genetic` search everywhere",
                action_space.name
            )));
        }
        Ok(known)
    }

    /// Returns what identifies the run: everything that affects what is recorded. The run learns
    /// from the runs that it `knows`.
    pub(super) fn arguments(
        &self,
        plan: &RunPlan,
        keyframes: Keyframes,
        knows: &[&RunRow],
    ) -> String {
        let mut uris = blake3::Hasher::new();
        for uri in &plan.benchmarks {
            uris.update(uri.as_str().as_bytes()).update(b"\n");
        }
        // A path means another file in another folder, and its URI does not.
        let named = |named: &String| as_pattern(named).map_or_else(|_| named.clone(), Into::into);
        let (stop, count) = match plan.stop {
            Stop::Steps(count) => ("steps", count),
            Stop::States(count) => ("states", count),
            Stop::Episodes(count) => ("episodes", count),
        };
        let mut arguments = json!({
            "benchmarks": self.benchmarks.iter().map(named).collect::<Vec<String>>(),
            "benchmark_count": plan.benchmarks.len(),
            "benchmark_digest": uris.finalize().to_hex().as_str(),
            "action_space": plan.action_space,
            "policy": plan.policy.as_str(),
            "stop": { stop: count },
            "episode_length": plan.episode_length,
            "seed": plan.seed,
            "ir": keyframes.to_string(),
            "step_cpu_seconds": self.step_cpu_seconds,
            "worker_memory_mib": self.worker_memory_mib,
        });
        // A run that names its spaces is another one than a run that takes those of the lake.
        for (key, spaces) in [("observe", &self.observe), ("rewards", &self.rewards)] {
            if let Some(spaces) = spaces {
                arguments[key] = json!(spaces);
            }
        }
        // Only a search has an objective.
        if !plan.objective.is_empty() {
            arguments["objective"] = json!(plan.objective);
        }
        match &plan.costed {
            Costed::EachState => {}
            Costed::LastState => arguments["costed"] = json!("last"),
            Costed::LowestOf(space) => arguments["costed"] = json!({ "lowest": space }),
        }
        if plan.policy.has(Property::HasPatience) {
            arguments["patience"] = json!(plan.patience);
        }
        if plan.policy.has(Property::HasCoreset) {
            arguments["coreset"] = json!(plan.coreset.digest());
            if let Some(reference) = plan.reference {
                arguments["reference"] = json!(reference);
            }
        }
        if !knows.is_empty() {
            let mut names: Vec<&str> = knows.iter().map(|run| run.uid.as_str()).collect();
            names.sort_unstable();
            arguments["knows"] = json!(blake3::hash(names.concat().as_bytes()).to_hex().as_str());
        }
        // A run without shards is written as before shards existed.
        if let Some(shard) = self.shard {
            arguments["shard"] = json!(shard.to_string());
        }
        arguments.to_string()
    }
}

/// Refuses what no recording can have.
pub(super) fn demand_of_recording(
    keyframes: Option<Keyframes>,
    step_cpu_seconds: u64,
    worker_memory_mib: u64,
) -> Result<(), Error> {
    let every = keyframes.and_then(|kept| kept.0).unwrap_or(NonZeroU32::MIN).get();
    within("the distance of keyframes", every.into(), 1..=PATH_STEPS_MAX as u64)?;
    demand_worker_limits(step_cpu_seconds, worker_memory_mib)
}
