//! The parameters of named queries.

use std::fmt;

use datafusion::common::ScalarValue;

use crate::rules::literals::state_scalar;
use crate::sources::views::vector_spaces;
use steplake_lake::Identity;
use steplake_model::StateId;

/// The kind of a parameter's value. A name must be one that the lake has; any other name is an
/// error, not an answer without rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParameterKind {
    /// A whole number.
    Integer,
    /// A number.
    Number,
    /// The id of a state of the lake, 40 hexadecimal digits.
    State,
    /// The name of a reward space that the lake records.
    Reward,
    /// The name of an observation space of single numbers that the lake records.
    Cost,
    /// The name of an observation space of named numbers that the lake records.
    Vector,
    /// The name of an action of the lake's action space.
    Action,
    /// A LIKE pattern for the URIs of the lake's benchmarks. The versions of packages may be left
    /// out where only one version fits.
    Benchmark,
    /// A LIKE pattern for the families of the lake's benchmarks.
    Family,
    /// A LIKE pattern for the laws that `algebra()` tests.
    Law,
}

/// The default of a reward: the first that the lake records of those that are savings as they are,
/// or else the first.
const UNSCALED: &str = "the first unscaled one";
/// The default of a reward that is comparable across programs: the first that has a divisor, or
/// else the first.
const SCALED: &str = "the first scaled one";
/// The default of a cost: see [`Identity::usual_cost`].
const USUAL: &str = "that of the first reward";
/// The default of a vector.
const FIRST: &str = "the first";

impl ParameterKind {
    /// Every kind with its word, in the order of the kinds.
    const WORDS: [(Self, &str); 10] = [
        (Self::Integer, "integer"),
        (Self::Number, "number"),
        (Self::State, "state"),
        (Self::Reward, "reward"),
        (Self::Cost, "cost"),
        (Self::Vector, "vector"),
        (Self::Action, "action"),
        (Self::Benchmark, "benchmark"),
        (Self::Family, "family"),
        (Self::Law, "law"),
    ];

    /// The word in the head of a query's file.
    pub fn as_str(self) -> &'static str {
        Self::WORDS[self as usize].1
    }

    /// Reads a value, without looking up its name in the lake.
    pub(crate) fn value(self, text: &str) -> Result<ScalarValue, String> {
        let wrong = |wanted: &str| format!("`{text}` is not {wanted}");
        match self {
            Self::Integer => {
                text.parse::<i64>().map(ScalarValue::from).map_err(|_error| wrong("an integer"))
            }
            Self::Number => match text.parse::<f64>() {
                Ok(number) if number.is_finite() => Ok(ScalarValue::from(number)),
                _ => Err(wrong("a number")),
            },
            Self::State => match text.parse::<StateId>() {
                Ok(state) => Ok(state_scalar(Some(state))),
                Err(error) => Err(error.to_string()),
            },
            _ => Ok(ScalarValue::from(text)),
        }
    }
}

/// A parameter of a named query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameter {
    /// Its name.
    pub name: &'static str,
    /// What its value is.
    pub kind: ParameterKind,
    /// Its default value; `None`: it must be given.
    pub default: Option<&'static str>,
    /// What it means.
    pub description: &'static str,
}

impl fmt::Display for Parameter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.kind.as_str())?;
        self.default.map_or(Ok(()), |default| write!(f, " = {default}"))
    }
}

impl Parameter {
    /// Returns the name that a value stands for in a lake: other environments have other spaces, so
    /// a default says which one is meant. None if the lake has no such space at all.
    pub(crate) fn in_lake<'a>(&self, text: &'a str, identity: &'a Identity) -> Option<&'a str> {
        // A saving as it is has the name of its cost.
        let first = |is_scaled: bool| {
            let rewards = &identity.rewards;
            let found = rewards.iter().find(|reward| (reward.name != reward.cost) == is_scaled);
            found.or(rewards.first()).map(|reward| reward.name.as_str())
        };
        match (self.kind, text) {
            (ParameterKind::Reward, UNSCALED) => first(false),
            (ParameterKind::Reward, SCALED) => first(true),
            (ParameterKind::Cost, USUAL) => identity.usual_cost(),
            (ParameterKind::Vector, FIRST) => vector_spaces(identity).first().copied(),
            _ => Some(text),
        }
    }

    /// Reads `name: kind = default -- description`.
    pub(crate) fn parse(line: &'static str) -> Option<Self> {
        let (declaration, description) = line.split_once(" -- ")?;
        let (name, rest) = declaration.split_once(": ")?;
        let (kind, default) = match rest.split_once(" = ") {
            Some((kind, default)) => (kind, Some(default)),
            None => (rest, None),
        };
        let (kind, _) = ParameterKind::WORDS.into_iter().find(|(_, word)| *word == kind)?;
        Some(Self { name, kind, default, description })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_by_their_kind() {
        use ParameterKind::{Integer, Number, State};
        for (kind, text, good) in [
            (Integer, "-3", true),
            (Integer, "3.0", false),
            (Integer, "1; DROP TABLE steps", false),
            (Number, "0.5", true),
            (Number, "NaN", false),
            (State, "00", false),
        ] {
            assert_eq!(kind.value(text).is_ok(), good, "{text}");
        }
    }
}
