//! The options of an engine.

use std::fmt;
use std::num::NonZeroUsize;
use std::sync::Arc;

use super::backend::Backend;
use super::graph::GraphCache;
use super::spill::SpillSpace;
use crate::errors::error::QueryError;
use steplake_lake::Snapshot;
use steplake_model::StateId;

/// The options of an engine.
#[derive(Debug, Clone, Default)]
pub struct EngineOptions {
    /// Bytes of memory for sorts, joins and groups together; beyond this they spill to temporary
    /// files if they can, or fail. `None`: no limit.
    pub memory_bytes_max: Option<NonZeroUsize>,
    /// The disk space for data that spills. Clones share it.
    pub spill: SpillSpace,
    /// The cache of transition graphs, with its memory. Clones share it.
    pub graphs: GraphCache,
    /// The number of parts of a query that are worked on in parallel. `None`: the number of cores.
    pub threads: Option<NonZeroUsize>,
    /// The most rows of a batch. `None`: DataFusion's own choice. Large batches suit answers that
    /// are gathered whole.
    pub batch_rows: Option<NonZeroUsize>,
    /// Whether files are read on threads of their own. A server needs this: a slow disk must not
    /// hold up the questions of others. It costs a seventh more time to read a whole table.
    pub reads_apart: bool,
    /// Rebuilds the IR of states whose IR the lake does not store. `None`: such states have no IR.
    pub rebuilder: Option<Arc<dyn IrRebuilder>>,
    /// Where queries run. `None`: in this process.
    pub backend: Option<Arc<dyn Backend>>,
}

/// Shows bitcode as text. The caller provides it, since the query layer knows no compiler. An `Err`
/// is one line that says why this bitcode cannot be shown.
pub type IrRenderer = Arc<dyn Fn(&[u8]) -> Result<String, String> + Send + Sync>;

/// Rebuilds the IR of states whose IR the lake does not store. The caller provides it, since the
/// query layer knows no compiler.
pub trait IrRebuilder: Send + Sync + fmt::Debug {
    /// The bitcode of each of these states, in order; none for a state whose IR was not meant to be
    /// stored. The threads of a query call it for a few dozen states at a time, and it may take
    /// long.
    ///
    /// # Errors
    ///
    /// [`QueryError::Store`] if the lake is damaged, else [`QueryError::NotRebuilt`]: one line that
    /// says which state cannot be rebuilt, why, and what to do.
    fn rebuild(
        &self,
        snapshot: &Snapshot,
        states: &[StateId],
    ) -> Result<Vec<Option<Vec<u8>>>, QueryError>;
}
