//! Columns of program graphs: structs of lists.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray as _, ListArray, PrimitiveArray, StringArray,
    StringBuilder, StructArray,
};
use arrow::buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{Int8Type, Int32Type};

use super::table::{list_item, program_graph_fields};
use crate::model::ProgramGraph;

/// The column of some graphs.
///
/// # Panics
///
/// If a graph is not sound.
pub(super) fn column(graphs: &[Option<&ProgramGraph>]) -> ArrayRef {
    let are_there = graphs.iter().map(Option::is_some).collect::<NullBuffer>();
    let nulls = Some(are_there).filter(|nulls| nulls.null_count() > 0);
    for graph in graphs.iter().flatten() {
        assert!(graph.is_sound(), "the lists of a graph have an item for each node or edge");
    }
    let lists = [
        numbers::<Int8Type>(graphs, |graph| &graph.node_type),
        texts(graphs),
        numbers::<Int32Type>(graphs, |graph| &graph.node_function),
        numbers::<Int32Type>(graphs, |graph| &graph.node_block),
        numbers::<Int8Type>(graphs, |graph| &graph.edge_flow),
        numbers::<Int32Type>(graphs, |graph| &graph.edge_position),
        numbers::<Int32Type>(graphs, |graph| &graph.edge_source),
        numbers::<Int32Type>(graphs, |graph| &graph.edge_target),
    ];
    Arc::new(StructArray::new(program_graph_fields(), lists.into(), nulls))
}

fn numbers<T: ArrowPrimitiveType>(
    graphs: &[Option<&ProgramGraph>],
    of: fn(&ProgramGraph) -> &[T::Native],
) -> ArrayRef {
    let items = graphs.iter().flatten().flat_map(|graph| of(graph)).copied();
    let items = ScalarBuffer::from(items.collect::<Vec<_>>());
    lists(graphs, |graph| of(graph).len(), Arc::new(PrimitiveArray::<T>::new(items, None)))
}

fn texts(graphs: &[Option<&ProgramGraph>]) -> ArrayRef {
    let mut items = StringBuilder::new();
    for graph in graphs.iter().flatten() {
        graph.node_texts().for_each(|text| items.append_value(text));
    }
    lists(graphs, ProgramGraph::nodes, Arc::new(items.finish()))
}

/// The lists of all graphs over their items; the lists of a null are empty.
fn lists(
    graphs: &[Option<&ProgramGraph>],
    length: impl Fn(&ProgramGraph) -> usize,
    items: ArrayRef,
) -> ArrayRef {
    let lengths = graphs.iter().map(|graph| graph.map_or(0, &length));
    let (item, offsets) =
        (list_item(items.data_type().clone()), OffsetBuffer::from_lengths(lengths));
    Arc::new(ListArray::new(Arc::new(item), offsets, items, None))
}

/// The graph in a row that is not null. The column is one of a lake's.
pub(crate) fn graph(column: &StructArray, row: usize) -> ProgramGraph {
    let list = |name| column[name].as_list::<i32>().value(row);
    let flags = |name| list(name).as_primitive::<Int8Type>().values().to_vec();
    let numbers = |name| list(name).as_primitive::<Int32Type>().values().to_vec();
    let (texts, node_text) = distinct(list("node_text").as_string());
    ProgramGraph {
        texts,
        node_type: flags("node_type"),
        node_text,
        node_function: numbers("node_function"),
        node_block: numbers("node_block"),
        edge_flow: flags("edge_flow"),
        edge_position: numbers("edge_position"),
        edge_source: numbers("edge_source"),
        edge_target: numbers("edge_target"),
    }
}

/// The distinct texts in the order of their first places, and the place of each text among them.
fn distinct(all: &StringArray) -> (Vec<String>, Vec<u32>) {
    let mut known = HashMap::new();
    let mut texts = Vec::new();
    let mut place = |text| {
        *known.entry(text).or_insert_with(|| {
            texts.push(str::to_owned(text));
            u32::try_from(texts.len() - 1).expect("a list has fewer items than 2^31")
        })
    };
    let places = all.iter().flatten().map(&mut place).collect();
    (texts, places)
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::DataType;

    use super::*;

    fn some() -> ProgramGraph {
        ProgramGraph {
            texts: vec!["[external]".into(), "ret".into()],
            node_type: vec![0, 0, 0],
            node_text: vec![0, 1, 1],
            node_function: vec![0, 0, 1],
            node_block: vec![0, 0, 1],
            edge_flow: vec![2, 2],
            edge_position: vec![0, 7],
            edge_source: vec![0, 2],
            edge_target: vec![1, 0],
        }
    }

    #[test]
    fn graphs_come_back_from_their_column() {
        let (small, some) = (ProgramGraph::default(), some());
        let column = column(&[Some(&some), None, Some(&small), Some(&some)]);
        assert_eq!(column.data_type(), &DataType::Struct(program_graph_fields()));
        assert!(column.is_null(1) && column.null_count() == 1);
        let column = column.slice(2, 2);
        assert_eq!([graph(column.as_struct(), 0), graph(column.as_struct(), 1)], [small, some]);
    }

    #[test]
    fn a_graph_with_an_edge_to_nowhere_is_refused() {
        let nowhere = ProgramGraph { edge_target: vec![1, 3], ..some() };
        assert!(some().is_sound() && !nowhere.is_sound());
        assert!(std::panic::catch_unwind(|| column(&[Some(&nowhere)])).is_err());
    }
}
