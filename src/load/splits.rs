//! Splits into training and test rows, without leaks.
//!
//! A split assigns *groups*: program families, or programs. Rows follow their states: a state that
//! both training and test programs reach is a training state, so no test row may name it. Groups
//! that share states form a component. Components stay whole where that gives about the wanted
//! share of test rows, and then no row is lost. Where they do not, because shared states tie most
//! groups into one component, groups are assigned one by one. Then test rows that lead to a
//! training state are purged, and counted.

use std::collections::BTreeMap;

use arrow::array::{AsArray as _, StringArray};
use futures::TryStreamExt as _;

use super::dataset::{Dataset, DatasetRequest, Items};
use super::error::LoadError;
use super::permutation::Permutation;
use super::sealed_rows::SealedRows;
use super::source::Source;
use crate::lake::decode::state_ids;
use crate::model::base;

/// How far the share of test rows may be from the wanted one, as a part of that, where components
/// stay whole.
const TOLERANCE: f64 = 0.5;

/// What is never divided between training and test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SplitBy {
    /// A program family; programs of an unknown family are families of their own.
    Family,
    /// A program.
    Benchmark,
    /// A row: what leaks. It is there to be compared with.
    Row,
}

impl SplitBy {
    /// The name: `family`, `benchmark` or `row`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Family => "family",
            Self::Benchmark => "benchmark",
            Self::Row => "row",
        }
    }

    /// What has this name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Family, Self::Benchmark, Self::Row].into_iter().find(|by| by.name() == name)
    }
}

/// What a split is to be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SplitRequest {
    /// What is never divided.
    pub by: SplitBy,
    /// The share of test rows, between 0 and 1.
    pub test_size: f64,
    /// Fixes which groups are for test.
    pub seed: u64,
}

/// What became of the rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SplitReport {
    /// Training rows.
    pub train_rows: usize,
    /// Test rows.
    pub test_rows: usize,
    /// Rows of neither part: those of test programs that lead to a training state, and those of
    /// states that no recorded transition leads to.
    pub purged_rows: usize,
    /// Groups for training.
    pub train_groups: usize,
    /// Groups for test.
    pub test_groups: usize,
    /// Groups of states that are tied together by shared states.
    pub components: usize,
    /// States that both training and test programs reach.
    pub shared_states: usize,
}

/// A dataset in two parts.
#[derive(Debug, Clone)]
pub struct Split {
    /// The training rows.
    pub train: Dataset,
    /// The test rows.
    pub test: Dataset,
    /// What became of the rows.
    pub report: SplitReport,
}

impl Dataset {
    /// Splits the rows into training and test rows. Equal arguments give equal parts.
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
        let places = |part: Option<Part>| {
            let numbered = self.all_places().zip(&labels);
            numbered
                .filter(|(_, label)| **label == part)
                .map(|(place, _)| place)
                .collect::<Vec<_>>()
        };
        let (train, test) = (places(Some(Part::Train)), places(Some(Part::Test)));
        (report.train_rows, report.test_rows) = (train.len(), test.len());
        report.purged_rows = self.len() - train.len() - test.len();
        if train.is_empty() || test.is_empty() {
            return Err(no_split(self.len(), request, report, groups));
        }
        // The parts depend on the transition graph and on the programs, too.
        let name = format!("{request:?} {}", lake.everything());
        Ok(Split {
            train: self.choose(&lake.cache, &format!("train of {name}"), || train)?,
            test: self.choose(&lake.cache, &format!("test of {name}"), || test)?,
            report,
        })
    }
}

/// The error about a split with an empty part: `report` says what it came to, and `groups` how many
/// groups have rows.
fn no_split(rows: usize, request: SplitRequest, report: SplitReport, groups: usize) -> LoadError {
    let (by, share) = (request.by, request.test_size);
    let problem = match by {
        _ if rows == 0 => "there are none".to_owned(),
        SplitBy::Row => format!("{rows} are too few for a share of {share}"),
        SplitBy::Family | SplitBy::Benchmark if groups == 0 => {
            "no recorded transition leads to their states; is the lake deduplicated?".to_owned()
        }
        SplitBy::Family if groups == 1 => {
            "all programs are of one family; split by benchmark".to_owned()
        }
        SplitBy::Benchmark if groups == 1 => {
            "they are of one program; record more programs, or split by row, which leaks".to_owned()
        }
        _ if report.train_groups == 0 || report.test_groups == 0 => {
            let name = if by == SplitBy::Family { "families" } else { "programs" };
            format!(
                "a share of {share} of {groups} {name} is none or all; give a share such as 0.5"
            )
        }
        _ => "the programs of one part reach none but states of the other, or no rows at all; \
              give another seed or share"
            .to_owned(),
    };
    LoadError::NoSplit { by: by.name(), problem }
}

/// A part of a split.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Train,
    Test,
}

/// Puts the first rows of a shuffle into the test part.
fn random_rows(rows: u32, request: SplitRequest) -> Vec<Option<Part>> {
    let order = Permutation::new(rows, request.seed, 0);
    let mut parts = vec![Some(Part::Train); rows as usize];
    for place in 0..rows {
        if f64::from(place) >= f64::from(rows) * request.test_size {
            break;
        }
        parts[order.row(place) as usize] = Some(Part::Test);
    }
    parts
}

/// The transition graph: for each state, the states that its transitions lead to.
pub(super) struct Graph {
    begins: Vec<u32>,
    next: Vec<u32>,
}

impl Graph {
    pub(super) async fn new(lake: &SealedRows) -> Result<Self, LoadError> {
        let request = DatasetRequest::all(Source::StateTransitions);
        let edges = Dataset::open(lake, &request).await?;
        let all: Vec<u32> = edges.all_places().collect();
        let (from, next) = edges.states(&all);
        let mut begins = vec![0; lake.states.ids().rows() + 1];
        for state in from {
            begins[state as usize + 1] += 1;
        }
        for state in 1..begins.len() {
            begins[state] += begins[state - 1];
        }
        Ok(Self { begins, next })
    }

    pub(super) fn states(&self) -> usize {
        self.begins.len() - 1
    }

    fn next(&self, state: u32) -> &[u32] {
        let state = state as usize;
        &self.next[self.begins[state] as usize..self.begins[state + 1] as usize]
    }

    /// Calls `enter` for what can be reached from `starts`, and goes on where it says so.
    pub(super) fn walk(&self, starts: &[u32], mut enter: impl FnMut(u32) -> bool) {
        let mut waiting = starts.to_vec();
        while let Some(state) = waiting.pop() {
            if enter(state) {
                waiting.extend(self.next(state));
            }
        }
    }
}

/// A program of a lake.
pub(super) struct Program {
    pub(super) uri: String,
    /// Empty if it is unknown.
    pub(super) family: String,
    /// The number of its first state.
    pub(super) start: u32,
}

/// The programs that sealed rows are about, by their names.
pub(super) async fn programs(lake: &SealedRows) -> Result<Vec<Program>, LoadError> {
    let text =
        "SELECT benchmark_uri, family, initial_state_id FROM benchmarks ORDER BY benchmark_uri";
    let mut answer = lake.engine.sql(text).await?;
    let mut programs = Vec::new();
    while let Some(batch) = answer.try_next().await? {
        let (uris, families) =
            (batch.column(0).as_string::<i32>(), batch.column(1).as_string::<i32>());
        for (row, state) in state_ids(&batch, "initial_state_id").enumerate() {
            // A program that no sealed row is about has no state here.
            let Some(start) = state.and_then(|state| lake.states.index().find(&state)) else {
                continue;
            };
            let text = |texts: &StringArray| texts.value(row).to_owned();
            programs.push(Program { uri: text(uris), family: text(families), start });
        }
    }
    Ok(programs)
}

/// The groups of a lake, with the first states of their programs.
async fn groups(lake: &SealedRows, by: SplitBy) -> Result<Vec<Vec<u32>>, LoadError> {
    let mut groups: BTreeMap<(bool, String), Vec<u32>> = BTreeMap::new();
    for Program { uri, family, start } in programs(lake).await? {
        let is_known = by == SplitBy::Family && !family.is_empty();
        // A program that begins at a state of another one is of its group.
        let name = if is_known { family } else { base(&uri).to_owned() };
        groups.entry((is_known, name)).or_default().push(start);
    }
    Ok(groups.into_values().collect())
}

/// Which states are of which part.
struct Assignment {
    /// For each state, 1 if a training program reaches it, and 2 if a test program does.
    reached_by: Vec<u8>,
    report: SplitReport,
    /// The groups whose component has rows of the dataset.
    with_rows: usize,
}

const TRAIN: u8 = 1;
const TEST: u8 = 2;
const BOTH: u8 = TRAIN | TEST;

impl Assignment {
    async fn new(
        lake: &SealedRows,
        dataset: &Dataset,
        request: SplitRequest,
    ) -> Result<Self, LoadError> {
        let steps = lake.snapshot.uncounted().map(|segment| segment.rows).sum();
        if dataset.source() != Source::StateTransitions && steps > 0 {
            // Their states would be taken for states that nothing leads to.
            return Err(LoadError::NotDeduplicated { steps });
        }
        let graph = Graph::new(lake).await?;
        let groups = groups(lake, request.by).await?;
        let components = Components::new(&graph, &groups, dataset);
        let is_test = components.choose(request);
        let mut reached_by = vec![0; graph.states()];
        for (mark, wanted) in [(TRAIN, false), (TEST, true)] {
            let of_part = groups.iter().zip(&is_test).filter(|(_, is_test)| **is_test == wanted);
            let starts: Vec<u32> = of_part.flat_map(|(starts, _)| starts).copied().collect();
            graph.walk(&starts, |state| {
                let marks: &mut u8 = &mut reached_by[state as usize];
                let is_new = *marks & mark == 0;
                *marks |= mark;
                is_new
            });
        }
        let test_groups = is_test.iter().filter(|is_test| **is_test).count();
        let with_rows = components.with_rows();
        let report = SplitReport {
            train_groups: groups.len() - test_groups,
            test_groups,
            components: components.count,
            shared_states: reached_by.iter().map(|&marks| usize::from(marks == BOTH)).sum(),
            ..SplitReport::default()
        };
        Ok(Self { reached_by, report, with_rows })
    }

    /// The part of each row; none for a row that is purged.
    fn rows(&self, dataset: &Dataset) -> Vec<Option<Part>> {
        let all: Vec<u32> = dataset.all_places().collect();
        let (states, next) = dataset.states(&all);
        let part = |(state, next): (u32, u32)| {
            match (self.reached_by[state as usize], self.reached_by[next as usize]) {
                (TEST, TEST) => Some(Part::Test),
                (from, to) if from & to & TRAIN != 0 => Some(Part::Train),
                // A test row that leads to a training state. Or a step that led to another state
                // than most do: the graph does not have it.
                _ => None,
            }
        };
        states.into_iter().zip(next).map(part).collect()
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
    fn new(graph: &Graph, groups: &[Vec<u32>], dataset: &Dataset) -> Self {
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

    /// Which groups are for test: whole components where they give about the wanted share.
    fn choose(&self, request: SplitRequest) -> Vec<bool> {
        let (chosen, share) = draw(&self.rows(), request);
        if (share - request.test_size).abs() <= TOLERANCE * request.test_size {
            return self.of_group.iter().map(|&component| chosen[component]).collect();
        }
        draw(&self.weights, request).0
    }
}

/// Goes through items in a random order and takes those that bring the share of the weight taken
/// nearer to the wanted one. Returns which, and their share.
fn draw(weights: &[u64], request: SplitRequest) -> (Vec<bool>, f64) {
    let all = weights.iter().sum::<u64>().max(1);
    #[expect(clippy::cast_precision_loss, reason = "a share need not be exact")]
    let distance = |weight: u64| (weight as f64 / all as f64 - request.test_size).abs();
    let count = u32::try_from(weights.len()).expect("groups have states, counted in 32 bits");
    let order = Permutation::new(count, request.seed, 0);
    let (mut chosen, mut sum) = (vec![false; weights.len()], 0);
    for item in (0..count).map(|place| order.row(place) as usize) {
        if distance(sum + weights[item]) < distance(sum) {
            chosen[item] = true;
            sum += weights[item];
        }
    }
    #[expect(clippy::cast_precision_loss, reason = "a share need not be exact")]
    let share = sum as f64 / all as f64;
    (chosen, share)
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

/// What rows of one part give away about those of the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Leaks {
    /// The states that test rows name.
    pub test_states: usize,
    /// Those of them that training rows name too.
    pub shared_states: usize,
    /// Test rows.
    pub test_rows: usize,
    /// Those of them whose state a training row names.
    pub rows_of_shared_states: usize,
    /// Those of them whose next state a training row names.
    pub rows_to_shared_states: usize,
}

impl Leaks {
    /// Compares two parts of rows of one snapshot.
    pub fn of(train: &Dataset, test: &Dataset) -> Self {
        let all = |rows: &Dataset| rows.states(&rows.all_places().collect::<Vec<_>>());
        Self::between(&all(train), &all(test))
    }

    /// Compares rows, given by the numbers of their states and of the states that they lead to.
    pub(super) fn between(train: &(Vec<u32>, Vec<u32>), test: &(Vec<u32>, Vec<u32>)) -> Self {
        let all = || [train, test].into_iter().flat_map(|(states, next)| states.iter().chain(next));
        let mut is_trained = vec![false; all().max().map_or(0, |&last| last as usize + 1)];
        for &state in train.0.iter().chain(&train.1) {
            is_trained[state as usize] = true;
        }
        let trained =
            |states: &[u32]| states.iter().filter(|&&state| is_trained[state as usize]).count();
        let (states, next) = test;
        let mut named = [&states[..], next].concat();
        named.sort_unstable();
        named.dedup();
        Self {
            test_states: named.len(),
            shared_states: trained(&named),
            test_rows: states.len(),
            rows_of_shared_states: trained(states),
            rows_to_shared_states: trained(next),
        }
    }

    /// Whether no state of a test row is one of a training row.
    pub fn none(&self) -> bool {
        self.shared_states == 0
    }
}
