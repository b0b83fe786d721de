//! What a snapshot has, as typed rows: sealed rows before hot ones. Only the columns that the rows
//! need are read.

use std::sync::Arc;

use arrow::array::{Array as _, ArrayRef, AsArray as _, FixedSizeBinaryArray, RecordBatch};
use arrow::datatypes::{Float64Type, Int32Type, Int64Type};

use super::decode::{
    EdgeColumns, EpisodeEnd, StateColumn, TextColumn, action_index, benchmark_uris, booleans,
    list_of, lists, numbers,
};
use super::lists::value;
use super::rows::KnownBenchmark;
use super::table::Table;
use super::tables::{MeasurementRow, MiscompilationRow};
use crate::kernel::error::LakeError;
use crate::kernel::identity::RecordedObservation;
use crate::kernel::segments::scan::ScanColumns;
use crate::kernel::segments::segment::Segment;
use crate::kernel::snapshot::Snapshot;
use steplake_model::{
    ActionIndex, Baselines, DifferenceKind, EpisodeId, Excerpt, Failure, Lists, StateId, ValueType,
    as_f64,
};

/// A program of a lake.
#[derive(Debug, Clone)]
pub struct RecordedBenchmark {
    /// The canonical name.
    pub uri: String,
    /// How it is built and run, as a JSON object; none if that is unknown.
    pub execution: Option<String>,
    /// What else a writer knows of it.
    pub known: KnownBenchmark,
}

/// An episode that is over.
#[derive(Debug, Clone)]
pub struct ClosedEpisode {
    /// The episode.
    pub id: EpisodeId,
    /// The canonical name of the program.
    pub benchmark: String,
    /// Steps with an action.
    pub steps: u32,
    /// How the compiler failed, if that ended it.
    pub failure: Option<Failure>,
}

/// A row of `state_transitions`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transition {
    /// The state before.
    pub state: StateId,
    /// The action.
    pub action: ActionIndex,
    /// The state after.
    pub next: StateId,
}

impl Snapshot {
    /// Reads the programs.
    pub fn benchmarks(&self) -> impl Iterator<Item = Result<RecordedBenchmark, LakeError>> {
        let names = &self.identity().baselines;
        let fixed = ["benchmark_uri", "program_digest", "initial_state_id", "execution"];
        let columns = fixed.into_iter().chain(names.iter().map(String::as_str)).collect::<Vec<_>>();
        let batches = self.scan(Table::Benchmarks, ScanColumns::Named(&columns));
        each_row(batches, |batch: &RecordBatch| {
            let text = |column: TextColumn<'_>, row| column.get(row).map(str::to_owned);
            let (executions, digests) =
                (TextColumn::of(batch, "execution"), TextColumn::of(batch, "program_digest"));
            let states = StateColumn::of(batch, "initial_state_id");
            let costs = names.iter().map(|name| (name, numbers::<Int64Type>(batch, name)));
            let costs = costs.collect::<Vec<_>>();
            let baselines = |row| {
                let known = costs.iter().filter(|(_, costs)| costs.is_valid(row));
                known.map(|(name, costs)| ((*name).clone(), costs.value(row))).collect()
            };
            let row = |(row, uri): (usize, &str)| RecordedBenchmark {
                uri: uri.to_owned(),
                execution: text(executions, row),
                known: KnownBenchmark {
                    program_digest: text(digests, row).unwrap_or_default(),
                    initial_state: states.get(row),
                    baselines: Baselines(baselines(row)),
                },
            };
            benchmark_uris(batch).enumerate().map(row).collect()
        })
    }

    /// Reads the episodes that are over.
    pub fn episodes(&self) -> impl Iterator<Item = Result<ClosedEpisode, LakeError>> {
        let columns = [&EpisodeEnd::NAMES[..], &["benchmark_uri"]].concat();
        each_row(self.scan(Table::Episodes, ScanColumns::Named(&columns)), |batch: &RecordBatch| {
            let rows = EpisodeEnd::rows(batch).zip(benchmark_uris(batch));
            let row = |(end, uri): (EpisodeEnd<'_>, &str)| ClosedEpisode {
                id: end.id,
                benchmark: uri.to_owned(),
                steps: u32::try_from(end.steps).unwrap_or(0),
                failure: end.failure(),
            };
            rows.map(row).collect()
        })
    }

    /// Reads `state_transitions` over all layers, in the order of its key.
    ///
    /// # Errors
    ///
    /// [`LakeError::Corrupt`] when a file cannot be read.
    pub fn transitions(
        &self,
    ) -> Result<impl Iterator<Item = Result<Transition, LakeError>>, LakeError> {
        let table = Table::StateTransitions;
        let batches = self.scan_layers(table, &(i64::MIN..=i64::MAX))?;
        Ok(each_row(batches, move |batch: &RecordBatch| {
            let edges = EdgeColumns::of(batch, table);
            let led = edges.led.as_ref().expect("transitions led to states");
            let row = |row| Transition {
                state: StateId::from_slice(edges.states.value(row)),
                action: edges.action(row),
                next: StateId::from_slice(led.states.value(row)),
            };
            (0..edges.rows()).map(row).collect()
        }))
    }

    /// Reads the measurements. A row whose program has a name of another version is left out.
    pub fn measurements(&self) -> impl Iterator<Item = Result<MeasurementRow, LakeError>> {
        each_row(self.scan(Table::Measurements, ScanColumns::All), |batch: &RecordBatch| {
            let [uids, benchmarks, spaces, machines, compilations] =
                ["uid", "benchmark_uri", "space", "machine", "compilation"]
                    .map(|name| TextColumn::of(batch, name));
            let (states, samples) = (StateColumn::of(batch, "state_id"), lists(batch, "samples"));
            let warmups = numbers::<Int32Type>(batch, "warmups");
            let times = numbers::<Int64Type>(batch, "measured_at_ms");
            let row = |row| {
                Some(MeasurementRow {
                    uid: uids.text(row).to_owned(),
                    state: states.id(row),
                    benchmark: benchmarks.text(row).parse().ok()?,
                    space: spaces.text(row).to_owned(),
                    machine: machines.text(row).to_owned(),
                    compilation: compilations.text(row).to_owned(),
                    warmups: warmups.value(row).cast_unsigned(),
                    measured_at_ms: times.value(row),
                    samples: list_of::<Float64Type>(samples, row).to_vec(),
                })
            };
            (0..batch.num_rows()).filter_map(row).collect()
        })
    }

    /// Reads the miscompilations. A row with a name or a kind of another version is left out.
    pub fn miscompilations(&self) -> impl Iterator<Item = Result<MiscompilationRow, LakeError>> {
        each_row(self.scan(Table::Miscompilations, ScanColumns::All), |batch: &RecordBatch| {
            let text = |name, row| TextColumn::of(batch, name).text(row).to_owned();
            let state = |name, row| StateColumn::of(batch, name).id(row);
            let excerpt = |digest, excerpt, row| Excerpt {
                digest: text(digest, row),
                excerpt: text(excerpt, row),
            };
            let (kinds, actions) = (TextColumn::of(batch, "kind"), lists(batch, "actions"));
            let action = |&action: &i32| action_index(action);
            let row = |row| {
                let is_kind = |kind: &DifferenceKind| kind.as_str() == kinds.text(row);
                Some(MiscompilationRow {
                    uid: text("uid", row),
                    benchmark: text("benchmark_uri", row).parse().ok()?,
                    actions: list_of::<Int32Type>(actions, row).iter().map(action).collect(),
                    state: state("state_id", row),
                    next_state: state("next_state_id", row),
                    kind: DifferenceKind::ALL.into_iter().find(is_kind)?,
                    subject: TextColumn::of(batch, "subject").get(row).map(str::to_owned),
                    expected: excerpt("expected_digest", "expected_excerpt", row),
                    actual: excerpt("actual_digest", "actual_excerpt", row),
                    minimised: booleans(batch, "minimised").value(row),
                    compilation: text("compilation", row),
                    found_at_ms: numbers::<Int64Type>(batch, "found_at_ms").value(row),
                })
            };
            (0..batch.num_rows()).filter_map(row).collect()
        })
    }

    /// Reads the values of all states in a space that the lake records, some at a time.
    pub fn observations<'a>(
        &'a self,
        space: &'a RecordedObservation,
    ) -> impl Iterator<Item = Result<Observed, LakeError>> + 'a {
        let columns = ["state_id", space.name.as_str()];
        let batches = self.scan(Table::Observations, ScanColumns::Named(&columns));
        batches.map(|batch| Ok(Observed::of(&batch?, space)))
    }

    /// The same for the states of one segment.
    pub fn segment_observations<'a>(
        &'a self,
        segment: &'a Segment,
        space: &'a RecordedObservation,
    ) -> impl Iterator<Item = Result<Observed, LakeError>> + 'a {
        let columns = ["state_id", space.name.as_str()];
        let batches = self.scan_segment(segment, ScanColumns::Named(&columns));
        batches.map(|batch| Ok(Observed::of(&batch?, space)))
    }

    /// Reads the number of each state that has one in the space called `space`. There is none if
    /// the lake does not record the space, or if its values are no single numbers.
    pub fn numbers(&self, space: &str) -> impl Iterator<Item = Result<(StateId, f64), LakeError>> {
        let spaces = self.identity().observations.iter().filter(move |of| of.name == space);
        each_row(spaces.flat_map(|space| self.observations(space)), |observed: &Observed| {
            let number = |(place, state)| match observed.value(place) {
                ValueRef::Int(number) => Some((state, as_f64(number))),
                ValueRef::Float(number) => Some((state, number)),
                _ => None,
            };
            observed.states().filter_map(number).collect()
        })
    }
}

/// The rows of batches, one after another.
fn each_row<B, T>(
    batches: impl Iterator<Item = Result<B, LakeError>>,
    rows: impl Fn(&B) -> Vec<T>,
) -> impl Iterator<Item = Result<T, LakeError>> {
    batches.flat_map(move |batch| {
        let (rows, error) = match batch {
            Ok(batch) => (rows(&batch), None),
            Err(error) => (Vec::new(), Some(error)),
        };
        rows.into_iter().map(Ok).chain(error.map(Err))
    })
}

/// Some states, with their values in one observation space. Clones share their memory.
#[derive(Debug, Clone)]
pub struct Observed {
    states: FixedSizeBinaryArray,
    values: ArrayRef,
    value_type: ValueType,
}

/// A value that is not copied.
#[derive(Debug, Clone, Copy)]
pub enum ValueRef<'a> {
    /// An integer.
    Int(i64),
    /// A floating-point number.
    Float(f64),
    /// A text.
    Text(&'a str),
    /// Bytes.
    Bytes(&'a [u8]),
    /// A vector of integers.
    IntVector(&'a [i32]),
    /// A vector of floating-point numbers.
    FloatVector(&'a [f64]),
    /// A list of texts: see [`Observed::texts`].
    TextList,
    /// A struct of lists: see [`Observed::lists`].
    Lists,
}

impl Observed {
    fn of(batch: &RecordBatch, space: &RecordedObservation) -> Self {
        let states = batch["state_id"].as_fixed_size_binary().clone();
        let values = Arc::clone(&batch[space.name.as_str()]);
        Self { states, values, value_type: space.value_type }
    }

    /// The states whose values were recorded, each with the place of its value.
    pub fn states(&self) -> impl Iterator<Item = (usize, StateId)> {
        let places = (0..self.values.len()).filter(|&place| self.values.is_valid(place));
        places.map(|place| (place, StateId::from_slice(self.states.value(place))))
    }

    /// The value at a place that has one.
    #[inline]
    pub fn value(&self, place: usize) -> ValueRef<'_> {
        let column = &self.values;
        match self.value_type {
            ValueType::Int => ValueRef::Int(column.as_primitive::<Int64Type>().value(place)),
            ValueType::Float => ValueRef::Float(column.as_primitive::<Float64Type>().value(place)),
            ValueType::Text => ValueRef::Text(column.as_string::<i32>().value(place)),
            ValueType::Bytes => ValueRef::Bytes(column.as_binary::<i32>().value(place)),
            ValueType::IntVector => {
                ValueRef::IntVector(list_of::<Int32Type>(column.as_list(), place))
            }
            ValueType::FloatVector => {
                ValueRef::FloatVector(list_of::<Float64Type>(column.as_list(), place))
            }
            ValueType::TextList => ValueRef::TextList,
            ValueType::ProgramGraph | ValueType::Tokens => ValueRef::Lists,
        }
    }

    /// The list of texts at a place that has one.
    pub fn texts(&self, place: usize) -> Vec<String> {
        let texts = self.values.as_list::<i32>().value(place);
        texts.as_string::<i32>().iter().flatten().map(str::to_owned).collect()
    }

    /// The struct of lists at a place that has one.
    pub fn lists(&self, place: usize) -> Lists {
        value(self.value_type, self.values.as_struct(), place)
    }

    /// Whether these are the values of `other`, in the same memory.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.values, &other.values)
    }
}
