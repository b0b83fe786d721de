//! The forms that an answer can be written in, and how much of it.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

/// The form of an answer, by a word in small letters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// A table, with as many rows and as wide as [`TableLimits`] allow.
    Table,
    /// One line for each value, uncut, of as many rows as [`TableLimits`] allow.
    Expanded,
    /// Comma-separated values with a header.
    Csv,
    /// One array of objects. Numbers that are not finite are the texts "NaN", "Infinity" and
    /// "-Infinity".
    Json,
    /// An Arrow IPC file.
    Arrow,
    /// A Parquet file, compressed with zstd.
    Parquet,
}

impl Format {
    /// Every format with its word and what it is.
    pub const ALL: [(Self, &str, &str); 6] = [
        (Self::Table, "table", "A table for people"),
        (Self::Expanded, "expanded", "One line for each value, uncut, for people"),
        (Self::Csv, "csv", "Comma-separated values with a header"),
        (Self::Json, "json", "One array of objects; binary values as hexadecimal digits"),
        (Self::Arrow, "arrow", "An Arrow IPC file"),
        (Self::Parquet, "parquet", "A Parquet file"),
    ];

    /// Whether it is for people, within [`TableLimits`], and not for programs.
    pub fn is_for_people(self) -> bool {
        matches!(self, Self::Table | Self::Expanded)
    }

    /// Whether it is not text, which a terminal could show.
    pub fn is_binary(self) -> bool {
        matches!(self, Self::Arrow | Self::Parquet)
    }

    /// The format that the ending of a file's name stands for; none if it stands for none.
    pub fn of_ending(path: &Path) -> Option<Self> {
        let ending = path.extension()?.to_str()?.to_ascii_lowercase();
        match ending.as_str() {
            "csv" => Some(Self::Csv),
            "json" => Some(Self::Json),
            "arrow" | "feather" | "ipc" => Some(Self::Arrow),
            "parquet" => Some(Self::Parquet),
            _ => None,
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (_, word, _) =
            Self::ALL.iter().find(|(format, ..)| format == self).expect("all are there");
        f.write_str(word)
    }
}

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.iter().find(|(_, word, _)| *word == text);
        found.map(|&(format, ..)| format).ok_or_else(|| {
            let words = Self::ALL.map(|(_, word, _)| word).join(", ");
            format!("`{text}` is no format: {words}")
        })
    }
}

/// What was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    /// Rows written.
    pub rows: u64,
    /// True when a table left out the rows past its limit.
    pub cut: bool,
}

/// How much of an answer a table shows. A table is held in memory, since its columns are as wide as
/// their widest values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableLimits {
    /// Rows; `None`: all.
    pub rows_max: Option<usize>,
    /// Characters of a value in a table; a longer value ends with `…`. `None`: all. The answer to
    /// `EXPLAIN` is never cut.
    pub cell_chars_max: Option<usize>,
}

impl TableLimits {
    /// The limits for a screen.
    pub const SCREEN: Self = Self { rows_max: Some(1000), cell_chars_max: Some(60) };
    /// No limits.
    pub const NONE: Self = Self { rows_max: None, cell_chars_max: None };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_written_as_its_name_ends() {
        for (name, wanted) in [
            ("best.csv", Some(Format::Csv)),
            ("a/b.JSON", Some(Format::Json)),
            ("graph.v1.parquet", Some(Format::Parquet)),
            ("graph.arrow", Some(Format::Arrow)),
            ("graph.feather", Some(Format::Arrow)),
            ("notes.txt", None),
            ("csv", None),
            (".csv", None),
        ] {
            assert_eq!(Format::of_ending(Path::new(name)), wanted, "{name}");
        }
    }
}
