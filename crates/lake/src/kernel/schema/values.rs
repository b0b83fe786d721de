//! Columns of values of observation spaces.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BinaryArray, Float64Array, Int32Array, Int64Array, ListArray, StringArray,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{DataType, Field, FieldRef};

use super::lists;
use super::table::FEATURES_KEY;
use steplake_model::{Lists, Value};

/// The column of an observation space. `field` is the one that
/// [`Table::schema`](crate::kernel::Table::schema) makes from the space.
///
/// # Panics
///
/// If a value has another type than the space, or if the length of a vector is not the number of
/// the space's features.
pub(crate) fn column(field: &FieldRef, values: &[Option<&Value>]) -> ArrayRef {
    let of = Typed { field, values };
    match field.data_type() {
        DataType::Int64 => Arc::new(of.each(int).collect::<Int64Array>()),
        DataType::Float64 => Arc::new(of.each(float).collect::<Float64Array>()),
        DataType::Utf8 => Arc::new(of.each(text).collect::<StringArray>()),
        DataType::Binary => Arc::new(of.each(bytes).collect::<BinaryArray>()),
        DataType::List(item) => match item.data_type() {
            DataType::Int32 => of.lists::<_, Int32Array>(item, int_vector),
            DataType::Float64 => of.lists::<_, Float64Array>(item, float_vector),
            DataType::Utf8 => of.lists::<_, StringArray>(item, text_list),
            other => unreachable!("no space has lists of {other}"),
        },
        DataType::Struct(fields) => lists::column(fields, &of.each(lists).collect::<Vec<_>>()),
        other => unreachable!("no space has columns of {other}"),
    }
}

/// The values of one space.
#[derive(Clone, Copy)]
struct Typed<'a> {
    field: &'a Field,
    values: &'a [Option<&'a Value>],
}

impl<'a> Typed<'a> {
    fn each<T: 'a>(self, take: fn(&'a Value) -> Option<T>) -> impl Iterator<Item = Option<T>> {
        let take = move |value| {
            take(value).unwrap_or_else(|| panic!("{} is not {value:?}", self.field.name()))
        };
        self.values.iter().map(move |value| value.map(take))
    }

    fn lists<T: Clone, A: Array + From<Vec<T>> + 'static>(
        self,
        item: &FieldRef,
        take: fn(&'a Value) -> Option<&'a [T]>,
    ) -> ArrayRef {
        let lists = self.each(take).collect::<Vec<_>>();
        if let Some(features) = self.field.metadata().get(FEATURES_KEY) {
            let names: Vec<&str> = serde_json::from_str(features).expect("the schema is our own");
            for list in lists.iter().flatten() {
                let (name, features) = (self.field.name(), names.len());
                assert_eq!(list.len(), features, "a vector of {name} has one number per feature");
            }
        }
        let lengths = lists.iter().map(|list| list.map_or(0, <[T]>::len));
        let offsets = OffsetBuffer::from_lengths(lengths);
        let nulls = nulls(lists.iter().map(Option::is_some));
        let items = A::from(lists.into_iter().flatten().flatten().cloned().collect());
        Arc::new(ListArray::new(Arc::clone(item), offsets, Arc::new(items), nulls))
    }
}

fn int(value: &Value) -> Option<i64> {
    if let Value::Int(value) = value { Some(*value) } else { None }
}

fn float(value: &Value) -> Option<f64> {
    if let Value::Float(value) = value { Some(*value) } else { None }
}

fn text(value: &Value) -> Option<&str> {
    if let Value::Text(value) = value { Some(value) } else { None }
}

fn bytes(value: &Value) -> Option<&[u8]> {
    if let Value::Bytes(value) = value { Some(value) } else { None }
}

fn int_vector(value: &Value) -> Option<&[i32]> {
    if let Value::IntVector(value) = value { Some(value) } else { None }
}

fn float_vector(value: &Value) -> Option<&[f64]> {
    if let Value::FloatVector(value) = value { Some(value) } else { None }
}

fn text_list(value: &Value) -> Option<&[String]> {
    if let Value::TextList(value) = value { Some(value) } else { None }
}

fn lists(value: &Value) -> Option<&Lists> {
    if let Value::Lists(value) = value { Some(value) } else { None }
}

/// The null buffer of values, given which are there; none if all are.
pub(crate) fn nulls(are_there: impl Iterator<Item = bool>) -> Option<NullBuffer> {
    Some(are_there.collect::<NullBuffer>()).filter(|nulls| nulls.null_count() > 0)
}

#[cfg(test)]
mod tests {
    use arrow::array::AsArray as _;

    use super::*;
    use crate::kernel::Table;
    use crate::kernel::identity::tests::identity;
    use crate::kernel::identity::{Identity, RecordedObservation};
    use steplake_model::{List, ProgramGraph, ValueType};

    fn fields() -> Vec<FieldRef> {
        let space = |value_type| RecordedObservation {
            name: format!("{value_type:?}"),
            value_type,
            features: Vec::new(),
        };
        let types = [
            ValueType::Int,
            ValueType::Float,
            ValueType::Text,
            ValueType::Bytes,
            ValueType::IntVector,
            ValueType::FloatVector,
            ValueType::TextList,
            ValueType::ProgramGraph,
            ValueType::Tokens,
        ];
        let identity = Identity { observations: types.map(space).into(), ..identity() };
        Table::Observations.schema(&identity).fields()[2..].to_vec()
    }

    fn tokens() -> Lists {
        let texts = |texts: [&str; 2]| List::Text(texts.into_iter().collect());
        let ids = List::Int32(vec![23, 40]);
        let texts = [["kw_ret", "Type"], ["keyword", "type"], ["", "void"]].map(texts);
        Lists::new(ValueType::Tokens, [ids].into_iter().chain(texts).collect())
    }

    fn values() -> Vec<Value> {
        vec![
            Value::Int(-1),
            Value::Float(0.5),
            Value::Text("a".into()),
            Value::Bytes(vec![0, 1]),
            Value::IntVector([1, 2].into()),
            Value::FloatVector([0.5].into()),
            Value::TextList(vec!["a".into(), "b".into()]),
            Value::Lists(Box::new(ProgramGraph::default().into())),
            Value::Lists(Box::new(tokens())),
        ]
    }

    #[test]
    fn each_type_of_value_is_a_column_with_nulls() {
        for (field, value) in fields().iter().zip(values()) {
            let column = column(field, &[Some(&value), None, Some(&value)]);
            assert_eq!(column.data_type(), field.data_type());
            assert_eq!((column.len(), column.null_count()), (3, 1), "{field}");
            assert!(column.is_null(1));
            assert_eq!(column.slice(0, 1).to_data(), column.slice(2, 1).to_data(), "{field}");
        }
    }

    #[test]
    fn numbers_of_vectors_stay_in_their_order() {
        let (fields, values) = (fields(), values());
        let vectors = column(&fields[4], &[None, Some(&values[4])]);
        let vector = vectors.as_list::<i32>().value(1);
        assert_eq!(vector.as_primitive::<arrow::datatypes::Int32Type>().values(), &[1, 2]);
    }

    #[test]
    fn a_vector_of_another_length_is_refused() {
        let counts = Arc::clone(&Table::Observations.schema(&identity()).fields()[3]);
        let encode = |vector: &[i32]| {
            let value = Value::IntVector(vector.into());
            std::panic::catch_unwind(|| column(&counts, &[Some(&value)])).is_ok()
        };
        assert!(encode(&[1, 2, 3]) && !encode(&[1, 2]));
    }
}
