//! Refuses statements that write. Only a recorder writes to a lake.

use datafusion::common::Result;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::Statement as Ast;

use super::error::QueryError;

/// Refuses every statement that does not only read.
pub(super) fn refuse_writes(statement: &Statement) -> Result<()> {
    let reads = match statement {
        Statement::Statement(statement) => reads(statement),
        Statement::Explain(explain) => return refuse_writes(&explain.statement),
        Statement::CreateExternalTable(_) | Statement::CopyTo(_) | Statement::Reset(_) => false,
    };
    if reads {
        return Ok(());
    }
    let text = statement.to_string();
    let verb = text.split_whitespace().next().unwrap_or_default().to_uppercase();
    Err(QueryError::ReadOnly(verb).into())
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
