//! Refuses statements that write, and those that cannot be planned. Only a recorder writes to a
//! lake.

use datafusion::common::Result;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::Statement as Ast;

use super::error::QueryError;
use super::nesting::demand_few_queries;

/// Refuses a statement that does not only read, or whose queries are too many to be planned.
pub(super) fn refuse(statement: &Statement) -> Result<()> {
    match statement {
        Statement::Statement(statement) if reads(statement) => demand_few_queries(statement),
        Statement::Explain(explain) => refuse(&explain.statement),
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
