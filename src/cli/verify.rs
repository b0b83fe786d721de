//! `verify`.

use std::cell::RefCell;
use std::mem::{Discriminant, discriminant};
use std::num::NonZeroUsize;
use std::ops::ControlFlow;

use indicatif::ProgressBar;

use super::args::VerifyArgs;
use super::dedup::STEPS_READ;
use crate::environments::Environments;
use crate::lake::{Lake, SnapshotId};
use crate::verification::{VerifyObserver, VerifyOptions, VerifyProgress, verify};
use crate::{Error, ErrorKind};
use steplake_terminal::arguments::GlobalArgs;
use steplake_terminal::exit::with_advice;
use steplake_terminal::output::{bar, counted, print};

pub(super) fn run(
    environments: &Environments,
    global: &GlobalArgs,
    args: &VerifyArgs,
) -> Result<(), Error> {
    let lake = Lake::open(&global.lake)?;
    let options = VerifyOptions {
        snapshot: args.snapshot.snapshot.map(SnapshotId),
        replay: args.replay,
        semantics: args.semantics.map(NonZeroUsize::get),
        seed: args.seed,
        derived: args.derived,
        repair: args.repair,
        how_run: args.how_run.how_run(),
    };
    if args.semantics.is_none() {
        args.how_run.demand_unsaid("--semantics")?;
    }
    let verification =
        verify(environments, &lake, &options, &Console { global, bar: RefCell::default() })?;
    if !verification.is_sound() {
        let is_damaged = !verification.bytes.findings.is_empty() && !args.repair;
        let repair = if is_damaged { "; --repair mends or drops what is damaged" } else { "" };
        let said = format!("verify found what is listed above{repair}");
        return Err(Error::new(ErrorKind::Found, said));
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

    fn said(&self, text: &str) -> Result<(), Error> {
        // First clears the bar, which would share a line with the text.
        *self.bar.borrow_mut() = None;
        print(text)
    }

    fn worded(&self, error: &Error) -> String {
        with_advice(error)
    }
}
