//! Refuses statements that write, and those that cannot be planned as they are written. Only a
//! recorder writes to a lake.

use datafusion::common::Result;
use datafusion::execution::SessionState;
use datafusion::sql::parser::{ExplainStatement, Statement};
use datafusion::sql::sqlparser::ast::Statement as Ast;

use super::nesting::demand_few_queries;
use crate::errors::error::QueryError;
use crate::understood;

/// Refuses a statement that does not only read, that is not understood whole, or whose queries are
/// too many to be planned. `state` has the functions.
pub(crate) fn refuse(statement: &Statement, state: &SessionState) -> Result<()> {
    match statement {
        Statement::Statement(statement) if reads(statement) => {
            understood::demand(statement, state)?;
            demand_few_queries(statement)
        }
        // Planning refuses the options that it does not know.
        Statement::Explain(ExplainStatement { options: _, statement }) => refuse(statement, state),
        _ => {
            let text = statement.to_string();
            let verb = text.split_whitespace().next().unwrap_or_default().to_uppercase();
            Err(QueryError::ReadOnly(verb).into())
        }
    }
}

fn reads(statement: &Ast) -> bool {
    match statement {
        Ast::Explain { statement, .. } => reads(statement),
        Ast::Query(_)
        | Ast::ExplainTable { .. }
        | Ast::ShowTables { .. }
        | Ast::ShowColumns { .. }
        | Ast::ShowFunctions { .. }
        | Ast::ShowVariable { .. }
        | Ast::ShowCreate { .. } => true,
        _ => false,
    }
}
