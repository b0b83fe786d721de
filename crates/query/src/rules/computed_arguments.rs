//! Table functions whose arguments can be computed, or whose error says why not. DataFusion leaves
//! an argument such as `1 / 0` as it is, and its functions say only that it is not a constant.

use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::Schema;
use datafusion::catalog::{TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::tree_node::TreeNode;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::{Expr, Volatility};
use datafusion::prelude::SessionContext;

/// Replaces the table functions of a session.
pub(crate) fn register(context: &SessionContext) {
    let functions: Vec<_> = context.state().table_functions().values().cloned().collect();
    for function in functions {
        let computed = WithComputedArguments { inner: Arc::clone(function.function()) };
        context.register_udtf(function.name(), Arc::new(computed));
    }
}

#[derive(Debug)]
struct WithComputedArguments {
    inner: Arc<dyn TableFunctionImpl>,
}

impl TableFunctionImpl for WithComputedArguments {
    fn call_with_args(&self, args: TableFunctionArgs<'_, '_>) -> Result<Arc<dyn TableProvider>> {
        let no_columns = Arc::new(Schema::empty());
        let one_row = RecordBatchOptions::new().with_row_count(Some(1));
        let one_row = RecordBatch::try_new_with_options(no_columns, Vec::new(), &one_row)?;
        for expr in args.exprs() {
            if expr.exists(|part| Ok(is_unknown(part)))? {
                continue;
            }
            // The function itself refuses what is no expression of constants.
            let expr = args.session().create_physical_expr(expr.clone(), &DFSchema::empty());
            if let Ok(expr) = expr {
                expr.evaluate(&one_row)?;
            }
        }
        self.inner.call_with_args(args)
    }
}

/// Whether the value of an expression is not known yet, or depends on when it is computed.
pub(crate) fn is_unknown(expr: &Expr) -> bool {
    match expr {
        Expr::Placeholder(_) => true,
        Expr::ScalarFunction(call) => call.func.signature().volatility != Volatility::Immutable,
        _ => false,
    }
}
