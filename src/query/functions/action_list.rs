use std::mem::size_of;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Int16Array, Int16Builder, Int64Array, ListArray, ListBuilder,
};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Int16Type, Int32Type};
use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDFImpl, ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature,
    Volatility,
};

use super::arguments::{action_lists, integers};

/// The longest episode whose actions are gathered.
const EPISODE_STEPS_MAX: usize = 1 << 26;

/// A list of actions as Arrow holds it.
fn list_type() -> DataType {
    DataType::List(Arc::new(item_field()))
}

fn item_field() -> Field {
    Field::new("item", DataType::Int16, true)
}

/// `action_list(step_index, action)`: the actions of an episode, the one that led to step 1 first.
/// The rows may come in any order: each says where it belongs.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct ActionList {
    signature: Signature,
}

impl ActionList {
    pub(super) fn new() -> Self {
        let types = vec![DataType::Int32, DataType::Int16];
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
        Ok(Box::new(Gathered::default()))
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<Arc<Field>>> {
        Ok(vec![Arc::new(Field::new(args.name, list_type(), true))])
    }
}

/// What stands where no action is known.
const NONE: i16 = -1;

/// The actions of one episode as far as they were seen; the `i`-th led to step `i + 1`.
#[derive(Debug, Default)]
struct Gathered {
    actions: Vec<i16>,
}

impl Gathered {
    fn put(&mut self, place: usize, action: i16) -> Result<()> {
        if place >= EPISODE_STEPS_MAX {
            return exec_err!("an episode of more than {EPISODE_STEPS_MAX} steps cannot be listed");
        }
        if self.actions.len() <= place {
            self.actions.resize(place + 1, NONE);
        }
        self.actions[place] = action;
        Ok(())
    }

    fn list(&self) -> ScalarValue {
        let actions = self.actions.iter().map(|&action| (action != NONE).then_some(action));
        let mut list = ListBuilder::new(Int16Builder::new()).with_field(item_field());
        list.append_value(actions);
        ScalarValue::List(Arc::new(list.finish()))
    }
}

impl Accumulator for Gathered {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let steps = values[0].as_primitive::<Int32Type>();
        let actions = values[1].as_primitive::<Int16Type>();
        for (step, action) in steps.iter().zip(actions) {
            // Step 0 is the state after reset: no action led to it.
            if let (Some(step), Some(action)) = (step, action)
                && let Ok(place) = usize::try_from(step - 1)
            {
                self.put(place, action)?;
            }
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        for list in states[0].as_list::<i32>().iter().flatten() {
            for (place, action) in list.as_primitive::<Int16Type>().iter().enumerate() {
                if let Some(action) = action {
                    self.put(place, action)?;
                }
            }
        }
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.list()])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(self.list())
    }

    fn size(&self) -> usize {
        size_of::<Self>() + self.actions.capacity() * size_of::<i16>()
    }
}

/// `action_prefix(actions, length)`: the first `length` actions of a list.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct ActionPrefix {
    signature: Signature,
}

impl ActionPrefix {
    pub(super) fn new() -> Self {
        Self { signature: Signature::any(2, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for ActionPrefix {
    fn name(&self) -> &'static str {
        "action_prefix"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(list_type())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let columns = ColumnarValue::values_to_arrays(&args.args)?;
        let lists = cast(&action_lists(&columns[0])?, &list_type())?;
        let lengths = integers(&columns[1], "a number of actions")?;
        Ok(ColumnarValue::Array(Arc::new(prefixes(lists.as_list(), &lengths))))
    }
}

/// The beginning of each list.
fn prefixes(lists: &ListArray, lengths: &Int64Array) -> ListArray {
    let actions: &Int16Array = lists.values().as_primitive();
    let mut prefixes = ListBuilder::new(Int16Builder::new()).with_field(item_field());
    for (row, length) in lengths.iter().enumerate() {
        let Some(length) = length.filter(|_| lists.is_valid(row)) else {
            prefixes.append_null();
            continue;
        };
        let offsets = lists.value_offsets();
        let place = |offset: i32| usize::try_from(offset).expect("offsets are not negative");
        let (start, end) = (place(offsets[row]), place(offsets[row + 1]));
        let end = end.min(start.saturating_add(usize::try_from(length).unwrap_or(0)));
        prefixes.values().append_array(&actions.slice(start, end - start));
        prefixes.append(true);
    }
    prefixes.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::Int32Array;

    fn list(actions: &[Option<i16>]) -> ScalarValue {
        let mut list = ListBuilder::new(Int16Builder::new()).with_field(item_field());
        list.append_value(actions.iter().copied());
        ScalarValue::List(Arc::new(list.finish()))
    }

    #[test]
    fn rows_in_any_order_and_in_parts_make_one_list() {
        let mut left = Gathered::default();
        let mut right = Gathered::default();
        let rows = |steps: Vec<i32>, actions: Vec<Option<i16>>| -> [ArrayRef; 2] {
            [Arc::new(Int32Array::from(steps)), Arc::new(Int16Array::from(actions))]
        };
        left.update_batch(&rows(vec![3, 0], vec![Some(30), None])).unwrap();
        right.update_batch(&rows(vec![1, 2], vec![Some(10), Some(20)])).unwrap();
        assert_eq!(left.evaluate().unwrap(), list(&[None, None, Some(30)]));
        let state = right.state().unwrap()[0].to_array().unwrap();
        left.merge_batch(&[state]).unwrap();
        assert_eq!(left.evaluate().unwrap(), list(&[Some(10), Some(20), Some(30)]));
    }

    #[test]
    fn a_prefix_ends_where_the_list_does() {
        let lists = list(&[Some(1), Some(2)]).to_array_of_size(4).unwrap();
        let lengths = Int64Array::from(vec![Some(0), Some(1), Some(9), None]);
        let prefixes = prefixes(lists.as_list(), &lengths);
        let shown: Vec<String> =
            prefixes.iter().map(|list| format!("{:?}", list.map(|list| list.len()))).collect();
        assert_eq!(shown, ["Some(0)", "Some(1)", "Some(2)", "None"]);
    }
}
