//! How often the IR of states is kept.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

use crate::env::Environment;
use crate::lake::PATH_STEPS_MAX;

/// The number of changes of state from keyframe to keyframe; `None` keeps no IR. Arguments write it
/// as `all`, `none` or `keyframes=K`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keyframes(pub Option<NonZeroU32>);

impl Keyframes {
    /// Returns those that the environment has if nobody says otherwise.
    pub(super) fn usual(environment: &dyn Environment) -> Self {
        Self(Some(environment.keyframes()))
    }
}

impl FromStr for Keyframes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let keyframes = || {
            let every: NonZeroU32 = text.strip_prefix("keyframes=")?.parse().ok()?;
            (every.get() as usize <= PATH_STEPS_MAX).then_some(every)
        };
        match text {
            "all" => Ok(Self(Some(NonZeroU32::MIN))),
            "none" => Ok(Self(None)),
            _ => keyframes().map(|every| Self(Some(every))).ok_or_else(|| {
                format!("write `all`, `none`, or `keyframes=K` with K from 1 to {PATH_STEPS_MAX}")
            }),
        }
    }
}

impl fmt::Display for Keyframes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            None => f.write_str("none"),
            Some(NonZeroU32::MIN) => f.write_str("all"),
            Some(every) => write!(f, "keyframes={every}"),
        }
    }
}
