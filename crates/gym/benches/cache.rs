//! Thirty-two clients of one cache over loopback: how many of their steps hit, and how long steps
//! take, beside a server that has a compiler for each session.
//!
//! Each client plays episodes of a program of its own choice, among few. Actions are drawn so that
//! some are more likely than others, as those of a policy are. The numbers that are drawn are the
//! same in each round: in the second and third one, every step is a hit. In the third one, clients
//! pause between steps as agents do, each for times of its own: all of them together would be a
//! burst of 32 steps. Calls that compute nothing show what the wire takes of it. At last, the same
//! steps are asked for by `POST /step`.
//!
//! `STEPLAKE_BENCH_ENV` sets another environment than `llvm-v0`, `STEPLAKE_BENCH_PROGRAMS` other
//! programs, `STEPLAKE_BENCH_CLIENTS` another number of clients, `STEPLAKE_BENCH_EPISODES` another
//! number of episodes of each client.

#[path = "../tests/it/cache_server.rs"]
#[expect(dead_code, reason = "the tests use more of it")]
#[expect(clippy::unwrap_used, reason = "a bench that cannot go on stops")]
mod cache_server;
#[path = "../tests/it/gym_server.rs"]
#[expect(dead_code, reason = "the tests use more of it")]
#[expect(clippy::unwrap_used, reason = "a bench that cannot go on stops")]
mod gym_server;
#[path = "../../../tests/it/fixtures/programs.rs"]
#[expect(dead_code, reason = "the tests use more of it")]
#[expect(clippy::unwrap_used, reason = "a bench that cannot go on stops")]
mod programs;

use std::fmt::Write as _;
use std::io::Write as _;
use std::time::{Duration, Instant};

use gym_server::proto::{
    Benchmark, EndSessionRequest, GetSpacesRequest, GetVersionRequest, StartSessionRequest,
};
use gym_server::{Client, Server, play, sent};
use serde_json::{Value as JsonValue, json};
use steplake::environments::Environments;
use steplake::environments::catalogue::Catalogue;
use steplake::generate::ProgramProvider as _;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

/// The steps of an episode.
const STEPS: usize = 45;

/// The mean pause of a client before each step of the third round. Pauses are drawn, each between
/// none and twice as long.
const PAUSE: Duration = Duration::from_millis(50);

/// Passes that change most programs, by their places among CompilerGym's: mem2reg, instcombine,
/// simplifycfg, gvn, early-cse, licm, loop-rotate, reassociate.
const PASSES: [i64; 8] = [103, 53, 10, 39, 30, 57, 71, 105];

/// The actions of the toy environment.
const TOYS: [i64; 8] = [0, 1, 2, 3, 4, 5, 6, 7];

/// What clients play.
#[derive(Clone)]
struct Play {
    benchmarks: Vec<Benchmark>,
    actions: [i64; 8],
    clients: u64,
    episodes: u64,
    /// What clients of `POST /step` observe.
    observation: &'static str,
}

/// What a round measured.
struct Round {
    name: &'static str,
    took: Duration,
    /// Of each step, sorted.
    latencies: Vec<Duration>,
    hits: u64,
    misses: u64,
}

fn setting(name: &str, default: &str) -> String {
    std::env::var(name).unwrap_or_else(|_unset| default.to_owned())
}

fn main() {
    // The programs are compiled in this process, and their baselines in workers of it.
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    runtime.expect("threads start").block_on(run());
}

async fn run() {
    let name = setting("STEPLAKE_BENCH_ENV", "llvm-v0");
    let usual = if name == "llvm-v0" {
        "benchmark://steplake-v0/huffman,benchmark://steplake-v0/fourier"
    } else {
        "generator://toy-v0/1,generator://toy-v0/2"
    };
    let programs = setting("STEPLAKE_BENCH_PROGRAMS", usual);
    let programs = programs.split(',').map(str::to_owned).collect::<Vec<_>>();
    let clients: u64 = setting("STEPLAKE_BENCH_CLIENTS", "32").parse().expect("a number");
    let episodes: u64 = setting("STEPLAKE_BENCH_EPISODES", "4").parse().expect("a number");
    let benchmarks = load(&name, &programs);
    let actions = if name == "llvm-v0" { PASSES } else { TOYS };
    let observation = if name == "llvm-v0" { "Autophase" } else { "Bits" };
    let plan = Play { benchmarks, actions, clients, episodes, observation };
    let folder = tempfile::tempdir().expect("there is a place for a lake");
    let live = Server::of(&name, &[]);
    let alone = round("a compiler for each session", &live, &plan, None).await;
    drop(live);
    let cache = cache_server::of(&name, &folder.path().join("lake"), &[]);
    let mut rounds = vec![alone];
    rounds.push(calls(&cache, clients, episodes).await);
    for (name, pause) in
        [("first", None), ("again", None), ("again, some 50 ms apart", Some(PAUSE))]
    {
        rounds.push(round(name, &cache, &plan, pause).await);
    }
    rounds.push(over_http(&cache, &plan).await);
    print(&rounds, clients);
}

fn load(name: &str, programs: &[String]) -> Vec<Benchmark> {
    let environments = Environments::default();
    let environment = environments.open(name).expect("there is such an environment");
    let catalogue = Catalogue::of(environment.as_ref(), &environments.worker_config());
    let catalogue = catalogue.expect("a cache folder");
    let program = |uri: &String| {
        let uri = catalogue.one(uri).expect("there is such a benchmark");
        sent(&catalogue.load(&uri).expect("the benchmark can be made"))
    };
    programs.iter().map(program).collect()
}

async fn round(name: &'static str, server: &Server, plan: &Play, pause: Option<Duration>) -> Round {
    let mut players = Vec::new();
    for number in 0..plan.clients {
        let (client, plan) = (server.client().await, plan.clone());
        players.push(async move { play_all(client, &plan, number, pause).await });
    }
    measured(name, server, players).await
}

/// Has clients do something at once, each of which returns how long its steps took.
async fn measured(
    name: &'static str,
    server: &Server,
    clients: Vec<impl Future<Output = Vec<Duration>> + Send + 'static>,
) -> Round {
    let count = |name| if server.http.is_some() { server.count(name) } else { 0 };
    let before = ["hits_total", "misses_total"].map(count);
    let begun = Instant::now();
    let clients = clients.into_iter().map(tokio::spawn).collect::<Vec<_>>();
    let mut latencies = Vec::new();
    for client in clients {
        latencies.extend(client.await.expect("clients do not panic"));
    }
    let took = begun.elapsed();
    latencies.sort_unstable();
    let after = ["hits_total", "misses_total"].map(count);
    Round { name, took, latencies, hits: after[0] - before[0], misses: after[1] - before[1] }
}

/// Has clients make calls that compute nothing, at the pace of the last round.
async fn calls(server: &Server, clients: u64, episodes: u64) -> Round {
    let mut callers = Vec::new();
    for number in 0..clients {
        let mut client = server.client().await;
        callers.push(async move {
            let (mut latencies, mut draw) = (Vec::new(), draw(number));
            for _ in 0..episodes * STEPS as u64 {
                tokio::time::sleep(drawn(PAUSE, &mut draw)).await;
                let begun = Instant::now();
                client.get_version(GetVersionRequest {}).await.expect("it answers");
                latencies.push(begun.elapsed());
            }
            latencies
        });
    }
    measured("calls without work, some 50 ms apart", server, callers).await
}

/// Has clients ask `POST /step` what they played before, at the pace of the last round.
async fn over_http(server: &Server, plan: &Play) -> Round {
    let address = server.http.clone().expect("a cache answers over HTTP");
    let askers = (0..plan.clients).map(|number| ask_all(address.clone(), plan.clone(), number));
    measured("POST /step, some 50 ms apart", server, askers.collect()).await
}

/// Walks as `play_all` does, over HTTP, and returns how long each step took.
async fn ask_all(address: String, plan: Play, number: u64) -> Vec<Duration> {
    let mut stream = BufReader::new(TcpStream::connect(&address).await.expect("it listens"));
    let (mut draw, mut pauses) = (draw(number), draw(!number));
    let mut latencies = Vec::new();
    for _ in 0..plan.episodes {
        let benchmark = &plan.benchmarks[draw(plan.benchmarks.len())].uri;
        let mut state = JsonValue::Null;
        for _ in 0..STEPS {
            let action = plan.actions[draw(8) * draw(8) / 8];
            let request = json!({
                "benchmark": benchmark,
                "state": state,
                "action": action,
                "observations": [plan.observation],
            });
            tokio::time::sleep(drawn(PAUSE, &mut pauses)).await;
            let begun = Instant::now();
            let answer = posted(&mut stream, &address, &request.to_string()).await;
            latencies.push(begun.elapsed());
            let mut answer: JsonValue = serde_json::from_slice(&answer).expect("it is JSON");
            state = answer["state"].take();
            if state.is_null() {
                break;
            }
        }
    }
    latencies
}

/// Posts to `/step` on a connection that stays open, and returns the body of the answer.
async fn posted(stream: &mut BufReader<TcpStream>, address: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    let request = format!(
        "POST /step HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n\
         Content-Length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).await.expect("it reads");
    let (mut line, mut length) = (String::new(), 0);
    stream.read_line(&mut line).await.expect("it answers");
    assert!(line.starts_with("HTTP/1.1 200 "), "{line}");
    while line != "\r\n" {
        line.clear();
        assert_ne!(stream.read_line(&mut line).await.expect("it answers"), 0, "it goes on");
        if let Some(digits) = line.strip_prefix("content-length: ") {
            length = digits.trim_end().parse().expect("a number");
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.expect("it answers");
    body
}

/// Plays episodes, and returns how long each step took.
async fn play_all(
    mut client: Client,
    plan: &Play,
    number: u64,
    pause: Option<Duration>,
) -> Vec<Duration> {
    let spaces = client.get_spaces(GetSpacesRequest {}).await.expect("it answers").into_inner();
    let wanted = ["Autophase", "IrInstructionCount", "Bits", "Cost"];
    let names = spaces.observation_space_list.iter().map(|space| space.name.as_str());
    let places = (0..).zip(names).filter(|(_, name)| wanted.contains(name));
    let places: Vec<i32> = places.map(|(place, _)| place).collect();
    let (mut draw, mut pauses) = (draw(number), draw(!number));
    let mut latencies = Vec::new();
    for _ in 0..plan.episodes {
        let benchmark = &plan.benchmarks[draw(plan.benchmarks.len())];
        let start = StartSessionRequest {
            benchmark: Some(benchmark.clone()),
            action_space: 0,
            observation_space: places.clone(),
        };
        let started = client.start_session(start).await.expect("it starts").into_inner();
        let session_id = started.session_id;
        for _ in 0..STEPS {
            // The product of two numbers is more often small than large.
            let action = plan.actions[draw(8) * draw(8) / 8];
            if let Some(pause) = pause {
                tokio::time::sleep(drawn(pause, &mut pauses)).await;
            }
            let mut request = play(session_id, &[action]);
            request.observation_space.clone_from(&places);
            let begun = Instant::now();
            let answer = client.step(request).await;
            latencies.push(begun.elapsed());
            if answer.is_err() {
                break;
            }
        }
        client.end_session(EndSessionRequest { session_id }).await.expect("it ends");
    }
    latencies
}

/// Draws a pause between none and twice the mean.
fn drawn(mean: Duration, draw: &mut impl FnMut(usize) -> usize) -> Duration {
    let micros = usize::try_from(2 * mean.as_micros()).expect("pauses are short");
    Duration::from_micros(draw(micros) as u64)
}

/// Draws numbers below a bound.
fn draw(seed: u64) -> impl FnMut(usize) -> usize {
    let mut number = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    move |below| {
        number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        usize::try_from(number >> 33).expect("it has 31 bits") % below
    }
}

fn print(rounds: &[Round], clients: u64) {
    let mut text = format!(
        "{clients} clients\n| round | steps | hits | steps/s | p50 ms | p90 ms | p99 ms |\n\
         |---|---|---|---|---|---|---|\n"
    );
    for round in rounds {
        let at = |share: usize| {
            let place = (round.latencies.len() * share / 100).min(round.latencies.len() - 1);
            round.latencies[place].as_secs_f64() * 1e3
        };
        let steps = round.latencies.len();
        let hits = match round.hits + round.misses {
            0 => "-".to_owned(),
            all => format!("{:.1}%", share(round.hits, all)),
        };
        let speed = share(steps as u64, 100) / round.took.as_secs_f64();
        let _ = writeln!(
            text,
            "| {} | {steps} | {hits} | {speed:.0} | {:.2} | {:.2} | {:.2} |",
            round.name,
            at(50),
            at(90),
            at(99)
        );
    }
    std::io::stdout().write_all(text.as_bytes()).expect("somebody reads it");
}

#[expect(clippy::cast_precision_loss, reason = "steps are counted in millions at most")]
fn share(part: u64, whole: u64) -> f64 {
    part as f64 * 100.0 / whole as f64
}
