//! Shared by several tests: small lakes, and stores that fail or wait.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::ops::Range;
use std::path::Path as FilePath;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use arrow::util::display::{ArrayFormatter, FormatOptions};
use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::{self, BoxStream, StreamExt as _};
use indicatif::ProgressBar;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, ObjectStoreExt as _, PutMode, PutMultipartOptions, PutOptions, PutPayload,
    PutResult, Result,
};
use steplake_campaign::generate::{
    CampaignEnd, Costed, PolicyName, ProgramProvider, ResumeState, RunPlan, RunProgress, Shard,
    Stop, generate,
};
use steplake_campaign::record::{Recording, RecordingOptions, SpaceChoice, identity};
use steplake_env::Environment as _;
use steplake_env::toy::{self, ToyEnvironment};
use steplake_lake::dedup::{DedupOptions, dedup};
use steplake_lake::transfer::merge::{MergeOptions, merge};
use steplake_lake::{Disk, Identity, Lake, ScanColumns, Table, Writer, to_the_end};
use steplake_model::{Benchmark, BenchmarkUri, EpisodeId, RunId};
use steplake_remote::fetch::{Fetched, fetch};
use steplake_remote::publish::{PublishOutcome, publish};
use steplake_remote::remote::Remote;
use steplake_remote::{FetchOptions, PublishOptions, RemoteError};

pub(crate) struct ToyPrograms;

impl ProgramProvider for ToyPrograms {
    fn load(&self, uri: &BenchmarkUri) -> std::result::Result<Benchmark, steplake_model::Error> {
        Ok(toy::benchmark(uri.path().parse().expect("toys have numbers")))
    }
}

pub(crate) fn toy_identity() -> Identity {
    identity_of(&SpaceChoice::default())
}

fn identity_of(choice: &SpaceChoice<'_>) -> Identity {
    let environment = ToyEnvironment::default();
    let spec = environment.spec();
    identity(spec, &spec.action_spaces[0], choice).unwrap()
}

/// Opens or creates a lake that has these spaces, and others that it had before.
pub(crate) fn lake_with(path: &FilePath, observations: &[&str], rewards: &[&str]) -> Lake {
    let [observations, rewards] = [observations, rewards]
        .map(|names| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>());
    let choice = SpaceChoice { observations: Some(&observations), rewards: Some(&rewards) };
    Lake::open_or_create(path, &identity_of(&choice)).unwrap()
}

/// Creates a lake in a folder.
pub(crate) fn lake(path: &FilePath) -> Lake {
    Lake::create(path, &toy_identity()).unwrap()
}

/// Records a new run, and seals it.
pub(crate) fn record(lake: &Lake, seed: i64, episodes: u64) {
    record_unsealed(lake, seed, episodes);
    lake.writer().unwrap().seal().unwrap();
}

/// Records a new run.
pub(crate) fn record_unsealed(lake: &Lake, seed: i64, episodes: u64) {
    let mut writer = lake.writer().unwrap();
    let run = writer.begin_run(&format!("seed {seed}"), seed).unwrap();
    play(writer, run, seed, episodes).finish_run(run).unwrap();
}

/// Plays episodes of a run until it has `episodes` of them.
pub(crate) fn play(mut writer: Writer, run: RunId, seed: i64, episodes: u64) -> Writer {
    let environment = ToyEnvironment::default();
    let plan = RunPlan {
        benchmarks: (0..3).map(|seed| toy::benchmark(seed).uri).collect(),
        action_space: toy::NAME.into(),
        policy: PolicyName::RANDOM,
        objective: String::new(),
        patience: 0,
        coreset: Arc::default(),
        reference: None,
        costed: Costed::EachState,
        stop: Stop::Episodes(episodes),
        episode_length: 6,
        seed,
        jobs: 1,
        shard: Shard::WHOLE,
    };
    let past = ResumeState::resume(&mut writer, run, &plan).unwrap();
    let options = RecordingOptions::default();
    let recording = Recording::begin(writer, environment.spec(), run, &options).unwrap();
    let (progress, never) = (RunProgress::default(), AtomicBool::new(false));
    let ending = generate(&environment, &recording, &plan, &ToyPrograms, past, &progress, &never);
    assert_eq!(ending.unwrap(), CampaignEnd::Complete);
    recording.close().unwrap()
}

pub(crate) fn derive(lake: &Lake) {
    dedup(&mut lake.maintenance().unwrap(), DedupOptions::default(), &mut to_the_end).unwrap();
}

/// Merges lakes, whose runs then have numbers by their starts, and derives.
pub(crate) fn merged(lakes: &[&Lake], into: &FilePath) -> Lake {
    let lakes = lakes.iter().map(|&lake| lake.clone()).collect::<Vec<_>>();
    let options = MergeOptions::default();
    let (lake, _) = merge(Disk::default(), &lakes, into, &options, &mut |_, _| ()).unwrap();
    derive(&lake);
    lake
}

/// Asserts that the derived tables of a lake are those that its steps give.
pub(crate) fn assert_derived(lake: &Lake) {
    let derived = Table::ALL.into_iter().filter(|table| table.is_derived());
    let before = derived.clone().map(|table| rows(lake, table)).collect::<Vec<_>>();
    let options = DedupOptions { full: true, ..DedupOptions::default() };
    dedup(&mut lake.maintenance().unwrap(), options, &mut to_the_end).unwrap();
    assert_eq!(before, derived.map(|table| rows(lake, table)).collect::<Vec<_>>());
}

/// Returns the rows of a table as text, sorted.
pub(crate) fn rows(lake: &Lake, table: Table) -> Vec<String> {
    rows_of(lake, table, ScanColumns::All)
}

/// Returns some columns of the rows of a table as text, sorted.
pub(crate) fn rows_of(lake: &Lake, table: Table, columns: ScanColumns<'_>) -> Vec<String> {
    let snapshot = lake.snapshot().unwrap();
    let options = FormatOptions::default().with_null("null");
    let mut rows = Vec::new();
    for batch in snapshot.scan(table, columns) {
        let batch = batch.unwrap();
        let columns = batch.columns().iter();
        let columns = columns.map(|column| ArrayFormatter::try_new(column, &options).unwrap());
        let columns = columns.collect::<Vec<_>>();
        for row in 0..batch.num_rows() {
            let cells = columns.iter().map(|cells| cells.value(row).to_string());
            rows.push(cells.collect::<Vec<_>>().join(" "));
        }
    }
    rows.sort();
    rows
}

/// Asserts that two lakes hold the same rows and runs. The other one may have more columns.
pub(crate) fn assert_same(one: &Lake, other: &Lake) {
    for table in Table::ALL {
        let schema = one.snapshot().unwrap().schema(table);
        let columns = schema.fields().iter().map(|field| field.name().as_str());
        let columns = columns.collect::<Vec<_>>();
        let columns = ScanColumns::Named(&columns);
        let [left, right] = [one, other].map(|lake| rows_of(lake, table, columns));
        let differ = left.iter().zip(&right).find(|(left, right)| left != right);
        assert_eq!((differ, left.len()), (None, right.len()), "{table}");
    }
    assert_eq!(one.sealed().unwrap().runs(), other.sealed().unwrap().runs());
}

pub(crate) fn assert_sound(lake: &Lake) {
    let report = lake.verify(&mut to_the_end).unwrap();
    assert!(report.findings.is_empty(), "{:?}", report.findings);
}

/// Returns the episodes of a lake, by the names of their runs.
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

/// Returns a store in memory, and a lake's place in it.
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
    options: &PublishOptions,
) -> std::result::Result<PublishOutcome, RemoteError> {
    wait(publish(remote, lake, options, &ProgressBar::hidden()))
}

pub(crate) fn send_plainly(remote: &Remote, lake: &Lake) -> PublishOutcome {
    send(remote, lake, &PublishOptions::default()).unwrap()
}

/// Returns the version that a publication made.
pub(crate) fn version(outcome: &PublishOutcome) -> u64 {
    match outcome {
        PublishOutcome::Published(sent) => sent.version,
        PublishOutcome::UpToDate { version } => panic!("version {version} had all of it"),
    }
}

pub(crate) fn receive_on(
    disk: Disk,
    remote: &Remote,
    version: Option<u64>,
    into: &FilePath,
) -> std::result::Result<Fetched, RemoteError> {
    let (options, bar) = (FetchOptions::default(), ProgressBar::hidden());
    wait(fetch(remote, version, into, disk, &options, &bar))
}

pub(crate) fn receive(
    remote: &Remote,
    into: &FilePath,
) -> std::result::Result<Fetched, RemoteError> {
    receive_on(Disk::default(), remote, None, into)
}

/// Returns the names and lengths of all objects, in order.
pub(crate) fn objects(store: &InMemory) -> Vec<(Path, u64)> {
    let mut found: Vec<_> = wait(store.list(None).map(|it| it.unwrap()).collect::<Vec<_>>())
        .into_iter()
        .map(|it| (it.location, it.size))
        .collect();
    found.sort();
    found
}

/// Returns whether an object is a file of a lake.
fn is_file(path: &Path) -> bool {
    path.as_ref().contains("/segments/") && !path.as_ref().contains("_delta_log")
}

/// Returns an object that holds rows of a table.
pub(crate) fn segment(objects: &[(Path, u64)], table: Table) -> Path {
    let folder = format!("/segments/{table}/");
    let is_segment = |path: &&Path| path.as_ref().contains(&folder) && is_file(path);
    objects.iter().map(|(path, _)| path).find(is_segment).unwrap().clone()
}

pub(crate) fn content(store: &InMemory, path: &Path) -> Bytes {
    wait(async { store.get(path).await.unwrap().bytes().await.unwrap() })
}

pub(crate) fn put(store: &InMemory, path: &Path, content: Bytes) {
    wait(store.put(path, content.into())).unwrap();
}

/// The behaviour of a [`Wrapped`] store at one operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The operation is not done, and fails.
    Refuse,
    /// The operation is done, but fails: the answer was lost.
    Forget,
    /// A conditional write is done twice, since the first answer was lost, and finds its own
    /// object. Other operations behave like [`Fault::Refuse`].
    Twice,
    /// A conditional write is not done: the store reports concurrent writers, but there are none.
    /// Other operations behave like [`Fault::Refuse`].
    Conflict,
}

impl Fault {
    pub(crate) const ALL: [Self; 4] = [Self::Refuse, Self::Forget, Self::Twice, Self::Conflict];
}

/// The clock of a store in memory, and the times when its objects were written. Tests advance it.
#[derive(Debug, Default)]
pub(crate) struct Times {
    passed_ms: AtomicI64,
    /// The time passed when each object was written.
    written: Mutex<HashMap<Path, i64>>,
}

impl Times {
    pub(crate) fn pass(&self, time: Duration) {
        self.passed_ms.fetch_add(i64::try_from(time.as_millis()).unwrap(), Ordering::SeqCst);
    }

    fn write(&self, at: &Path) {
        let passed_ms = self.passed_ms.load(Ordering::SeqCst);
        self.written.lock().unwrap().insert(at.clone(), passed_ms);
    }

    fn date(&self, meta: &mut ObjectMeta) {
        let written = self.written.lock().unwrap();
        let passed_ms = written.get(&meta.location).copied().unwrap_or(0);
        meta.last_modified += Duration::from_millis(u64::try_from(passed_ms).unwrap());
    }
}

/// Returns a lake's place in a store with the clock `times`, for a machine whose clock is
/// `ahead_ms` ahead.
pub(crate) fn place_at(
    store: &Arc<InMemory>,
    times: &Arc<Times>,
    fault: Option<(usize, Fault)>,
    ahead_ms: i64,
) -> Remote {
    let place = place_in(Wrapped::new(store, times, fault));
    let (machine, times) = (place.clone(), Arc::clone(times));
    place.with_clock(Arc::new(move || {
        machine.now_ms() + times.passed_ms.load(Ordering::SeqCst) + ahead_ms
    }))
}

/// A store that yields before each operation, and in which one operation fails.
#[derive(Debug)]
pub(crate) struct Wrapped {
    inner: Arc<InMemory>,
    fault: Option<(usize, Fault)>,
    /// Whether it overwrites objects despite conditional writes.
    is_careless: bool,
    times: Arc<Times>,
    pub(crate) operations: Arc<AtomicUsize>,
    /// The bytes of files of lakes that were read.
    pub(crate) received: Arc<AtomicU64>,
    /// The number of the last operation that wrote a manifest.
    pub(crate) announcement: Arc<AtomicUsize>,
}

impl Wrapped {
    pub(crate) fn new(
        inner: &Arc<InMemory>,
        times: &Arc<Times>,
        fault: Option<(usize, Fault)>,
    ) -> Arc<Self> {
        let (inner, times) = (Arc::clone(inner), Arc::clone(times));
        let (operations, received, announcement) = Default::default();
        let is_careless = false;
        Arc::new(Self { inner, fault, is_careless, times, operations, received, announcement })
    }

    /// Creates a store that treats conditional writes like any others.
    pub(crate) fn careless(inner: &Arc<InMemory>) -> Arc<Self> {
        let (inner, times, fault, is_careless) = (Arc::clone(inner), Arc::default(), None, true);
        let (operations, received, announcement) = Default::default();
        Arc::new(Self { inner, fault, is_careless, times, operations, received, announcement })
    }

    async fn turn(&self) -> Option<Fault> {
        Turn(false).await;
        let number = self.operations.fetch_add(1, Ordering::SeqCst);
        self.fault.filter(|(at, _)| *at == number).map(|(_, fault)| fault)
    }

    async fn ask<T>(&self, operation: impl Future<Output = Result<T>>) -> Result<T> {
        answer(self.turn().await, operation).await
    }
}

async fn answer<T>(fault: Option<Fault>, operation: impl Future<Output = Result<T>>) -> Result<T> {
    match fault {
        Some(Fault::Refuse | Fault::Twice | Fault::Conflict) => Err(silence()),
        Some(Fault::Forget) => {
            let _ = operation.await;
            Err(silence())
        }
        None => operation.await,
    }
}

fn silence() -> Error {
    Error::Generic { store: "test", source: "the store does not answer".into() }
}

/// Becomes ready at the second poll.
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
    async fn put_opts(
        &self,
        at: &Path,
        content: PutPayload,
        mut o: PutOptions,
    ) -> Result<PutResult> {
        let is_conditional = matches!(o.mode, PutMode::Create);
        if self.is_careless {
            o.mode = PutMode::Overwrite;
        }
        let written = async {
            let put = self.inner.put_opts(at, content, o).await;
            if put.is_ok() {
                self.times.write(at);
            }
            put
        };
        if at.as_ref().contains("/manifests/") {
            self.announcement.store(self.operations.load(Ordering::SeqCst), Ordering::SeqCst);
        }
        let exists = Error::AlreadyExists { path: at.to_string(), source: "it is there".into() };
        match self.turn().await {
            Some(Fault::Twice) if is_conditional => {
                let _ = written.await;
                Err(exists)
            }
            Some(Fault::Conflict) if is_conditional => Err(exists),
            fault => answer(fault, written).await,
        }
    }

    async fn put_multipart_opts(
        &self,
        at: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.times.write(at);
        self.ask(self.inner.put_multipart_opts(at, options)).await
    }

    async fn get_opts(&self, at: &Path, options: GetOptions) -> Result<GetResult> {
        let is_body_wanted = !options.head;
        let mut got = self.ask(self.inner.get_opts(at, options)).await?;
        self.times.date(&mut got.meta);
        if is_body_wanted && is_file(at) {
            self.received.fetch_add(got.range.end - got.range.start, Ordering::SeqCst);
        }
        Ok(got)
    }

    async fn get_ranges(&self, at: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.ask(self.inner.get_ranges(at, ranges)).await
    }

    fn delete_stream(
        &self,
        paths: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        let (inner, fault) = (Arc::clone(&self.inner), self.fault);
        let operations = Arc::clone(&self.operations);
        let delete = move |path: Result<Path>| {
            let (inner, operations) = (Arc::clone(&inner), Arc::clone(&operations));
            async move {
                let path = path?;
                Turn(false).await;
                let number = operations.fetch_add(1, Ordering::SeqCst);
                let fault = fault.filter(|(at, _)| *at == number).map(|(_, fault)| fault);
                answer(fault, inner.delete(&path)).await?;
                Ok(path)
            }
        };
        paths.then(delete).boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let number = self.operations.fetch_add(1, Ordering::SeqCst);
        if self.fault.is_some_and(|(at, _)| at == number) {
            return stream::iter([Err(silence())]).boxed();
        }
        // The lookup happens when it is this store's turn.
        let (inner, prefix, times) =
            (Arc::clone(&self.inner), prefix.cloned(), Arc::clone(&self.times));
        let dated = move |mut found: Result<ObjectMeta>| {
            if let Ok(meta) = &mut found {
                times.date(meta);
            }
            found
        };
        stream::once(async move {
            Turn(false).await;
            inner.list(prefix.as_ref())
        })
        .flatten()
        .map(dated)
        .boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.ask(self.inner.list_with_delimiter(prefix)).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.ask(self.inner.copy_opts(from, to, options)).await
    }
}
