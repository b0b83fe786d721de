//! What an engine is set up with.

use std::fmt;
use std::num::NonZeroUsize;
use std::sync::Arc;

use super::backend::Backend;
use super::error::QueryError;
use super::graph::Graphs;
use super::spill::SpillSpace;
use crate::lake::Snapshot;
use crate::model::StateId;

/// What an engine may use.
#[derive(Debug, Clone, Default)]
pub struct EngineOptions {
    /// Bytes of memory for sorts, joins and groups together; past it they spill to temporary files
    /// where they can, and fail where they cannot. `None`: as much as there is.
    pub memory_bytes_max: Option<NonZeroUsize>,
    /// The disk space for what spills. Engines may share it; clones do.
    pub spill: SpillSpace,
    /// What is kept of transition graphs from one question to the next, and the memory for it.
    /// Engines may share it; clones do.
    pub graphs: Graphs,
    /// Parts that a query is worked on in at once. `None`: as many as there are cores.
    pub threads: Option<NonZeroUsize>,
    /// Where the IR of states comes from that the lake does not store. `None`: such states have
    /// none.
    pub rebuilder: Option<Arc<dyn IrRebuilder>>,
    /// Where queries run. `None`: in this process.
    pub backend: Option<Arc<dyn Backend>>,
}

/// Shows bitcode as text. Given by the caller, since the query layer knows no compiler; an `Err` is
/// one line that says why this bitcode cannot be shown.
pub type IrRenderer = Arc<dyn Fn(&[u8]) -> Result<String, String> + Send + Sync>;

/// Makes the IR of states again that the lake does not store. Given by the caller, since the query
/// layer knows no compiler.
pub trait IrRebuilder: Send + Sync + fmt::Debug {
    /// The bitcode of each of these states, in order; none where the lake was never to hold it. It
    /// is called from the threads that work on a query, a few dozen states at a time, and may take
    /// long.
    ///
    /// # Errors
    ///
    /// [`QueryError::Store`] where the lake is damaged, else [`QueryError::NotRebuilt`]: one line
    /// that says which state cannot be had, why, and what to do.
    fn rebuild(
        &self,
        snapshot: &Snapshot,
        states: &[StateId],
    ) -> Result<Vec<Option<Vec<u8>>>, QueryError>;
}
