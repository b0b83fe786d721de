//! Passes alone, over episodes that a file lists: the floor of what plays the same steps elsewhere.

use std::path::Path;
use std::time::Duration;

use steplake::env::Environment;
use steplake::env::llvm::{LlvmEnvironment, PassRunner};
use steplake::model::ActionIndex;

use crate::{cpu_of, heading, line};

/// The action space of the numbers in the file.
const ACTION_SPACE: &str = "compilergym-v0";

/// Plays each line of `list`: the path of a program's bitcode, and the numbers of actions, all
/// separated by blanks. Reading the programs is not counted.
pub(crate) fn run(list: &Path) {
    heading("Passes alone, over the episodes of a list");
    let environment = LlvmEnvironment::new();
    let space = environment.spec().action_space(ACTION_SPACE).expect("it is one of LLVM's");
    let mut runner = PassRunner::new().expect("LLVM is there");
    let (mut steps, mut used) = (0_u32, Duration::ZERO);
    for episode in std::fs::read_to_string(list).expect("the list can be read").lines() {
        let mut words = episode.split_whitespace();
        let Some(path) = words.next() else { continue };
        runner.load(&std::fs::read(path).expect("the program is there")).expect("it is bitcode");
        let ((), cpu) = cpu_of(|| {
            for word in words {
                let action = ActionIndex(word.parse().expect("an action is a number"));
                let action = space.get(action).expect("the space has the action");
                runner.run(&action.pipeline).expect("the pipeline is good");
                steps += 1;
            }
        });
        used += cpu;
    }
    let each = used.as_secs_f64() * 1e3 / f64::from(steps);
    line("CPU time", &format!("{each:.3} ms"), "a step");
    line("steps", &steps.to_string(), "");
}
