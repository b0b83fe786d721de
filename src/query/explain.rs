//! Says in one line what DataFusion's errors mean for the text of a query and for the lake.

use std::io::ErrorKind;
use std::sync::Arc;

use arrow::error::ArrowError;
use datafusion::common::{Column, DataFusionError, SchemaError};
use datafusion::sql::sqlparser::parser::ParserError;
use parquet::errors::ParquetError;

use super::error::{Position, QueryError, one_line};
use super::graph::TableFunction;
use super::near::{list, meant, near};
use super::signatures;
use crate::lake::{Identity, LakeError, Segment};

/// The setting that DataFusion names when temporary files have taken their space.
const SPILL_SETTING: &str = "datafusion.runtime.max_temp_directory_size";

/// What an error may be about.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// The names of all tables and views.
    pub(super) tables: Vec<String>,
    /// What the lake is a lake of, if the error may be about its columns.
    pub(super) identity: Option<Arc<Identity>>,
    /// The segments that the query reads, once that is known.
    pub(super) segments: Vec<Segment>,
}

/// Turns DataFusion's error into ours.
pub(super) fn explain(error: DataFusionError, known: &Known) -> QueryError {
    let position = position_of(&error);
    explain_at(error, known, position)
}

fn explain_at(error: DataFusionError, known: &Known, position: Option<Position>) -> QueryError {
    match error {
        DataFusionError::Diagnostic(_, inner) | DataFusionError::Context(_, inner) => {
            explain_at(*inner, known, position)
        }
        DataFusionError::Shared(inner) => match Arc::try_unwrap(inner) {
            Ok(inner) => explain_at(inner, known, position),
            Err(shared) => other(&shared, known),
        },
        DataFusionError::Collection(mut errors) if !errors.is_empty() => {
            explain_at(errors.swap_remove(0), known, position)
        }
        DataFusionError::SQL(error, _) => syntax(&error),
        DataFusionError::SchemaError(error, _) => QueryError::sql(schema(&error), position),
        DataFusionError::Plan(message) => QueryError::sql(plan(&message, known), position),
        DataFusionError::NotImplemented(message) if message.contains("a single SQL statement") => {
            QueryError::sql("one statement at a time", position)
        }
        DataFusionError::NotImplemented(message) => {
            QueryError::sql(format!("this is not supported: {message}"), position)
        }
        DataFusionError::ResourcesExhausted(message) => QueryError::Memory(one_line(&message)),
        DataFusionError::Execution(message) => QueryError::Failed(one_line(&message)),
        DataFusionError::External(error) => external(error, known),
        DataFusionError::ParquetError(error) => match *error {
            ParquetError::External(error) => external(error, known),
            error => other(&DataFusionError::ParquetError(Box::new(error)), known),
        },
        error => other(&error, known),
    }
}

/// Our own errors travel through DataFusion in a box.
fn external(error: Box<dyn std::error::Error + Send + Sync>, known: &Known) -> QueryError {
    let error = match error.downcast::<QueryError>() {
        Ok(error) => return *error,
        Err(error) => error,
    };
    match error.downcast::<LakeError>() {
        Ok(error) => QueryError::Store(*error),
        Err(error) => other(&DataFusionError::External(error), known),
    }
}

/// An error while the query ran. Parquet's errors name no file, so the files are looked at.
fn other(error: &DataFusionError, known: &Known) -> QueryError {
    let root = error.find_root();
    if let Some(what) = no_spill_space(root) {
        return QueryError::Spill(what);
    }
    // One error that several partitions share arrives here.
    if let DataFusionError::ResourcesExhausted(message) = root {
        return QueryError::Memory(one_line(message));
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
    let damaged = || known.segments.iter().find_map(|segment| segment.check().err());
    match (root, of_reading.then(damaged).flatten()) {
        (_, Some(damage)) => QueryError::Store(damage),
        (DataFusionError::ArrowError(error, _), None) => match error.as_ref() {
            ArrowError::CastError(message)
            | ArrowError::ComputeError(message)
            | ArrowError::InvalidArgumentError(message) => QueryError::Failed(one_line(message)),
            error => QueryError::Failed(one_line(&error.to_string())),
        },
        (root, None) => QueryError::Failed(one_line(&root.strip_backtrace())),
    }
}

/// Why a temporary file cannot be written, where that is the error. Queries write no other files
/// than these.
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

/// The place that a diagnostic of the SQL planner points to.
fn position_of(error: &DataFusionError) -> Option<Position> {
    let span = error.diagnostic()?.span?;
    let (line, column) = (span.start.line, span.start.column);
    (line > 0).then_some(Position { line, column })
}

/// A syntax error; the parser writes the place at the end of its message.
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

/// A column that is not there or not the only one of its name.
fn schema(error: &SchemaError) -> String {
    let SchemaError::FieldNotFound { field, valid_fields } = error else {
        return error.to_string();
    };
    let names: Vec<&str> = valid_fields.iter().map(Column::name).collect();
    let hint = match &names[..] {
        [] => "no table is named after FROM".to_owned(),
        names => meant(field.name(), names),
    };
    format!("there is no column `{}`: {hint}", field.name())
}

/// A plan error. Those about names get the nearest ones that there are.
fn plan(message: &str, known: &Known) -> String {
    if let Some(explained) = signatures::explained(message, known.identity.as_deref()) {
        return explained;
    }
    if let Some((name, rest)) =
        message.strip_prefix("Invalid function '").and_then(|rest| rest.split_once('\''))
    {
        return function(name, rest);
    }
    let function =
        message.strip_prefix("table function '").and_then(|rest| rest.strip_suffix("' not found"));
    if let Some(name) = function {
        return table_function(name);
    }
    let table = message
        .strip_prefix("table '")
        .and_then(|rest| rest.strip_suffix("' not found"))
        .map(|full| full.rsplit('.').next().unwrap_or(full));
    match table {
        Some(name) => {
            let tables: Vec<&str> = known.tables.iter().map(String::as_str).collect();
            format!("there is no table `{name}`: {}", meant(name, &tables))
        }
        None => message.to_owned(),
    }
}

/// A function that there is not, or not where values stand. DataFusion suggests one, however
/// different it is.
fn function(name: &str, suggestion: &str) -> String {
    if let Some(function) = TableFunction::from_name(name) {
        return format!(
            "`{name}` is a table function: it stands after FROM, as in `SELECT * FROM {}`",
            function.usage()
        );
    }
    let suggested = suggestion.split_once("Did you mean '").and_then(|(_, s)| s.split_once('\''));
    let suggested = suggested.map(|(suggested, _)| suggested);
    let near = near(name, TableFunction::ALL.map(TableFunction::name).into_iter().chain(suggested));
    if near.is_empty() {
        return format!("there is no function `{name}`");
    }
    format!("there is no function `{name}`: did you mean {}?", list(&near))
}

/// A table function that there is not.
fn table_function(name: &str) -> String {
    let names = TableFunction::ALL.map(TableFunction::name);
    let near = near(name, names);
    let usages = near.into_iter().filter_map(TableFunction::from_name).map(TableFunction::usage);
    let mut usages: Vec<&str> = usages.collect();
    usages.sort_unstable();
    let hint = if usages.is_empty() {
        format!("there are {}", list(&names))
    } else {
        format!("did you mean {}?", list(&usages))
    };
    format!("there is no table function `{name}`: {hint}")
}
