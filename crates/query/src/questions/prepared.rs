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

use crate::answers::answer::Answer;
use crate::engine::Engine;
use crate::errors::error::QueryError;
use crate::errors::explain::explain;
use crate::questions::parts::AnswerPart;
use crate::rules::literals::{STATE_TYPE, state_scalar};
use crate::session::{give, pool};
use crate::sources::dedup_coverage::{Uncounted, uncounted};
use steplake_model::StateId;

/// A statement, with its values and limits.
#[derive(Debug, Clone, Default)]
pub struct Statement {
    /// The text. A parameter is `?`, `$1` or `$name`; `?` counts from the left.
    pub text: String,
    /// The values of the parameters, with their names. A `$name` takes the value of its name; any
    /// other parameter takes the value at its position.
    pub values: Vec<(String, ScalarValue)>,
    /// Bytes of memory for sorts, joins and groups of this statement alone, beside the memory of
    /// the engine's other statements. `None`: the memory of the engine.
    pub memory_bytes_max: Option<NonZeroUsize>,
    /// Kept until all work on this statement has ended, on whatever thread. That may be after its
    /// answer was dropped.
    pub kept: Option<Arc<dyn Any + Send + Sync>>,
    /// The part of the answer that is wanted. `None`: the whole answer.
    pub part: Option<AnswerPart>,
}

/// [`Statement::kept`], as an extension of the session.
struct KeptAlive(
    #[expect(dead_code, reason = "it is there to be dropped")] Arc<dyn Any + Send + Sync>,
);

/// The columns and parameters of a statement.
#[derive(Debug, Clone)]
pub struct StatementDescription {
    /// The columns of the answer. A type that depends on the values of parameters may change with
    /// them.
    pub columns: SchemaRef,
    /// The parameters, in the order of their numbers and then of their names, with the types of
    /// their values where known.
    pub parameters: Vec<(String, Option<DataType>)>,
    /// The steps that the derived tables it reads do not count. `None` if it reads no derived
    /// table, or if they count all steps.
    pub uncounted: Option<Uncounted>,
}

impl Engine {
    /// Describes a statement without running it. Its values may be left out.
    ///
    /// # Errors
    ///
    /// As [`Engine::sql`].
    pub async fn describe(
        &self,
        statement: &Statement,
    ) -> Result<StatementDescription, QueryError> {
        let described = async {
            let (state, plan) = self.read(&numbered(&statement.text)).await?;
            let parameters = parameters(&plan)?;
            let unbound = statement.values.is_empty();
            let plan = if unbound { plan } else { bind(plan, &statement.values)? };
            // Some types, such as those of a UNION, are known only after this. A parameter may
            // prevent it.
            let checked =
                state.analyzer().execute_and_check(plan.clone(), state.config_options(), |_, _| {});
            let analyzed = match checked {
                Err(error) if parameters.is_empty() || !unbound => return Err(error),
                checked => checked.unwrap_or(plan),
            };
            let columns = Arc::clone(analyzed.schema().inner());
            let uncounted = uncounted(&analyzed);
            Ok(StatementDescription { columns, parameters: in_order(parameters), uncounted })
        };
        described.await.map_err(|error| explain(error, &self.error_context()))
    }

    /// Begins to answer a statement.
    ///
    /// # Errors
    ///
    /// As [`Engine::sql`], and [`QueryError::Sql`] where a value is missing or does not fit.
    pub async fn ask(&self, statement: &Statement) -> Result<Answer, QueryError> {
        let context = self.error_context();
        let frame = self.frame(statement).await.map_err(|error| explain(error, &context))?;
        self.run(frame, context, statement.part).await
    }

    /// The plan of a statement with its values.
    pub(super) async fn frame(&self, statement: &Statement) -> Result<DataFrame> {
        let (state, plan) = self.read(&numbered(&statement.text)).await?;
        let plan = bind(plan, &statement.values)?;
        let mut state = match statement.memory_bytes_max {
            Some(bytes) => with_memory(state, bytes),
            None => state,
        };
        if let Some(kept) = &statement.kept {
            state.config_mut().set_extension(Arc::new(KeptAlive(Arc::clone(kept))));
        }
        Ok(DataFrame::new(state, plan))
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
    // The parser will report why the text cannot be split into tokens.
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

type ParameterTypes = BTreeMap<String, Option<DataType>>;

/// The parameters by name, as in `$1`, with their types where these follow from the context.
fn parameters(plan: &LogicalPlan) -> Result<ParameterTypes> {
    Ok(plan.get_parameter_types()?.into_iter().collect())
}

fn number(parameter: &str) -> Option<usize> {
    parameter.get(1..)?.parse().ok()
}

fn in_order(parameters: ParameterTypes) -> Vec<(String, Option<DataType>)> {
    let mut parameters: Vec<_> = parameters.into_iter().collect();
    parameters.sort_by_key(|(name, _)| number(name).unwrap_or(usize::MAX));
    parameters
}

/// Replaces parameters by values.
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

/// A value in the type of its parameter. A state id may be given as 40 hexadecimal digits.
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
    // The analysis of the statement finds the common type of two numbers.
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
