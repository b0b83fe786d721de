//! How a part of a statement is refused.

use std::fmt::Display;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, OrderByExpr, OrderByOptions, WildcardAdditionalOptions,
};
use datafusion::sql::sqlparser::tokenizer::Span;

use crate::errors::error::{Position, QueryError};

/// The most characters of a part that a message repeats.
const SHOWN_CHARS: usize = 60;

/// Whether a part of a statement is understood.
pub(super) type CheckFlow = ControlFlow<QueryError>;

/// The error for a part that is not understood. `instead` says what to do.
pub(super) fn refused(part: &impl Display, instead: &str) -> CheckFlow {
    refused_at(part, instead, Span::empty())
}

/// The same with the place of the part.
pub(super) fn refused_at(part: &impl Display, instead: &str, span: Span) -> CheckFlow {
    let text = part.to_string();
    let mut words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if let Some((end, _)) = words.char_indices().nth(SHOWN_CHARS) {
        words.truncate(end);
        words.push('…');
    }
    let (line, column) = (span.start.line, span.start.column);
    let position = (line > 0).then_some(Position { line, column });
    let message = format!("`{words}` is not supported: {instead}");
    ControlFlow::Break(QueryError::sql(message, position))
}

/// Refuses a part if it is there. `keyword` stands before it.
pub(super) fn absent(part: Option<&impl Display>, keyword: &str, instead: &str) -> CheckFlow {
    match part {
        Some(part) => refused(&format!("{keyword} {part}"), instead),
        None => ControlFlow::Continue(()),
    }
}

/// Refuses the first of some parts.
pub(super) fn none_of(parts: &[impl Display], keyword: &str, instead: &str) -> CheckFlow {
    absent(parts.first(), keyword, instead)
}

/// Refuses a word that stands in the statement.
pub(super) fn not_set(is_set: bool, word: &str, instead: &str) -> CheckFlow {
    if is_set { refused(&word, instead) } else { ControlFlow::Continue(()) }
}

pub(super) fn sort_key(key: &OrderByExpr) -> CheckFlow {
    let OrderByExpr { expr, options: OrderByOptions { asc: _, nulls_first: _ }, with_fill } = key;
    // The parser takes the word for a column.
    if let Expr::Identifier(name) = expr
        && name.quote_style.is_none()
        && name.value.eq_ignore_ascii_case("ALL")
    {
        return order_by_all();
    }
    absent(with_fill.as_ref(), "", "leave it out")
}

pub(super) fn order_by_all() -> CheckFlow {
    refused(&"ORDER BY ALL", "name the columns, and put a column of the name ALL in quotes")
}

pub(super) fn wildcard(options: &WildcardAdditionalOptions) -> CheckFlow {
    let WildcardAdditionalOptions {
        wildcard_token: _,
        opt_ilike,
        opt_exclude: _,
        opt_except: _,
        opt_replace: _,
        opt_rename,
        opt_alias,
    } = options;
    absent(opt_ilike.as_ref(), "*", "name the columns")?;
    absent(opt_rename.as_ref(), "*", "name the columns, with AS")?;
    absent(opt_alias.as_ref(), "* AS", "name the columns, with AS")
}
