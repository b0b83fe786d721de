//! The parts of a backfill: `backfill/<digest of the spaces>/` in the lake's folder.
//!
//! The folder has a job file, which names the spaces and lists the parts, and the parts. These are
//! segments of `observations` that have the columns of the spaces alone. A part that the job file
//! does not list, or that is not what it lists, does not count: its states are computed again.

use std::collections::{HashSet, VecDeque};
use std::path::{Path, PathBuf};

use arrow::array::Array as _;
use serde::{Deserialize, Serialize};

use crate::kernel::files::digest::Content;
use crate::kernel::schema::decode::state_ids;
use crate::kernel::schema::state_rows::{SameState, SortedRows, merge_states, rows_at_once};
use crate::kernel::segments::orphans;
use crate::kernel::segments::scan::scan;
use crate::kernel::segments::segment_writer::SegmentWriter;
use crate::kernel::{
    FileRow, Identity, Lake, LakeError, ObservationRow, RecordedObservation, Rows, ScanColumns,
    Segment, Table,
};
use steplake_model::StateId;

/// The folder of all parts in the lake.
pub(crate) const FOLDER: &str = "backfill";
/// Number of segments, and of sorted runs of parts, that are read at a time.
const FILES_AT_ONCE: usize = 32;
/// The job file in the folder of the parts.
const JOB: &str = "job.json";

/// What the job file says. On a second line, the file has its BLAKE3.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Job {
    spaces: Vec<RecordedObservation>,
    parts: Vec<FileRow>,
}

/// The durable parts of a backfill.
#[derive(Debug)]
pub(crate) struct Parts {
    files: PartFiles,
    job: Job,
    segments: Vec<Segment>,
}

/// Where parts are written.
#[derive(Debug, Clone)]
pub(crate) struct PartFiles {
    /// The folder of the parts as a lake that has the spaces alone: only its tables' files exist.
    lake: Lake,
}

impl Parts {
    /// Opens the parts that an interrupted backfill left, if there are any, and removes everything
    /// else from their folder. The caller has the right to maintain the lake.
    pub(crate) fn open(lake: &Lake, spaces: &[RecordedObservation]) -> Result<Self, LakeError> {
        let named = serde_json::to_vec(spaces).expect("strings and numbers serialise");
        let folder = lake.path.join(FOLDER).join(&blake3::hash(&named).to_hex()[..16]);
        let identity = Identity { observations: spaces.to_vec(), ..lake.identity().clone() };
        let files = PartFiles { lake: Lake::new(&folder, identity, lake.disk.clone()) };
        let mut parts = Self {
            job: Job { spaces: spaces.to_vec(), parts: Vec::new() },
            segments: Vec::new(),
            files,
        };
        if !folder.is_dir() {
            return Ok(parts);
        }
        if let Some(job) = parts.read_job()?.filter(|job| job.spaces == parts.job.spaces) {
            for row in job.parts {
                if let Some(segment) = parts.files.find(&row)? {
                    parts.job.parts.push(row);
                    parts.segments.push(segment);
                }
            }
        }
        let kept = parts.segments.iter().map(|segment| segment.path.clone()).collect();
        let observations = std::iter::once(Table::Observations);
        orphans::remove_unlisted(&parts.files.lake, observations, &kept)?;
        Ok(parts)
    }

    fn job_path(&self) -> PathBuf {
        self.files.lake.path.join(JOB)
    }

    /// Reads the job file; `None` if there is none, or a damaged one.
    fn read_job(&self) -> Result<Option<Job>, LakeError> {
        let path = self.job_path();
        if !path.exists() {
            return Ok(None);
        }
        let content = self.files.lake.disk.read(&path).map_err(LakeError::io("read", &path))?;
        let job = parsed(&content);
        if job.is_none() {
            tracing::warn!(path = %path.display(), "damaged: the backfill starts over");
        }
        Ok(job)
    }

    /// The names of the spaces.
    pub(crate) fn names(&self) -> String {
        let names = self.job.spaces.iter().map(|space| space.name.as_str());
        names.collect::<Vec<_>>().join(", ")
    }

    /// Returns where to write parts.
    pub(crate) fn files(&self) -> PartFiles {
        self.files.clone()
    }

    /// Lists a part that is durable. The list is durable on return.
    pub(crate) fn list(&mut self, part: Segment) -> Result<(), LakeError> {
        self.job.parts.push(part.row.clone());
        let json = serde_json::to_string(&self.job).expect("strings and numbers serialise");
        let digest = blake3::hash(json.as_bytes()).to_hex();
        let content = format!("{json}\n{digest}\n");
        let written = self.files.lake.disk.write_file(&self.job_path(), content.as_bytes());
        if written.is_err() {
            self.job.parts.pop();
        } else {
            self.segments.push(part);
        }
        written
    }

    /// Reads the states of all parts.
    pub(crate) fn states(&mut self) -> Result<HashSet<StateId>, LakeError> {
        let mut states = HashSet::new();
        for segment in &self.segments {
            for batch in segment.scan(&self.files.lake.schemas, ScanColumns::Named(&["state_id"])) {
                states.extend(state_ids(&batch?, "state_id").flatten());
            }
        }
        Ok(states)
    }

    /// Merges the parts into so many sorted runs at most, each in one file or several consecutive
    /// ones. A run of several parts is in files that no job file lists.
    fn sorted_runs(
        &self,
        runs_max: usize,
        go_on: &mut dyn FnMut() -> Result<(), LakeError>,
    ) -> Result<Vec<Vec<Segment>>, LakeError> {
        let mut runs = self.segments.iter().map(|part| vec![part.clone()]).collect::<VecDeque<_>>();
        while runs.len() > runs_max {
            let some = runs.drain(..runs_max).collect::<Vec<_>>();
            let merged = merge_states(
                &self.files.lake,
                Table::Observations,
                some.iter().map(|run| self.rows(run)).collect(),
                &mut |same| Ok(Some(first_values(same))),
                &mut |_| go_on(),
            )?;
            runs.push_back(merged);
        }
        Ok(runs.into())
    }

    /// Writes new segments of `lake` with what the parts have, in place of these: a value that a
    /// state has there stays.
    pub(crate) fn merged_into(
        &self,
        lake: &Lake,
        segments: &[Segment],
        go_on: &mut dyn FnMut() -> Result<(), LakeError>,
    ) -> Result<Vec<Segment>, LakeError> {
        let schema = lake.schemas.get(Table::Observations);
        let runs = self.sorted_runs(FILES_AT_ONCE, go_on)?;
        let mut merged = Vec::new();
        for some in segments.chunks(FILES_AT_ONCE) {
            let mut inputs = Vec::<SortedRows<'_>>::new();
            for segment in some.chunks(1) {
                // Damage must not be written anew, under a digest of its own.
                segment[0].check_while(go_on)?;
                inputs.push(scan(schema, segment, &[], ScanColumns::All, rows_at_once(schema)));
            }
            inputs.extend(runs.iter().map(|run| self.rows(run)));
            merged.extend(merge_states(
                lake,
                Table::Observations,
                inputs,
                // States that are in parts alone are those of other segments, or are gone.
                &mut |rows| Ok((rows.inputs[0] < some.len()).then(|| first_values(rows))),
                &mut |_| go_on(),
            )?);
        }
        Ok(merged)
    }

    /// Reads a sorted run.
    fn rows<'a>(&'a self, run: &'a [Segment]) -> SortedRows<'a> {
        let schema = self.files.lake.schemas.get(Table::Observations);
        scan(schema, run, &[], ScanColumns::All, rows_at_once(schema))
    }

    /// Deletes the parts. After a crash meanwhile, the rest counts as parts or as nothing.
    pub(crate) fn remove(&mut self) -> Result<(), LakeError> {
        let lake = &self.files.lake;
        lake.disk.remove(&self.job_path())?;
        lake.disk.remove_tree(&lake.path)?;
        (self.job.parts, self.segments) = (Vec::new(), Vec::new());
        // This fails if the folder has parts of another backfill, which stay.
        let _ = lake.path.parent().map(std::fs::remove_dir);
        Ok(())
    }
}

impl PartFiles {
    /// Writes rows as a part. It is durable on return, and no job file lists it yet.
    pub(crate) fn write(&self, mut rows: Vec<ObservationRow>) -> Result<Segment, LakeError> {
        rows.sort_unstable_by_key(|row| row.state.order());
        let rows = Rows { observations: rows, ..Rows::default() };
        self.lake.disk.create_dir(&self.lake.path)?;
        let schema = self.lake.schemas.get(Table::Observations);
        let mut writer = SegmentWriter::create(&self.lake, Table::Observations, schema)?;
        for (_, batch) in self.lake.schemas.encode(&rows) {
            writer.write(&batch)?;
        }
        writer.finish()
    }

    /// Returns the part that the job file lists, if its file is what was written.
    fn find(&self, row: &FileRow) -> Result<Option<Segment>, LakeError> {
        let path = self.lake.table_folder(row.table).join(row.name());
        let content = if path.exists() { read(&self.lake, &path)? } else { None };
        let content = content.filter(|content| content.digest == row.digest);
        if content.is_none() {
            let path = path.display();
            tracing::warn!(%path, "missing or damaged: its states are computed again");
        }
        Ok(content.map(|content| row.segment(&self.lake, content.blocks)))
    }
}

/// Chooses for each column the first input that has a value.
fn first_values(rows: &SameState<'_>) -> Vec<usize> {
    let mut chosen = rows.all_of(rows.inputs[0]);
    if rows.inputs.len() > 1 {
        let each = rows.inputs.iter().map(|&input| (input, rows.row(input))).collect::<Vec<_>>();
        for (column, chosen) in chosen.iter_mut().enumerate() {
            let there = each.iter().find(|(_, row)| row.column(column).is_valid(0));
            *chosen = there.map_or(*chosen, |(input, _)| *input);
        }
    }
    chosen
}

/// Returns those of some segments of `observations` that have one of these states.
pub(crate) fn with_states(
    lake: &Lake,
    segments: &[Segment],
    states: &HashSet<StateId>,
) -> Result<Vec<Segment>, LakeError> {
    let mut found = Vec::new();
    for segment in segments {
        for batch in segment.scan(&lake.schemas, ScanColumns::Named(&["state_id"])) {
            if state_ids(&batch?, "state_id").flatten().any(|state| states.contains(&state)) {
                found.push(segment.clone());
                break;
            }
        }
    }
    Ok(found)
}

fn read(lake: &Lake, path: &Path) -> Result<Option<Content>, LakeError> {
    let file = lake.disk.open(path).map_err(LakeError::io("open", path))?;
    Content::read(&file).map_err(LakeError::io("read", path))
}

fn parsed(content: &[u8]) -> Option<Job> {
    let text = std::str::from_utf8(content).ok()?;
    let (json, digest) = text.strip_suffix('\n')?.rsplit_once('\n')?;
    let is_intact = *blake3::hash(json.as_bytes()).to_hex() == *digest;
    let job: Option<Job> = is_intact.then(|| serde_json::from_str(json).ok()).flatten();
    let is_sound = |row: &FileRow| row.table == Table::Observations && row.is_well_formed();
    job.filter(|job| job.parts.iter().all(is_sound))
}
