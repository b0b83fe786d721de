//! Outcomes of episodes.

use std::fmt;
use std::str::FromStr;

use super::FailureKind;

/// Why an episode ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EpisodeOutcome {
    /// The episode took all its planned steps, or its caller turned to something else.
    Complete,
    /// The environment ended the episode.
    Ended,
    /// The compiler failed.
    Failed(FailureKind),
}

impl EpisodeOutcome {
    /// Returns the word stored in the lake: `complete`, `ended`, or the failure's kind.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Ended => "ended",
            Self::Failed(kind) => kind.as_str(),
        }
    }
}

impl fmt::Display for EpisodeOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for EpisodeOutcome {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "complete" => Ok(Self::Complete),
            "ended" => Ok(Self::Ended),
            other => other.parse().map(Self::Failed),
        }
    }
}
