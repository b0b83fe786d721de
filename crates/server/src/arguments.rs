//! The options of programs that answer queries.

use std::fmt;
use std::num::{NonZeroU64, NonZeroUsize};
use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use steplake::query::{EngineOptions, GraphCache, SpillSpace};
use steplake_terminal::arguments::Bytes;

use crate::queries::QueryLimits;

/// The limits of queries.
#[derive(Debug, Args)]
pub struct QueryArguments {
    /// The time limit of a query, until its last row is sent: 30s, 5m, 1h, or `none`.
    #[arg(long, default_value = "5m", value_name = "TIME")]
    pub query_timeout: Limit<Span>,

    /// The memory for the sorts, joins and groups of one query, before they spill to temporary
    /// files: 512MiB, 1GiB, or `none`.
    #[arg(long, default_value = "1GiB", value_name = "BYTES")]
    pub query_memory: Limit<Bytes>,

    /// The memory for the transition graph, which is kept from one query to the next: 4GiB, or
    /// `none`.
    #[arg(long, default_value = "4GiB", value_name = "BYTES")]
    pub graph_memory: Limit<Bytes>,

    /// The disk space for temporary files of all queries together, in $TMPDIR or /tmp: 64GiB, for
    /// example. By default a quarter of what is free there, at most 64GiB.
    #[arg(long, value_name = "BYTES")]
    pub spill: Option<Bytes>,

    /// The maximum number of concurrent queries; further ones are refused.
    #[arg(long, default_value = "64", value_name = "N")]
    pub queries: NonZeroUsize,
}

impl QueryArguments {
    /// Returns the options of the engines.
    pub fn engine_options(&self) -> EngineOptions {
        let graphs = |bytes: Bytes| GraphCache::within_bytes(bytes.of_memory().get());
        let spill = |bytes: Bytes| SpillSpace::of(bytes.0);
        EngineOptions {
            graphs: self.graph_memory.0.map(graphs).unwrap_or_default(),
            spill: self.spill.map(spill).unwrap_or_default(),
            reads_apart: true,
            ..EngineOptions::default()
        }
    }

    /// Returns the limits, with the most rows of an answer.
    pub fn limits(&self, rows: Option<NonZeroU64>) -> QueryLimits {
        QueryLimits {
            time: self.query_timeout.0.map(|span| span.0),
            memory_bytes: self.query_memory.0.map(Bytes::of_memory),
            rows,
            queries: self.queries,
        }
    }
}

/// A limit, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit<T>(pub Option<T>);

impl<T: FromStr<Err: fmt::Display>> FromStr for Limit<T> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "none" {
            return Ok(Self(None));
        }
        text.parse().map(|limit| Self(Some(limit))).map_err(|error| format!("{error}; or `none`"))
    }
}

/// A duration such as `30s`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span(pub Duration);

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let units = [("ms", 1), ("s", 1000), ("m", 60_000), ("h", 3_600_000)];
        let number = text.trim_end_matches(|character: char| character.is_ascii_alphabetic());
        let unit = units.iter().find(|(name, _)| *name == &text[number.len()..]);
        let millis = unit.and_then(|(_, worth)| number.parse::<u64>().ok()?.checked_mul(*worth));
        let millis = millis.filter(|millis| *millis > 0);
        Ok(Self(Duration::from_millis(millis.ok_or("write a time as in 500ms, 30s, 5m or 1h")?)))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(Debug, clap::Parser)]
    struct Line {
        #[command(flatten)]
        queries: QueryArguments,
    }

    fn arguments(line: &str) -> Result<QueryArguments, clap::Error> {
        let line = ["serve"].into_iter().chain(line.split_whitespace());
        Line::try_parse_from(line).map(|line| line.queries)
    }

    #[test]
    fn limits_are_read_with_their_units() {
        let read = arguments("--query-timeout 90s --query-memory 64MiB").unwrap();
        assert_eq!(read.graph_memory, Limit(Some(Bytes(4 << 30))));
        assert_eq!(read.query_timeout, Limit(Some(Span(Duration::from_secs(90)))));
        assert_eq!(read.query_memory, Limit(Some(Bytes(64 << 20))));
        let none = arguments("--query-timeout none --query-memory none").unwrap();
        assert_eq!((none.query_timeout, none.query_memory), (Limit(None), Limit(None)));
        for wrong in ["--query-timeout 5", "--query-timeout 0s", "--query-memory 1XB"] {
            assert!(arguments(wrong).is_err(), "{wrong}");
        }
    }
}
