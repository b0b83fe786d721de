//! Sizes on the command line.

use std::str::FromStr;

/// A number of bytes, with `K`, `M`, `G` or `T` for the powers of 1024.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cli) struct Bytes(pub(in crate::cli) u64);

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
        number.map(Self).ok_or_else(|| Self::wanted(text))
    }
}

impl Bytes {
    fn wanted(text: &str) -> String {
        format!("`{text}` is not a size: write a number of bytes, or 512M or 2G")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_read_with_their_unit() {
        for (text, bytes) in
            [("7", 7), ("0", 0), ("3k", 3 << 10), ("512M", 512 << 20), ("2GiB", 2 << 30)]
        {
            assert_eq!(text.parse(), Ok(Bytes(bytes)), "{text}");
        }
        for text in ["", "M", "-1", "1.5G", "2X", "99999999999T"] {
            let error = text.parse::<Bytes>().unwrap_err();
            assert!(error.contains("512M"), "{error}");
        }
    }
}
