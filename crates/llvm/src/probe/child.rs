//! The process that runs the actions. The last line that it wrote tells its supervisor what killed
//! it.
//!
//! Each line of input is a [`ProbeTask`] as JSON. The child writes a [`ChildLine`], as JSON too,
//! before and after each pipeline, and one at the end of the task.

use std::io::{self, BufRead, Write};
use std::path::PathBuf;
use std::time::Duration;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use serde::{Deserialize, Serialize};

use super::condition::STEP_CPU_MAX;
use crate::engine::{Engine, PipelineEffect};
use crate::module::Module;
use crate::session::first_state;
use steplake_env::cpu_time;
use steplake_env::worker::heap_holes;
use steplake_sandbox::OpenPaths;

/// The blocks of the [holes](heap_holes) in the heap of each task.
const HOLE_BLOCKS: u32 = 20_000;

/// Actions to run one after the other.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct ProbeTask {
    /// The program's bitcode.
    pub(super) program: PathBuf,
    /// The seed to shuffle the heap with.
    pub(super) shuffle: u64,
    /// Their pipelines.
    pub(super) actions: Vec<String>,
}

/// The result of one action in a child. States are given by their ids.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ActionTrial {
    /// The state after the action, in the course of the walk; none if the verifier rejects it.
    pub(super) state: Option<String>,
    /// The state after the same action on the previous state, read from its bitcode.
    pub(super) replayed: Option<String>,
    /// The state after the action, read back from its bitcode.
    pub(super) reread: Option<String>,
    pub(super) changed: bool,
    pub(super) cpu: Duration,
    /// The names that passes registered in the context beyond the fixed lists.
    pub(super) registered: String,
}

/// A line of the child's output.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum ChildLine {
    /// The next action has begun.
    Begin,
    /// The action is done.
    Done(ActionTrial),
    /// The task is done, or its program cannot be read.
    End,
}

/// Runs tasks until there are no more; this is `probe-child` on the command line. From its first
/// task on, the calling thread opens only the system's files and those beside the task's program.
///
/// # Errors
///
/// Those of reading and writing, and malformed tasks.
pub fn probe_child(input: &mut dyn BufRead, output: &mut dyn Write) -> io::Result<()> {
    let mut engine = Engine::new().map_err(io::Error::other)?;
    let mut is_confined = false;
    let mut write = |line: &ChildLine| -> io::Result<()> {
        writeln!(output, "{}", serde_json::to_string(line)?)?;
        output.flush()
    };
    for line in input.lines() {
        let ProbeTask { program: path, shuffle, actions } = serde_json::from_str(&line?)?;
        let program = std::fs::read(&path)?;
        if !is_confined {
            // All programs are in the folder of the first.
            let read = path.ancestors().skip(1).take(1).map(PathBuf::from).collect();
            steplake_sandbox::confine_thread(&OpenPaths { read, write: Vec::new() })?;
            is_confined = true;
        }
        let _holes = heap_holes(shuffle, HOLE_BLOCKS);
        engine.renew();
        if let Ok(mut program) = first_state(&engine, &program) {
            for action in actions {
                write(&ChildLine::Begin)?;
                limit_cpu()?;
                write(&ChildLine::Done(attempt(&mut engine, &mut program, &action)))?;
            }
        }
        write(&ChildLine::End)?;
    }
    Ok(())
}

/// Runs one action on the program, and again on a copy read from the state's bitcode. A program
/// that the action broke is restored.
fn attempt(engine: &mut Engine, program: &mut Module, pipeline: &str) -> ActionTrial {
    let before = program.write().to_vec();
    let begin = cpu_time();
    let change = step(engine, program, pipeline);
    let cpu = cpu_time().saturating_sub(begin);
    let registered = program.registered().trim().replace('\n', ", ");
    let revive = |bitcode: &[u8]| Module::revive(bitcode).expect("LLVM reads what it has written");
    let mut replay = revive(&before);
    let replayed = step(engine, &mut replay, pipeline).map(|_change| replay.state_id().to_string());
    if change.is_none() {
        *program = revive(&before);
        let (state, reread, changed) = (None, None, false);
        return ActionTrial { state, replayed, reread, changed, cpu, registered };
    }
    let after = program.write().to_vec();
    let (state, reread) = (program.state_id().to_string(), revive(&after).state_id().to_string());
    if reread != state {
        // The rest of the walk should show other actions, not this one's odd state.
        *program = stable(&after);
    }
    let (state, reread, changed) = (Some(state), Some(reread), before != after);
    ActionTrial { state, replayed, reread, changed, cpu, registered }
}

/// Returns a program that comes back unchanged from its bitcode.
fn stable(bitcode: &[u8]) -> Module {
    let mut bitcode = bitcode.to_vec();
    for _ in 0..4 {
        let mut program = Module::revive(&bitcode).expect("LLVM reads what it has written");
        if program.write() == bitcode {
            return program;
        }
        bitcode = program.write().to_vec();
    }
    Module::revive(&bitcode).expect("LLVM reads what it has written")
}

/// Makes one step as a session does; none if the verifier rejects the result.
fn step(engine: &mut Engine, program: &mut Module, pipeline: &str) -> Option<PipelineEffect> {
    let change = engine.run(program, pipeline).expect("a test parses every pipeline");
    if change == PipelineEffect::Some {
        program.verify_changes().ok()?;
        program.canonicalise_changes();
    }
    Some(change)
}

/// Gives the next action [`STEP_CPU_MAX`] of CPU time, after which the kernel ends this process.
fn limit_cpu() -> io::Result<()> {
    // The extra second is for the limit's resolution of whole seconds.
    let until = cpu_time() + STEP_CPU_MAX + Duration::from_secs(1);
    let (_, hard) = getrlimit(Resource::RLIMIT_CPU)?;
    setrlimit(Resource::RLIMIT_CPU, until.as_secs().min(hard), hard)?;
    Ok(())
}
