//! Actions and action spaces.

use super::Value;

/// The place of an action in its action space, stable within a version of the space.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ActionIndex(pub u32);

impl ActionIndex {
    /// Returns the place of the action in a list of all actions.
    pub fn place(self) -> usize {
        self.0 as usize
    }
}

/// What a probe of the live compiler found out about an action.
#[expect(clippy::struct_excessive_bools, reason = "four findings, each by itself")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ActionFlags {
    /// The same state and action led to the same next state under every condition tried.
    pub replayable: bool,
    /// The compiler died on some state, or its verifier rejected the result.
    pub crashes: bool,
    /// Some state took longer than the probe's bound for an ordinary action.
    pub slow: bool,
    /// The action changed none of the states tried.
    pub never_changes: bool,
}

impl ActionFlags {
    /// The flags of an action that no probe has seen: a pure function of the state.
    pub const UNREMARKABLE: Self =
        Self { replayable: true, crashes: false, slow: false, never_changes: false };

    /// Returns whether the action is sure to lead to the same next state when it is run again in
    /// the same state.
    pub fn is_dependable(self) -> bool {
        self.replayable && !self.crashes
    }
}

/// One action: its name for users and its pipeline for the compiler.
#[derive(Debug, Clone, PartialEq)]
pub struct ActionSpec {
    /// The name that users read and write, unique in the space.
    pub name: String,
    /// What the compiler is asked to do; for LLVM a pass pipeline, or one
    /// [with an option](split_option). If empty, the action does nothing on purpose.
    pub pipeline: String,
    /// The parameters of the action, by name: integers, floats or texts. Empty for an action that
    /// takes none.
    pub parameters: Vec<(String, Value)>,
    /// The findings of a probe.
    pub flags: ActionFlags,
}

impl ActionSpec {
    /// Returns an action without parameters.
    pub fn new(name: impl Into<String>, pipeline: impl Into<String>, flags: ActionFlags) -> Self {
        Self { name: name.into(), pipeline: pipeline.into(), parameters: Vec::new(), flags }
    }
}

/// Splits an LLVM pipeline `with<OPTION=VALUE>(PIPELINE)` into `OPTION=VALUE` and `PIPELINE`, which
/// runs as by `opt -passes='PIPELINE' -OPTION=VALUE`. Any other pipeline has no option.
pub fn split_option(pipeline: &str) -> (Option<&str>, &str) {
    let inner = pipeline.strip_prefix("with<").and_then(|rest| rest.strip_suffix(')'));
    match inner.and_then(|inner| inner.split_once(">(")) {
        Some((option, passes)) => (Some(option), passes),
        None => (None, pipeline),
    }
}

/// Returns the command of `opt` that runs pipelines of LLVM on `input.bc`. `opt` takes an option
/// for all of its passes, so pipelines with another option are those of another call.
pub fn opt_command<'a>(pipelines: impl Iterator<Item = &'a str>) -> String {
    let split: Vec<_> = pipelines.map(split_option).collect();
    let calls = split.chunk_by(|one, next| one.0 == next.0).map(|run| {
        let passes: Vec<&str> = run.iter().map(|(_, passes)| *passes).collect();
        let option = run[0].0.map(|option| format!(" -{option}")).unwrap_or_default();
        format!("opt -passes='{}'{option}", passes.join(","))
    });
    let mut calls: Vec<String> = calls.collect();
    if calls.is_empty() {
        calls.push("opt".to_owned());
    }
    calls[0] += " input.bc";
    calls.join(" | ") + " -o output.bc"
}

/// A named, versioned, ordered list of actions. Later versions of an environment may append to it.
#[derive(Debug, Clone, PartialEq)]
pub struct ActionSpace {
    /// The name with its version, e.g. `llvm22-v1`.
    pub name: String,
    /// The actions; an action's [`ActionIndex`] is its place here.
    pub actions: Vec<ActionSpec>,
}

impl ActionSpace {
    /// Returns the action at `index`, if there is one.
    pub fn get(&self, index: ActionIndex) -> Option<&ActionSpec> {
        self.actions.get(index.place())
    }

    /// Returns the place of the action called `name`.
    pub fn index_of(&self, name: &str) -> Option<ActionIndex> {
        let index = self.actions.iter().position(|action| action.name == name)?;
        u32::try_from(index).ok().map(ActionIndex)
    }
}
