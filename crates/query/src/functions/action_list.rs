//! The aggregate function `action_list`.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Int32Array, Int32Builder, Int64Array, ListArray, ListBuilder,
};
use arrow::buffer::OffsetBuffer;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Int32Type};
use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDFImpl, ColumnarValue, Signature, Volatility,
};

use super::arguments::{action_lists, integers};
use super::memory::{demand_fit, reserve_built};

/// The most rows that a group allocates at once.
const CHUNK_ROWS: usize = 4096;

/// The bytes of a row in the state of a group, which are more than in the list.
const STATE_ROW_BYTES: usize = size_of::<i32>() + size_of::<i32>();

/// A list of actions as Arrow holds it.
pub(super) fn list_type() -> DataType {
    DataType::List(Arc::new(item_field()))
}

fn item_field() -> Field {
    Field::new("item", DataType::Int32, true)
}

/// `action_list(step_index, action)`: the actions of an episode, from that of step 1 on. The rows
/// may come in any order. A group that lacks a step, or has two actions for one step, is not an
/// episode and is refused.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct ActionList {
    signature: Signature,
}

impl ActionList {
    pub(super) fn new() -> Self {
        let types = vec![DataType::Int32, DataType::Int32];
        Self { signature: Signature::exact(types, Volatility::Immutable) }
    }
}

impl AggregateUDFImpl for ActionList {
    fn name(&self) -> &'static str {
        "action_list"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(list_type())
    }

    fn accumulator(&self, _: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(GroupActions::default()))
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<Arc<Field>>> {
        let steps = format!("{}[steps]", args.name);
        Ok(vec![
            Arc::new(Field::new_list(steps, Field::new_list_field(DataType::Int32, true), true)),
            Arc::new(Field::new(args.name, list_type(), true)),
        ])
    }
}

/// Stands for a missing action.
const NONE: i32 = -1;

/// An action, and the step that it led to.
#[derive(Debug, Clone, Copy)]
struct TakenAction {
    step: i32,
    action: i32,
}

/// The actions of one group in the order of arrival. The group-by operator counts the memory of a
/// group after it grew. So a group grows with its rows, not with their steps, and by a bounded
/// number of rows at once.
#[derive(Debug, Default)]
struct GroupActions {
    full: Vec<Box<[TakenAction]>>,
    last: Vec<TakenAction>,
}

impl GroupActions {
    fn push(&mut self, step: Option<i32>, action: Option<i32>) {
        // Step 0 is the state after reset: no action led to it.
        let (Some(step @ 1..), Some(action)) = (step, action) else { return };
        if self.last.len() == CHUNK_ROWS {
            self.full.push(std::mem::take(&mut self.last).into_boxed_slice());
        }
        self.last.push(TakenAction { step, action });
    }

    fn rows(&self) -> usize {
        self.full.len() * CHUNK_ROWS + self.last.len()
    }

    fn taken(&self) -> impl Iterator<Item = TakenAction> + '_ {
        self.full.iter().flatten().chain(&self.last).copied()
    }

    /// The actions by their steps.
    fn in_order(&self) -> Result<Vec<i32>> {
        let steps = self.taken().map(|taken| place(taken.step) + 1).max().unwrap_or_default();
        // Each row is one step, so a list that is longer than the rows has a gap.
        let mut actions = vec![NONE; steps.min(self.rows())];
        for TakenAction { step, action } in self.taken() {
            let Some(known) = actions.get_mut(place(step)) else { continue };
            if *known != NONE && *known != action {
                return exec_err!(
                    "action_list() lists one episode, and step {step} has the actions {known} and {action}: \
                     group by episode_id"
                );
            }
            *known = action;
        }
        let missing = actions.iter().position(|&action| action == NONE);
        if let Some(missing) = missing.or_else(|| (steps > actions.len()).then_some(actions.len()))
        {
            return exec_err!(
                "action_list() lists an episode from step 1 on, and step {} is missing: leave no steps out, and \
                 take a part of the list with action_prefix()",
                missing + 1
            );
        }
        Ok(actions)
    }
}

/// The index of a step in the list.
fn place(step: i32) -> usize {
    usize::try_from(step - 1).expect("steps with an action are counted from 1")
}

/// One list of these items.
pub(super) fn one_list(items: ArrayRef, item: Field) -> ScalarValue {
    let offsets = OffsetBuffer::from_lengths([items.len()]);
    ScalarValue::List(Arc::new(ListArray::new(Arc::new(item), offsets, items, None)))
}

impl Accumulator for GroupActions {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let steps = values[0].as_primitive::<Int32Type>();
        let actions = values[1].as_primitive::<Int32Type>();
        steps.iter().zip(actions).for_each(|(step, action)| self.push(step, action));
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let lists = states[0].as_list::<i32>().iter().zip(states[1].as_list::<i32>().iter());
        for (steps, actions) in lists {
            if let (Some(steps), Some(actions)) = (steps, actions) {
                self.update_batch(&[steps, actions])?;
            }
        }
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let steps: Int32Array = self.taken().map(|taken| Some(taken.step)).collect();
        let actions: Int32Array = self.taken().map(|taken| Some(taken.action)).collect();
        Ok(vec![
            one_list(Arc::new(steps), Field::new_list_field(DataType::Int32, true)),
            one_list(Arc::new(actions), item_field()),
        ])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let actions = Int32Array::from(self.in_order()?);
        Ok(one_list(Arc::new(actions), item_field()))
    }

    /// This includes the state and the list that are made of it.
    fn size(&self) -> usize {
        let rows = self.full.len() * CHUNK_ROWS + self.last.capacity();
        size_of::<Self>()
            + self.full.capacity() * size_of::<Box<[TakenAction]>>()
            + rows * (size_of::<TakenAction>() + STATE_ROW_BYTES)
    }
}

/// `action_prefix(actions, length)`: the first `length` actions of a list.
pub(super) fn prefix(args: &[ColumnarValue], memory: &MemoryReservation) -> Result<ColumnarValue> {
    let columns = ColumnarValue::values_to_arrays(args)?;
    let lists = match columns[0].data_type() {
        kind if *kind == list_type() => Arc::clone(&columns[0]),
        _ => cast(&action_lists(&columns[0], memory)?, &list_type())?,
    };
    let lengths = integers(&columns[1], "a number of actions")?;
    Ok(ColumnarValue::Array(Arc::new(prefixes(lists.as_list(), &lengths, memory)?)))
}

/// The first actions of each list.
fn prefixes(
    lists: &ListArray,
    lengths: &Int64Array,
    memory: &MemoryReservation,
) -> Result<ListArray> {
    let actions: &Int32Array = lists.values().as_primitive();
    let offsets = lists.value_offsets();
    let place = |offset: i32| usize::try_from(offset).expect("offsets are not negative");
    let prefix = |(row, length): (usize, Option<i64>)| {
        let length = length.filter(|_| lists.is_valid(row))?;
        let (start, end) = (place(offsets[row]), place(offsets[row + 1]));
        Some(start..end.min(start.saturating_add(usize::try_from(length).unwrap_or(0))))
    };
    let all = || lengths.iter().enumerate().map(prefix);
    let items = all().flatten().map(|range| range.len()).sum::<usize>();
    demand_fit("action_prefix", items)?;
    reserve_built::<i32>(memory, items)?;
    let mut prefixes =
        ListBuilder::new(Int32Builder::with_capacity(items)).with_field(item_field());
    for range in all() {
        match range {
            Some(range) => {
                prefixes.values().append_array(&actions.slice(range.start, range.len()));
                prefixes.append(true);
            }
            None => prefixes.append_null(),
        }
    }
    Ok(prefixes.finish())
}

#[cfg(test)]
mod tests {
    use super::super::memory::memory_of;
    use super::*;
    use datafusion::common::config::ConfigOptions;

    fn list(actions: &[i32]) -> ScalarValue {
        one_list(Arc::new(Int32Array::from(actions.to_vec())), item_field())
    }

    fn rows(steps: Vec<i32>, actions: Vec<Option<i32>>) -> [ArrayRef; 2] {
        [Arc::new(Int32Array::from(steps)), Arc::new(Int32Array::from(actions))]
    }

    fn gathered(steps: Vec<i32>, actions: Vec<Option<i32>>) -> GroupActions {
        let mut gathered = GroupActions::default();
        gathered.update_batch(&rows(steps, actions)).unwrap();
        gathered
    }

    #[test]
    fn rows_in_any_order_and_in_parts_make_one_list() {
        let mut left = gathered(vec![3, 0], vec![Some(30), None]);
        let mut right = gathered(vec![1, 2], vec![Some(10), Some(20)]);
        let state = right.state().unwrap();
        let state: Vec<ArrayRef> = state.iter().map(|state| state.to_array().unwrap()).collect();
        left.merge_batch(&state).unwrap();
        assert_eq!(left.evaluate().unwrap(), list(&[10, 20, 30]));
        // A join may repeat rows.
        left.update_batch(&rows(vec![2], vec![Some(20)])).unwrap();
        assert_eq!(left.evaluate().unwrap(), list(&[10, 20, 30]));
        assert_eq!(GroupActions::default().evaluate().unwrap(), list(&[]));
    }

    #[test]
    fn what_is_no_episode_is_refused() {
        for (steps, actions, wanted) in [
            (vec![3], vec![Some(30)], "step 1 is missing"),
            (vec![1, 3], vec![Some(10), Some(30)], "step 2 is missing"),
            (vec![1, 1, 3], vec![Some(10), Some(10), Some(30)], "step 2 is missing"),
            (vec![i32::MAX], vec![Some(0)], "step 1 is missing"),
            (vec![1, 1], vec![Some(10), Some(11)], "step 1 has the actions 10 and 11"),
        ] {
            let refused = gathered(steps, actions).evaluate().unwrap_err().strip_backtrace();
            assert!(refused.contains(wanted), "{refused}");
        }
    }

    /// The group-by operator counts memory only after a batch was added.
    #[test]
    fn a_group_takes_memory_by_its_rows_and_not_by_their_steps() {
        assert!(gathered(vec![60_000_000], vec![Some(1)]).size() < 1024);
        let mut many = GroupActions::default();
        let mut before = many.size();
        for batch in 0..40 {
            let steps: Vec<i32> = (0..8192).map(|row| 8192 * batch + row + 1).collect();
            many.update_batch(&rows(steps, vec![Some(1); 8192])).unwrap();
            let grown = many.size() - before;
            assert!(grown < 40 * 8192, "{grown} bytes for a batch");
            before = many.size();
        }
        let ScalarValue::List(found) = many.evaluate().unwrap() else { panic!("no list") };
        assert_eq!(found.value(0).len(), 40 * 8192);
    }

    #[test]
    fn a_prefix_ends_where_the_list_does() {
        let lists = list(&[1, 2]).to_array_of_size(4).unwrap();
        let lengths = Int64Array::from(vec![Some(0), Some(1), Some(9), None]);
        let memory = memory_of("action_prefix", &ConfigOptions::default());
        let prefixes = prefixes(lists.as_list(), &lengths, &memory).unwrap();
        let shown: Vec<String> =
            prefixes.iter().map(|list| format!("{:?}", list.map(|list| list.len()))).collect();
        assert_eq!(shown, ["Some(0)", "Some(1)", "Some(2)", "None"]);
        assert_eq!(memory.size(), 3 * 2 * size_of::<i32>());
    }
}
