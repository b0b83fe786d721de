//! `verify`.

use std::cell::RefCell;
use std::mem::{Discriminant, discriminant};
use std::num::NonZeroUsize;
use std::ops::ControlFlow;

use indicatif::ProgressBar;

use super::args::VerifyArgs;
use super::dedup::STEPS_READ;
use crate::assembly::arguments::GlobalArgs;
use crate::assembly::command_error::{Code, CommandError};
use crate::assembly::how_run::demand_unsaid;
use crate::assembly::output::{bar, counted, print};
use crate::assembly::verification::{VerifyObserver, VerifyOptions, VerifyProgress, verify};
use crate::lake::{Lake, SnapshotId};

pub(super) fn run(global: &GlobalArgs, args: &VerifyArgs) -> Result<(), CommandError> {
    let lake = Lake::open(&global.lake)?;
    let options = VerifyOptions {
        snapshot: args.snapshot.snapshot.map(SnapshotId),
        replay: args.replay,
        semantics: args.semantics.map(NonZeroUsize::get),
        seed: args.seed,
        repair: args.repair,
        how_run: args.how_run.how_run(),
    };
    if args.semantics.is_none() {
        demand_unsaid(options.how_run.as_ref(), "--semantics")?;
    }
    let verification = verify(&lake, &options, &Console { global, bar: RefCell::default() })?;
    if !verification.is_sound() {
        return Err(CommandError::new(Code::Found, "verify found what is listed above"));
    }
    Ok(())
}

/// Prints the report, and shows a bar for each part of the verification.
struct Console<'a> {
    global: &'a GlobalArgs,
    bar: RefCell<Option<(Discriminant<VerifyProgress>, ProgressBar)>>,
}

impl Console<'_> {
    /// Returns a new bar, if this part has one: baselines take a moment.
    fn begin(&self, progress: VerifyProgress) -> Option<ProgressBar> {
        let template = match progress {
            VerifyProgress::Measured { .. } => return None,
            VerifyProgress::Derived { .. } => STEPS_READ,
            VerifyProgress::Checked { .. } => "{bar:24.cyan} {bytes}/{total_bytes} checked{msg}",
            VerifyProgress::Run { .. } => "{bar:24.cyan} {pos}/{len} run {eta}",
            VerifyProgress::Replayed { .. } => "{bar:24.cyan} {pos}/{len} replayed {eta}",
        };
        Some(bar(self.global, 0, template))
    }
}

impl VerifyObserver for Console<'_> {
    fn progress(&self, progress: VerifyProgress) -> ControlFlow<()> {
        let part = discriminant(&progress);
        let mut shown = self.bar.borrow_mut();
        if shown.as_ref().is_none_or(|(shown, _)| *shown != part) {
            // First clears the bar of the part before.
            *shown = None;
            *shown = self.begin(progress).map(|bar| (part, bar));
        }
        if let Some((_, bar)) = &*shown {
            let (VerifyProgress::Derived { done, all }
            | VerifyProgress::Checked { done, all, .. }
            | VerifyProgress::Measured { done, all }
            | VerifyProgress::Run { done, all }
            | VerifyProgress::Replayed { done, all }) = progress;
            bar.set_length(all);
            bar.set_position(done);
            if let VerifyProgress::Checked { ids: ids @ 1.., .. } = progress {
                bar.set_message(format!("  {} recomputed", counted(ids, "id")));
            }
        }
        ControlFlow::Continue(())
    }

    fn said(&self, text: &str) -> Result<(), CommandError> {
        // First clears the bar, which would share a line with the text.
        *self.bar.borrow_mut() = None;
        print(text)
    }
}
