//! The program graphs of states, and batches of them.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use arrow::array::{Array as _, ArrowPrimitiveType, AsArray as _, StructArray};
use arrow::datatypes::{Int8Type, Int32Type};

use super::states::ObservedStates;
use crate::error::LoadError;
use crate::matrices::matrix::Matrix;
use crate::matrices::matrix_builder::{MatrixBuilder, MatrixWriter};
use crate::matrices::matrix_cache::{MatrixCache, MatrixName};
use crate::matrices::number_kind::NumberKind;
use steplake_lake::{RecordedObservation, ScanColumns, Table};

/// The lists of a graph that have an item for each node or each edge, in the order in which they
/// are kept, and the type of the items.
const LISTS: [(&str, NumberKind); 8] = [
    ("node_type", NumberKind::U8),
    ("node_text", NumberKind::I32),
    ("node_function", NumberKind::I32),
    ("node_block", NumberKind::I32),
    ("edge_flow", NumberKind::U8),
    ("edge_position", NumberKind::I32),
    ("edge_source", NumberKind::I32),
    ("edge_target", NumberKind::I32),
];

/// The graphs of all states in an observation space, in mapped files.
#[derive(Debug)]
pub(crate) struct StateGraphs {
    /// Where the graph of each state is: its first node, the number of nodes, its first edge, and
    /// the number of edges.
    places: Arc<Matrix>,
    /// The items of all graphs, one matrix of one column for each of [`LISTS`].
    lists: [Arc<Matrix>; LISTS.len()],
    /// The distinct texts of nodes; `node_text` has their places.
    texts: Vec<String>,
}

/// Some graphs as one that has no edges between them: the layout of a `Batch` of `PyTorch`
/// Geometric.
///
/// The nodes of the graphs follow each other, and so do the edges.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GraphBatch {
    /// What each node is, as in [`ProgramGraph`](steplake_model::ProgramGraph).
    pub node_type: Vec<u8>,
    /// The text of each node, as its place in the texts of the column.
    pub node_text: Vec<i32>,
    /// The function of each node, from 0 in each graph.
    pub node_function: Vec<i32>,
    /// The block of each node, from 0 in each graph.
    pub node_block: Vec<i32>,
    /// What goes along each edge.
    pub edge_flow: Vec<u8>,
    /// The position of each edge.
    pub edge_position: Vec<i32>,
    /// The nodes where the edges begin, and then those where they end: two rows.
    pub edge_index: Vec<i64>,
    /// The number of each node's graph in the batch.
    pub batch: Vec<i64>,
    /// The first node of each graph, and the number of all nodes at the end.
    pub ptr: Vec<i64>,
}

impl StateGraphs {
    /// Reads the graphs of all states, or takes them from the cache. Each is in memory for a moment
    /// only.
    pub(crate) fn of(
        states: &ObservedStates,
        space: &RecordedObservation,
    ) -> Result<Self, LoadError> {
        let (snapshot, cache) = (states.snapshot(), states.cache());
        let name = |part: &str| MatrixName::of(["graphs", states.digest(), &space.name, part]);
        let find = || -> Result<Option<Self>, LoadError> {
            let Some(places) = cache.find(&name("places"))? else { return Ok(None) };
            let Some(texts) = cache.find(&name("texts"))? else { return Ok(None) };
            let mut lists = Vec::new();
            for (list, _) in LISTS {
                lists.extend(cache.find(&name(list))?);
            }
            let texts = serde_json::from_slice(&texts.gather_as::<u8>(0..texts.rows()));
            let (Ok(lists), Ok(texts)) = (lists.try_into(), texts) else { return Ok(None) };
            Ok(Some(Self { places, lists, texts }))
        };
        if let Some(graphs) = find()? {
            return Ok(graphs);
        }
        let mut writer = GraphWriter::new(states, cache)?;
        // The same order in every process: what is written has the same name.
        let mut segments: Vec<_> = snapshot.segments(Table::Observations).iter().collect();
        segments.sort_unstable_by_key(|segment| &segment.digest);
        let columns = ["state_id", space.name.as_str()];
        for segment in segments {
            for batch in snapshot.scan_segment(segment, ScanColumns::Named(&columns)) {
                let batch = batch?;
                let column = batch.column_by_name(&space.name).expect("the scan was asked for it");
                let numbers = states.numbers(&batch);
                writer.add(column.as_struct(), &numbers).map_err(LoadError::cache(cache.root()))?;
            }
        }
        for ((list, _), matrix) in LISTS.iter().zip(writer.lists) {
            cache.keep(&name(list), matrix)?;
        }
        let texts = serde_json::to_vec(&writer.texts).expect("texts can be written as JSON");
        let mut bytes = MatrixBuilder::integers(texts.len(), 1);
        for (row, byte) in texts.into_iter().enumerate() {
            bytes.set_integers(row, std::iter::once(byte.into()));
        }
        cache.put(&name("texts"), &bytes)?;
        // The last one: whoever finds it finds all.
        cache.put(&name("places"), &writer.places)?;
        let gone = || io::Error::other("the files that were just written are gone");
        find()?.ok_or_else(|| LoadError::cache(cache.root())(gone()))
    }

    /// The distinct texts of nodes.
    pub(crate) fn texts(&self) -> &[String] {
        &self.texts
    }

    /// The states without a graph, ascending.
    pub(crate) fn missing(&self) -> &[u32] {
        self.places.missing()
    }

    /// All that is mapped.
    pub(crate) fn matrices(&self) -> impl Iterator<Item = &Arc<Matrix>> {
        self.lists.iter().chain([&self.places])
    }

    /// Joins the graphs of these states.
    pub(crate) fn gather(&self, states: &[usize]) -> GraphBatch {
        let places: Vec<i64> = self.places.gather_as(states.iter().copied());
        let mut joined = GraphBatch { ptr: vec![0], ..GraphBatch::default() };
        let (mut sources, mut targets) = (Vec::new(), Vec::new());
        for (graph, place) in (0..).zip(places.as_chunks::<4>().0) {
            let [nodes, edges] =
                [(place[0], place[1]), (place[2], place[3])].map(|(begin, len)| {
                    let number = |number| usize::try_from(number).expect("it is not negative");
                    number(begin)..number(begin + len)
                });
            let first = joined.ptr[joined.ptr.len() - 1];
            let [kind, text, function, block, flow, position, source, target] = &self.lists;
            joined.node_type.extend(kind.gather_as::<u8>(nodes.clone()));
            joined.node_text.extend(text.gather_as::<i32>(nodes.clone()));
            joined.node_function.extend(function.gather_as::<i32>(nodes.clone()));
            joined.node_block.extend(block.gather_as::<i32>(nodes.clone()));
            joined.edge_flow.extend(flow.gather_as::<u8>(edges.clone()));
            joined.edge_position.extend(position.gather_as::<i32>(edges.clone()));
            let end = |node: i64| node + first;
            sources.extend(source.gather_as::<i64>(edges.clone()).into_iter().map(end));
            targets.extend(target.gather_as::<i64>(edges).into_iter().map(end));
            joined.batch.extend(nodes.map(|_| graph));
            joined.ptr.push(first + place[1]);
        }
        sources.append(&mut targets);
        joined.edge_index = sources;
        joined
    }
}

/// Writes the items of graphs one after another.
struct GraphWriter {
    places: MatrixBuilder,
    lists: Vec<MatrixWriter>,
    nodes: i64,
    edges: i64,
    known: HashMap<String, i32>,
    texts: Vec<String>,
}

impl GraphWriter {
    fn new(states: &ObservedStates, cache: &MatrixCache) -> Result<Self, LoadError> {
        let lists = LISTS.iter().map(|(_, kind)| cache.writer(*kind));
        Ok(Self {
            places: MatrixBuilder::integers(states.ids().rows(), 4),
            lists: lists.collect::<Result<_, _>>()?,
            nodes: 0,
            edges: 0,
            known: HashMap::new(),
            texts: Vec::new(),
        })
    }

    /// Adds the graphs of a column; `numbers` has the number of each row's state.
    fn add(&mut self, column: &StructArray, numbers: &[usize]) -> io::Result<()> {
        for (row, &number) in numbers.iter().enumerate().filter(|(row, _)| column.is_valid(*row)) {
            let (nodes, edges) = (self.add_texts(column, row)?, self.add_edges(column, row)?);
            let place = [self.nodes, nodes, self.edges, edges];
            self.places.set_integers(number, place.into_iter());
            (self.nodes, self.edges) = (self.nodes + nodes, self.edges + edges);
        }
        Ok(())
    }

    fn add_texts(&mut self, column: &StructArray, row: usize) -> io::Result<i64> {
        let list = column["node_text"].as_list::<i32>().value(row);
        let texts = i64::try_from(list.len()).map_err(io::Error::other)?;
        for text in list.as_string::<i32>() {
            let text = text.unwrap_or_default();
            let place = if let Some(&place) = self.known.get(text) {
                place
            } else {
                let place = i32::try_from(self.texts.len()).map_err(io::Error::other)?;
                self.texts.push(text.to_owned());
                self.known.insert(text.to_owned(), place);
                place
            };
            self.lists[1].add(place.into())?;
        }
        same_length(&[
            texts,
            self.add_list::<Int8Type>(column, row, 0)?,
            self.add_list::<Int32Type>(column, row, 2)?,
            self.add_list::<Int32Type>(column, row, 3)?,
        ])
    }

    fn add_edges(&mut self, column: &StructArray, row: usize) -> io::Result<i64> {
        let mut lengths = vec![self.add_list::<Int8Type>(column, row, 4)?];
        for list in 5..LISTS.len() {
            lengths.push(self.add_list::<Int32Type>(column, row, list)?);
        }
        same_length(&lengths)
    }

    /// Adds one of [`LISTS`], and returns its length.
    fn add_list<T: ArrowPrimitiveType<Native: Into<i64>>>(
        &mut self,
        column: &StructArray,
        row: usize,
        list: usize,
    ) -> io::Result<i64> {
        let items = column[LISTS[list].0].as_list::<i32>().value(row);
        for &item in items.as_primitive::<T>().values() {
            self.lists[list].add(item.into())?;
        }
        i64::try_from(items.len()).map_err(io::Error::other)
    }
}

/// Returns the common length of the lists of a graph. Otherwise all later graphs would be shifted.
fn same_length(lengths: &[i64]) -> io::Result<i64> {
    if lengths.iter().any(|length| *length != lengths[0]) {
        let problem = format!("the lists of a graph have different lengths: {lengths:?}");
        return Err(io::Error::new(io::ErrorKind::InvalidData, problem));
    }
    Ok(lengths[0])
}
