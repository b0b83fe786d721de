//! Statements with parameters, as clients of a server send them: `?`, `$1` or `$name`.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::num::NonZeroUsize;
use std::sync::Arc;

use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::{ParamValues, Result, ScalarValue, plan_datafusion_err, plan_err};
use datafusion::dataframe::DataFrame;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::execution::session_state::{SessionState, SessionStateBuilder};
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};

use super::answer::Answer;
use super::counted::Uncounted;
use super::engine::Engine;
use super::error::QueryError;
use super::explain::explain;
use super::literals::{STATE_TYPE, state_scalar};
use super::session::{give, pool};
use crate::model::StateId;

/// A question, with what it is asked with.
#[derive(Debug, Clone, Default)]
pub struct Statement {
    /// The text. A parameter is `?`, `$1` or `$name`; `?` counts from the left.
    pub text: String,
    /// The values of the parameters with the names that they were given under. A `$name` takes the
    /// value of its name, any other parameter the one at its place.
    pub values: Vec<(String, ScalarValue)>,
    /// Bytes of memory for sorts, joins and groups of this statement alone, apart from what the
    /// engine's other statements may have. `None`: as the engine was set up.
    pub memory_bytes_max: Option<NonZeroUsize>,
    /// Kept until the last of the work on this statement is gone, wherever it is done; that may be
    /// later than its answer is dropped.
    pub kept: Option<Arc<dyn Any + Send + Sync>>,
}

/// What [`Statement::kept`] is among what work on a statement carries with it.
struct Kept(#[expect(dead_code, reason = "it is there to be dropped")] Arc<dyn Any + Send + Sync>);

/// What a statement takes and gives.
#[derive(Debug, Clone)]
pub struct Described {
    /// The columns of the answer. Where a type follows from the values of parameters, it may be
    /// another one once they are there.
    pub columns: SchemaRef,
    /// The parameters, in the order of their numbers and then of their names, with the types of the
    /// values where they are known.
    pub parameters: Vec<(String, Option<DataType>)>,
    /// What the derived tables that it reads do not count; `None` if it reads none, or if they
    /// count all.
    pub uncounted: Option<Uncounted>,
}

impl Engine {
    /// Looks at a statement without running it. Its values may be left out.
    ///
    /// # Errors
    ///
    /// As [`Engine::sql`].
    pub async fn describe(&self, statement: &Statement) -> Result<Described, QueryError> {
        let described = async {
            let (state, plan) = self.read(&numbered(&statement.text)).await?;
            let parameters = parameters(&plan)?;
            let unbound = statement.values.is_empty();
            let plan = if unbound { plan } else { bind(plan, &statement.values)? };
            // Types are not settled before this: those of a UNION, say. A parameter may stand in
            // its way.
            let checked =
                state.analyzer().execute_and_check(plan.clone(), state.config_options(), |_, _| {});
            let settled = match checked {
                Err(error) if parameters.is_empty() || !unbound => return Err(error),
                checked => checked.unwrap_or(plan),
            };
            let columns = Arc::clone(settled.schema().inner());
            let uncounted = self.counted.uncounted(&settled);
            Ok(Described { columns, parameters: in_order(parameters), uncounted })
        };
        described.await.map_err(|error| explain(error, &self.known()))
    }

    /// Begins to answer a statement.
    ///
    /// # Errors
    ///
    /// As [`Engine::sql`], and [`QueryError::Sql`] where a value is missing or does not fit.
    pub async fn ask(&self, statement: &Statement) -> Result<Answer, QueryError> {
        let known = self.known();
        let planned = async {
            let (state, plan) = self.read(&numbered(&statement.text)).await?;
            let plan = bind(plan, &statement.values)?;
            let mut state = match statement.memory_bytes_max {
                Some(bytes) => with_memory(state, bytes),
                None => state,
            };
            if let Some(kept) = &statement.kept {
                state.config_mut().set_extension(Arc::new(Kept(Arc::clone(kept))));
            }
            Ok(DataFrame::new(state, plan))
        };
        let frame = planned.await.map_err(|error| explain(error, &known))?;
        self.run(frame, known).await
    }
}

/// The same session with memory of its own; files and caches stay shared.
fn with_memory(mut state: SessionState, bytes: NonZeroUsize) -> SessionState {
    let pool = pool(bytes);
    give(state.config_mut(), &pool, bytes);
    let shared = state.runtime_env().as_ref().clone();
    let runtime = RuntimeEnv { memory_pool: pool, ..shared };
    SessionStateBuilder::new_from_existing(state).with_runtime_env(Arc::new(runtime)).build()
}

/// The text with every `?` as a number: the first is `$1`.
fn numbered(text: &str) -> String {
    // What cannot be split into words is not worth a look: the parser says what is wrong with it.
    let Ok(tokens) = Tokenizer::new(&GenericDialect {}, text).tokenize_with_location() else {
        return text.to_owned();
    };
    let marks = tokens.iter().filter(|token| token.token == Token::Placeholder("?".to_owned()));
    let mut marks = marks.map(|token| (token.span.start.line, token.span.start.column)).peekable();
    let (mut line, mut column, mut count) = (1, 1, 0_usize);
    let mut numbered = String::with_capacity(text.len());
    for character in text.chars() {
        if marks.next_if_eq(&(line, column)).is_some() {
            count += 1;
            write!(numbered, "${count}").expect("a string takes it");
        } else {
            numbered.push(character);
        }
        (line, column) = if character == '\n' { (line + 1, 1) } else { (line, column + 1) };
    }
    numbered
}

type Parameters = BTreeMap<String, Option<DataType>>;

/// The parameters by name, as in `$1`, with their types where those follow from where they stand.
fn parameters(plan: &LogicalPlan) -> Result<Parameters> {
    Ok(plan.get_parameter_types()?.into_iter().collect())
}

fn number(parameter: &str) -> Option<usize> {
    parameter.get(1..)?.parse().ok()
}

fn in_order(parameters: Parameters) -> Vec<(String, Option<DataType>)> {
    let mut parameters: Vec<_> = parameters.into_iter().collect();
    parameters.sort_by_key(|(name, _)| number(name).unwrap_or(usize::MAX));
    parameters
}

/// Puts values in the place of parameters.
fn bind(plan: LogicalPlan, values: &[(String, ScalarValue)]) -> Result<LogicalPlan> {
    let parameters = parameters(&plan)?;
    let highest = parameters.keys().filter_map(|name| number(name)).max().unwrap_or_default();
    let wanted = highest.max(parameters.len());
    if values.len() != wanted {
        let are = |count: usize| match count {
            0 => "none".to_owned(),
            count => count.to_string(),
        };
        let (takes, has) = (are(wanted), are(values.len()));
        return plan_err!(
            "the statement takes {takes} as values of its parameters, and {has} came with it"
        );
    }
    if parameters.is_empty() {
        return Ok(plan);
    }
    let mut bound = Vec::with_capacity(parameters.len());
    for (parameter, kind) in parameters {
        let name = parameter.trim_start_matches(['$', '?']).to_owned();
        let value = match number(&parameter) {
            Some(number) => values.get(number - 1).map(|(_, value)| value),
            None => values.iter().find(|(given, _)| *given == name).map(|(_, value)| value),
        };
        let value = value
            .ok_or_else(|| plan_datafusion_err!("the parameter `{parameter}` has no value"))?;
        bound.push((name, fit(&parameter, value, kind.as_ref())?));
    }
    plan.with_param_values(ParamValues::from(bound))
}

/// A value as its parameter wants it: a state id may be written as it is shown.
fn fit(parameter: &str, value: &ScalarValue, kind: Option<&DataType>) -> Result<ScalarValue> {
    let Some(kind) = kind.filter(|kind| **kind != value.data_type()) else {
        return Ok(value.clone());
    };
    if *kind == STATE_TYPE
        && let Some(Some(text)) = value.try_as_str()
    {
        let state: StateId = text.parse().map_err(|error| plan_datafusion_err!("{error}"))?;
        return Ok(state_scalar(Some(state)));
    }
    // A number beside a number: what fits both is found with the rest of the statement.
    if kind.is_numeric() && value.data_type().is_numeric() {
        return Ok(value.clone());
    }
    value.cast_to(kind).map_err(|error| {
        let (given, said) = (value.data_type(), error.strip_backtrace());
        plan_datafusion_err!("the value of `{parameter}` is {given} and cannot be {kind}: {said}")
    })
}

#[cfg(test)]
mod tests {
    use super::numbered;

    #[test]
    fn question_marks_become_numbers_where_they_are_parameters() {
        for (text, wanted) in [
            ("SELECT ?", "SELECT $1"),
            (
                "SELECT '?', ä.\"?\" -- ?\n FROM t WHERE a = ? /* ? */ AND b IN (?, ?)",
                "SELECT '?', ä.\"?\" -- ?\n FROM t WHERE a = $1 /* ? */ AND b IN ($2, $3)",
            ),
            ("SELECT $1, $name", "SELECT $1, $name"),
            ("SELECT 'unended ?", "SELECT 'unended ?"),
        ] {
            assert_eq!(numbered(text), wanted);
        }
    }
}
