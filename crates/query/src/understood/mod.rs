//! Refuses the parts of a statement that planning would leave out.
//!
//! The parser reads the SQL of many databases, and DataFusion plans a part of it. What it does not
//! plan, it sometimes leaves out without a word: `PREWHERE action = 1` would filter nothing. So the
//! tree of a statement is compared with what is understood before it is planned. Structs are taken
//! apart field by field, without `..`, so that a field of a new parser does not compile until
//! somebody has looked at it; of enums, only the variants that are named here pass.
//!
//! Optimiser hints, which are comments, and noise words such as `ROWS` after OFFSET are left out on
//! purpose.

mod expressions;
mod functions;
mod queries;
mod refusal;
mod tables;
mod types;

use std::collections::HashSet;
use std::ops::ControlFlow;

use datafusion::common::{DataFusionError, Result};
use datafusion::execution::SessionState;
use datafusion::sql::sqlparser::ast::{
    Expr, Function, Query, Select, Statement, TableFactor, Visit, Visitor,
};

use self::refusal::CheckFlow;
use crate::errors::error::QueryError;
use crate::questions::nesting::NODES_MAX;

/// Refuses a statement that has a part that planning would leave out, or more expressions and
/// tables than a statement may have. `state` has the functions.
///
/// # Errors
///
/// A [`QueryError`] that names the part.
pub(super) fn demand(statement: &Statement, state: &SessionState) -> Result<()> {
    let mut walk = StatementCheck { state, over_names: HashSet::new(), nodes: 0 };
    let walked = queries::statement(statement);
    match walked.map_continue(|()| statement.visit(&mut walk)) {
        ControlFlow::Continue(ControlFlow::Continue(())) => Ok(()),
        ControlFlow::Continue(ControlFlow::Break(error)) | ControlFlow::Break(error) => {
            Err(DataFusionError::from(error))
        }
    }
}

/// A walk through a statement.
struct StatementCheck<'a> {
    state: &'a SessionState,
    /// The calls of the form `f() OVER name` that planning understands: it replaces such names in
    /// the columns of a SELECT, and nowhere else.
    over_names: HashSet<*const Function>,
    nodes: usize,
}

impl StatementCheck<'_> {
    fn count(&mut self) -> CheckFlow {
        self.nodes += 1;
        if self.nodes <= NODES_MAX {
            return ControlFlow::Continue(());
        }
        ControlFlow::Break(QueryError::sql(
            format!(
                "the statement has more than {NODES_MAX} expressions and tables, the most that it may have: ask in \
                 several statements, or take a long list from a table, as in IN (SELECT …)"
            ),
            None,
        ))
    }
}

impl Visitor for StatementCheck<'_> {
    type Break = QueryError;

    fn pre_visit_query(&mut self, query: &Query) -> CheckFlow {
        self.count()?;
        queries::query(query)
    }

    fn pre_visit_select(&mut self, select: &Select) -> CheckFlow {
        queries::select(select)?;
        self.over_names.extend(functions::over_names(&select.projection));
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, table: &TableFactor) -> CheckFlow {
        self.count()?;
        tables::table(table)
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> CheckFlow {
        self.count()?;
        if let Expr::Function(call) = expr {
            let is_over_name = self.over_names.contains(&std::ptr::from_ref(call));
            return functions::call(self.state, call, is_over_name);
        }
        expressions::expression(expr)
    }
}
