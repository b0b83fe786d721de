//! Derived tables that were made elsewhere.

use std::sync::Arc;
use std::time::Instant;

use arrow::array::{AsArray as _, FixedSizeBinaryArray, RecordBatch};
use arrow::datatypes::{Int16Type, Int64Type};
use arrow::error::ArrowError;

use super::pass::Rows;
use super::{Report, inputs, report};
use crate::model::StateId;
use crate::store::{
    LayerChange, LayerId, LayerWriter, Maintenance, Segment, Snapshot, StoreError, Table,
};

/// What keeps rows that were made elsewhere from becoming a layer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplacementError {
    /// They have other columns, or nulls where the table has none.
    #[error("these are no rows of {table}")]
    Columns {
        /// The table.
        table: Table,
        /// What is wrong.
        source: ArrowError,
    },
    /// Two rows have one key, or the later one has the smaller.
    #[error("the rows of {table} do not ascend by the table's key: those of state {state} do not")]
    Order {
        /// The table.
        table: Table,
        /// Of the later row.
        state: StateId,
    },
    /// The lake cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// State key, state, action, next state: what a derived table is sorted by.
type Key = (i64, StateId, i16, Option<StateId>);

/// The derived tables of all sealed steps, made elsewhere, on their way into a lake. They take the
/// place of all layers, as one, and later passes go on from it: so they have to be what
/// [`dedup`](super::dedup()) would make of the same steps.
///
/// Nothing of it is part of the lake before [`publish`](Self::publish). Dropped before that, or
/// killed, it leaves files that whoever maintains the lake next removes.
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
    /// Begins with what is sealed at this moment.
    ///
    /// # Errors
    ///
    /// When the lake cannot be read.
    pub fn begin(maintenance: &'a mut Maintenance) -> Result<Self, ReplacementError> {
        let snapshot = maintenance.lake().sealed()?;
        let newest = snapshot.layers_by_age().last().map_or(0, |(id, _)| id.0);
        let writer = maintenance.layer_writer(LayerId(newest + 1));
        let (rows, last) = (Rows::default(), [const { None }; 3]);
        Ok(Self { maintenance, snapshot, writer, rows, last, begun: Instant::now() })
    }

    /// Whose steps are to be counted: all those that are sealed in it.
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// Adds rows of a derived table. They come in the order of its key: state key, state, action
    /// and, in `conflicts`, next state. That is checked, here and from one call to the next.
    ///
    /// # Errors
    ///
    /// [`ReplacementError::Columns`] and [`ReplacementError::Order`] where it is not so, and what a
    /// disk does.
    ///
    /// # Panics
    ///
    /// When the table is not a derived one.
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

    /// Makes it part of the lake, in one transaction and a snapshot of its own: see
    /// [`Maintenance::publish`]. `steps` with an action were counted.
    ///
    /// # Errors
    ///
    /// What a disk does. The tables are then as before.
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
