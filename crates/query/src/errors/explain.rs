//! Turns DataFusion's errors into errors of one line about the text of a query or about the lake.

use std::io::ErrorKind;
use std::sync::Arc;

use arrow::error::ArrowError;
use datafusion::common::{Column, DataFusionError, SchemaError};
use datafusion::sql::sqlparser::parser::ParserError;
use parquet::errors::ParquetError;

use super::dumps::{of_filter, readable};
use super::error::{Position, QueryError, one_line};
use crate::graph::TableFunction;
use crate::rules::signatures;
use steplake_lake::{Identity, LakeError, Segment};
use steplake_model::suggestions::{list, meant, near};

/// The setting that DataFusion names when temporary files have used up their space.
const SPILL_SETTING: &str = "datafusion.runtime.max_temp_directory_size";

/// The catalog and the schema in which DataFusion looks up the name of a table.
pub(crate) const CATALOG: &str = "datafusion";
pub(crate) const SCHEMA: &str = "public";

/// The context in which errors are explained.
#[derive(Debug, Default)]
pub(crate) struct ErrorContext {
    /// The names of all tables and views.
    pub(crate) tables: Vec<String>,
    /// The identity of the lake, if the error may be about its columns.
    pub(crate) identity: Option<Arc<Identity>>,
    /// The segments that the query reads, once there is a plan.
    pub(crate) segments: Vec<Segment>,
}

/// Turns an error of DataFusion into one of ours.
pub(crate) fn explain(error: DataFusionError, context: &ErrorContext) -> QueryError {
    let position = position_of(&error);
    explain_at(error, context, position)
}

fn explain_at(
    error: DataFusionError,
    context: &ErrorContext,
    position: Option<Position>,
) -> QueryError {
    match error {
        DataFusionError::Diagnostic(_, inner) | DataFusionError::Context(_, inner) => {
            explain_at(*inner, context, position)
        }
        DataFusionError::Shared(inner) => match Arc::try_unwrap(inner) {
            Ok(inner) => explain_at(inner, context, position),
            Err(shared) => other(&shared, context),
        },
        DataFusionError::Collection(mut errors) if !errors.is_empty() => {
            explain_at(errors.swap_remove(0), context, position)
        }
        DataFusionError::SQL(error, _) => syntax(&error),
        DataFusionError::SchemaError(error, _) => QueryError::sql(schema(&error), position),
        DataFusionError::Plan(message) => QueryError::sql(plan(&message, context), position),
        DataFusionError::NotImplemented(message) if message.contains("a single SQL statement") => {
            QueryError::sql("one statement at a time", position)
        }
        DataFusionError::NotImplemented(message) => {
            QueryError::sql(unsupported(&message), position)
        }
        DataFusionError::Internal(message) => match signatures::explained(&message, None) {
            Some(explained) => QueryError::sql(explained, position),
            None => defect(&message),
        },
        DataFusionError::ResourcesExhausted(message) => QueryError::Memory(one_line(&message)),
        DataFusionError::Execution(message) => computed(&message),
        DataFusionError::External(error) => external(error, context),
        DataFusionError::ParquetError(error) => match *error {
            ParquetError::External(error) => external(error, context),
            error => other(&DataFusionError::ParquetError(Box::new(error)), context),
        },
        error => other(&error, context),
    }
}

/// Takes our own errors, which travel through DataFusion in a box, out of it.
fn external(error: Box<dyn std::error::Error + Send + Sync>, context: &ErrorContext) -> QueryError {
    let error = match error.downcast::<QueryError>() {
        Ok(error) => return *error,
        Err(error) => error,
    };
    match error.downcast::<LakeError>() {
        Ok(error) => QueryError::Store(*error),
        Err(error) => other(&DataFusionError::External(error), context),
    }
}

/// An error while the query ran. Errors of Parquet name no file, so the files are checked.
fn other(error: &DataFusionError, context: &ErrorContext) -> QueryError {
    let root = error.find_root();
    if let Some(error) = of_filter(&root.to_string()) {
        return explain(error, context);
    }
    if let Some(what) = no_spill_space(root) {
        return QueryError::Spill(what);
    }
    // An error that several partitions share arrives here.
    if let DataFusionError::ResourcesExhausted(message) = root {
        return QueryError::Memory(one_line(message));
    }
    // One of our own that several partitions share cannot be taken out of its box.
    if let DataFusionError::External(error) = root
        && let Some(own) = error.downcast_ref().and_then(copied)
    {
        return own;
    }
    let of_reading = matches!(
        root,
        DataFusionError::ArrowError(..)
            | DataFusionError::ParquetError(_)
            | DataFusionError::ObjectStore(_)
            | DataFusionError::IoError(_)
            | DataFusionError::ExecutionJoin(_)
            | DataFusionError::External(_)
    );
    let damaged = || context.segments.iter().find_map(|segment| segment.check().err());
    match (root, of_reading.then(damaged).flatten()) {
        (_, Some(damage)) => QueryError::Store(damage),
        (DataFusionError::ArrowError(error, _), None) => match error.as_ref() {
            ArrowError::CastError(message) => QueryError::sql(cast(message), None),
            ArrowError::DivideByZero => QueryError::sql(
                "a number is divided by zero: x / NULLIF(y, 0) gives null instead",
                None,
            ),
            ArrowError::ArithmeticOverflow(message)
            | ArrowError::ComputeError(message)
            | ArrowError::InvalidArgumentError(message) => computed(message),
            error => QueryError::Failed(readable(&error.to_string())),
        },
        // These arrive here if several partitions share them.
        (DataFusionError::Plan(message), None) => QueryError::sql(plan(message, context), None),
        (DataFusionError::NotImplemented(message), None) => {
            QueryError::sql(unsupported(message), None)
        }
        (DataFusionError::Execution(message), None) => computed(message),
        (DataFusionError::Internal(message), None) => defect(message),
        (DataFusionError::External(error), None) => {
            QueryError::Failed(readable(&error.to_string()))
        }
        (root, None) => QueryError::Failed(readable(&root.strip_backtrace())),
    }
}

/// An error of a computation. A value that does not fit is an error of the statement.
fn computed(message: &str) -> QueryError {
    const OVERFLOW: [&str; 3] = ["Overflow happened on", " overflow on", " overflow in"];
    const OUT_OF_RANGE: [&str; 2] = ["Date arithmetic overflow", "Timestamp out of range"];
    let message = readable(message);
    if let Some((_, what)) = OVERFLOW.iter().find_map(|words| message.split_once(words)) {
        let what = what.trim_start_matches([':', ' ']);
        let message = format!("{what} does not fit into its type: compute with a wider one");
        return QueryError::sql(message, None);
    }
    if OUT_OF_RANGE.iter().any(|words| message.starts_with(words)) {
        return QueryError::sql(message, None);
    }
    QueryError::Failed(message)
}

/// A copy of one of our errors, if it holds texts alone.
fn copied(error: &QueryError) -> Option<QueryError> {
    Some(match error {
        QueryError::Sql { message, position } => {
            QueryError::Sql { message: message.clone(), position: *position }
        }
        QueryError::Memory(what) => QueryError::Memory(what.clone()),
        QueryError::Spill(what) => QueryError::Spill(what.clone()),
        QueryError::TooLarge(what) => QueryError::TooLarge(what.clone()),
        QueryError::Failed(what) => QueryError::Failed(what.clone()),
        QueryError::NotRebuilt(what) => QueryError::NotRebuilt(what.clone()),
        _ => return None,
    })
}

/// A value that has no equivalent in the type that the query wants.
fn cast(message: &str) -> String {
    let text = message.strip_prefix("Cannot cast string '");
    let name = text.and_then(|text| text.strip_suffix("' to value of Int32 type"));
    // The column may be one of actions.
    let by_name = name.map_or(String::new(), |name| {
        format!("; to compare an action by its name, write `action_name(action) = '{name}'`")
    });
    format!("{message}: TRY_CAST gives null instead{by_name}")
}

/// Why a temporary file cannot be written, if that is the error. Queries write no other files.
fn no_spill_space(error: &DataFusionError) -> Option<String> {
    let of_disk = match error {
        DataFusionError::IoError(error) => Some(error),
        DataFusionError::ArrowError(error, _) => match error.as_ref() {
            ArrowError::IoError(_, error) => Some(error),
            _ => None,
        },
        _ => None,
    };
    if of_disk.is_some_and(|error| error.kind() == ErrorKind::StorageFull) {
        let folder = std::env::temp_dir();
        return Some(format!("the disk of {} is full", folder.display()));
    }
    let message = error.to_string();
    message.contains(SPILL_SETTING).then(|| {
        let (_, rest) = message.split_once("limit of ").unwrap_or_default();
        let limit = rest.split(". ").next().unwrap_or_default();
        format!("queries may use {limit} of it together")
    })
}

/// The position that a diagnostic of the SQL planner points to.
fn position_of(error: &DataFusionError) -> Option<Position> {
    let span = error.diagnostic()?.span?;
    let (line, column) = (span.start.line, span.start.column);
    (line > 0).then_some(Position { line, column })
}

/// A syntax error. The parser writes the position at the end of its message.
fn syntax(error: &ParserError) -> QueryError {
    let message = match error {
        ParserError::TokenizerError(message) | ParserError::ParserError(message) => message.clone(),
        ParserError::RecursionLimitExceeded => "the query is nested too deeply".to_owned(),
    };
    let message =
        message.replacen("Expected: ", "expected ", 1).replacen(", found: ", ", found ", 1);
    let Some((text, place)) = message.rsplit_once(" at Line: ") else {
        return QueryError::sql(message, None);
    };
    let mut numbers = place.split(", Column: ").map(|number| number.trim().parse().ok());
    let position = match (numbers.next().flatten(), numbers.next().flatten()) {
        (Some(line), Some(column)) => Some(Position { line, column }),
        _ => None,
    };
    QueryError::sql(text, position)
}

/// An error about a column that does not exist or is ambiguous.
fn schema(error: &SchemaError) -> String {
    let (field, valid_fields) = match error {
        SchemaError::FieldNotFound { field, valid_fields } => (field, valid_fields),
        SchemaError::AmbiguousReference { field } if field.relation.is_none() => {
            let name = field.name();
            return format!(
                "several tables have a column `{name}`: write whose it is, `TABLE.{name}`"
            );
        }
        other => return readable(&other.to_string()),
    };
    let names: Vec<&str> = valid_fields.iter().map(Column::name).collect();
    let hint = match &names[..] {
        [] => "no table is named after FROM".to_owned(),
        names => meant(field.name(), names),
    };
    format!("there is no column `{}`: {hint}", field.name())
}

/// An error of planning. An error about a name gets the nearest names that exist.
fn plan(message: &str, context: &ErrorContext) -> String {
    if let Some(explained) = signatures::explained(message, context.identity.as_deref()) {
        return explained;
    }
    let missing = |what| message.strip_prefix(what)?.strip_suffix("' not found");
    let invalid = message.strip_prefix("Invalid function '");
    if let Some((name, rest)) = invalid.and_then(|rest| rest.split_once('\'')) {
        function(name, rest)
    } else if let Some(name) = missing("table function '") {
        table_function(name)
    } else if let Some(full) = missing("table '") {
        let name = [CATALOG, SCHEMA].iter().fold(full, |name, &part| {
            name.strip_prefix(part).and_then(|name| name.strip_prefix('.')).unwrap_or(name)
        });
        let tables: Vec<&str> = context.tables.iter().map(String::as_str).collect();
        format!("there is no table `{name}`: {}", meant(name, &tables))
    } else {
        readable(message)
    }
}

/// What DataFusion cannot plan.
fn unsupported(message: &str) -> String {
    format!("this is not supported: {}", readable(message))
}

/// What DataFusion holds for impossible.
fn defect(message: &str) -> QueryError {
    let what = readable(message);
    QueryError::Failed(format!("{what} (this is a defect of steplake, please report it)"))
}

/// An error about a function that does not exist, or that is not a function of values. DataFusion
/// always suggests a function, even a very different one.
fn function(name: &str, suggestion: &str) -> String {
    if let Some(function) = TableFunction::from_name(name) {
        return format!(
            "`{name}` is a table function: it stands after FROM, as in `SELECT * FROM {}`",
            function.usage()
        );
    }
    let suggested = suggestion.split_once("Did you mean '").and_then(|(_, s)| s.split_once('\''));
    let suggested = suggested.map(|(suggested, _)| suggested);
    let walks = TableFunction::ALL.map(|function| function.name);
    match &near(name, walks.into_iter().chain(suggested))[..] {
        [] => format!("there is no function `{name}`"),
        near => format!("there is no function `{name}`: did you mean {}?", list(near)),
    }
}

/// An error about a table function that does not exist.
fn table_function(name: &str) -> String {
    let names = TableFunction::ALL.map(|function| function.name);
    let near = near(name, names);
    // The list is sorted.
    let usages = TableFunction::ALL.iter().filter(|function| near.contains(&function.name));
    let hint = match &usages.map(|function| function.usage()).collect::<Vec<_>>()[..] {
        [] => format!("there are {}", list(&names)),
        usages => format!("did you mean {}?", list(usages)),
    };
    format!("there is no table function `{name}`: {hint}")
}

/// The message that `what` works on one context only.
pub(crate) fn needs_one_context(what: &str, contexts: &[String]) -> String {
    format!(
        "{what} works on one context, and there are {}: ask each of them by itself",
        list(contexts)
    )
}
