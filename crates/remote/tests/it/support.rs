//! What several tests need: small lakes, and stores that fail or wait.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;
use std::path::Path as FilePath;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::{self, BoxStream, StreamExt as _};
use indicatif::ProgressBar;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, ObjectStoreExt as _, PutMultipartOptions, PutOptions, PutPayload, PutResult,
    Result,
};
use steplake::dedup::{Settings as DedupSettings, dedup};
use steplake::env::Environment as _;
use steplake::env::toy::{self, ToyEnvironment};
use steplake::model::{Benchmark, BenchmarkUri, EpisodeId};
use steplake::record::generate::{
    Ending, Past, Plan, Policy, ProgramError, Programs, Progress, Shard, Stop, generate,
};
use steplake::record::{Choice, Recording, RecordingOptions, identity};
use steplake::store::{Disk, Identity, Lake, ScanColumns, Table};
use steplake_remote::RemoteError;
use steplake_remote::fetch::{self, Fetched, fetch};
use steplake_remote::publish::{Outcome, Settings, publish};
use steplake_remote::remote::Remote;

pub(crate) struct ToyPrograms;

impl Programs for ToyPrograms {
    fn load(&self, uri: &BenchmarkUri) -> std::result::Result<Benchmark, ProgramError> {
        Ok(toy::benchmark(uri.path().parse()?))
    }
}

pub(crate) fn toy_identity() -> Identity {
    let environment = ToyEnvironment::default();
    let spec = environment.spec();
    identity(spec, &spec.action_spaces[0], &Choice::default()).unwrap()
}

/// A new lake in a folder.
pub(crate) fn lake(path: &FilePath) -> Lake {
    Lake::create(path, &toy_identity()).unwrap()
}

/// Records a run of its own, and seals it.
pub(crate) fn record(lake: &Lake, seed: i64, episodes: u64) {
    let environment = ToyEnvironment::default();
    let plan = Plan {
        benchmarks: (0..3).map(|seed| toy::benchmark(seed).uri).collect(),
        action_space: toy::NAME.into(),
        policy: Policy::Random,
        stop: Stop::Episodes(episodes),
        episode_length: 6,
        seed,
        jobs: 1,
        shard: Shard::WHOLE,
    };
    let mut writer = lake.writer().unwrap();
    let run = writer.begin_run(&format!("seed {seed}"), seed).unwrap();
    let options = RecordingOptions::default();
    let recording = Recording::begin(writer, environment.spec(), run, &options).unwrap();
    let (progress, never) = (Progress::default(), AtomicBool::new(false));
    let ending =
        generate(&environment, &recording, &plan, &ToyPrograms, Past::default(), &progress, &never);
    assert_eq!(ending.unwrap(), Ending::Complete);
    let mut writer = recording.close().unwrap();
    writer.finish_run(run).unwrap();
    writer.seal().unwrap();
}

pub(crate) fn derive(lake: &Lake) {
    dedup(&mut lake.maintenance().unwrap(), DedupSettings::default(), &mut |_, _| {}).unwrap();
}

/// The rows of a table as text, sorted.
pub(crate) fn rows(lake: &Lake, table: Table) -> Vec<String> {
    let snapshot = lake.snapshot().unwrap();
    let mut rows = Vec::new();
    for batch in snapshot.scan(table, ScanColumns::All) {
        let batch = batch.unwrap();
        for row in 0..batch.num_rows() {
            rows.push(format!("{:?}", batch.slice(row, 1).columns()));
        }
    }
    rows.sort();
    rows
}

/// Asserts that two lakes hold the same rows, and tell of the same runs.
pub(crate) fn assert_same(one: &Lake, other: &Lake) {
    for table in Table::ALL {
        assert_eq!(rows(one, table), rows(other, table), "{table}");
    }
    assert_eq!(one.sealed().unwrap().runs(), other.sealed().unwrap().runs());
}

pub(crate) fn assert_sound(lake: &Lake) {
    let report = lake.verify(&mut |_, _| {}).unwrap();
    assert!(report.findings.is_empty(), "{:?}", report.findings);
}

/// The episodes of a lake, by their runs' names.
pub(crate) fn episodes(lake: &Lake) -> BTreeSet<(String, u32)> {
    let snapshot = lake.snapshot().unwrap();
    let mut episodes = BTreeSet::new();
    for batch in snapshot.scan(Table::Episodes, ScanColumns::Named(&["episode_id"])) {
        let batch = batch.unwrap();
        let ids = batch.column(0).to_data();
        for &id in ids.buffer::<i64>(0) {
            let id = EpisodeId(id);
            let run = snapshot.runs().iter().find(|run| run.id == id.run()).unwrap();
            episodes.insert((run.uid.clone(), id.ordinal()));
        }
    }
    episodes
}

/// A store in memory, and a lake's place in it.
pub(crate) fn memory() -> (Arc<InMemory>, Remote) {
    let store = Arc::new(InMemory::new());
    let remote = place_in(Arc::clone(&store) as Arc<dyn ObjectStore>);
    (store, remote)
}

pub(crate) fn place_in(store: Arc<dyn ObjectStore>) -> Remote {
    Remote::new(store, Path::from("some/where"), "memory:///some/where")
}

pub(crate) fn wait<T>(future: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    runtime.worker_threads(1).enable_all().build().unwrap().block_on(future)
}

pub(crate) fn send(
    remote: &Remote,
    lake: &Lake,
    settings: &Settings,
) -> std::result::Result<Outcome, RemoteError> {
    wait(publish(remote, lake, settings, &ProgressBar::hidden()))
}

pub(crate) fn send_plainly(remote: &Remote, lake: &Lake) -> Outcome {
    send(remote, lake, &Settings::default()).unwrap()
}

/// The version that a publication made.
pub(crate) fn version(outcome: &Outcome) -> u64 {
    match outcome {
        Outcome::Published(sent) => sent.version,
        Outcome::There { version, .. } => panic!("version {version} had all of it"),
    }
}

pub(crate) fn receive_on(
    disk: Disk,
    remote: &Remote,
    version: Option<u64>,
    into: &FilePath,
) -> std::result::Result<Fetched, RemoteError> {
    let (settings, bar) = (fetch::Settings::default(), ProgressBar::hidden());
    wait(fetch(remote, version, into, disk, &settings, &bar))
}

pub(crate) fn receive(
    remote: &Remote,
    into: &FilePath,
) -> std::result::Result<Fetched, RemoteError> {
    receive_on(Disk::default(), remote, None, into)
}

/// The names and lengths of all objects, in order.
pub(crate) fn objects(store: &InMemory) -> Vec<(Path, u64)> {
    let mut found: Vec<_> = wait(store.list(None).map(|it| it.unwrap()).collect::<Vec<_>>())
        .into_iter()
        .map(|it| (it.location, it.size))
        .collect();
    found.sort();
    found
}

pub(crate) fn content(store: &InMemory, path: &Path) -> Bytes {
    wait(async { store.get(path).await.unwrap().bytes().await.unwrap() })
}

pub(crate) fn put(store: &InMemory, path: &Path, content: Bytes) {
    wait(store.put(path, content.into())).unwrap();
}

/// What a [`Wrapped`] store does at one operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It is not done, and fails.
    Refuse,
    /// It is done, and fails all the same: the answer was lost.
    Forget,
}

/// A store that lets others go first before each operation, and in which one operation fails.
#[derive(Debug)]
pub(crate) struct Wrapped {
    inner: Arc<InMemory>,
    fault: Option<(usize, Fault)>,
    pub(crate) operations: AtomicUsize,
}

impl Wrapped {
    pub(crate) fn new(inner: &Arc<InMemory>, fault: Option<(usize, Fault)>) -> Arc<Self> {
        let inner = Arc::clone(inner);
        Arc::new(Self { inner, fault, operations: AtomicUsize::new(0) })
    }

    async fn turn(&self) -> Option<Fault> {
        Turn(false).await;
        let number = self.operations.fetch_add(1, Ordering::SeqCst);
        self.fault.filter(|(at, _)| *at == number).map(|(_, fault)| fault)
    }

    async fn ask<T>(&self, operation: impl Future<Output = Result<T>>) -> Result<T> {
        let failed =
            || Err(Error::Generic { store: "test", source: "the store does not answer".into() });
        match self.turn().await {
            Some(Fault::Refuse) => failed(),
            Some(Fault::Forget) => {
                let _ = operation.await;
                failed()
            }
            None => operation.await,
        }
    }
}

/// Is ready when it is asked for the second time.
struct Turn(bool);

impl Future for Turn {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.0 {
            return Poll::Ready(());
        }
        self.0 = true;
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

impl fmt::Display for Wrapped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a store with faults")
    }
}

#[async_trait]
impl ObjectStore for Wrapped {
    async fn put_opts(&self, at: &Path, content: PutPayload, o: PutOptions) -> Result<PutResult> {
        self.ask(self.inner.put_opts(at, content, o)).await
    }

    async fn put_multipart_opts(
        &self,
        at: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.ask(self.inner.put_multipart_opts(at, options)).await
    }

    async fn get_opts(&self, at: &Path, options: GetOptions) -> Result<GetResult> {
        self.ask(self.inner.get_opts(at, options)).await
    }

    async fn get_ranges(&self, at: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.ask(self.inner.get_ranges(at, ranges)).await
    }

    fn delete_stream(
        &self,
        paths: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        self.inner.delete_stream(paths)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let number = self.operations.fetch_add(1, Ordering::SeqCst);
        if self.fault.is_some_and(|(at, _)| at == number) {
            let source = "the store does not answer".into();
            return stream::iter([Err(Error::Generic { store: "test", source })]).boxed();
        }
        // What is there is looked up when it is this store's turn.
        let (inner, prefix) = (Arc::clone(&self.inner), prefix.cloned());
        stream::once(async move {
            Turn(false).await;
            inner.list(prefix.as_ref())
        })
        .flatten()
        .boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.ask(self.inner.list_with_delimiter(prefix)).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.ask(self.inner.copy_opts(from, to, options)).await
    }
}
