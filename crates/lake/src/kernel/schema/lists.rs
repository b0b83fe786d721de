//! Columns of structs of lists.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, AsArray as _, Int8Array, Int32Array, ListArray, StringBuilder, StructArray,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{DataType, Field, Fields, Int8Type, Int32Type};

use steplake_model::{ItemType, List, Lists, Texts, ValueType};

/// The column of some values. `fields` are those that
/// [`Table::schema`](crate::kernel::Table::schema) makes from the type of the values.
///
/// # Panics
///
/// If a value is not sound, or of another type.
pub(crate) fn column(fields: &Fields, values: &[Option<&Lists>]) -> ArrayRef {
    for lists in values.iter().flatten() {
        let names = lists.named().map(|(name, _)| name);
        assert!(names.eq(fields.iter().map(|field| field.name())), "a value of another type");
        assert!(lists.is_sound(), "lists of one value do not fit together");
    }
    let columns = fields.iter().map(|field| lists_of(field, values));
    let are_there = values.iter().map(Option::is_some).collect::<NullBuffer>();
    let nulls = Some(are_there).filter(|nulls| nulls.null_count() > 0);
    Arc::new(StructArray::new(fields.clone(), columns.collect(), nulls))
}

/// The lists of one name; those of a null are empty.
fn lists_of(field: &Field, values: &[Option<&Lists>]) -> ArrayRef {
    let DataType::List(item) = field.data_type() else { unreachable!("`{field}` is a list") };
    let lists = || values.iter().map(|value| value.and_then(|lists| lists.get(field.name())));
    let offsets = OffsetBuffer::from_lengths(lists().map(|list| list.map_or(0, List::len)));
    let there = lists().flatten();
    let items: ArrayRef = match item.data_type() {
        DataType::Int8 => Arc::new(Int8Array::from_iter_values(there.flat_map(int8).copied())),
        DataType::Int32 => Arc::new(Int32Array::from_iter_values(there.flat_map(int32).copied())),
        _ => {
            let mut items = StringBuilder::new();
            there.flat_map(texts).for_each(|text| items.append_value(text));
            Arc::new(items.finish())
        }
    };
    Arc::new(ListArray::new(Arc::clone(item), offsets, items, None))
}

fn int8(list: &List) -> &[i8] {
    if let List::Int8(items) = list { items } else { &[] }
}

fn int32(list: &List) -> &[i32] {
    if let List::Int32(items) = list { items } else { &[] }
}

fn texts(list: &List) -> impl Iterator<Item = &str> {
    let texts = if let List::Text(texts) = list { Some(texts) } else { None };
    texts.into_iter().flat_map(Texts::iter)
}

/// The value in a row that is not null. The column is one of a lake's.
pub(crate) fn value(value_type: ValueType, column: &StructArray, row: usize) -> Lists {
    let lists = value_type.lists().iter().map(|&(name, item)| {
        let items = column[name].as_list::<i32>().value(row);
        match item {
            ItemType::Int8 => List::Int8(items.as_primitive::<Int8Type>().values().to_vec()),
            ItemType::Int32 => List::Int32(items.as_primitive::<Int32Type>().values().to_vec()),
            ItemType::Text => List::Text(items.as_string::<i32>().iter().flatten().collect()),
        }
    });
    Lists::new(value_type, lists.collect())
}

#[cfg(test)]
mod tests {
    use arrow::array::Array as _;

    use super::*;
    use crate::kernel::schema::table::list_fields;
    use steplake_model::ProgramGraph;

    fn some() -> Lists {
        let graph = ProgramGraph {
            node_type: vec![0, 0, 0],
            node_text: ["[external]", "ret", "ret"].into_iter().collect(),
            node_function: vec![0, 0, 1],
            node_block: vec![0, 0, 1],
            edge_flow: vec![2, 2],
            edge_position: vec![0, 7],
            edge_source: vec![0, 2],
            edge_target: vec![1, 0],
        };
        graph.into()
    }

    #[test]
    fn values_come_back_from_their_column() {
        let fields = list_fields(ValueType::ProgramGraph);
        let (small, some) = (Lists::from(ProgramGraph::default()), some());
        let column = column(&fields, &[Some(&some), None, Some(&small), Some(&some)]);
        assert_eq!(column.data_type(), &DataType::Struct(fields));
        assert!(column.is_null(1) && column.null_count() == 1);
        let column = column.slice(2, 2);
        let found = [0, 1].map(|row| value(ValueType::ProgramGraph, column.as_struct(), row));
        assert_eq!(found, [small, some]);
    }

    #[test]
    fn a_value_that_is_not_sound_is_refused() {
        let nowhere = ProgramGraph { edge_flow: vec![0], ..ProgramGraph::default() };
        let refused = |lists: Lists| {
            let fields = list_fields(ValueType::ProgramGraph);
            std::panic::catch_unwind(|| column(&fields, &[Some(&lists)])).is_err()
        };
        assert!(refused(nowhere.into()) && !refused(some()));
    }
}
