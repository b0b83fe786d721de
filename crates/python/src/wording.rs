//! Messages of the library in the words of the package.
//!
//! The library is that of the command line, too: its advice names options, such as `--resume`, and
//! commands, such as `steplake dedup`. In Python, they are arguments and methods. A command that
//! the package has no method for, such as `steplake retract`, stays a command, which it brings
//! along.

use pyo3::prelude::*;

/// A command around a word, and the call around it.
const CALLS: [(&str, &str, &str); 3] = [
    ("`steplake backfill --space ", "`lake.backfill(\"", "\")`"),
    ("`steplake query ", "`lake.query(\"", "\")`"),
    ("`--by ", "`by=\"", "\"`"),
];

/// Commands and sentences with options, and what to say of Python.
const SAID: [(&str, &str); 20] = [
    ("`steplake dedup --full`", "`lake.dedup(full=True)`"),
    ("`steplake dedup`", "`lake.dedup()`"),
    ("`steplake verify --repair`", "`lake.verify(repair=True)`"),
    ("`steplake verify --replay`", "`lake.verify(replay=100)`"),
    ("`steplake verify`", "`lake.verify()`"),
    ("`steplake backfill`", "`lake.backfill`"),
    ("`steplake snapshots`", "`lake.snapshots()`"),
    ("`steplake info`", "`lake.info()`"),
    ("`steplake generate`", "`steplake.generate`"),
    ("run the same command again with --resume", "make the same call with `resume=True`"),
    ("the same command with --resume", "the same call with `resume=True`"),
    ("another lake with --lake", "another lake"),
    ("name a snapshot with --snapshot N", "open a snapshot, `steplake.open(path, snapshot=N)`"),
    ("whoever asks names a format, as with --format", "call a method of the answer instead"),
    ("give queries more of it (--spill), give this one more memory", "give it more `memory`"),
    (", --objective ", ", as `objective`: "),
    ("--episodes N", "`episodes`"),
    ("--ir none", "`keyframes=None`"),
    ("--ir all", "`keyframes=1`"),
    ("`--env`", "`environment`"),
];

/// The options that are arguments of the same name.
const OPTIONS: [&str; 10] = [
    "episodes",
    "lake",
    "objective",
    "resume",
    "rewards",
    "seed",
    "shard",
    "states",
    "steps",
    "worker-memory-mib",
];

/// Says in terms of Python what the library says in those of the command line.
#[pyfunction]
pub(crate) fn in_python(text: &str) -> String {
    let mut text = text.to_owned();
    for (command, call, end) in CALLS {
        while let Some((before, rest)) = text.split_once(command) {
            let Some((word, after)) = rest.split_once('`') else { break };
            text = format!("{before}{call}{word}{end}{after}");
        }
    }
    for (said, here) in SAID {
        text = replaced(&text, said, here);
    }
    for option in OPTIONS {
        let here = format!("`{}`", option.replace('-', "_"));
        text = replaced(&text, &format!("`--{option}`"), &here);
        text = replaced(&text, &format!("--{option}"), &here);
    }
    text
}

/// Replaces what is said wherever it stands by itself.
fn replaced(text: &str, said: &str, here: &str) -> String {
    let (mut whole, mut done) = (String::with_capacity(text.len()), 0);
    for (begin, _) in text.match_indices(said) {
        let end = begin + said.len();
        if stands_alone(&text[..begin], said, &text[end..]) {
            whole.push_str(&text[done..begin]);
            whole.push_str(here);
            done = end;
        }
    }
    whole.push_str(&text[done..]);
    whole
}

/// Whether what is said is no part of a path or of a longer word, such as `/data/my--lake`.
fn stands_alone(before: &str, said: &str, after: &str) -> bool {
    let is_opening = |one: char| one.is_whitespace() || "`'\"([{<".contains(one);
    let is_word = |one: char| one.is_alphanumeric() || matches!(one, '_' | '-');
    let begins = !said.starts_with('-') || before.is_empty() || before.ends_with(is_opening);
    let ends = !said.ends_with(is_word) || !after.starts_with(is_word);
    begins && ends
}
