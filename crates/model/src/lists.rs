//! Values that are structs of lists.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::{ItemType, ValueType};

/// A list of a [`Lists`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum List {
    /// Items of [`ItemType::Int8`].
    Int8(Vec<i8>),
    /// Items of [`ItemType::Int32`].
    Int32(Vec<i32>),
    /// Items of [`ItemType::Text`].
    Text(Texts),
}

/// A list of texts that holds equal texts once.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Texts {
    /// The distinct texts, in the order of their first places.
    pub distinct: Vec<String>,
    /// Each text, as its place in `distinct`.
    pub places: Vec<u32>,
}

/// A value of a type that [is a struct of lists](ValueType::lists).
///
/// Lists whose names begin with the same word (`node_type` and `node_text`) have one item each for
/// the same things, so their lengths are equal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lists {
    value_type: ValueType,
    /// In the order of [`ValueType::lists`].
    in_order: Vec<List>,
}

impl Lists {
    /// Returns the value that has these lists, in the order of [`ValueType::lists`]. Nothing checks
    /// that it [is sound](Self::is_sound).
    pub fn new(value_type: ValueType, lists: Vec<List>) -> Self {
        Self { value_type, in_order: lists }
    }

    /// The type of the value.
    pub fn value_type(&self) -> ValueType {
        self.value_type
    }

    /// The lists, with their names.
    pub fn named(&self) -> impl Iterator<Item = (&'static str, &List)> {
        self.value_type.lists().iter().map(|&(name, _)| name).zip(&self.in_order)
    }

    /// The list of this name.
    pub fn get(&self, name: &str) -> Option<&List> {
        self.named().find_map(|(known, list)| (known == name).then_some(list))
    }

    /// About how many bytes it takes in memory.
    pub(crate) fn bytes(&self) -> usize {
        self.in_order.iter().map(List::bytes).sum()
    }

    /// Whether the lists are those of the type, and agree in length. In a graph, edges lead from
    /// nodes to nodes.
    pub fn is_sound(&self) -> bool {
        let types = self.value_type.lists();
        let has_types =
            self.in_order.iter().map(List::item_type).eq(types.iter().map(|&(_, it)| it));
        let mut lengths = HashMap::new();
        let agree = |(name, list): (&'static str, &List)| {
            let group = name.split('_').next();
            *lengths.entry(group).or_insert(list.len()) == list.len()
        };
        let is_text = |list: &List| match list {
            List::Text(texts) => {
                texts.places.iter().all(|&place| (place as usize) < texts.distinct.len())
            }
            List::Int8(_) | List::Int32(_) => true,
        };
        let nodes = self.get("node_type").map_or(0, List::len);
        let is_node = |&place: &i32| usize::try_from(place).is_ok_and(|place| place < nodes);
        let leads_to_nodes = |name| match self.get(name) {
            Some(List::Int32(ends)) => ends.iter().all(is_node),
            _ => true,
        };
        has_types
            && self.named().all(agree)
            && self.in_order.iter().all(is_text)
            && ["edge_source", "edge_target"].into_iter().all(leads_to_nodes)
    }
}

impl List {
    /// The number of items.
    pub fn len(&self) -> usize {
        match self {
            Self::Int8(items) => items.len(),
            Self::Int32(items) => items.len(),
            Self::Text(texts) => texts.places.len(),
        }
    }

    /// Whether there are no items.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn item_type(&self) -> ItemType {
        match self {
            Self::Int8(_) => ItemType::Int8,
            Self::Int32(_) => ItemType::Int32,
            Self::Text(_) => ItemType::Text,
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Int8(items) => items.len(),
            Self::Int32(items) => size_of_val(&**items),
            Self::Text(texts) => {
                let distinct: usize = texts.distinct.iter().map(String::len).sum();
                distinct + size_of_val(&*texts.places)
            }
        }
    }
}

impl Texts {
    /// The texts, one after another.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.places.iter().map(|&place| self.distinct[place as usize].as_str())
    }
}

impl<'a> FromIterator<&'a str> for Texts {
    fn from_iter<I: IntoIterator<Item = &'a str>>(all: I) -> Self {
        let mut known = HashMap::new();
        let mut distinct = Vec::new();
        let place = |text| {
            *known.entry(text).or_insert_with(|| {
                distinct.push(str::to_owned(text));
                u32::try_from(distinct.len() - 1).expect("a list has fewer items than 2^31")
            })
        };
        let places = all.into_iter().map(place).collect();
        Self { distinct, places }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ProgramGraph;

    fn graph() -> ProgramGraph {
        ProgramGraph {
            node_type: vec![0, 0, 0],
            node_text: ["[external]", "ret", "ret"].into_iter().collect(),
            node_function: vec![0, 0, 1],
            node_block: vec![0, 0, 1],
            edge_flow: vec![2, 2],
            edge_position: vec![0, 7],
            edge_source: vec![0, 2],
            edge_target: vec![1, 0],
        }
    }

    #[test]
    fn lists_that_do_not_fit_are_not_sound() {
        let refused = |graph| !Lists::from(graph).is_sound();
        assert!(!refused(graph()) && !refused(ProgramGraph::default()));
        assert!(refused(ProgramGraph { edge_target: vec![1, 3], ..graph() }), "to nowhere");
        assert!(refused(ProgramGraph { edge_source: vec![-1, 2], ..graph() }), "from nowhere");
        assert!(refused(ProgramGraph { node_block: vec![0], ..graph() }), "two nodes without");
        assert!(refused(ProgramGraph { edge_flow: vec![2], ..graph() }), "an edge without");
        let node_text = Texts { distinct: vec!["ret".into()], places: vec![0, 0, 1] };
        assert!(refused(ProgramGraph { node_text, ..graph() }), "a text that is not there");
        let few = vec![List::Int8(Vec::new())];
        assert!(!Lists::new(ValueType::ProgramGraph, few).is_sound());
    }

    #[test]
    fn lists_have_their_names() {
        let lists = Lists::from(graph());
        assert_eq!(lists.get("edge_position"), Some(&List::Int32(vec![0, 7])));
        assert_eq!(lists.get("node"), None);
        let Some(List::Text(texts)) = lists.get("node_text") else { panic!("no texts") };
        assert_eq!(texts.distinct, ["[external]", "ret"]);
        assert!(texts.iter().eq(["[external]", "ret", "ret"]));
    }
}
