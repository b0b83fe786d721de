//! Derived tables that were made elsewhere.

use std::sync::Arc;
use std::time::Instant;

use arrow::array::{AsArray as _, FixedSizeBinaryArray, RecordBatch};
use arrow::datatypes::{Int16Type, Int64Type};
use arrow::error::ArrowError;

use super::pass::Rows;
use super::{Report, inputs, report};
use crate::lake::{LakeError, LayerId, Segment, Snapshot, Table};
use crate::layers::{LayerChange, LayerWriter};
use crate::model::StateId;
use crate::upkeep::Maintenance;

/// Why rows made elsewhere cannot become a layer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplacementError {
    /// The rows have other columns, or nulls where the table allows none.
    #[error("these are no rows of {table}")]
    Columns {
        /// The table.
        table: Table,
        /// The mismatch.
        source: ArrowError,
    },
    /// Two rows have the same key, or the later row has the smaller key.
    #[error("the rows of {table} do not ascend by the table's key: those of state {state} do not")]
    Order {
        /// The table.
        table: Table,
        /// The state of the later row.
        state: StateId,
    },
    /// The lake cannot be read or written.
    #[error(transparent)]
    Store(#[from] LakeError),
}

/// The sort key of a derived table: state key, state, action, next state.
type Key = (i64, StateId, i16, Option<StateId>);

/// The derived tables of all sealed steps, made elsewhere, on their way into a lake. They replace
/// all layers, as one, and later passes build on it: so they must be what [`dedup`](super::dedup())
/// would make of the same steps.
///
/// Nothing becomes part of the lake before [`publish`](Self::publish). A replacement that is
/// dropped or killed earlier leaves files; the next process that maintains the lake removes them.
#[derive(Debug)]
pub struct Replacement<'a> {
    maintenance: &'a mut Maintenance,
    snapshot: Snapshot,
    writer: LayerWriter,
    rows: Rows,
    last: [Option<Key>; 3],
    begun: Instant,
}

impl<'a> Replacement<'a> {
    /// Begins with what is sealed now.
    ///
    /// # Errors
    ///
    /// If the lake cannot be read.
    pub fn begin(maintenance: &'a mut Maintenance) -> Result<Self, ReplacementError> {
        let snapshot = maintenance.lake().sealed()?;
        let newest = snapshot.layers_by_age().last().map_or(0, |(id, _)| id.0);
        let writer = maintenance.layer_writer(LayerId(newest + 1));
        let (rows, last) = (Rows::default(), [const { None }; 3]);
        Ok(Self { maintenance, snapshot, writer, rows, last, begun: Instant::now() })
    }

    /// Returns the snapshot all of whose sealed steps have to be counted.
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// Adds rows of a derived table, in the order of its key: state key, state, action and, in
    /// `conflicts`, next state. Checks the order, also from one call to the next.
    ///
    /// # Errors
    ///
    /// [`ReplacementError::Columns`] and [`ReplacementError::Order`] for wrong rows, and disk
    /// errors.
    ///
    /// # Panics
    ///
    /// If the table is not a derived one.
    pub fn write(&mut self, table: Table, batch: &RecordBatch) -> Result<(), ReplacementError> {
        let schema = self.snapshot.schema(table);
        let named = |batch: &RecordBatch| {
            let given = batch.schema_ref().fields().iter().map(|field| field.name());
            given.eq(schema.fields().iter().map(|field| field.name()))
        };
        let batch = if named(batch) {
            RecordBatch::try_new(Arc::clone(&schema), batch.columns().to_vec())
        } else {
            Err(ArrowError::SchemaError("the columns have other names".into()))
        };
        let batch = batch.map_err(|source| ReplacementError::Columns { table, source })?;
        self.demand_order(table, &batch)?;
        self.rows.add(table, batch.num_rows() as u64);
        Ok(self.writer.write(table, &batch)?)
    }

    fn demand_order(&mut self, table: Table, batch: &RecordBatch) -> Result<(), ReplacementError> {
        let keys = batch["state_key"].as_primitive::<Int64Type>();
        let states = batch["state_id"].as_fixed_size_binary();
        let actions = batch["action"].as_primitive::<Int16Type>();
        let next =
            (table == Table::Conflicts).then(|| batch["next_state_id"].as_fixed_size_binary());
        let last = &mut self.last[table as usize - Table::StateTransitions as usize];
        let id = |ids: &FixedSizeBinaryArray, row| {
            StateId(ids.value(row).try_into().expect("the schema says 20 bytes"))
        };
        for row in 0..batch.num_rows() {
            let state = id(states, row);
            let next = next.map(|next| id(next, row));
            let key = (keys.value(row), state, actions.value(row), next);
            if last.is_some_and(|last| last >= key) {
                return Err(ReplacementError::Order { table, state });
            }
            *last = Some(key);
        }
        Ok(())
    }

    /// Makes the tables part of the lake, in one transaction and a snapshot of its own: see
    /// [`Maintenance::publish`]. `steps` is the number of counted steps with an action.
    ///
    /// # Errors
    ///
    /// Disk errors. The tables are then unchanged.
    pub fn publish(self, steps: u64, detail: &str) -> Result<Report, ReplacementError> {
        let Self { maintenance, snapshot, writer, rows, begun, .. } = self;
        let retire: Vec<Segment> = snapshot
            .layers_by_age()
            .iter()
            .flat_map(|(_, layer)| layer.segments().cloned())
            .collect();
        maintenance.publish(LayerChange {
            retire,
            add: vec![writer],
            counted: snapshot.uncounted().cloned().collect(),
            inputs: inputs(),
            detail: detail.to_owned(),
        })?;
        Ok(report(false, steps, rows, usize::from(rows != Rows::default()), begun))
    }
}
