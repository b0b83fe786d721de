//! Options of LLVM's command line as parameters of actions.
//!
//! LLVM keeps them in variables of the process, and passes read these when they are made and when
//! they run. So whoever runs passes, those of code generation too, holds the options meanwhile:
//! with their defaults, together with other threads, or with one option changed, alone.

#![expect(unsafe_code, reason = "calls the C++ shim")]

use std::ptr::NonNull;

use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::ffi::{self, RawBytes, RawOption};
use steplake_model::split_option;

/// The options that actions set. None makes LLVM print or write anything.
pub(super) const SETTABLE: [&str; 20] = [
    "disable-lftr",
    "disable-licm-promotion",
    "force-vector-interleave",
    "force-vector-width",
    "funcspec-min-function-size",
    "hotcoldsplit-threshold",
    "indvars-widen-indvars",
    "inline-threshold",
    "instcombine-code-sinking",
    "jump-threading-threshold",
    "phi-node-folding-threshold",
    "replexitval",
    "slp-threshold",
    "spec-exec-max-not-hoisted",
    "spec-exec-max-speculation-cost",
    "two-entry-phi-node-folding-threshold",
    "unroll-count",
    "unroll-peel-count",
    "unroll-threshold",
    "unswitch-threshold",
];

/// On Linux, a thread that waits to change an option gets the lock before threads that come later,
/// so others that run passes all the time do not hold it up for ever.
static PROCESS: RwLock<()> = RwLock::new(());

/// The options of the process while passes are made and run.
pub(super) enum ProcessOptions {
    /// All have their defaults.
    Defaults { _shared: RwLockReadGuard<'static, ()> },
    /// One has another value.
    Changed { _change: ChangedOption },
}

/// An option that has its default again when this is dropped. Nothing else changes options, so the
/// default is the value before.
pub(super) struct ChangedOption {
    option: NonNull<RawOption>,
    _alone: RwLockWriteGuard<'static, ()>,
}

/// Holds the defaults of all options.
pub(super) fn defaults() -> ProcessOptions {
    ProcessOptions::Defaults { _shared: PROCESS.read() }
}

/// Splits a pipeline `with<OPTION=VALUE>(PIPELINE)` into its options, held from now on, and
/// what is to run with them. The latter is LLVM's own syntax; other pipelines are already.
///
/// # Errors
///
/// If no action may set the option, or not to this value.
pub(super) fn hold(pipeline: &str) -> Result<(ProcessOptions, &str), String> {
    let (Some(setting), passes) = split_option(pipeline) else {
        return Ok((defaults(), pipeline));
    };
    let (name, value) = setting.split_once('=').unwrap_or((setting, ""));
    if !SETTABLE.contains(&name) {
        return Err(format!("`{name}` is no option that actions set"));
    }
    let alone = PROCESS.write();
    let bytes = |text: &str| RawBytes { data: text.as_ptr().cast(), size: text.len() };
    // SAFETY: the texts come from slices, and no other thread runs passes.
    let option = unsafe { ffi::steplake_llvm_option_set(bytes(name), bytes(value)) };
    let option = NonNull::new(option).ok_or_else(|| format!("`{name}` cannot be `{value}`"))?;
    Ok((ProcessOptions::Changed { _change: ChangedOption { option, _alone: alone } }, passes))
}

impl Drop for ChangedOption {
    fn drop(&mut self) {
        // SAFETY: options live as long as the process, and no other thread runs passes.
        unsafe { ffi::steplake_llvm_option_reset(self.option.as_ptr()) };
    }
}
