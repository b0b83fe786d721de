//! Signals that ask a program to stop.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use signal_hook::consts::{SIGINT, SIGTERM};

use steplake_model::Error;

/// Returns whether this process was started with Ctrl-C ignored, as shells start what runs in the
/// background, and `nohup`: then it goes on ignoring it, and a request to terminate ends it. The
/// answer is that of the first call, which has to come before anybody handles the signal.
pub fn ignores_interrupts() -> bool {
    static IGNORED: OnceLock<bool> = OnceLock::new();
    *IGNORED.get_or_init(|| {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        is_ignored(&status, SIGINT)
    })
}

/// Whether the status of a process says that it ignores a signal.
fn is_ignored(status: &str, signal: i32) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

/// Returns a flag that Ctrl-C, unless it is [ignored](ignores_interrupts), or a request to
/// terminate sets; a second one ends the process at once.
///
/// # Errors
///
/// If the system grants no signals.
pub fn interrupt() -> Result<Arc<AtomicBool>, Error> {
    let flag = Arc::new(AtomicBool::new(false));
    let signals: &[i32] = if ignores_interrupts() { &[SIGTERM] } else { &[SIGINT, SIGTERM] };
    for &signal in signals {
        signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(&flag))?;
        signal_hook::flag::register(signal, Arc::clone(&flag))?;
    }
    Ok(flag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_of_a_process_says_what_it_ignores() {
        let status =
            |mask: &str| format!("Name:\tsh\nSigBlk:\t0000000000000002\nSigIgn:\t{mask}\n");
        assert!(is_ignored(&status("0000000000000002"), SIGINT));
        assert!(is_ignored(&status("0000000000001007"), SIGINT));
        assert!(!is_ignored(&status("0000000000001005"), SIGINT));
        assert!(!is_ignored("", SIGINT));
    }
}
