//! The forms that an answer can be written in, and how much of it.

use std::fmt;
use std::str::FromStr;

/// The form of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// For people: rows drawn as a table, as many and as wide as [`TableLimits`] allow.
    Table,
    /// For people: a line for each value, which is whole; as many rows as [`TableLimits`] allow.
    Expanded,
    /// With a header line.
    Csv,
    /// One array of objects.
    Json,
    /// Arrow's IPC file format.
    Arrow,
    /// One Parquet file, zstd-compressed.
    Parquet,
}

impl Format {
    /// Every format.
    pub const ALL: [Self; 6] =
        [Self::Table, Self::Expanded, Self::Csv, Self::Json, Self::Arrow, Self::Parquet];

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Table => "table",
            Self::Expanded => "expanded",
            Self::Csv => "csv",
            Self::Json => "json",
            Self::Arrow => "arrow",
            Self::Parquet => "parquet",
        }
    }

    /// Whether it is for people, within [`TableLimits`], and not for programs.
    pub fn is_for_people(self) -> bool {
        matches!(self, Self::Table | Self::Expanded)
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|format| format.as_str() == text).ok_or_else(|| {
            format!("`{text}` is no format: table, expanded, csv, json, arrow, parquet")
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
