//! Lakes that are merged: what they come to together, and what keeps them apart.

mod kept;
mod laws;
mod spaces;

use std::path::{Path, PathBuf};

use steplake::dedup::{DedupOptions, dedup};
use steplake::lake::{
    Disk, Identity, Lake, LakeError, RetractionRow, Rows, RunRow, Table, to_the_end,
};
use steplake::model::{EpisodeId, RunId, Value};
use steplake::transfer::{
    merge::MergeError, merge::MergeOptions, merge::MergeReport, merge::merge, merge::new_conflicts,
};
use steplake::upkeep::RetractionTarget;

use crate::fixtures::power::Power;
use crate::fixtures::support::{cells, fail, run};
use crate::fixtures::support::{copy_folder, scratch};
use crate::fixtures::toy_lake::{Author, Taken, identity, read, state, uri};

/// A lake that is recorded by hand.
pub(crate) struct Recorded {
    pub(crate) lake: Lake,
    author: Author,
    /// The ordinal of the next episode: copies of a lake record others.
    next: u32,
    /// What it records instead of the author's columns: see `Recorded::grow`.
    spaces: Vec<&'static str>,
}

impl Recorded {
    fn new(path: PathBuf) -> Self {
        let lake = Lake::create(path, &identity()).unwrap();
        Self { lake, author: Author::default(), next: 0, spaces: Vec::new() }
    }

    /// A copy that goes on with ordinals of its own.
    fn copy(&self, path: PathBuf, next: u32) -> Self {
        copy_folder(self.lake.path(), &path);
        let mut author = Author::default();
        author.known.clone_from(&self.author.known);
        author.benchmarks.clone_from(&self.author.benchmarks);
        Self { lake: Lake::open(path).unwrap(), author, next, spaces: self.spaces.clone() }
    }

    fn begin_run(&self, started_at_ms: i64) -> RunId {
        self.lake.writer().unwrap().begin_run("{}", started_at_ms).unwrap()
    }

    /// Records an episode, which stays open where it does not `end`.
    fn record(&mut self, run: RunId, first: u32, path: &[Taken], end: bool) {
        let id = EpisodeId::new(run, self.next);
        self.next += 1;
        if end {
            self.author.episode(id, first, path);
        } else {
            self.author.reset(id, first);
            self.author.steps(id, first, 1, path);
        }
        let rows = self.take();
        self.lake.writer().unwrap().append(&rows).unwrap();
    }

    fn seal(&self) {
        self.lake.writer().unwrap().seal().unwrap();
    }

    fn retract(&mut self, subject: &RetractionTarget) {
        let mut maintenance = self.lake.maintenance().unwrap();
        let mut writer = self.lake.writer().unwrap();
        match maintenance.retract(&mut writer, subject, "a test") {
            Ok(_) | Err(LakeError::NothingToRetract { .. }) => {}
            Err(error) => panic!("{error}"),
        }
        drop(writer);
        let left = read(&self.lake);
        self.author.known = left.observations.iter().map(|row| row.state).collect();
        let number = |uri: &str| uri.rsplit('/').next().unwrap().parse().unwrap();
        self.author.benchmarks =
            left.benchmarks.iter().map(|row| number(row.uri.as_str())).collect();
    }
}

/// All that a lake says.
#[derive(Debug, Clone, PartialEq)]
struct Contents {
    identity: Identity,
    tables: Vec<Vec<String>>,
    runs: Vec<RunRow>,
    retractions: Vec<RetractionRow>,
}

impl Contents {
    fn of(lake: &Lake) -> Self {
        let snapshot = lake.snapshot().unwrap();
        let tables = Table::ALL.map(|table| cells(lake.path(), table, |_| true));
        Self {
            identity: snapshot.identity().clone(),
            tables: tables.to_vec(),
            runs: snapshot.runs().to_vec(),
            retractions: snapshot.retractions().to_vec(),
        }
    }
}

fn derive(lake: &Lake) {
    let mut maintenance = lake.maintenance().unwrap();
    dedup(&mut maintenance, DedupOptions::default(), &mut to_the_end).unwrap();
}

fn try_merge(lakes: &[&Lake], into: &Path) -> Result<(Lake, MergeReport), MergeError> {
    let lakes = lakes.iter().map(|&lake| lake.clone()).collect::<Vec<_>>();
    merge(Disk::default(), &lakes, into, &MergeOptions::default(), &mut |_, _| ())
}

/// Merges, derives and verifies.
fn merged(lakes: &[&Lake], into: &Path) -> Lake {
    let (lake, _) = try_merge(lakes, into).unwrap();
    derive(&lake);
    let report = lake.verify(&mut to_the_end).unwrap();
    assert!(report.is_sound(), "{:?}", report.findings);
    lake
}

/// Two lakes that share a run, each with more of its own.
pub(crate) fn two(folder: &Path) -> [Recorded; 2] {
    let mut first = Recorded::new(folder.join("first"));
    let shared = first.begin_run(5);
    first.record(shared, 0, &[(1, Some(1)), (2, Some(2))], true);
    first.seal();
    first.record(shared, 1, &[(1, Some(3)), (2, None)], true);
    let mut second = first.copy(folder.join("second"), 10);
    let (mine, yours) = (first.begin_run(9), second.begin_run(7));
    first.record(mine, 0, &[(1, Some(4)), (3, Some(6))], true);
    first.record(shared, 2, &[(1, Some(5))], false);
    second.record(yours, 2, &[(1, Some(5)), (2, Some(6))], true);
    second.record(shared, 0, &[(1, Some(1)), (2, Some(2)), (5, Some(7))], true);
    second.seal();
    [first, second]
}

#[test]
fn runs_are_taken_once_and_numbered_by_their_beginning() {
    let folder = scratch();
    let [first, second] = two(folder.path());
    let (lake, report) =
        try_merge(&[&first.lake, &second.lake], &folder.path().join("both")).unwrap();
    let episodes = report.sources.iter().map(|source| (source.episodes, source.episodes_open));
    assert_eq!(episodes.collect::<Vec<_>>(), [(3, 1), (4, 0)]);
    assert_eq!((report.runs, report.episodes_shared), (3, 2));
    let snapshot = lake.snapshot().unwrap();
    let runs = snapshot.runs().iter().map(|run| (run.id.0, run.started_at_ms, run.finished));
    assert_eq!(runs.collect::<Vec<_>>(), [(1, 5, false), (2, 7, false), (3, 9, false)]);
    let uids = snapshot.runs().iter().map(|run| run.uid.clone()).collect::<Vec<_>>();
    let of = |lake: &Lake| {
        lake.snapshot().unwrap().runs().iter().map(|run| run.uid.clone()).collect::<Vec<_>>()
    };
    assert_eq!(uids[0], of(&first.lake)[0]);
    assert_eq!([&uids[1], &uids[2]], [&of(&second.lake)[1], &of(&first.lake)[1]]);
    let ids = read(&lake).episodes.iter().map(|row| row.id).collect::<Vec<_>>();
    let id = |run, ordinal| EpisodeId::new(RunId(run), ordinal);
    assert_eq!(ids, [id(1, 0), id(1, 1), id(1, 11), id(2, 10), id(3, 2)]);
    // The parent of a forked episode is renumbered with it.
    assert_eq!(read(&lake).episodes[2].parent, Some((id(1, 10), 0)));
    let kinds = snapshot.history().iter().map(|row| row.kind.as_str()).collect::<Vec<_>>();
    assert_eq!(kinds, ["create", "merge"]);
    // The state that only the open episode had, another lake has closed.
    assert!(read(&lake).observations.iter().any(|row| row.state == state(5)));
}

#[test]
fn conflicts_that_no_lake_has_alone_are_told() {
    let folder = scratch();
    let [mut first, mut second] = [0, 1].map(|number: u32| {
        let mut lake = Recorded::new(folder.path().join(number.to_string()));
        let run = lake.begin_run(0);
        // In both alone, and by both alone.
        lake.record(run, 0, &[(1, Some(1))], true);
        lake.record(run, 0, &[(1, Some(2)), (4, Some(5 + number))], true);
        lake
    });
    for lake in [&mut first, &mut second] {
        let action = 6 + lake.next % 2;
        lake.record(RunId(1), 3, &[(action, Some(8))], true);
    }
    let lake = merged(&[&first.lake, &second.lake], &folder.path().join("both"));
    assert_eq!(lake.snapshot().unwrap().rows(Table::Conflicts), 4);
    let new = new_conflicts(&lake, &[first.lake, second.lake]).unwrap();
    let new = new.into_iter().map(|(state, action)| (state, action.0)).collect::<Vec<_>>();
    assert_eq!(new, [(state(2), 4)]);
}

#[test]
fn what_is_retracted_in_one_lake_comes_from_none() {
    let folder = scratch();
    let [mut first, second] = two(folder.path());
    first.retract(&RetractionTarget::benchmark(uri(1)));
    first.retract(&RetractionTarget::Run(RunId(2)));
    let lakes = [&second.lake, &first.lake];
    let (lake, report) = try_merge(&lakes, &folder.path().join("both")).unwrap();
    assert_eq!(report.episodes_retracted, 1);
    let rows = read(&lake);
    assert!(rows.benchmarks.iter().all(|row| row.uri != uri(1)));
    assert!(rows.steps.iter().all(|row| row.benchmark != uri(1)));
    let snapshot = lake.snapshot().unwrap();
    let kept = snapshot.retractions().iter();
    let kept = kept.map(|row| (row.kind.as_str(), row.value.as_str(), row.runs.clone()));
    assert_eq!(
        kept.collect::<Vec<_>>(),
        [("benchmark", "generator://toy-v0/1", vec![RunId(1)]), ("run", "3", vec![RunId(3)])]
    );
    // The row of a run stays, so that its number does.
    assert_eq!(snapshot.runs().len(), 3);
}

#[test]
fn many_files_are_read_a_few_at_a_time() {
    let folder = scratch();
    let mut lakes = [0, 1].map(|number| Recorded::new(folder.path().join(number.to_string())));
    for lake in &mut lakes {
        let run = lake.begin_run(i64::from(lake.next));
        for number in 0..9 {
            let path = (1..40).map(|to| (1, Some(number * 30 + to))).collect::<Vec<_>>();
            lake.record(run, 0, &path, true);
            lake.seal();
        }
    }
    let lakes = lakes.map(|lake| lake.lake);
    let few = MergeOptions { files_at_once: 2, ..MergeOptions::default() };
    let path = folder.path().join("few");
    let (lake, _) = merge(Disk::default(), &lakes, &path, &few, &mut |_, _| ()).unwrap();
    let all = merged(&[&lakes[0], &lakes[1]], &folder.path().join("all"));
    derive(&lake);
    assert_eq!(Contents::of(&lake), Contents::of(&all));
    for table in ["ir", "observations"] {
        let files = std::fs::read_dir(path.join("data").join(table)).unwrap();
        let files = files.filter(|file| file.as_ref().is_ok_and(|file| file.path().is_file()));
        assert_eq!(files.count(), 1, "{table}");
    }
}

/// What two lakes are refused with, and that the folder is not made.
fn refused(first: &Lake, second: &Lake, into: &Path) -> String {
    let error = try_merge(&[first, second], into).unwrap_err().to_string();
    assert!(!into.exists(), "{error}");
    assert!(!error.contains('\n'));
    error
}

/// A lake with one episode.
fn one(path: PathBuf, identity: &Identity, change: impl FnOnce(&mut Rows)) -> Lake {
    let lake = Lake::create(path, identity).unwrap();
    let mut writer = lake.writer().unwrap();
    let run = writer.begin_run("{}", 0).unwrap();
    let mut author = Author::default();
    author.episode(EpisodeId::new(run, 0), 0, &[(1, Some(1))]);
    let mut rows = author.take();
    change(&mut rows);
    writer.append(&rows).unwrap();
    lake
}

#[test]
fn lakes_that_differ_are_refused_and_the_difference_is_named() {
    let folder = scratch();
    let path = |name: &str| folder.path().join(name);
    let into = path("into");
    let plain = one(path("plain"), &identity(), |_| ());
    let lakes = |error: &str, other: &str| {
        for lake in [plain.path(), &path(other)] {
            assert!(error.contains(lake.to_str().unwrap()), "{error}");
        }
    };
    let mut compiler = identity();
    compiler.compiler = "toy 2".into();
    let error = refused(&plain, &one(path("compiler"), &compiler, |_| ()), &into);
    assert!(error.contains("compiler toy 1") && error.contains("toy 2"), "{error}");
    lakes(&error, "compiler");

    let program = |rows: &mut Rows| rows.benchmarks[0].program_digest = "0".repeat(64);
    let error = refused(&plain, &one(path("program"), &identity(), program), &into);
    assert!(error.starts_with("the program of generator://toy-v0/0 differs between"), "{error}");
    lakes(&error, "program");

    let observed = |rows: &mut Rows| {
        rows.observations[1].values[0] = Some(Value::Int(99));
    };
    let error = refused(&plain, &one(path("observed"), &identity(), observed), &into);
    assert!(error.contains(&format!("state {}", state(1))), "{error}");
    lakes(&error, "observed");

    // Both copies went on with the run, and one step took another time.
    let [mut ours, mut theirs] = ["ours", "theirs"].map(|name| {
        copy_folder(plain.path(), &path(name));
        let lake = Lake::open(path(name)).unwrap();
        Recorded { lake, author: Author::default(), next: 1, spaces: Vec::new() }
    });
    for (lake, micros) in [(&mut ours, 3), (&mut theirs, 4)] {
        lake.author.episode(EpisodeId::new(RunId(1), 1), 0, &[(1, Some(2))]);
        let mut rows = lake.author.take();
        rows.benchmarks.clear();
        rows.observations.retain(|row| row.state == state(2));
        rows.ir.retain(|row| row.state == state(2));
        rows.steps[1].wall_time = std::time::Duration::from_micros(micros);
        lake.lake.writer().unwrap().append(&rows).unwrap();
    }
    let error = refused(&ours.lake, &theirs.lake, &into);
    let uid = plain.snapshot().unwrap().runs()[0].uid.clone();
    assert!(error.starts_with(&format!("episode 1 of run {uid} differs between")), "{error}");
    assert!(error.contains("ours") && error.contains("theirs"), "{error}");

    // Damage does not go on into another lake.
    let damaged = one(path("damaged"), &identity(), |_| ());
    damaged.writer().unwrap().seal().unwrap();
    let file = damaged.snapshot().unwrap().segments(Table::Steps)[0].path.clone();
    let mut content = std::fs::read(&file).unwrap();
    content[6] ^= 1;
    std::fs::write(&file, content).unwrap();
    let error = refused(&plain, &damaged, &into);
    assert!(error.contains("do not match their digest"), "{error}");
}

#[test]
fn a_folder_that_holds_something_is_left_alone() {
    let folder = scratch();
    let plain = one(folder.path().join("plain"), &identity(), |_| ());
    let error = try_merge(&[&plain], plain.path()).unwrap_err().to_string();
    assert!(error.contains("holds a lake already"), "{error}");
    let other = folder.path().join("other");
    std::fs::create_dir(&other).unwrap();
    std::fs::write(other.join("notes"), "").unwrap();
    let error = try_merge(&[&plain], &other).unwrap_err().to_string();
    assert!(error.contains("it holds notes"), "{error}");
    assert_eq!(std::fs::read_dir(&other).unwrap().count(), 1);
}

#[test]
fn a_power_cut_at_any_operation_leaves_no_lake_or_all_of_it() {
    let folder = scratch();
    let [first, second] = two(folder.path());
    let lakes = [first.lake, second.lake];
    let few = MergeOptions { files_at_once: 2, ..MergeOptions::default() };
    let whole = merged(&[&lakes[0], &lakes[1]], &folder.path().join("whole"));
    let wanted = Contents::of(&whole);
    let mut completed = 0;
    for operations in 0.. {
        let into = folder.path().join(format!("cut-{operations}"));
        let (disk, power) = Power::disk(operations, false);
        let result = merge(disk, &lakes, &into, &few, &mut |_, _| ());
        power.lock().unwrap().cut();
        let lake = match Lake::open(&into) {
            Ok(lake) => {
                completed += 1;
                lake
            }
            Err(LakeError::NotALake { .. } | LakeError::NotFound { .. }) => {
                assert!(result.is_err());
                let error = Lake::create(&into, &identity()).err();
                if into.join("merge.unfinished").exists() {
                    let error = error.unwrap().to_string();
                    assert!(error.contains("merge.unfinished"), "{error}");
                    merge(Disk::default(), &lakes, &into, &few, &mut |_, _| ()).unwrap().0
                } else {
                    // Nothing was written yet.
                    assert!(error.is_none(), "{error:?}");
                    std::fs::remove_dir_all(&into).unwrap();
                    merge(Disk::default(), &lakes, &into, &few, &mut |_, _| ()).unwrap().0
                }
            }
            Err(error) => panic!("after {operations} operations: {error}"),
        };
        derive(&lake);
        assert_eq!(Contents::of(&lake), wanted, "after {operations} operations");
        assert!(lake.verify(&mut to_the_end).unwrap().is_sound());
        if !power.lock().unwrap().off {
            assert!(operations > 20 && completed > 1, "{operations}, {completed}");
            return;
        }
        std::fs::remove_dir_all(&into).unwrap();
    }
}

#[test]
fn the_command_merges_and_says_what_came_of_it() {
    let folder = scratch();
    let [first, second] = two(folder.path());
    let [first, second] =
        [first.lake.path(), second.lake.path()].map(|path| path.to_str().unwrap());
    let into = folder.path().join("into");
    let said =
        run(Path::new("nowhere"), &["merge", first, second, "--into", into.to_str().unwrap()]);
    assert!(said.contains("merged 2 lakes into") && said.contains("3 runs, 5 episodes"), "{said}");
    assert!(said.contains("taken once: 2 episodes"), "{said}");
    assert!(said.contains("since not over: 1 episode"), "{said}");
    run(&into, &["verify"]);
    let again = ["merge", first, second, "--into", into.to_str().unwrap()];
    let (code, error) = fail(Path::new("nowhere"), &again);
    assert_eq!(code, 3);
    assert!(error.contains("holds a lake already: name a new or empty folder"), "{error}");
    assert!(!error.contains("is no lake"), "{error}");
    let json = folder.path().join("json");
    let json = ["merge", first, "--into", json.to_str().unwrap(), "--format", "json"];
    let said: serde_json::Value = serde_json::from_str(&run(Path::new("nowhere"), &json)).unwrap();
    assert_eq!(said["rows"]["episodes"], 3);
    assert_eq!(said["lakes"][0]["open_episodes_left_out"], 1);
}
