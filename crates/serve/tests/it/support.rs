//! Shared by several tests: lakes, servers, clients.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use arrow_flight::FlightInfo;
use arrow_flight::error::FlightError;
use arrow_flight::sql::client::FlightSqlServiceClient;
use futures::TryStreamExt as _;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use steplake::dedup::{DedupOptions, dedup};
use steplake::env::Environment as _;
use steplake::env::toy::{self, ToyEnvironment};
use steplake::generate::{
    Costed, Ending, Plan, Policy, ProgramError, Programs, Progress, ResumeState, Shard, Stop,
    generate,
};
use steplake::lake::{Lake, to_the_end};
use steplake::model::{Benchmark, BenchmarkUri};
use steplake::query::{Engine, EngineOptions};
use steplake::record::{Choice, Recording, RecordingOptions, identity};
use tonic::Status;
use tonic::transport::Channel;

use crate::programs::{PATIENCE, end, end_of, line_of, program};

pub(crate) type Client = FlightSqlServiceClient<Channel>;

struct ToyPrograms;

impl Programs for ToyPrograms {
    fn load(&self, uri: &BenchmarkUri) -> Result<Benchmark, ProgramError> {
        Ok(toy::benchmark(uri.path().parse()?))
    }
}

/// Records a run of the toy environment, seals it, and derives its tables. Stores the IR of every
/// seventh change of state.
pub(crate) fn record(path: &Path, seed: i64) {
    record_hot(path, seed);
    let lake = Lake::open(path).unwrap();
    lake.writer().unwrap().seal().unwrap();
    dedup(&mut lake.maintenance().unwrap(), DedupOptions::default(), &mut to_the_end).unwrap();
}

/// Records a run, and leaves it in the hot log.
pub(crate) fn record_hot(path: &Path, seed: i64) {
    let environment = ToyEnvironment::default();
    let spec = environment.spec();
    let wanted = identity(spec, &spec.action_spaces[0], &Choice::default()).unwrap();
    let lake = Lake::open_or_create(path, &wanted).unwrap();
    let mut writer = lake.writer().unwrap();
    let run = writer.begin_run("{}", 0).unwrap();
    let options = RecordingOptions {
        keyframes: std::num::NonZeroU32::new(7),
        seal: false,
        ..RecordingOptions::default()
    };
    let recording = Recording::begin(writer, spec, run, &options).unwrap();
    let plan = Plan {
        benchmarks: (0..3).map(|seed| toy::benchmark(seed).uri).collect(),
        action_space: toy::NAME.into(),
        policy: Policy::Random,
        objective: String::new(),
        patience: 0,
        coreset: Arc::default(),
        reference: None,
        costed: Costed::EachState,
        stop: Stop::Episodes(30),
        episode_length: 20,
        seed,
        jobs: 1,
        shard: Shard::WHOLE,
    };
    let (progress, never) = (Progress::default(), AtomicBool::new(false));
    let past = ResumeState::default();
    let ending = generate(&environment, &recording, &plan, &ToyPrograms, past, &progress, &never);
    assert_eq!(ending.unwrap(), Ending::Complete);
    let mut writer = recording.close().unwrap();
    writer.discard_open(run).unwrap();
    writer.finish_run(run).unwrap();
}

/// Makes a lake with one run, in a temporary folder.
pub(crate) fn lake() -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lake");
    record(&path, 7);
    (folder, path)
}

/// A running server, ended on drop.
pub(crate) struct Server {
    pub(crate) child: Child,
    pub(crate) address: SocketAddr,
    pub(crate) health: SocketAddr,
}

impl Server {
    /// Starts a server on free ports of this machine.
    pub(crate) fn start(lake: &Path, arguments: &[&str]) -> Self {
        let mut child = command(lake, arguments).spawn().unwrap();
        let said = said_first(&mut child);
        let address = |scheme: &str| {
            let (_, rest) = said.split_once(scheme).unwrap_or_else(|| panic!("{said}"));
            let end = rest.find(['/', ',']).unwrap_or(rest.len());
            rest[..end].parse().unwrap_or_else(|error| panic!("{said}: {error}"))
        };
        let scheme = if said.contains("grpc+tls://") { "grpc+tls://" } else { "grpc://" };
        Self { address: address(scheme), health: address("http://"), child }
    }

    pub(crate) async fn client(&self) -> Client {
        let endpoint = Channel::from_shared(format!("http://{}", self.address)).unwrap();
        let endpoint = endpoint.timeout(PATIENCE);
        FlightSqlServiceClient::new(endpoint.connect().await.unwrap())
    }

    /// Returns the answer to an HTTP request for `path`: the first line and the body.
    pub(crate) fn get(&self, path: &str) -> (String, String) {
        let mut stream = TcpStream::connect(self.health).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: lake\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.lines().next().unwrap().to_owned(), body.to_owned())
    }

    /// Returns a counter of `/metrics`.
    pub(crate) fn metric(&self, name: &str) -> u64 {
        let (_, text) = self.get("/metrics");
        let value = text.lines().find_map(|line| line.strip_prefix(&format!("{name} ")));
        value.unwrap_or_else(|| panic!("no {name} in {text}")).parse().unwrap()
    }

    /// Waits until a counter has a value.
    pub(crate) async fn until(&self, name: &str, value: u64) {
        let deadline = Instant::now() + PATIENCE;
        while self.metric(name) != value {
            assert!(Instant::now() < deadline, "{name} never was {value}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id().try_into().unwrap()), signal).unwrap();
    }

    /// Waits for the server's end.
    pub(crate) fn ended(&mut self) -> ExitStatus {
        end_of(&mut self.child, "a server")
    }

    /// Returns the bytes of memory that the server holds.
    pub(crate) fn resident_bytes(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/statm", self.child.id())).unwrap();
        let pages: u64 = status.split(' ').nth(1).unwrap().parse().unwrap();
        pages * 4096
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

/// Returns what a server says when it is there: where it is.
pub(crate) fn said_first(child: &mut Child) -> String {
    let errors = BufReader::new(child.stderr.take().unwrap());
    let (said, rest) = line_of(errors, "a server that says where it is");
    // Further messages must not fill the pipe.
    std::thread::spawn(move || rest.lines().map_while(Result::ok).for_each(drop));
    said.trim_end().to_owned()
}

/// Returns the server's command line, independent of the caller's environment.
pub(crate) fn command(lake: &Path, arguments: &[&str]) -> Command {
    let mut command = program(env!("CARGO_BIN_EXE_steplake-serve"));
    let defaults = ["--listen", "127.0.0.1:0", "--health", "127.0.0.1:0"];
    let missing = defaults.chunks(2).filter(|pair| !arguments.contains(&pair[0])).flatten();
    command.env_remove("STEPLAKE_TOKEN").env_remove("STEPLAKE_LOG").env("STEPLAKE_LAKE", lake);
    command.args(missing).args(arguments).stdout(Stdio::null()).stderr(Stdio::piped());
    command
}

/// Returns the rows of a statement.
pub(crate) async fn ask(client: &mut Client, sql: &str) -> Result<Vec<RecordBatch>, FlightError> {
    let info = client.execute(sql.to_owned(), None).await?;
    fetch(client, info).await
}

/// Fetches the announced rows, and checks that they have the announced columns.
pub(crate) async fn fetch(
    client: &mut Client,
    info: FlightInfo,
) -> Result<Vec<RecordBatch>, FlightError> {
    let announced = Arc::new(info.clone().try_decode_schema().unwrap());
    let ticket = info.endpoint[0].ticket.clone().unwrap();
    let stream = client.do_get(ticket).await?;
    let batches: Vec<RecordBatch> = stream.try_collect().await?;
    for batch in &batches {
        // How much derived tables lack is told anew with the rows.
        let (came, announced) = (batch.schema(), &announced);
        assert_eq!(came.fields(), announced.fields(), "other columns than were announced");
    }
    Ok(batches)
}

/// Returns the status with which a statement that must fail is refused.
pub(crate) async fn refusal(client: &mut Client, sql: &str) -> Status {
    match ask(client, sql).await {
        Ok(rows) => panic!("{sql} was to fail and gave {rows:?}"),
        Err(error) => status(error),
    }
}

/// Returns the status that a server sent.
pub(crate) fn status(error: FlightError) -> Status {
    match error {
        FlightError::Tonic(status) => *status,
        other => panic!("not from the server: {other}"),
    }
}

/// Returns the one number that a statement returns.
pub(crate) async fn number(client: &mut Client, sql: &str) -> i64 {
    let batches = ask(client, sql).await.unwrap();
    rows(&batches)[0].parse().unwrap()
}

/// Returns rows as text, in order.
pub(crate) fn rows(batches: &[RecordBatch]) -> Vec<String> {
    let options = FormatOptions::default().with_null("null");
    let mut rows = Vec::new();
    for batch in batches {
        let columns = batch.columns().iter();
        let cells: Vec<_> =
            columns.map(|column| ArrayFormatter::try_new(column, &options).unwrap()).collect();
        for row in 0..batch.num_rows() {
            let row: Vec<String> = cells.iter().map(|cells| cells.value(row).to_string()).collect();
            rows.push(row.join(" | "));
        }
    }
    rows
}

/// Returns the answer of an engine in this process.
pub(crate) async fn embedded(lake: &Path, sql: &str) -> Vec<String> {
    let snapshot = Lake::open(lake).unwrap().snapshot().unwrap();
    let environment = snapshot.identity().environment.clone();
    let renderer = steplake::assembly::ir::renderer(&environment);
    let engine = Engine::new(snapshot, renderer, &EngineOptions::default()).await.unwrap();
    let batches: Vec<RecordBatch> = engine.sql(sql).await.unwrap().try_collect().await.unwrap();
    rows(&batches)
}

/// Statements of every kind, as a crowd of clients would send them.
const CROWD: [&str; 7] = [
    "SELECT count(*) FROM steps",
    "SELECT * FROM steps",
    "SELECT action_name(action), count(*), avg(wall_time_us) FROM steps GROUP BY 1 ORDER BY 2 DESC",
    "SELECT s.episode_id, o.* FROM steps s JOIN observations o USING (state_id) ORDER BY 1 LIMIT 500",
    "SELECT value FROM generate_series(1, 50000)",
    "SELECT count(*) FROM sequences(3)",
    "SELECT law, count(*) FROM algebra() GROUP BY 1",
];

/// Has `clients` clients each begin an answer larger than all that waits for readers, read one
/// batch, and leave. Returns their number.
pub(crate) async fn leave(server: &Server, clients: u64) -> u64 {
    let large = "SELECT s.*, value FROM steps s CROSS JOIN generate_series(1, 5000)";
    let mut slow = Vec::new();
    for _ in 0..clients {
        let mut client = server.client().await;
        let info = client.execute(large.to_owned(), None).await.unwrap();
        let ticket = info.endpoint[0].ticket.clone().unwrap();
        let mut answer = client.do_get(ticket).await.unwrap();
        assert!(answer.try_next().await.unwrap().is_some());
        // Clients keep their answers until all have begun.
        slow.push((client, answer));
    }
    drop(slow);
    clients
}

/// Starts one client for each number in `rounds`, which asks that many statements, half of them
/// prepared. Any error fails the test.
pub(crate) async fn load(server: &Server, rounds: &[usize]) {
    let mut clients = Vec::new();
    for (number, rounds) in rounds.iter().enumerate() {
        let (mut client, rounds) = (server.client().await, *rounds);
        clients.push(tokio::spawn(async move {
            for round in 0..rounds {
                let sql = CROWD[(number + round) % CROWD.len()];
                if round % 2 == 0 {
                    ask(&mut client, sql).await.unwrap();
                } else {
                    let mut statement = client.prepare(sql.to_owned(), None).await.unwrap();
                    let info = statement.execute().await.unwrap();
                    fetch(&mut client, info).await.unwrap();
                    statement.close().await.unwrap();
                }
            }
        }));
    }
    for client in clients {
        client.await.unwrap();
    }
}
