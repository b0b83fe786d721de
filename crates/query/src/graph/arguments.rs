//! The arguments of table functions: constants, checked while a query is planned.

use std::fmt::Display;

use arrow::datatypes::DataType;
use datafusion::common::{DataFusionError, Result, ScalarValue, plan_datafusion_err};
use datafusion::logical_expr::Expr;

use crate::rules::keys::bytes_of;
use crate::sources::views::{number_spaces, reward_spaces};
use steplake_lake::Identity;
use steplake_model::suggestions::meant;
use steplake_model::{StateId, ValueType};

/// The arguments of one call.
pub(super) struct CallArguments<'a> {
    /// How the function is called, for errors.
    usage: &'static str,
    exprs: &'a [Expr],
    identity: &'a Identity,
}

impl<'a> CallArguments<'a> {
    /// # Errors
    ///
    /// If there are fewer or more than the function takes.
    pub(super) fn new(
        usage: &'static str,
        exprs: &'a [Expr],
        identity: &'a Identity,
    ) -> Result<Self> {
        let (required, all) = counts(usage);
        let arguments = Self { usage, exprs, identity };
        match exprs.len() {
            given if (required..=all).contains(&given) => Ok(arguments),
            given if required == all => {
                Err(arguments.wrong(format!("expected {all} arguments, got {given}")))
            }
            given => {
                Err(arguments.wrong(format!("expected {required} to {all} arguments, got {given}")))
            }
        }
    }

    pub(super) fn wrong(&self, problem: impl Display) -> DataFusionError {
        plan_datafusion_err!("{}: {problem}", self.usage)
    }

    /// The constant at a place; none if it is missing or NULL.
    fn constant(&self, place: usize) -> Result<Option<&'a ScalarValue>> {
        match self.exprs.get(place) {
            None => Ok(None),
            Some(Expr::Literal(value, _)) => Ok(Some(value).filter(|value| !value.is_null())),
            Some(Expr::Placeholder(_)) => {
                Err(self.wrong("a parameter is not allowed here: write the value itself"))
            }
            Some(other) => {
                Err(self.wrong(format!("expected a constant, got `{}`", other.schema_name())))
            }
        }
    }

    fn text(&self, place: usize) -> Result<Option<&'a str>> {
        let Some(value) = self.constant(place)? else { return Ok(None) };
        match value.try_as_str() {
            Some(text) => Ok(text),
            None => Err(self.wrong(format!("expected a text, got {value}"))),
        }
    }

    /// The state with this id, which is given as text or as bytes.
    pub(super) fn state(&self, place: usize) -> Result<StateId> {
        if let Some(bytes) = self.constant(place)?.and_then(bytes_of) {
            let state = bytes.try_into().ok().map(StateId);
            return state.ok_or_else(|| self.wrong("a state id has 20 bytes"));
        }
        let text = self.text(place)?.unwrap_or("NULL");
        text.parse().map_err(|error| self.wrong(error))
    }

    /// An integer that is not negative, if it is given. A number above [`u32::MAX`] becomes that.
    pub(super) fn count(&self, place: usize) -> Result<Option<u32>> {
        let Some(value) = self.constant(place)? else { return Ok(None) };
        let number = match (value, value.cast_to(&DataType::Int64)) {
            (ScalarValue::UInt64(Some(number)), _) => i64::try_from(*number).unwrap_or(i64::MAX),
            (_, Ok(ScalarValue::Int64(Some(number)))) if value.data_type().is_integer() => number,
            _ => return Err(self.wrong(format!("expected a whole number, got {value}"))),
        };
        if number < 0 {
            return Err(self.wrong(format!("expected a number of at least 0, got {number}")));
        }
        Ok(Some(u32::try_from(number).unwrap_or(u32::MAX)))
    }

    /// The discount, from 0 to 1; 1 if it is not given.
    pub(super) fn gamma(&self, place: usize) -> Result<f64> {
        let Some(value) = self.constant(place)? else { return Ok(1.0) };
        let gamma = match value.cast_to(&DataType::Float64) {
            Ok(ScalarValue::Float64(Some(gamma))) if value.data_type().is_numeric() => gamma,
            _ => return Err(self.wrong(format!("gamma is a number, not {value}"))),
        };
        if (0.0..=1.0).contains(&gamma) {
            return Ok(gamma);
        }
        Err(self.wrong(format!("gamma lies between 0 and 1: {gamma} does not")))
    }

    /// The name of a reward space of the lake.
    pub(super) fn reward(&self, place: usize) -> Result<String> {
        self.name(place, "reward space", &reward_spaces(self.identity))
    }

    /// The name of an observation space of the lake whose observations are numbers, and the type of
    /// its column.
    pub(super) fn number_space(&self, place: usize) -> Result<(String, DataType)> {
        let what = "observation space of single numbers";
        let name = self.name(place, what, &number_spaces(self.identity))?;
        let mut spaces = self.identity.observations.iter();
        let is_float =
            spaces.any(|space| space.name == name && space.value_type == ValueType::Float);
        Ok((name, if is_float { DataType::Float64 } else { DataType::Int64 }))
    }

    fn name(&self, place: usize, what: &str, known: &[&str]) -> Result<String> {
        let wanted = self.text(place)?.unwrap_or("NULL");
        if known.contains(&wanted) {
            return Ok(wanted.to_owned());
        }
        let hint = meant(wanted, known);
        Err(self.wrong(format!("this lake records no {what} `{wanted}`: {hint}")))
    }

    pub(super) fn has(&self, place: usize) -> bool {
        self.exprs.len() > place
    }
}

/// The least and the most arguments of a usage line: `f(a, b [, c [, d]])`.
fn counts(usage: &str) -> (usize, usize) {
    let inside = usage.split_once('(').map_or("", |(_, rest)| rest.trim_end_matches(')'));
    let count =
        |text: &str| text.split(',').filter(|part| part.chars().any(char::is_alphanumeric)).count();
    (count(inside.split('[').next().unwrap_or_default()), count(inside))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_usage_line_says_how_many_arguments_there_are() {
        for (usage, wanted) in [
            ("f()", (0, 0)),
            ("f(['A'])", (0, 1)),
            ("f('A', 'B')", (2, 2)),
            ("f('A' [, n [, gamma]])", (1, 3)),
        ] {
            assert_eq!(counts(usage), wanted, "{usage}");
        }
    }
}
