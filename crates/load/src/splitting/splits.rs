//! Splits into training, validation and test rows, without leaks.
//!
//! A split assigns *groups*: program families, or programs. Rows follow their states: a state that
//! both training and test programs reach is a training state, so no test row may name it; a state
//! of validation and test programs is for validation. Groups that share states form a component.
//! Components stay whole where that gives about the wanted shares, and then no row is lost. Where
//! they do not, because shared states tie most groups into one component, groups are assigned one
//! by one. Then rows that lead to a state of another part are purged, and counted.

use std::collections::BTreeMap;

use arrow::array::{AsArray as _, StringArray};
use futures::TryStreamExt as _;

use super::parts::{Split, SplitBy, SplitPart, SplitReport, SplitRequest, TOLERANCE};
use crate::dataset::{DatasetRequest, Items, TrainingDataset};
use crate::epochs::permutation::Permutation;
use crate::error::LoadError;
use crate::sources::sealed_rows::SealedRows;
use crate::sources::source::Source;
use steplake_lake::graph::RowOffsets;
use steplake_model::{StateId, base};

impl TrainingDataset {
    /// Splits the rows into training, validation and test rows. Equal arguments give equal parts.
    ///
    /// It takes time linear in the number of transitions of the lake and of rows.
    ///
    /// # Errors
    ///
    /// [`LoadError::NoSplit`] if one part would be empty, and those of reading the lake.
    pub async fn split(
        &self,
        lake: &SealedRows,
        request: SplitRequest,
    ) -> Result<Split, LoadError> {
        if self.items() != Items::Rows {
            return Err(LoadError::SplitFirst);
        }
        let (labels, mut report, groups) = match request.by {
            SplitBy::Row => (random_rows(self.places(), request), SplitReport::default(), 0),
            SplitBy::Family | SplitBy::Benchmark => {
                let assignment = Assignment::new(lake, self, request).await?;
                (assignment.rows(self), assignment.report, assignment.with_rows)
            }
        };
        let places = |part: SplitPart| {
            let numbered = self.all_places().zip(&labels);
            numbered
                .filter(|(_, label)| **label == Some(part))
                .map(|(place, _)| place)
                .collect::<Vec<_>>()
        };
        let [train, validation, test] = SplitPart::ALL.map(places);
        report.train_rows = train.len();
        report.validation_rows = validation.len();
        report.test_rows = test.len();
        report.purged_rows = self.len() - train.len() - validation.len() - test.len();
        if let Some(empty) = request.parts().find(|&part| report.rows(part) == 0) {
            return Err(report.refusal(empty, self.len(), request, groups));
        }
        // The parts depend on the transition graph and on the programs, too.
        let name = format!("{request:?} {}", lake.everything());
        let chosen = |part: SplitPart, places: Vec<u32>| {
            self.choose(&lake.cache, &format!("{} of {name}", part.name()), || places)
        };
        Ok(Split {
            train: chosen(SplitPart::Train, train)?,
            validation: (request.validation_size > 0.0)
                .then(|| chosen(SplitPart::Validation, validation))
                .transpose()?,
            test: chosen(SplitPart::Test, test)?,
            report,
        })
    }
}

/// Puts the first rows of a shuffle into the test part, and the next ones into the validation part.
fn random_rows(rows: u32, request: SplitRequest) -> Vec<Option<SplitPart>> {
    let order = Permutation::new(rows, request.seed, 0);
    let test = f64::from(rows) * request.test_size;
    let held_out = f64::from(rows) * (request.test_size + request.validation_size);
    let mut parts = vec![Some(SplitPart::Train); rows as usize];
    for place in 0..rows {
        let part = match f64::from(place) {
            place if place < test => SplitPart::Test,
            place if place < held_out => SplitPart::Validation,
            _ => break,
        };
        parts[order.row(place) as usize] = Some(part);
    }
    parts
}

/// The transition graph: for each state, the states that its transitions lead to.
pub(crate) struct StateAdjacency {
    offsets: RowOffsets,
    next: Vec<u32>,
}

impl StateAdjacency {
    pub(crate) async fn new(lake: &SealedRows) -> Result<Self, LoadError> {
        let request = DatasetRequest::all(Source::StateTransitions);
        let edges = TrainingDataset::open(lake, &request).await?;
        let all: Vec<u32> = edges.all_places().collect();
        let (from, next) = edges.states(&all);
        let mut counts = vec![0; lake.states.ids().rows() + 1];
        for state in from {
            counts[state as usize + 1] += 1;
        }
        Ok(Self { offsets: RowOffsets::from_counts(counts), next })
    }

    pub(crate) fn states(&self) -> usize {
        self.offsets.begins().len() - 1
    }

    /// Calls `enter` for what can be reached from `starts`, and goes on where it says so.
    pub(crate) fn walk(&self, starts: &[u32], mut enter: impl FnMut(u32) -> bool) {
        let mut waiting = starts.to_vec();
        while let Some(state) = waiting.pop() {
            if enter(state) {
                waiting.extend(&self.next[self.offsets.edges_of(state)]);
            }
        }
    }
}

/// A program of a lake.
pub(crate) struct SplitProgram {
    pub(crate) uri: String,
    /// Empty if it is unknown.
    pub(crate) family: String,
    /// The number of its first state.
    pub(crate) start: u32,
}

/// The programs that sealed rows are about, by their names.
pub(crate) async fn programs(lake: &SealedRows) -> Result<Vec<SplitProgram>, LoadError> {
    let text =
        "SELECT benchmark_uri, family, initial_state_id FROM benchmarks ORDER BY benchmark_uri";
    let mut answer = lake.engine.sql(text).await?;
    let mut programs = Vec::new();
    while let Some(batch) = answer.try_next().await? {
        let (uris, families) =
            (batch.column(0).as_string::<i32>(), batch.column(1).as_string::<i32>());
        let states = batch.column(2).as_fixed_size_binary();
        for (row, state) in states.iter().enumerate() {
            // A program that no sealed row is about has no state here.
            let state = state.map(StateId::from_slice);
            let Some(start) = state.and_then(|state| lake.states.index().find(&state)) else {
                continue;
            };
            let text = |texts: &StringArray| texts.value(row).to_owned();
            programs.push(SplitProgram { uri: text(uris), family: text(families), start });
        }
    }
    Ok(programs)
}

/// The groups of a lake, with the first states of their programs.
async fn groups(lake: &SealedRows, by: SplitBy) -> Result<Vec<Vec<u32>>, LoadError> {
    let mut groups: BTreeMap<(bool, String), Vec<u32>> = BTreeMap::new();
    for SplitProgram { uri, family, start } in programs(lake).await? {
        let is_known = by == SplitBy::Family && !family.is_empty();
        // A program that begins at a state of another one is of its group.
        let name = if is_known { family } else { base(&uri).to_owned() };
        groups.entry((is_known, name)).or_default().push(start);
    }
    Ok(groups.into_values().collect())
}

/// Which states are of which part.
struct Assignment {
    /// For each state, the bits of the parts whose programs reach it.
    reached_by: Vec<u8>,
    report: SplitReport,
    /// The groups whose component has rows of the dataset.
    with_rows: usize,
}

impl Assignment {
    async fn new(
        lake: &SealedRows,
        dataset: &TrainingDataset,
        request: SplitRequest,
    ) -> Result<Self, LoadError> {
        let steps = lake.snapshot.uncounted().map(|segment| segment.rows).sum();
        if dataset.source() != Source::StateTransitions && steps > 0 {
            // Their states would be taken for states that nothing leads to.
            return Err(LoadError::NotDeduplicated { steps });
        }
        let graph = StateAdjacency::new(lake).await?;
        let groups = groups(lake, request.by).await?;
        let components = Components::new(&graph, &groups, dataset);
        let parts = components.choose(request);
        let mut reached_by = vec![0; graph.states()];
        for part in SplitPart::ALL {
            let of_part = groups.iter().zip(&parts).filter(|(_, of)| **of == part);
            let starts: Vec<u32> = of_part.flat_map(|(starts, _)| starts).copied().collect();
            graph.walk(&starts, |state| {
                let marks: &mut u8 = &mut reached_by[state as usize];
                let is_new = *marks & bit(part) == 0;
                *marks |= bit(part);
                is_new
            });
        }
        let count = |part| parts.iter().filter(|of| **of == part).count();
        let shared = reached_by.iter().filter(|marks| marks.count_ones() > 1);
        let report = SplitReport {
            train_groups: count(SplitPart::Train),
            validation_groups: count(SplitPart::Validation),
            test_groups: count(SplitPart::Test),
            components: components.count,
            shared_states: shared.count(),
            largest_group_rows: components.weights.iter().copied().max().unwrap_or_default(),
            ..SplitReport::default()
        };
        Ok(Self { reached_by, report, with_rows: components.with_rows() })
    }

    /// The part of each row; none for a row that is purged.
    fn rows(&self, dataset: &TrainingDataset) -> Vec<Option<SplitPart>> {
        let all: Vec<u32> = dataset.all_places().collect();
        let (states, next) = dataset.states(&all);
        let reached_by = |state: u32, part| self.reached_by[state as usize] & bit(part) != 0;
        // A state is of the first of the parts that reach it.
        let part_of = |state| SplitPart::ALL.into_iter().find(|&part| reached_by(state, part));
        // A row that leads to a state of another part is of none. Nor is a step that led to another
        // state than most do, which the graph does not have, unless its part reaches that, too.
        let part = |(state, next): (u32, u32)| {
            let part = part_of(state)?;
            (part_of(next) == Some(part)).then_some(part)
        };
        states.into_iter().zip(next).map(part).collect()
    }
}

/// The mark of a state that a part reaches.
fn bit(part: SplitPart) -> u8 {
    match part {
        SplitPart::Train => 1,
        SplitPart::Validation => 2,
        SplitPart::Test => 4,
    }
}

/// Groups that share states, directly or through others.
struct Components {
    /// For each group, a group that stands for its component.
    of_group: Vec<usize>,
    /// For each group, the rows of the dataset whose states it was the first to reach.
    weights: Vec<u64>,
    count: usize,
}

impl Components {
    fn new(graph: &StateAdjacency, groups: &[Vec<u32>], dataset: &TrainingDataset) -> Self {
        const NOBODY: usize = usize::MAX;
        let mut owners = vec![NOBODY; graph.states()];
        let mut union = Union((0..groups.len()).collect());
        let mut weights = vec![0_u64; groups.len()];
        for (group, starts) in groups.iter().enumerate() {
            graph.walk(starts, |state| {
                let owner = &mut owners[state as usize];
                let is_new = *owner == NOBODY;
                if is_new {
                    *owner = group;
                } else {
                    // The owner reaches everything behind it too.
                    union.join(*owner, group);
                }
                is_new
            });
        }
        let all: Vec<u32> = dataset.all_places().collect();
        for state in dataset.states(&all).0 {
            if let Some(weight) = weights.get_mut(owners[state as usize]) {
                *weight += 1;
            }
        }
        let of_group: Vec<usize> = (0..groups.len()).map(|group| union.find(group)).collect();
        let count = of_group.iter().enumerate().filter(|(group, of)| group == *of).count();
        Self { of_group, weights, count }
    }

    /// The rows of the dataset of each component, by the group that stands for it.
    fn rows(&self) -> Vec<u64> {
        let mut rows = vec![0; self.of_group.len()];
        for (group, &component) in self.of_group.iter().enumerate() {
            rows[component] += self.weights[group];
        }
        rows
    }

    /// The number of groups whose component has rows.
    fn with_rows(&self) -> usize {
        let rows = self.rows();
        self.of_group.iter().filter(|component| rows[**component] > 0).count()
    }

    /// The part of each group: whole components where that gives about the wanted shares.
    fn choose(&self, request: SplitRequest) -> Vec<SplitPart> {
        match draw(&self.rows(), request) {
            (parts, true) => self.of_group.iter().map(|&component| parts[component]).collect(),
            (_, false) => draw(&self.weights, request).0,
        }
    }
}

/// Goes through items in a random order, for each part that is held out, and takes those that bring
/// its share of the weight nearer to the wanted one; what is left is for training. Returns the part
/// of each item, and whether the shares are about the wanted ones.
fn draw(weights: &[u64], request: SplitRequest) -> (Vec<SplitPart>, bool) {
    let all = weights.iter().sum::<u64>().max(1);
    let count = u32::try_from(weights.len()).expect("groups have states, counted in 32 bits");
    let order = Permutation::new(count, request.seed, 0);
    let (mut parts, mut are_near) = (vec![SplitPart::Train; weights.len()], true);
    for part in [SplitPart::Test, SplitPart::Validation] {
        let wanted = request.share(part);
        #[expect(clippy::cast_precision_loss, reason = "a share need not be exact")]
        let distance = |weight: u64| (weight as f64 / all as f64 - wanted).abs();
        let mut sum = 0;
        for item in (0..count).map(|place| order.row(place) as usize) {
            let nearer = distance(sum + weights[item]) < distance(sum);
            if parts[item] == SplitPart::Train && nearer {
                parts[item] = part;
                sum += weights[item];
            }
        }
        are_near &= distance(sum) <= TOLERANCE * wanted;
    }
    (parts, are_near)
}

/// Disjoint sets of numbers.
struct Union(Vec<usize>);

impl Union {
    fn find(&mut self, mut item: usize) -> usize {
        while self.0[item] != item {
            self.0[item] = self.0[self.0[item]];
            item = self.0[item];
        }
        item
    }

    fn join(&mut self, one: usize, other: usize) {
        let (one, other) = (self.find(one), self.find(other));
        self.0[one.max(other)] = one.min(other);
    }
}
