//! Backends, which run the queries of an engine outside this process.

use std::fmt;
use std::sync::Arc;

use arrow::array::RecordBatch;
use async_trait::async_trait;
use datafusion::catalog::TableProvider;
use datafusion::common::Result;
use datafusion::dataframe::DataFrame;
use datafusion::execution::{SendableRecordBatchStream, SessionState};
use datafusion::logical_expr::LogicalPlan;

use steplake_lake::{Snapshot, Table};

/// Runs the queries of an [`Engine`](super::Engine) elsewhere. SQL is still parsed and planned
/// here, over the same tables, views and functions. The backend provides the tables and runs the
/// plan.
///
/// Its errors are explained like those of DataFusion: a `QueryError` or `LakeError` in
/// `DataFusionError::External` comes out unchanged.
#[async_trait]
pub trait Backend: fmt::Debug + Send + Sync {
    /// Sets up a session that has this crate's settings and no tables yet.
    ///
    /// # Errors
    ///
    /// If there can be none.
    fn session(&self, state: SessionState) -> Result<SessionState>;

    /// A table of `snapshot`, with its sealed and its hot rows.
    ///
    /// # Errors
    ///
    /// If the backend cannot read it.
    async fn table(&self, snapshot: &Snapshot, table: Table) -> Result<Arc<dyn TableProvider>>;

    /// A small table of these rows.
    ///
    /// # Errors
    ///
    /// If the backend cannot have it.
    fn rows(&self, batch: RecordBatch) -> Result<Arc<dyn TableProvider>>;

    /// Refuses a plan that needs something that the backend cannot do.
    ///
    /// # Errors
    ///
    /// One line that says what it cannot do, and what the user can do.
    fn check(&self, plan: &LogicalPlan) -> Result<()>;

    /// Starts to run a query.
    ///
    /// # Errors
    ///
    /// Any error of the backend.
    async fn execute(&self, query: DataFrame) -> Result<SendableRecordBatchStream>;
}
