//! Readers of Arrow and Parquet over content that may be damaged.

use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs a reader of Arrow or Parquet, and turns a panic into an error. These libraries panic on
/// some damaged content.
///
/// # Errors
///
/// The error of the reader, or the message of its panic.
pub fn guarded<T, E: Display>(read: impl FnOnce() -> Result<T, E>) -> Result<T, String> {
    match catch_unwind(AssertUnwindSafe(read)) {
        Ok(read) => read.map_err(|error| error.to_string()),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
            Err(text.unwrap_or("its reader panicked").lines().next().unwrap_or_default().to_owned())
        }
    }
}
