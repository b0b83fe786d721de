//! Where the queries of an engine run, when not in this process.

use std::fmt;
use std::sync::Arc;

use arrow::array::RecordBatch;
use async_trait::async_trait;
use datafusion::catalog::TableProvider;
use datafusion::common::Result;
use datafusion::dataframe::DataFrame;
use datafusion::execution::{SendableRecordBatchStream, SessionState};
use datafusion::logical_expr::LogicalPlan;

use crate::lake::{Snapshot, Table};

/// Runs the queries of an [`Engine`](super::Engine) elsewhere. SQL is still read and planned here,
/// over the same tables, views and functions; what they are made of, and where the plan goes, is
/// said by this.
///
/// Its errors are explained as DataFusion's own are: a `QueryError` or `LakeError` in
/// `DataFusionError::External` comes out as it is.
#[async_trait]
pub trait Backend: fmt::Debug + Send + Sync {
    /// Sets up a session, which has this crate's settings and nothing in it yet.
    ///
    /// # Errors
    ///
    /// When there can be none.
    fn session(&self, state: SessionState) -> Result<SessionState>;

    /// A table of `snapshot`, with its sealed rows and its hot ones.
    ///
    /// # Errors
    ///
    /// When it cannot be read from there.
    async fn table(&self, snapshot: &Snapshot, table: Table) -> Result<Arc<dyn TableProvider>>;

    /// A small table that is at hand.
    ///
    /// # Errors
    ///
    /// When it cannot be had there.
    fn rows(&self, batch: RecordBatch) -> Result<Arc<dyn TableProvider>>;

    /// Refuses a plan that asks for what cannot be had there.
    ///
    /// # Errors
    ///
    /// One line that says what that is, and what to do.
    fn check(&self, plan: &LogicalPlan) -> Result<()>;

    /// Begins to answer.
    ///
    /// # Errors
    ///
    /// What happens there.
    async fn execute(&self, query: DataFrame) -> Result<SendableRecordBatchStream>;
}
