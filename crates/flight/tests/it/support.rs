//! Shared by several tests: servers and clients.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use arrow_flight::FlightInfo;
use arrow_flight::error::FlightError;
use arrow_flight::sql::client::FlightSqlServiceClient;
use futures::TryStreamExt as _;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tonic::Status;
use tonic::transport::Channel;

use crate::programs::{PATIENCE, end, end_of, program};
use crate::served::{rows, said_first};

pub(crate) type Client = FlightSqlServiceClient<Channel>;

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

/// Returns the server's command line, independent of the caller's environment.
pub(crate) fn command(lake: &Path, arguments: &[&str]) -> Command {
    let mut command = program(env!("CARGO_BIN_EXE_steplake-flight"));
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
