//! Arguments that several programs take.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{ArgAction, Args, ValueHint};

/// The arguments of every command.
#[derive(Debug, Clone, Args)]
pub struct GlobalArgs {
    /// The folder of the lake.
    #[arg(
        long,
        global = true,
        env = "STEPLAKE_LAKE",
        default_value = "./lake",
        value_hint = ValueHint::DirPath,
    )]
    pub lake: PathBuf,

    /// The context of the lake: what was recorded with one compiler and one action space (`steplake
    /// contexts` lists them).
    #[arg(long, global = true, value_name = "NAME")]
    pub context: Option<String>,

    /// Log more to standard error: -v what is done, -vv every detail.
    #[arg(short, long, global = true, action = ArgAction::Count)]
    pub verbose: u8,

    /// Show no progress.
    #[arg(short, long, global = true)]
    pub quiet: bool,
}

/// A number of bytes above 0, with `K`, `M`, `G` or `T` for the powers of 1024.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bytes(pub u64);

impl FromStr for Bytes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let shift = match text[digits.len()..].to_ascii_uppercase().as_str() {
            "" | "B" => 0,
            "K" | "KB" | "KIB" => 10,
            "M" | "MB" | "MIB" => 20,
            "G" | "GB" | "GIB" => 30,
            "T" | "TB" | "TIB" => 40,
            _ => return Err(Self::wanted(text)),
        };
        let number = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(1 << shift));
        number.filter(|&bytes| bytes > 0).map(Self).ok_or_else(|| Self::wanted(text))
    }
}

impl Bytes {
    /// As a limit of memory.
    pub fn of_memory(self) -> NonZeroUsize {
        let bytes = usize::try_from(self.0).unwrap_or(usize::MAX);
        NonZeroUsize::new(bytes).unwrap_or(NonZeroUsize::MIN)
    }

    fn wanted(text: &str) -> String {
        format!("`{text}` is not a size: write a number of bytes above 0, or 512M or 2G")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_read_with_their_unit() {
        for (text, bytes) in [("7", 7), ("3k", 3 << 10), ("512M", 512 << 20), ("2GiB", 2 << 30)] {
            assert_eq!(text.parse(), Ok(Bytes(bytes)), "{text}");
        }
        for text in ["", "0", "0M", "M", "-1", "1.5G", "2X", "99999999999T"] {
            let error = text.parse::<Bytes>().unwrap_err();
            assert!(error.contains("512M"), "{error}");
        }
    }
}
