//! `verify`.

use std::mem::{Discriminant, discriminant};
use std::sync::{Mutex, PoisonError};

use indicatif::ProgressBar;

use super::args::VerifyArgs;
use super::dedup::STEPS_READ;
use crate::assembly::arguments::GlobalArgs;
use crate::assembly::command_error::{Code, CommandError};
use crate::assembly::output::{bar, counted, print};
use crate::assembly::verification::{VerifyObserver, VerifyOptions, VerifyProgress, verify};
use crate::lake::{Lake, SnapshotId};

pub(super) fn run(global: &GlobalArgs, args: &VerifyArgs) -> Result<(), CommandError> {
    let lake = Lake::open(&global.lake)?;
    let options = VerifyOptions {
        snapshot: args.snapshot.snapshot.map(SnapshotId),
        replay: args.replay,
        seed: args.seed,
        repair: args.repair,
    };
    let verification = verify(&lake, &options, &Console { global, bar: Mutex::default() })?;
    if !verification.is_sound() {
        return Err(CommandError::new(Code::Found, "verify found what is listed above"));
    }
    Ok(())
}

/// Prints the report, and shows a bar for each part of the verification.
struct Console<'a> {
    global: &'a GlobalArgs,
    bar: Mutex<Option<(Discriminant<VerifyProgress>, ProgressBar)>>,
}

impl Console<'_> {
    fn begin(&self, progress: VerifyProgress) -> ProgressBar {
        let template = match progress {
            VerifyProgress::Derived { .. } => STEPS_READ,
            VerifyProgress::Checked { .. } => "{bar:24.cyan} {bytes}/{total_bytes} checked{msg}",
            VerifyProgress::Replayed { .. } => "{bar:24.cyan} {pos}/{len} replayed {eta}",
        };
        bar(self.global, 0, template)
    }
}

impl VerifyObserver for Console<'_> {
    fn progress(&self, progress: VerifyProgress) {
        let part = discriminant(&progress);
        let mut bar = self.bar.lock().unwrap_or_else(PoisonError::into_inner);
        if bar.as_ref().is_some_and(|(shown, _)| *shown != part) {
            *bar = None;
        }
        let (_, bar) = bar.get_or_insert_with(|| (part, self.begin(progress)));
        let (done, all) = match progress {
            VerifyProgress::Derived { done, all } | VerifyProgress::Replayed { done, all } => {
                (done, all)
            }
            VerifyProgress::Checked { done, all, ids } => {
                if ids > 0 {
                    bar.set_message(format!("  {} recomputed", counted(ids, "id")));
                }
                (done, all)
            }
        };
        bar.set_length(all);
        bar.set_position(done);
    }

    fn said(&self, text: &str) -> Result<(), CommandError> {
        // First clears the bar, which would share a line with the text.
        *self.bar.lock().unwrap_or_else(PoisonError::into_inner) = None;
        print(text)
    }
}
