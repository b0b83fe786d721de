//! The rows of a source: their numbers and the numbers of their states, as matrices of one column.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow::array::{Array as _, ArrayRef, AsArray as _, FixedSizeBinaryArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Float64Type, Int32Type, Int64Type, SchemaRef};
use futures::TryStreamExt as _;

use super::sealed_rows::SealedRows;
use super::source::{COMPUTED, Source, StateLink};
use super::states::{ObservedStates, demand_countable, digest, number_type};
use crate::error::LoadError;
use crate::matrices::matrix::Matrix;
use crate::matrices::matrix_builder::MatrixBuilder;
use crate::matrices::matrix_cache::MatrixName;
use crate::matrices::numbers::NumberType;
use steplake_lake::{RecordedObservation, Table};
use steplake_model::suggestions::meant;
use steplake_model::{StateId, ValueType};
use steplake_query::{ScalarValue, Statement};

/// For each step, where the rows of its episode end: a computed column.
pub(crate) const EPISODE_ENDS: &str = "episode_ends";

/// The rows of a source in one snapshot.
pub(crate) struct SourceRows<'a> {
    source: Source,
    lake: &'a SealedRows,
    digest: String,
    /// The columns of the relation.
    schema: SchemaRef,
}

impl<'a> SourceRows<'a> {
    pub(crate) async fn of(source: Source, lake: &'a SealedRows) -> Result<Self, LoadError> {
        let spec = source.spec();
        let text = format!("SELECT * FROM {}", spec.relation);
        let schema =
            lake.engine.describe(&Statement { text, ..Statement::default() }).await?.columns;
        let mut tables = vec![source.table(), Table::Observations];
        if source == Source::StateTransitions {
            // Where layers disagree, the most frequent result of a conflict is the transition.
            tables.push(Table::Conflicts);
        }
        let own = digest(&lake.snapshot, &tables);
        let retractions = format!("{:?}", lake.snapshot.retractions());
        let name = MatrixName::of([spec.name, &own, &retractions]);
        let digest = name.text().to_owned();
        Ok(Self { source, lake, digest, schema })
    }

    /// Names the rows and their order.
    pub(crate) fn digest(&self) -> &str {
        &self.digest
    }

    /// The type of a column's numbers, as they are handed out.
    pub(crate) fn number_type(&self, column: &str) -> Result<NumberType, LoadError> {
        if self.source == Source::Steps && COMPUTED.contains(&column) {
            return Ok(NumberType::Bool);
        }
        let Ok(field) = self.schema.field_with_name(column) else {
            return Err(self.no_column(column));
        };
        Ok(match field.data_type() {
            DataType::Boolean => NumberType::Bool,
            DataType::Int32 => NumberType::I32,
            DataType::Int64 => NumberType::I64,
            DataType::Float64 if column.starts_with("reward_") => NumberType::F32,
            DataType::Float64 => NumberType::F64,
            _ => {
                let problem = "has no numbers, and tensors hold nothing else: leave it out".into();
                return Err(LoadError::NotNumbers { column: column.to_owned(), problem });
            }
        })
    }

    fn no_column(&self, name: &str) -> LoadError {
        let numbers = |kind: &DataType| kind.is_numeric() || *kind == DataType::Boolean;
        let is_loaded = |space: &&RecordedObservation| {
            space.value_type == ValueType::ProgramGraph || number_type(space).is_ok()
        };
        let fields = self.schema.fields().iter().filter(|field| numbers(field.data_type()));
        let mut names: Vec<String> = fields.map(|field| field.name().clone()).collect();
        let spec = self.source.spec();
        if self.source == Source::Steps {
            names.extend(COMPUTED.map(str::to_owned));
        }
        for space in self.lake.snapshot.identity().observations.iter().filter(is_loaded) {
            names.push(space.name.clone());
            names.extend(spec.leads.then(|| format!("next_{}", space.name)));
        }
        let links =
            [StateLink::State, StateLink::NextState].iter().take(1 + usize::from(spec.leads));
        names.extend(links.map(|link| link.column().to_owned()));
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let space = name.strip_prefix("next_").unwrap_or(name);
        let mut hint = meant(name, &names);
        let may_be = space.starts_with(char::is_uppercase) && !hint.starts_with("did you mean");
        if may_be {
            hint.push_str("; it may be an observation space that no run recorded");
        }
        let space = may_be.then(|| space.to_owned());
        LoadError::NoColumn { rows: spec.name.to_owned(), name: name.to_owned(), hint, space }
    }

    fn matrix_name(&self, column: &str) -> MatrixName {
        MatrixName::of(["column", &self.digest, column])
    }

    /// The matrices of these columns. A column of state ids has the numbers of the states.
    pub(crate) async fn columns<'b>(
        &self,
        names: &BTreeSet<&'b str>,
    ) -> Result<BTreeMap<&'b str, Arc<Matrix>>, LoadError> {
        let mut found = BTreeMap::new();
        let mut missing = Vec::new();
        for &name in names {
            match self.lake.cache.find(&self.matrix_name(name))? {
                Some(matrix) => drop(found.insert(name, matrix)),
                None => missing.push(name),
            }
        }
        if !missing.is_empty() {
            let mut columns = ColumnBuilders::new(self.source, &self.schema, &missing);
            let text = format!(
                "SELECT {} FROM {} ORDER BY {}",
                columns.select(),
                self.source.spec().relation,
                self.source.spec().order,
            );
            let statement = Statement { text, ..Statement::default() };
            let mut answer = self.lake.engine.ask(&statement).await?;
            while let Some(batch) = answer.try_next().await? {
                columns.add(&batch, &self.lake.states)?;
            }
            for (name, builder) in columns.finish() {
                found.insert(name, self.lake.cache.put(&self.matrix_name(name), &builder)?);
            }
        }
        Ok(found)
    }

    /// The rows that meet all of these conditions, ascending.
    pub(crate) async fn select(
        &self,
        conditions: &[Condition],
    ) -> Result<Option<Arc<Matrix>>, LoadError> {
        if conditions.is_empty() {
            return Ok(None);
        }
        let written = format!("{conditions:?}");
        let name = MatrixName::of(["rows", &self.digest, &self.lake.everything(), &written]);
        if let Some(matrix) = self.lake.cache.find(&name)? {
            return Ok(Some(matrix));
        }
        let spec = self.source.spec();
        let keys = self.columns(&spec.keys.iter().copied().collect()).await?;
        let keys = spec.keys.iter().map(|name| &keys[name]);
        let keys: Vec<Vec<i64>> = keys.map(|matrix| matrix.gather_as(0..matrix.rows())).collect();
        let mut chosen: Option<Vec<u32>> = None;
        for condition in conditions {
            let found = self.meet(condition, &keys).await?;
            chosen = Some(match chosen {
                None => found,
                Some(before) => {
                    before.into_iter().filter(|row| found.binary_search(row).is_ok()).collect()
                }
            });
        }
        let mut matrix = MatrixBuilder::integers(0, 1);
        for row in chosen.into_iter().flatten() {
            let place = matrix.add_row();
            matrix.set_integers(place, std::iter::once(i64::from(row)));
        }
        Ok(Some(self.lake.cache.put(&name, &matrix)?))
    }

    /// The rows that meet one condition, ascending.
    async fn meet(&self, condition: &Condition, all: &[Vec<i64>]) -> Result<Vec<u32>, LoadError> {
        let spec = self.source.spec();
        let text = format!(
            "SELECT {} FROM {} WHERE (\n{}\n) ORDER BY {}",
            spec.keys.join(", "),
            spec.relation,
            condition.sql,
            spec.order,
        );
        let values = condition.values.clone();
        let statement = Statement { text, values, ..Statement::default() };
        let mut answer = self.lake.engine.ask(&statement).await?;
        let (mut found, mut row) = (Vec::new(), 0);
        while let Some(batch) = answer.try_next().await? {
            let wanted = keys(&batch, spec.keys, &self.lake.states);
            for at in 0..batch.num_rows() {
                // Both are sorted by the same keys, and all rows have been read.
                while all.iter().zip(&wanted).any(|(all, wanted)| all[row] != wanted[at]) {
                    row += 1;
                }
                found.push(u32::try_from(row).expect("rows are counted in 32 bits"));
            }
        }
        Ok(found)
    }
}

/// A condition on rows: what stands after WHERE, with the values of its parameters.
#[derive(Debug, Clone, PartialEq)]
pub struct Condition {
    /// The text.
    pub sql: String,
    /// The values, as those of [`Statement::values`].
    pub values: Vec<(String, ScalarValue)>,
}

/// The key columns of a batch, as numbers.
fn keys(batch: &RecordBatch, names: &[&str], states: &ObservedStates) -> Vec<Vec<i64>> {
    let column = |name: &&str| match *name {
        "state_id" => {
            let ids = ids(batch, name);
            (0..ids.len()).map(|row| number_of(states, ids, row).into()).collect()
        }
        _ => integers(batch, name).collect(),
    };
    names.iter().map(column).collect()
}

fn ids<'a>(batch: &'a RecordBatch, name: &str) -> &'a FixedSizeBinaryArray {
    batch.column_by_name(name).expect("the query asked for it").as_fixed_size_binary()
}

/// The integers of a column of numbers without nulls.
fn integers(batch: &RecordBatch, name: &str) -> impl Iterator<Item = i64> + use<> {
    let column = batch.column_by_name(name).expect("the query asked for it");
    let column = cast(column, &DataType::Int64).expect("an integer has at most 64 bits");
    let column = column.as_primitive::<Int64Type>().clone();
    (0..column.len()).map(move |row| column.value(row))
}

fn number_of(states: &ObservedStates, ids: &FixedSizeBinaryArray, row: usize) -> u32 {
    let state = StateId::from_slice(ids.value(row));
    states.index().find(&state).expect("every state of a sealed row is observed")
}

/// The columns that are being read.
struct ColumnBuilders<'a> {
    source: Source,
    builders: Vec<(&'a str, MatrixBuilder)>,
    /// The rows that end an episode, if a computed column is asked for.
    episodes: Option<EpisodeColumns>,
}

/// The episodes of the rows so far.
#[derive(Default)]
struct EpisodeColumns {
    ids: Vec<i64>,
    terminated: Vec<bool>,
}

impl<'a> ColumnBuilders<'a> {
    fn new(source: Source, schema: &SchemaRef, names: &[&'a str]) -> Self {
        let computed = |name: &&str| COMPUTED.contains(name) || *name == EPISODE_ENDS;
        let has_computed = source == Source::Steps && names.iter().any(computed);
        let builders =
            names.iter().map(|&name| match schema.field_with_name(name).map(Field::data_type) {
                Ok(DataType::Float64) => (name, MatrixBuilder::fractions(0, 1)),
                _ => (name, MatrixBuilder::integers(0, 1)),
            });
        Self {
            source,
            builders: builders.collect(),
            episodes: has_computed.then(EpisodeColumns::default),
        }
    }

    fn is_computed(&self, name: &str) -> bool {
        self.episodes.is_some() && (COMPUTED.contains(&name) || name == EPISODE_ENDS)
    }

    /// The columns to ask for, in SQL.
    fn select(&self) -> String {
        let mut names: Vec<String> = Vec::new();
        let mut add = |name: &str| {
            let quoted = format!("\"{}\"", name.replace('"', "\"\""));
            if !names.contains(&quoted) {
                names.push(quoted);
            }
        };
        for (name, _) in &self.builders {
            if !self.is_computed(name) {
                add(name);
            }
        }
        if self.source == Source::Steps {
            // Whether a step failed, and its own state.
            ["state_id", "next_state_id"].into_iter().for_each(&mut add);
        }
        if self.episodes.is_some() {
            ["episode_id", "end_of_episode"].into_iter().for_each(&mut add);
        }
        names.join(", ")
    }

    fn add(&mut self, batch: &RecordBatch, states: &ObservedStates) -> Result<(), LoadError> {
        let failed =
            (self.source == Source::Steps).then(|| ids(batch, StateLink::NextState.column()));
        let has_failed = |row| failed.is_some_and(|next| next.is_null(row));
        for at in 0..self.builders.len() {
            let name = self.builders[at].0;
            if self.is_computed(name) {
                continue;
            }
            let builder = &mut self.builders[at].1;
            demand_countable("rows", builder.rows() + batch.num_rows())?;
            let column = batch.column_by_name(name).expect("the query asked for it");
            match name {
                "state_id" | "next_state_id" => {
                    let found = ids(batch, name);
                    for row in 0..batch.num_rows() {
                        // A step that failed leads back to its own state.
                        let of = if found.is_null(row) { ids(batch, "state_id") } else { found };
                        let number = number_of(states, of, row);
                        let place = builder.add_row();
                        builder.set_integers(place, std::iter::once(number.into()));
                    }
                }
                _ => add_numbers(builder, column, &has_failed),
            }
        }
        if let Some(episodes) = &mut self.episodes {
            episodes.ids.extend(integers(batch, "episode_id"));
            let ends = batch.column_by_name("end_of_episode").expect("the query asked for it");
            let ends = ends.as_boolean();
            let terminated = |row| has_failed(row) || ends.value(row);
            episodes.terminated.extend((0..batch.num_rows()).map(terminated));
        }
        Ok(())
    }

    fn finish(mut self) -> Vec<(&'a str, MatrixBuilder)> {
        if let Some(episodes) = &self.episodes {
            for (name, builder) in &mut self.builders {
                match *name {
                    "terminated" => {
                        let ends = episodes.terminated.iter().map(|&end| end.into());
                        add_integers(builder, ends);
                    }
                    "truncated" => add_integers(builder, episodes.truncated().map(i64::from)),
                    EPISODE_ENDS => add_integers(builder, episodes.ends().into_iter()),
                    _ => {}
                }
            }
        }
        self.builders
    }
}

impl EpisodeColumns {
    fn is_last(&self, row: usize) -> bool {
        self.ids.get(row + 1) != Some(&self.ids[row])
    }

    fn truncated(&self) -> impl Iterator<Item = bool> {
        (0..self.ids.len()).map(|row| self.is_last(row) && !self.terminated[row])
    }

    /// For each row, where the rows of its episode end.
    fn ends(&self) -> Vec<i64> {
        let mut ends = vec![0; self.ids.len()];
        let mut end = 0;
        for row in (0..self.ids.len()).rev() {
            if self.is_last(row) {
                end = i64::try_from(row + 1).expect("rows are counted in 32 bits");
            }
            ends[row] = end;
        }
        ends
    }
}

fn add_integers(builder: &mut MatrixBuilder, numbers: impl Iterator<Item = i64>) {
    for number in numbers {
        let place = builder.add_row();
        builder.set_integers(place, std::iter::once(number));
    }
}

/// Adds the numbers of a column. A step that failed has no reward, and counts as one of 0.
fn add_numbers(
    builder: &mut MatrixBuilder,
    column: &ArrayRef,
    has_failed: &impl Fn(usize) -> bool,
) {
    let fractions = column.as_primitive_opt::<Float64Type>();
    for row in 0..column.len() {
        let place = builder.add_row();
        if column.is_null(row) && !has_failed(row) {
            continue;
        }
        match (fractions, column.data_type()) {
            (Some(fractions), _) => {
                let value = if column.is_null(row) { 0.0 } else { fractions.value(row) };
                builder.set_fractions(place, std::iter::once(value));
            }
            (None, _) if column.is_null(row) => {}
            (None, DataType::Boolean) => {
                let value = column.as_boolean().value(row).into();
                builder.set_integers(place, std::iter::once(value));
            }
            (None, DataType::Int32) => {
                let value = column.as_primitive::<Int32Type>().value(row).into();
                builder.set_integers(place, std::iter::once(value));
            }
            (None, _) => {
                let value = column.as_primitive::<Int64Type>().value(row);
                builder.set_integers(place, std::iter::once(value));
            }
        }
    }
}
