//! The process that runs the actions. The last line that it wrote tells its supervisor what killed
//! it.
//!
//! Each line of input is a task: the path of a program's bitcode, a seed to shuffle the heap with,
//! and indices into [`pipelines`](super::condition::pipelines). The child writes a [`Line`] before
//! and after each pipeline, and one at the end of the task.

use std::io::{self, BufRead, Write};
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::time::{ClockId, clock_gettime};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

use super::condition::{STEP_CPU_MAX, pipelines};
use crate::env::llvm::engine::{Change, Engine};
use crate::env::llvm::program::Program;
use crate::env::llvm::session::first_state;
use crate::model::StateId;
use crate::sandbox::{self, Open};

/// The result of one action in a child.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Trial {
    /// The state after the action, in the course of the walk; none if the verifier rejects it.
    pub(super) state: Option<StateId>,
    /// The state after the same action on the previous state, read from its bitcode.
    pub(super) replayed: Option<StateId>,
    /// The state after the action, read back from its bitcode.
    pub(super) reread: Option<StateId>,
    pub(super) changed: bool,
    pub(super) cpu: Duration,
    /// The names that passes registered in the context beyond the fixed lists.
    pub(super) registered: String,
}

/// A line of the child's output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Line {
    /// The next action has begun.
    Begin,
    /// The action is done.
    Done(Trial),
    /// The task is done, or its program cannot be read.
    End,
}

impl std::fmt::Display for Line {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let id = |id: Option<StateId>| id.map_or("-".to_owned(), |id| id.to_string());
        match self {
            Self::Begin => f.write_str("begin"),
            Self::End => f.write_str("end"),
            Self::Done(trial) => write!(
                f,
                "done\t{}\t{}\t{}\t{}\t{}\t{}",
                id(trial.state),
                id(trial.replayed),
                id(trial.reread),
                trial.changed,
                trial.cpu.as_micros(),
                trial.registered.trim().replace('\n', ", "),
            ),
        }
    }
}

impl FromStr for Line {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bad = || format!("not a line of a probe's child: {text:?}");
        let id = |text: &str| match text {
            "-" => Ok(None),
            id => id.parse().map(Some).map_err(|_error| bad()),
        };
        let fields: Vec<&str> = text.split('\t').collect();
        match fields.as_slice() {
            ["begin"] => Ok(Self::Begin),
            ["end"] => Ok(Self::End),
            ["done", state, replayed, reread, changed, cpu_us, registered] => {
                Ok(Self::Done(Trial {
                    state: id(state)?,
                    replayed: id(replayed)?,
                    reread: id(reread)?,
                    changed: changed.parse().map_err(|_error| bad())?,
                    cpu: Duration::from_micros(cpu_us.parse().map_err(|_error| bad())?),
                    registered: (*registered).to_owned(),
                }))
            }
            _ => Err(bad()),
        }
    }
}

/// Runs tasks until there are no more; this is `probe-child` on the command line. From its first
/// task on, the calling thread opens only the system's files and those beside the task's program.
///
/// # Errors
///
/// Those of reading and writing, and malformed tasks.
pub fn probe_child(input: &mut dyn BufRead, output: &mut dyn Write) -> io::Result<()> {
    let mut engine = Engine::new().map_err(io::Error::other)?;
    let pipelines = pipelines();
    let mut is_confined = false;
    for line in input.lines() {
        let line = line?;
        let mut fields = line.split('\t');
        let mut next = || fields.next().ok_or_else(|| io::Error::other("a task lacks a field"));
        let path = Path::new(next()?);
        let program = std::fs::read(path)?;
        if !is_confined {
            // All programs are in the folder of the first.
            let read = path.parent().map(Path::to_path_buf).into_iter().collect();
            sandbox::confine_thread(&Open { read, write: Vec::new() })?;
            is_confined = true;
        }
        let shuffle: u64 = next()?.parse().map_err(io::Error::other)?;
        let actions = next()?.split(',').filter(|text| !text.is_empty()).map(str::parse::<usize>);
        let actions: Vec<usize> = actions.collect::<Result<_, _>>().map_err(io::Error::other)?;
        let _holes = shuffle_heap(shuffle);
        engine.renew();
        if let Ok(mut program) = first_state(&engine, &program) {
            for action in actions {
                writeln!(output, "{}", Line::Begin)?;
                output.flush()?;
                limit_cpu()?;
                let trial = attempt(&mut engine, &mut program, &pipelines[action]);
                writeln!(output, "{}", Line::Done(trial))?;
                output.flush()?;
            }
        }
        writeln!(output, "{}", Line::End)?;
        output.flush()?;
    }
    Ok(())
}

/// Runs one action on the program, and again on a copy read from the state's bitcode. A program
/// that the action broke is restored.
fn attempt(engine: &mut Engine, program: &mut Program, pipeline: &str) -> Trial {
    let before = program.write().to_vec();
    let begin = cpu_time();
    let change = step(engine, program, pipeline);
    let cpu = cpu_time().saturating_sub(begin);
    let registered = program.registered();
    let revive = |bitcode: &[u8]| Program::revive(bitcode).expect("LLVM reads what it has written");
    let mut replay = revive(&before);
    let replayed = step(engine, &mut replay, pipeline).map(|_change| replay.state_id());
    if change.is_none() {
        *program = revive(&before);
        let (state, reread, changed) = (None, None, false);
        return Trial { state, replayed, reread, changed, cpu, registered };
    }
    let after = program.write().to_vec();
    let (state, reread) = (program.state_id(), revive(&after).state_id());
    if reread != state {
        // The rest of the walk should show other actions, not this one's odd state.
        *program = stable(&after);
    }
    let (state, reread, changed) = (Some(state), Some(reread), before != after);
    Trial { state, replayed, reread, changed, cpu, registered }
}

/// Returns a program that comes back unchanged from its bitcode.
fn stable(bitcode: &[u8]) -> Program {
    let mut bitcode = bitcode.to_vec();
    for _ in 0..4 {
        let mut program = Program::revive(&bitcode).expect("LLVM reads what it has written");
        if program.write() == bitcode {
            return program;
        }
        bitcode = program.write().to_vec();
    }
    Program::revive(&bitcode).expect("LLVM reads what it has written")
}

/// Makes one step as a session does; none if the verifier rejects the result.
fn step(engine: &mut Engine, program: &mut Program, pipeline: &str) -> Option<Change> {
    let change = engine.run(program, pipeline).expect("a test parses every pipeline");
    if change == Change::Some {
        program.verify_changes().ok()?;
        program.canonicalise_changes();
    }
    Some(change)
}

/// Fills the heap with holes of many sizes, so that the next allocations lie in no particular
/// order. The returned blocks keep the holes apart.
fn shuffle_heap(seed: u64) -> Vec<Vec<u8>> {
    const BLOCKS: usize = 20_000;
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut size = || 16 + (random.next_u32() % 1024) as usize;
    let mut blocks: Vec<_> = (0..BLOCKS).map(|_| Some(vec![0_u8; size()])).collect();
    for index in 0..BLOCKS {
        let other = index + (random.next_u32() as usize) % (BLOCKS - index);
        blocks.swap(index, other);
    }
    blocks.into_iter().skip(BLOCKS / 2).flatten().collect()
}

/// Gives the next action [`STEP_CPU_MAX`] of CPU time, after which the kernel ends this process.
fn limit_cpu() -> io::Result<()> {
    // The extra second is for the limit's resolution of whole seconds.
    let until = cpu_time() + STEP_CPU_MAX + Duration::from_secs(1);
    let (_, hard) = getrlimit(Resource::RLIMIT_CPU)?;
    setrlimit(Resource::RLIMIT_CPU, until.as_secs().min(hard), hard)?;
    Ok(())
}

fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).expect("the kernel has this clock");
    Duration::from(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_survives_its_text() {
        let done = Line::Done(Trial {
            state: Some(StateId([1; 20])),
            replayed: None,
            reread: Some(StateId([2; 20])),
            changed: true,
            cpu: Duration::from_micros(17),
            registered: "metadata kind x".to_owned(),
        });
        for line in [Line::Begin, Line::End, done] {
            assert_eq!(line.to_string().parse(), Ok(line));
        }
    }
}
