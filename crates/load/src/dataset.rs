//! Datasets: chosen columns of chosen rows.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, OnceLock};

use super::error::LoadError;
use crate::matrices::matrix::Matrix;
use crate::matrices::matrix_builder::MatrixBuilder;
use crate::matrices::matrix_cache::{MatrixCache, MatrixName};
use crate::matrices::numbers::{NumberType, Numbers};
use crate::sources::graphs::{GraphBatch, StateGraphs};
use crate::sources::n_step::{NStep, SUMMED};
use crate::sources::rows::{Condition, EPISODE_ENDS, SourceRows};
use crate::sources::sealed_rows::{SealedRows, blocking};
use crate::sources::source::{ColumnRequest, Origin, Source, StateLink, origin};
use crate::sources::states::{ObservedStates, number_type};
use steplake_lake::RecordedObservation;
use steplake_model::ValueType;

/// What a dataset is made from.
#[derive(Debug, Clone)]
pub struct DatasetRequest {
    /// The rows.
    pub source: Source,
    /// Their columns.
    pub columns: Vec<ColumnRequest>,
    /// The conditions that rows meet, all of them.
    pub conditions: Vec<Condition>,
    /// Steps are summed up. Only for [`Source::Steps`].
    pub n_step: Option<NStep>,
}

/// Rows of a lake as columns of numbers, any of which can be read at once.
///
/// The features of each state are in memory once, however many rows name the state: a row has the
/// numbers of its states, and reading it is a gather. What the dataset reads lies in files of the
/// [`MatrixCache`], which are mapped into memory, so processes share it, and a second one opens the
/// dataset at once. Clones share everything. It survives a fork.
#[derive(Clone)]
pub struct TrainingDataset {
    columns: Vec<DatasetColumn>,
    graphs: Vec<GraphColumn>,
    source: Source,
    /// The number of each row's state.
    state: Arc<Matrix>,
    /// The number of each row's next state, if rows lead to one.
    next_state: Option<Arc<Matrix>>,
    /// For each step, where the rows of its episode end.
    pub(super) episode_ends: Option<Arc<Matrix>>,
    pub(super) items: Items,
    /// The chosen rows: the first ones of items. `None`: all.
    chosen: Option<Arc<Matrix>>,
    rows: usize,
    /// Names the rows of the source, with what was summed up.
    source_digest: String,
    fingerprint: String,
    /// Set once it is known that every row has a value in every column.
    has_values: Arc<OnceLock<()>>,
}

/// What an item of a dataset is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Items {
    /// A row.
    Rows,
    /// So many consecutive steps of an episode.
    Slices(u32),
    /// The steps of a whole episode.
    Episodes,
}

/// Items that were read.
#[derive(Debug, Clone, PartialEq)]
pub struct GatheredItems {
    /// The numbers of each column of the dataset, row by row.
    pub columns: Vec<Numbers>,
    /// The graphs of each column of graphs, one for each row.
    pub graphs: Vec<GraphBatch>,
    /// The number of rows of each item, if it is not the same for all.
    pub lengths: Option<Vec<u32>>,
}

/// A column of a dataset.
#[derive(Debug, Clone)]
pub struct DatasetColumn {
    /// The name.
    pub name: String,
    /// The type of its numbers.
    pub number_type: NumberType,
    /// The numbers of a row. `None`: a row has one number, not a vector.
    pub width: Option<usize>,
    matrix: Arc<Matrix>,
    /// The numbers of the states that rows name: the rows of `matrix`. `None`: they are those of
    /// the source.
    link: Option<Arc<Matrix>>,
}

/// A column of a dataset that has a program graph in each row.
#[derive(Debug, Clone)]
pub struct GraphColumn {
    /// The name.
    pub name: String,
    space: String,
    graphs: Arc<StateGraphs>,
    /// The numbers of the states that rows name.
    link: Arc<Matrix>,
}

impl DatasetRequest {
    /// All rows of a source, without columns.
    pub fn all(source: Source) -> Self {
        Self { source, columns: Vec::new(), conditions: Vec::new(), n_step: None }
    }
}

impl TrainingDataset {
    /// Opens a dataset. What the cache does not have is read from the lake: the time is that of
    /// reading the columns, and of sorting the rows.
    ///
    /// # Errors
    ///
    /// Any [`LoadError`].
    pub async fn open(lake: &SealedRows, request: &DatasetRequest) -> Result<Self, LoadError> {
        let (source, states) = (request.source, &lake.states);
        let rows = SourceRows::of(source, lake).await?;
        let origins = request.columns.iter().map(|column| origin(source, states, &column.name));
        let origins = origins.collect::<Result<Vec<_>, _>>()?;
        // One question to the lake reads all that the cache does not have.
        let mut names = BTreeSet::from([StateLink::State.column()]);
        if source.leads() {
            names.insert(StateLink::NextState.column());
        }
        for (column, origin) in request.columns.iter().zip(&origins) {
            let is_counted = request.n_step.is_some() && column.name == SUMMED;
            if matches!(origin, Origin::Row) && !is_counted {
                rows.number_type(&column.name)?;
                names.insert(column.name.as_str());
            }
        }
        if source == Source::Steps {
            names.insert(EPISODE_ENDS);
        }
        let mut matrices = rows.columns(&names).await?;
        let episode_ends = matrices.remove(EPISODE_ENDS);
        if let (Some(n_step), Some(ends)) = (request.n_step, &episode_ends) {
            // What it holds does not matter: it is replaced.
            matrices.insert(SUMMED, Arc::clone(ends));
            n_step.replace(&lake.cache, rows.digest(), ends, &mut matrices)?;
        }
        let (mut columns, mut graphs) = (Vec::new(), Vec::<GraphColumn>::new());
        for (column, origin) in request.columns.iter().zip(origins) {
            match origin {
                Origin::Graph(link, space) => {
                    // That of the other state of a row has the same files.
                    let other = graphs.iter().find(|other| other.space == space.name);
                    let opened = other.map(|other| Arc::clone(&other.graphs));
                    let link = Arc::clone(&matrices[link.column()]);
                    graphs.push(GraphColumn::open(column, link, space, states, opened).await?);
                }
                origin => {
                    columns
                        .push(DatasetColumn::open(column, origin, &rows, states, &matrices).await?);
                }
            }
        }
        let chosen = rows.select(&request.conditions).await?;
        let state = Arc::clone(&matrices[StateLink::State.column()]);
        let source_digest = format!("{} {:?}", rows.digest(), request.n_step);
        Ok(Self {
            columns,
            graphs,
            source,
            rows: chosen.as_ref().unwrap_or(&state).rows(),
            state,
            next_state: matrices.get(StateLink::NextState.column()).map(Arc::clone),
            episode_ends,
            items: Items::Rows,
            fingerprint: fingerprint(&source_digest, Items::Rows, chosen.as_deref()),
            chosen,
            source_digest,
            has_values: Arc::default(),
        })
    }

    /// Refuses items with a row that has no value in some column.
    pub(super) fn demand_values(&self) -> Result<(), LoadError> {
        if self.has_values.get().is_some() {
            return Ok(());
        }
        let numbers = self.columns.iter();
        let numbers =
            numbers.map(|column| (&column.name, column.matrix.missing(), column.link.as_deref()));
        let graphs = self.graphs.iter();
        let graphs =
            graphs.map(|column| (&column.name, column.graphs.missing(), Some(&*column.link)));
        for (name, without, link) in numbers.chain(graphs) {
            if without.is_empty() {
                continue;
            }
            let is_missing = |row: &usize| {
                u32::try_from(*row).is_ok_and(|row| without.binary_search(&row).is_ok())
            };
            let rows = self.rows_of_items();
            let missing = named(link, &rows).iter().filter(|row| is_missing(row)).count();
            if missing > 0 {
                let (is_observed, has_failures) = (link.is_some(), self.source == Source::Steps);
                let (column, rows) = (name.clone(), rows.len());
                return Err(LoadError::missing(column, missing, rows, is_observed, has_failures));
            }
        }
        self.has_values.get_or_init(|| ());
        Ok(())
    }

    /// The number of places.
    pub(super) fn places(&self) -> u32 {
        u32::try_from(self.rows).expect("rows are counted in 32 bits")
    }

    /// All places.
    pub(super) fn all_places(&self) -> impl Iterator<Item = u32> + use<> {
        0..self.places()
    }

    /// The number of items: of rows, slices or episodes.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Whether there are no items.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// The columns of numbers.
    pub fn columns(&self) -> &[DatasetColumn] {
        &self.columns
    }

    /// Whether [`StreamedRows`](super::StreamedRows) can have the items: rows of numbers.
    pub fn can_stream(&self) -> bool {
        self.items == Items::Rows && self.graphs.is_empty()
    }

    /// The columns of program graphs.
    pub fn graphs(&self) -> &[GraphColumn] {
        &self.graphs
    }

    /// Names the rows and their order: equal for equal rows, whatever the columns.
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// Bytes of memory when everything has been read.
    pub fn bytes(&self) -> usize {
        let matrices =
            self.columns.iter().flat_map(|column| [Some(&column.matrix), column.link.as_ref()]);
        let graphs = self.graphs.iter();
        let graphs = graphs.flat_map(|column| column.graphs.matrices().chain([&column.link]));
        let mut matrices: Vec<&Arc<Matrix>> =
            matrices.flatten().chain(self.chosen.as_ref()).chain(graphs).collect();
        matrices.sort_unstable_by_key(|matrix| Arc::as_ptr(matrix));
        matrices.dedup_by_key(|matrix| Arc::as_ptr(matrix));
        matrices.iter().map(|matrix| matrix.bytes()).sum()
    }

    /// The table that the rows are of.
    pub fn source(&self) -> Source {
        self.source
    }

    /// The numbers of the states of the rows at these places, and of the next states, or of the
    /// same states if rows lead to none.
    pub(super) fn states(&self, places: &[u32]) -> (Vec<u32>, Vec<u32>) {
        let rows = self.source_rows(places);
        let rows = || rows.iter().map(|&row| row as usize);
        let next = self.next_state.as_ref().unwrap_or(&self.state);
        (self.state.gather_as(rows()), next.gather_as(rows()))
    }

    /// The rows of the source at these places of the dataset.
    fn source_rows(&self, places: &[u32]) -> Vec<u32> {
        match &self.chosen {
            Some(chosen) => chosen.gather_as(places.iter().map(|&place| place as usize)),
            None => places.to_vec(),
        }
    }

    /// The rows of the source, in the order of the dataset.
    pub(super) fn all_rows(&self) -> Vec<u32> {
        self.source_rows(&self.all_places().collect::<Vec<_>>())
    }

    /// What an item is.
    pub fn items(&self) -> Items {
        self.items
    }

    /// The rows of all items, each once, even if slices overlap.
    fn rows_of_items(&self) -> Vec<u32> {
        let firsts = self.all_rows();
        if self.items == Items::Rows {
            return firsts;
        }
        let mut is_of_item = vec![false; self.state.rows()];
        for first in firsts {
            for row in self.item_rows(vec![first]).0 {
                is_of_item[row as usize] = true;
            }
        }
        let numbered = (0_u32..).zip(is_of_item);
        numbered.filter(|(_, is_of_item)| *is_of_item).map(|(row, _)| row).collect()
    }

    /// The rows of the items with these first rows, and the number of rows of each, if it is not
    /// the same for all.
    fn item_rows(&self, firsts: Vec<u32>) -> (Vec<u32>, Option<Vec<u32>>) {
        match self.items {
            Items::Rows => (firsts, None),
            Items::Slices(length) => {
                (firsts.into_iter().flat_map(|first| first..first + length).collect(), None)
            }
            Items::Episodes => {
                let ends = self.episode_ends.as_ref().expect("only steps are episodes");
                let ends: Vec<u32> = ends.gather_as(firsts.iter().map(|&first| first as usize));
                let lengths = ends.iter().zip(&firsts).map(|(end, first)| end - first).collect();
                let rows = firsts.into_iter().zip(ends).flat_map(|(first, end)| first..end);
                (rows.collect(), Some(lengths))
            }
        }
    }

    /// Reads the items at these places, in their order.
    ///
    /// # Errors
    ///
    /// [`LoadError::Missing`] if an item of the dataset has no value in some column, even if it is
    /// at none of these places: an epoch fails where it begins.
    ///
    /// # Panics
    ///
    /// If a place is not below [`len`](Self::len).
    pub fn gather(&self, places: &[u32]) -> Result<GatheredItems, LoadError> {
        self.demand_values()?;
        let (rows, lengths) = self.item_rows(self.source_rows(places));
        let columns = self.columns.iter().map(|column| column.read(&rows)).collect();
        let graphs = self.graphs.iter();
        let graphs = graphs.map(|column| column.graphs.gather(&named(Some(&column.link), &rows)));
        Ok(GatheredItems { columns, graphs: graphs.collect(), lengths })
    }

    /// The same rows in the order of `places`; rows may be left out.
    ///
    /// `name` says how they were chosen, and names the file of the cache.
    ///
    /// # Errors
    ///
    /// [`LoadError::Cache`].
    ///
    /// # Panics
    ///
    /// If a place is not below [`len`](Self::len).
    pub fn choose(
        &self,
        cache: &MatrixCache,
        name: &str,
        places: impl FnOnce() -> Vec<u32>,
    ) -> Result<Self, LoadError> {
        let name = MatrixName::of(["chosen", &self.fingerprint, name]);
        let chosen = cache.entry(&name, || {
            let rows = self.source_rows(&places());
            let mut matrix = MatrixBuilder::integers(rows.len(), 1);
            for (place, row) in rows.into_iter().enumerate() {
                matrix.set_integers(place, std::iter::once(row.into()));
            }
            Ok(matrix)
        })?;
        let fingerprint = fingerprint(&self.source_digest, self.items, Some(&chosen));
        let (rows, has_values) = (chosen.rows(), Arc::default());
        Ok(Self { rows, chosen: Some(chosen), fingerprint, has_values, ..self.clone() })
    }

    /// The same rows as the first ones of items.
    pub(super) fn with_items(self, items: Items) -> Self {
        let fingerprint = fingerprint(&self.source_digest, items, self.chosen.as_deref());
        Self { items, fingerprint, has_values: Arc::default(), ..self }
    }
}

impl DatasetColumn {
    /// Opens a column. `of_rows` has the numbers of rows, and those of their states.
    async fn open(
        request: &ColumnRequest,
        origin: Origin,
        rows: &SourceRows<'_>,
        states: &Arc<ObservedStates>,
        of_rows: &BTreeMap<&str, Arc<Matrix>>,
    ) -> Result<Self, LoadError> {
        let name = request.name.clone();
        let (matrix, link, own_type, is_vector) = match origin {
            Origin::Row => {
                let matrix = Arc::clone(&of_rows[name.as_str()]);
                let own_type =
                    if name == SUMMED { NumberType::I32 } else { rows.number_type(&name)? };
                (matrix, None, own_type, false)
            }
            Origin::Id(link) => (Arc::clone(states.ids()), Some(link), NumberType::U8, true),
            Origin::Observation(link, space) => {
                let own_type = number_type(&space)?;
                let is_vector = !matches!(space.value_type, ValueType::Int | ValueType::Float);
                let reader = Arc::clone(states);
                let matrix = blocking(move || reader.features(&space)).await?;
                if matrix.width() == 0 {
                    let problem = "has empty vectors: leave it out".to_owned();
                    return Err(LoadError::NotNumbers { column: name, problem });
                }
                (matrix, Some(link), own_type, is_vector)
            }
            Origin::Graph(..) => unreachable!("a column of graphs is no column of numbers"),
        };
        let link = link.map(|link| Arc::clone(&of_rows[link.column()]));
        let number_type = request.number_type.unwrap_or(own_type);
        if number_type != own_type && !matrix.fits(number_type) {
            return Err(LoadError::OtherType { column: name, number_type: number_type.name() });
        }
        let width = is_vector.then(|| matrix.width());
        Ok(Self { name, number_type, width, matrix, link })
    }

    /// Whether it has the ids of states.
    pub fn is_id(&self) -> bool {
        [StateLink::State, StateLink::NextState].iter().any(|link| link.column() == self.name)
    }

    /// The numbers of no rows.
    pub(super) fn no_numbers(&self) -> Numbers {
        self.matrix.gather(std::iter::empty(), self.number_type)
    }

    fn read(&self, rows: &[u32]) -> Numbers {
        self.matrix.gather(named(self.link.as_deref(), rows).into_iter(), self.number_type)
    }
}

impl GraphColumn {
    /// Opens a column. `link` has the numbers of the states of rows; `opened` has the graphs, if
    /// they have been opened.
    async fn open(
        request: &ColumnRequest,
        link: Arc<Matrix>,
        space: RecordedObservation,
        states: &Arc<ObservedStates>,
        opened: Option<Arc<StateGraphs>>,
    ) -> Result<Self, LoadError> {
        let name = request.name.clone();
        if request.number_type.is_some() {
            let problem = "has graphs, which have types of their own".to_owned();
            return Err(LoadError::NotNumbers { column: name, problem });
        }
        let (reader, named) = (Arc::clone(states), space.name.clone());
        let graphs = match opened {
            Some(graphs) => graphs,
            None => Arc::new(blocking(move || StateGraphs::of(&reader, &space)).await?),
        };
        Ok(Self { name, space: named, graphs, link })
    }

    /// The distinct texts of nodes, by the numbers that batches have for them.
    pub fn texts(&self) -> &[String] {
        self.graphs.texts()
    }
}

/// The rows of a matrix that rows of the source name: those of their states, or the same ones.
fn named(link: Option<&Matrix>, rows: &[u32]) -> Vec<usize> {
    let rows = rows.iter().map(|&row| row as usize);
    match link {
        Some(link) => link.gather_as(rows),
        None => rows.collect(),
    }
}

impl fmt::Debug for TrainingDataset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.columns.iter().map(|column| column.name.as_str()).collect::<Vec<_>>();
        f.debug_struct("TrainingDataset")
            .field("rows", &self.rows)
            .field("columns", &names)
            .finish_non_exhaustive()
    }
}

/// A digest of which rows there are, short enough to be read. It depends on the chosen rows alone,
/// not on how they were chosen.
fn fingerprint(source_digest: &str, items: Items, chosen: Option<&Matrix>) -> String {
    let chosen = chosen.map(Matrix::digest).unwrap_or_default();
    let name = MatrixName::of([source_digest, &format!("{items:?}"), &chosen]);
    name.text()[..32].to_owned()
}
