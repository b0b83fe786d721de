//! Episodes, their steps and their programs, of all lakes.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use arrow::array::{
    Array as _, ArrayRef, AsArray as _, BooleanArray, Int32Array, Int64Array, RecordBatch,
};
use arrow::compute::filter_record_batch;
use arrow::datatypes::{FieldRef, Int64Type};
use arrow::row::{RowConverter, SortField};

use super::error::MergeError;
use super::kept::Kept;
use super::runs::Runs;
use super::source::SourceLake;
use crate::kernel::schema::decode::episode_ids as ids;
use crate::kernel::schema::state_rows::gathered;
use crate::kernel::segments::segment_series::SegmentSeries;
use crate::kernel::{Lake, LakeError, ScanColumns, Segment, Table};
use steplake_model::{EpisodeId, RunId};

/// Number of rows of `benchmarks` that are written at a time.
const BENCHMARKS_AT_ONCE: usize = 4096;

/// Half of a BLAKE3 digest, which identifies a recording.
type Digest = [u8; 16];

/// The closed episodes of all lakes. Each takes one entry in memory.
pub(super) struct Episodes<'a> {
    lake: &'a Lake,
    sources: &'a [SourceLake],
    runs: &'a Runs,
    known: HashMap<i64, MergedEpisode>,
    /// Benchmarks that were retracted in some runs and have episodes in others.
    still_used: HashSet<String>,
    retracted: HashSet<i64>,
}

/// An episode. It is taken from its owner, the first lake that has it.
struct MergedEpisode {
    owner: usize,
    is_shared: bool,
    row: Digest,
    /// The digest of its steps in the owner, if it is shared.
    steps: Option<Digest>,
}

impl<'a> Episodes<'a> {
    /// Begins without episodes; `lake` is the new one.
    pub(super) fn new(lake: &'a Lake, sources: &'a [SourceLake], runs: &'a Runs) -> Self {
        let (known, still_used, retracted) = (HashMap::new(), HashSet::new(), HashSet::new());
        Self { lake, sources, runs, known, still_used, retracted }
    }

    /// Returns the number of episodes that several lakes have.
    pub(super) fn shared(&self) -> u64 {
        self.known.values().filter(|episode| episode.is_shared).count() as u64
    }

    /// Returns the number of episodes that one lake has and another one retracted.
    pub(super) fn retracted(&self) -> u64 {
        self.retracted.len() as u64
    }

    /// Writes the rows of `episodes` that are not in files which stay, and notes the owner of each.
    pub(super) fn write_rows(
        &mut self,
        kept: &mut Kept,
        read: &mut dyn FnMut(usize),
    ) -> Result<Vec<Segment>, MergeError> {
        let (lake, sources) = (self.lake, self.sources);
        let columns = ["episode_id", "benchmark_uri"];
        let holds = &mut |batch: &_| !self.has_retracted(batch);
        kept.retain(&sources[0], Table::Episodes, &columns, holds)?;
        let mut series = SegmentSeries::new(lake, Table::Episodes);
        let bytes = RowBytes::new(lake, Table::Episodes, &[]);
        for (place, source) in sources.iter().enumerate() {
            let schema = lake.schemas.get(Table::Episodes);
            source.visit(Table::Episodes, ScanColumns::All, schema, &mut |file, batches| {
                let stays = file.is_some_and(|file| kept.has(place, file));
                for batch in batches {
                    let batch = batch?;
                    read(batch.num_rows());
                    for piece in pieces(&batch) {
                        let piece = renumber(&piece, place, self.runs)?;
                        let keep = self.take_rows(&piece, place, &bytes)?;
                        if !stays {
                            series.write(&filtered(&piece, &keep))?;
                        }
                    }
                }
                Ok(series.boundary()?)
            })?;
        }
        Ok(series.finish()?)
    }

    /// Returns whether a batch of `episodes` of the first lake has one that a lake retracted.
    fn has_retracted(&self, batch: &RecordBatch) -> bool {
        let benchmarks = batch["benchmark_uri"].as_string::<i32>();
        let mut rows = ids(batch).iter().enumerate();
        rows.any(|(row, &id)| self.runs.is_retracted(EpisodeId(id).run(), benchmarks.value(row)))
    }

    /// Returns whether all steps of a batch of the first lake are of episodes that are taken.
    fn are_taken(&self, batch: &RecordBatch) -> bool {
        let is_taken = |id| self.known.get(id).is_some_and(|known| known.owner == 0);
        ids(batch).chunk_by(|a, b| a == b).all(|same| is_taken(&same[0]))
    }

    /// Returns which rows of a batch of `episodes`, with new numbers, are taken.
    fn take_rows(
        &mut self,
        batch: &RecordBatch,
        place: usize,
        bytes: &RowBytes,
    ) -> Result<BooleanArray, MergeError> {
        let benchmarks = batch["benchmark_uri"].as_string::<i32>();
        let mut keep = Vec::with_capacity(batch.num_rows());
        let rows = bytes.of(batch);
        for (row, &id) in ids(batch).iter().enumerate() {
            let benchmark = benchmarks.value(row);
            if self.runs.is_retracted(EpisodeId(id).run(), benchmark) {
                self.retracted.insert(id);
                keep.push(false);
                continue;
            }
            if self.runs.was_retracted(benchmark) {
                self.still_used.insert(benchmark.to_owned());
            }
            let digest = shortened(&blake3::hash(rows.row(row).data()));
            let new = MergedEpisode { owner: place, is_shared: false, row: digest, steps: None };
            let known = self.known.entry(id).or_insert(new);
            keep.push(known.owner == place);
            if known.owner != place {
                known.is_shared = true;
                if known.row != digest {
                    let owner = known.owner;
                    return Err(self.differs(id, owner, place));
                }
            }
        }
        Ok(keep.into())
    }

    /// Writes the steps of the episodes from their owners, except those in files that stay, and
    /// compares those of the other lakes.
    pub(super) fn write_steps(
        &mut self,
        kept: &mut Kept,
        read: &mut dyn FnMut(usize),
    ) -> Result<Vec<Segment>, MergeError> {
        let (lake, sources) = (self.lake, self.sources);
        let holds = &mut |batch: &_| self.are_taken(batch);
        kept.retain(&sources[0], Table::Steps, &["episode_id"], holds)?;
        let are_compared = self.shared() > 0;
        let mut series = SegmentSeries::new(lake, Table::Steps);
        let bytes = RowBytes::new(lake, Table::Steps, &["episode_id"]);
        for (place, source) in sources.iter().enumerate() {
            let schema = lake.schemas.get(Table::Steps);
            source.visit(Table::Steps, ScanColumns::All, schema, &mut |file, batches| {
                let stays = file.filter(|file| kept.has(place, file));
                if let Some(file) = stays.filter(|_| !are_compared) {
                    read(usize::try_from(file.rows).unwrap_or(usize::MAX));
                    return Ok(());
                }
                let mut current = None;
                for batch in batches {
                    let batch = batch?;
                    read(batch.num_rows());
                    for piece in pieces(&batch) {
                        let piece = renumber(&piece, place, self.runs)?;
                        self.compare_shared(&piece, &bytes, &mut current, place)?;
                        if stays.is_none() {
                            series.write(&filtered(&piece, &self.owned_steps(&piece, place)))?;
                        }
                    }
                }
                if let Some((last, steps)) = current {
                    self.compare(last, &steps, place)?;
                }
                Ok(series.boundary()?)
            })?;
        }
        Ok(series.finish()?)
    }

    /// Returns which steps are of episodes that the lake at this place owns.
    fn owned_steps(&self, batch: &RecordBatch, place: usize) -> BooleanArray {
        let owned = |id| self.known.get(id).is_some_and(|known| known.owner == place);
        ids(batch).iter().map(|id| Some(owned(id))).collect()
    }

    /// Hashes the steps of shared episodes in a batch, of which `current` is the last so far. An
    /// episode that has ended is compared.
    fn compare_shared(
        &mut self,
        batch: &RecordBatch,
        bytes: &RowBytes,
        current: &mut Option<(i64, blake3::Hasher)>,
        place: usize,
    ) -> Result<(), MergeError> {
        for (id, rows) in self.shared_steps(batch, bytes) {
            if let Some((last, steps)) = current.take_if(|(last, _)| *last != id) {
                self.compare(last, &steps, place)?;
            }
            let (_, steps) = current.get_or_insert_with(|| (id, blake3::Hasher::new()));
            steps.update(&rows);
        }
        Ok(())
    }

    /// Returns the episode and the bytes of each step of shared episodes in a batch.
    fn shared_steps(&self, batch: &RecordBatch, bytes: &RowBytes) -> Vec<(i64, Vec<u8>)> {
        let ids = ids(batch);
        let is_shared = |id| self.known.get(id).is_some_and(|known| known.is_shared);
        let mut last = (None, false);
        let shared = ids.iter().map(|id| {
            if last.0 != Some(id) {
                last = (Some(id), is_shared(id));
            }
            last.1
        });
        let shared = shared.collect::<Vec<_>>();
        if !shared.contains(&true) {
            return Vec::new();
        }
        let rows = bytes.of(batch);
        let shared = (0..ids.len()).filter(|&row| shared[row]);
        shared.map(|row| (ids[row], rows.row(row).data().to_vec())).collect()
    }

    fn compare(&mut self, id: i64, steps: &blake3::Hasher, place: usize) -> Result<(), MergeError> {
        let digest = shortened(&steps.finalize());
        let known = self.known.get_mut(&id).expect("shared episodes are known");
        if known.owner == place {
            known.steps = Some(digest);
        } else if known.steps != Some(digest) {
            let owner = known.owner;
            return Err(self.differs(id, owner, place));
        }
        Ok(())
    }

    /// Makes the error for an episode of which two lakes have different recordings.
    fn differs(&self, id: i64, first: usize, second: usize) -> MergeError {
        let id = EpisodeId(id);
        let uid = self.runs.uid(id.run());
        let what = format!("episode {} of run {uid} differs", id.ordinal());
        let advice = "the run was continued in both; merge without one of the two, or retract the \
                      run, which leaves it out completely";
        MergeError::differs(what, &self.sources[first], &self.sources[second], advice)
    }

    /// Returns whether the new lake has a benchmark that some lake has: it is gone if one of them
    /// retracted it and no episode of it is left.
    pub(super) fn keeps_benchmark(&self, uri: &str) -> bool {
        !self.runs.was_retracted(uri) || self.still_used.contains(uri)
    }

    /// Writes the rows of `benchmarks`, each URI once, except those in files that stay.
    pub(super) fn write_benchmarks(&self, kept: &mut Kept) -> Result<Vec<Segment>, MergeError> {
        let (lake, sources) = (self.lake, self.sources);
        let mut programs = Programs::new(lake, sources);
        for (place, source) in sources.iter().enumerate() {
            let schema = lake.schemas.get(Table::Benchmarks);
            source.visit(Table::Benchmarks, ScanColumns::All, schema, &mut |file, batches| {
                let file = file.filter(|file| kept.has(place, file)).map(|file| &file.path);
                for batch in batches {
                    programs.add(place, file, batch?, &|uri| !self.keeps_benchmark(uri))?;
                }
                Ok(())
            })?;
        }
        let changed = programs.changed();
        kept.remove(&changed);
        let mut series = SegmentSeries::new(lake, Table::Benchmarks);
        let written = |program: &&MergedBenchmark| !programs.is_in_others(program, &changed);
        let chosen = programs.chosen.values().filter(written).collect::<Vec<_>>();
        for chosen in chosen.chunks(BENCHMARKS_AT_ONCE) {
            let schema = lake.schemas.get(Table::Benchmarks);
            let column = |column| chosen.iter().map(|program| program.places[column]).collect();
            let places = (0..schema.fields().len()).map(column).collect::<Vec<_>>();
            series.write(&gathered(schema, &programs.batches, &places))?;
        }
        Ok(series.finish()?)
    }
}

/// The rows of `benchmarks` of all lakes, each URI once.
struct Programs<'a> {
    sources: &'a [SourceLake],
    compiled: RowBytes,
    described: RowBytes,
    /// The place of the column `execution`.
    execution: usize,
    baselines: Range<usize>,
    /// What was read, and the place of the lake of each batch.
    batches: Vec<RecordBatch>,
    lakes: Vec<usize>,
    /// The file of each batch, if it stays unless one of its rows changes.
    files: Vec<Option<PathBuf>>,
    /// Such files with rows that are gone.
    without: BTreeSet<PathBuf>,
    chosen: BTreeMap<String, MergedBenchmark>,
}

/// A row of `benchmarks`.
struct MergedBenchmark {
    /// The batch and the row of each column.
    places: Vec<(usize, usize)>,
    /// False if a repair lost the original row.
    is_known: bool,
    /// The columns that must be equal in all lakes.
    compiled: Vec<u8>,
    /// These columns and the provenance.
    described: Vec<u8>,
    /// The batches and the rows of the program in files that may stay.
    kept: Vec<(usize, usize)>,
}

impl<'a> Programs<'a> {
    fn new(lake: &Lake, sources: &'a [SourceLake]) -> Self {
        let baselines = lake.identity.baselines.iter().map(String::as_str).collect::<Vec<_>>();
        let execution = ["execution"];
        let provenance = ["dataset", "family", "licence", "origin", "compile_command"];
        let described = [&execution, &*baselines].concat();
        let columns = lake.schemas.get(Table::Benchmarks).fields().len();
        Self {
            sources,
            compiled: RowBytes::new(lake, Table::Benchmarks, &[&provenance, &*described].concat()),
            described: RowBytes::new(lake, Table::Benchmarks, &described),
            execution: columns - baselines.len() - 1,
            baselines: columns - baselines.len()..columns,
            batches: Vec::new(),
            lakes: Vec::new(),
            files: Vec::new(),
            without: BTreeSet::new(),
            chosen: BTreeMap::new(),
        }
    }

    /// Adds programs of a lake, from a `file` that may stay, except those that are `gone`.
    fn add(
        &mut self,
        lake: usize,
        file: Option<&PathBuf>,
        batch: RecordBatch,
        gone: &dyn Fn(&str) -> bool,
    ) -> Result<(), MergeError> {
        let (compiled, described) = (self.compiled.of(&batch), self.described.of(&batch));
        let digests = batch["program_digest"].as_string::<i32>().clone();
        let uris = batch["benchmark_uri"].as_string::<i32>().clone();
        let (index, columns) = (self.batches.len(), batch.num_columns());
        self.batches.push(batch);
        self.lakes.push(lake);
        self.files.push(file.cloned());
        for (row, uri) in uris.iter().enumerate() {
            let uri = uri.unwrap_or_default();
            if gone(uri) {
                self.without.extend(file.cloned());
                continue;
            }
            let new = MergedBenchmark {
                places: vec![(index, row); columns],
                is_known: !digests.value(row).is_empty(),
                compiled: compiled.row(row).data().to_vec(),
                described: described.row(row).data().to_vec(),
                kept: file.map(|_| (index, row)).into_iter().collect(),
            };
            let program = match self.chosen.remove(uri) {
                Some(known) => self.united(uri, known, new)?,
                None => new,
            };
            self.chosen.insert(uri.to_owned(), program);
        }
        Ok(())
    }

    /// Unites two rows of one program. The provenance may be written in several ways: the smaller
    /// row in byte order is taken. The execution and each baseline are taken from a row that has
    /// it, the execution from that with the smaller text.
    fn united(
        &self,
        uri: &str,
        known: MergedBenchmark,
        new: MergedBenchmark,
    ) -> Result<MergedBenchmark, MergeError> {
        let differs = |column: usize| {
            let [first, second] = [&known, &new].map(|program| {
                let (batch, _) = program.places[column];
                &self.sources[self.lakes[batch]]
            });
            let advice = "merge without one of the two lakes, or retract the benchmark in one, \
                          which also leaves out its episodes of the same runs in the other";
            MergeError::differs(format!("the program of {uri} differs"), first, second, advice)
        };
        if known.is_known && new.is_known && known.compiled != new.compiled {
            return Err(differs(0));
        }
        let mut places = Vec::new();
        for column in self.baselines.clone() {
            let cost = |program: &MergedBenchmark| {
                let (batch, row) = program.places[column];
                let costs = self.batches[batch].column(column).as_primitive::<Int64Type>();
                costs.is_valid(row).then(|| costs.value(row))
            };
            places.push(match (cost(&known), cost(&new)) {
                (Some(first), Some(second)) if first != second => return Err(differs(column)),
                (None, Some(_)) => new.places[column],
                _ => known.places[column],
            });
        }
        let execution = [&known, &new].map(|program| {
            let place @ (batch, row) = program.places[self.execution];
            let texts = self.batches[batch].column(self.execution).as_string::<i32>();
            (texts.is_null(row), texts.is_valid(row).then(|| texts.value(row)), place)
        });
        let (.., execution) = execution.into_iter().min().expect("there are two rows");
        let rank = |program: &MergedBenchmark| (!program.is_known, program.described.clone());
        let kept = [known.kept.clone(), new.kept.clone()].concat();
        let mut program = if rank(&new) < rank(&known) { new } else { known };
        program.kept = kept;
        program.places[self.baselines.clone()].copy_from_slice(&places);
        program.places[self.execution] = execution;
        Ok(program)
    }

    /// Returns the files that cannot stay, since they have other rows than the new lake.
    fn changed(&self) -> BTreeSet<PathBuf> {
        let changed = self.chosen.values().filter(|program| match program.kept[..] {
            [] => false,
            [known] => !self.is_row(program, known),
            _ => true,
        });
        let rows = changed.flat_map(|program| &program.kept);
        let files = rows.filter_map(|&(batch, _)| self.files[batch].clone());
        files.chain(self.without.iter().cloned()).collect()
    }

    /// Returns whether a program has the values of this row.
    fn is_row(&self, program: &MergedBenchmark, (batch, row): (usize, usize)) -> bool {
        let value =
            |column: usize, batch: usize, row| self.batches[batch].column(column).slice(row, 1);
        let is_same = |(column, &place): (usize, &(usize, usize))| {
            place == (batch, row)
                || value(column, place.0, place.1).as_ref() == value(column, batch, row).as_ref()
        };
        program.places.iter().enumerate().all(is_same)
    }

    /// Returns whether a program is in a file that is not among the `changed` ones.
    fn is_in_others(&self, program: &MergedBenchmark, changed: &BTreeSet<PathBuf>) -> bool {
        let mut files = program.kept.iter().filter_map(|&(batch, _)| self.files[batch].as_ref());
        files.any(|file| !changed.contains(file))
    }
}

/// Converts rows to bytes, which are equal if the rows are.
struct RowBytes {
    converter: RowConverter,
    /// The columns that are converted.
    places: Vec<usize>,
}

impl RowBytes {
    /// Converts all columns except those in `without`.
    fn new(lake: &Lake, table: Table, without: &[&str]) -> Self {
        let fields = lake.schemas.get(table).fields();
        let is_converted = |&place: &usize| !without.contains(&fields[place].name().as_str());
        let places = (0..fields.len()).filter(is_converted).collect::<Vec<_>>();
        let sorts = places.iter().map(|&place| SortField::new(fields[place].data_type().clone()));
        let converter = RowConverter::new(sorts.collect()).expect("the columns have an order");
        Self { converter, places }
    }

    fn of(&self, batch: &RecordBatch) -> arrow::row::Rows {
        let batch = batch.project(&self.places).expect("the places are of the table");
        self.converter.convert_columns(batch.columns()).expect("the columns are of the table")
    }
}

fn shortened(hash: &blake3::Hash) -> Digest {
    hash.as_bytes()[..16].try_into().expect("a hash has 32 bytes")
}

fn filtered(batch: &RecordBatch, keep: &BooleanArray) -> RecordBatch {
    filter_record_batch(batch, keep).expect("a mask as long as its batch")
}

/// Splits a batch where the run changes. Renumbering keeps the order within a run only.
fn pieces(batch: &RecordBatch) -> Vec<RecordBatch> {
    let mut pieces = Vec::new();
    let mut from = 0;
    for piece in ids(batch).chunk_by(|&a, &b| EpisodeId(a).run() == EpisodeId(b).run()) {
        pieces.push(batch.slice(from, piece.len()));
        from += piece.len();
    }
    pieces
}

/// Replaces the run's number in rows of one run.
fn renumber(piece: &RecordBatch, place: usize, runs: &Runs) -> Result<RecordBatch, LakeError> {
    let RunId(run) = runs.number(place, EpisodeId(ids(piece)[0]).run())?;
    let number = |id: i64| {
        let run = runs.number(place, EpisodeId(id).run())?;
        Ok::<_, LakeError>(EpisodeId::new(run, EpisodeId(id).ordinal()).0)
    };
    let column = |(field, array): (&FieldRef, &ArrayRef)| {
        Ok(match field.name().as_str() {
            "episode_id" | "parent_episode_id" => {
                let ids = array.as_primitive::<Int64Type>().iter();
                let ids = ids.map(|id| id.map(number).transpose());
                Arc::new(ids.collect::<Result<Int64Array, LakeError>>()?) as ArrayRef
            }
            "run_id" => Arc::new(Int32Array::from(vec![run; array.len()])),
            _ => Arc::clone(array),
        })
    };
    let schema = piece.schema();
    let columns = schema.fields().iter().zip(piece.columns()).map(column);
    let columns = columns.collect::<Result<Vec<ArrayRef>, LakeError>>()?;
    Ok(RecordBatch::try_new(schema, columns).expect("the columns are of the same types"))
}
