//! A cache that clients share: hits, misses, failures, conflicts, and what it refuses.

use std::path::Path;

use serde_json::{Value, json};
use steplake::env::toy::{self, Harm, Only, Plant, ToyEnvironment};
use steplake::env::{Environment as _, Start, Watch};
use steplake::model::{ActionIndex, Outcome};
use tonic::{Code, Status};

use crate::cache_server::{of, start, state, try_http};
use crate::client::{done, file};
use crate::gym_server::proto::{
    Benchmark, ForkSessionRequest, StartSessionRequest, StepReply, StepRequest,
};
use crate::gym_server::{Client, Server, bitcode, play, sent};
use crate::served::{embedded, record};

const URI: &str = "generator://toy-v0/1";
const OTHER: &str = "generator://toy-v0/2";

async fn begin(client: &mut Client, benchmark: Benchmark) -> i64 {
    let start = StartSessionRequest {
        benchmark: Some(benchmark),
        action_space: 0,
        observation_space: Vec::new(),
    };
    client.start_session(start).await.unwrap().into_inner().session_id
}

/// Applies one action and looks at some spaces.
async fn step(
    client: &mut Client,
    id: i64,
    action: i64,
    spaces: &[i32],
) -> Result<StepReply, Status> {
    let request = StepRequest { observation_space: spaces.to_vec(), ..play(id, &[action]) };
    client.step(request).await.map(tonic::Response::into_inner)
}

/// Numbers that look random, below a bound.
fn numbers(seed: u64, below: u64) -> impl Iterator<Item = i64> {
    let next = |number: &u64| Some(number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(99));
    let numbers = std::iter::successors(Some(seed), next).skip(3);
    numbers.map(move |number| i64::try_from((number >> 33) % below).unwrap())
}

/// Checks that each miss was recorded as one step, and returns their number.
pub(crate) async fn recorded_once(lake: &Path) -> u64 {
    done(lake, &["dedup"]);
    done(lake, &["verify"]);
    let one = async |sql: &str| embedded(lake, sql).await[0].parse::<u64>().unwrap_or(0);
    for table in ["state_transitions", "failures"] {
        assert!(one(&format!("SELECT max(count) FROM {table}")).await <= 1, "{table}");
    }
    assert_eq!(one("SELECT count(*) FROM conflicts").await, 0);
    let transitions = one("SELECT count(*) FROM state_transitions").await;
    let pairs = transitions + one("SELECT count(*) FROM failures").await;
    assert_eq!(one("SELECT count(action) FROM steps").await, pairs);
    pairs
}

#[tokio::test]
async fn answers_are_those_of_a_compiler_bit_for_bit() {
    let folder = tempfile::tempdir().unwrap();
    let lake = folder.path().join("lake");
    record(&lake, 7);
    let (live, cache) = (Server::start(&[]), start(&lake));
    let mut clients = [live.client().await, cache.client().await];
    // Twice: what was a miss the first time is a hit the second time.
    for round in 0..2 {
        let before = cache.count("misses_total");
        for seed in 0..4 {
            let program = sent(&toy::benchmark(seed));
            let mut ids = Vec::new();
            for client in &mut clients {
                ids.push(begin(client, program.clone()).await);
            }
            for action in numbers(u64::from(seed), 8).take(60) {
                let [live, cache] = &mut clients;
                let expected = step(live, ids[0], action, &[0, 1, 2, 3, 4]).await;
                let found = step(cache, ids[1], action, &[0, 1, 2, 3, 4]).await;
                match (expected, found) {
                    (Ok(expected), Ok(found)) => assert_eq!(expected, found),
                    (Err(expected), Err(found)) => {
                        let said = |it: &Status| (it.code(), it.message().to_owned());
                        assert_eq!(said(&expected), said(&found));
                        break;
                    }
                    (expected, found) => panic!("{expected:?} and {found:?}"),
                }
            }
        }
        let misses = cache.count("misses_total") - before;
        assert_eq!(misses == 0, round == 1, "{misses} misses");
    }
    assert!(cache.count("hits_total") > cache.count("misses_total"));
}

#[test]
fn rewards_are_those_of_a_compiler_bit_for_bit() {
    let folder = tempfile::tempdir().unwrap();
    let lake = folder.path().join("lake");
    record(&lake, 7);
    let cache = start(&lake);
    let environment = ToyEnvironment::default();
    let names = ["Cost", "CostNorm", "CostOz"];
    let mut sources = Vec::new();
    for seed in 0..4 {
        let benchmark = toy::benchmark(seed);
        let mut session = environment.session().unwrap();
        let watch = Watch::default();
        let begin = Start {
            benchmark: &benchmark,
            action_space: toy::NAME,
            baselines: None,
            watch: &watch,
        };
        let mut state = session.start(&begin).unwrap().state;
        for action in numbers(u64::from(seed) + 9, 8).take(25) {
            let request = json!({
                "benchmark": benchmark.uri.as_str(),
                "state": state.to_string(),
                "action": action,
                "rewards": names,
                "observations": ["Cost", "Bits"],
            });
            let (status, answer) = cache.ask(&request);
            assert_eq!(status, 200, "{answer}");
            sources.push(answer["source"].as_str().unwrap().to_owned());
            let step = session.apply(ActionIndex(u32::try_from(action).unwrap())).unwrap();
            let Outcome::State { id, changed, .. } = step.outcome else {
                assert_eq!(answer["failure"]["kind"], "crash");
                break;
            };
            assert_eq!(
                (answer["state"].as_str(), &answer["changed"]),
                (Some(id.to_string().as_str()), &json!(changed))
            );
            for (name, reward) in names.iter().zip(&step.rewards) {
                let found = answer["rewards"][name].as_f64().unwrap();
                assert_eq!(found.to_bits(), reward.to_bits(), "{name} of {answer}");
            }
            let steplake::model::Value::Int(cost) =
                session.observe(environment.spec().observation_index("Cost").unwrap()).unwrap()
            else {
                panic!("a cost is an integer");
            };
            assert_eq!(answer["observations"]["Cost"], json!(cost));
            assert_eq!(answer["observations"]["Bits"].as_array().unwrap().len(), 16);
            state = id;
        }
    }
    for source in ["lake", "compiler"] {
        assert!(sources.iter().any(|one| one == source), "none from the {source}");
    }
}

#[tokio::test]
async fn what_one_client_misses_is_recorded_once_and_the_others_hit() {
    let folder = tempfile::tempdir().unwrap();
    let lake = folder.path().join("lake");
    let mut cache = start(&lake);
    let program = sent(&toy::benchmark(1));
    let actions = [0, 1, 5, 3, 3, 6, 0, 4];
    for expected in [[8, 0], [8, 8], [8, 16]] {
        let mut client = cache.client().await;
        let id = begin(&mut client, program.clone()).await;
        for action in actions {
            step(&mut client, id, action, &[0]).await.unwrap();
        }
        assert_eq!(["misses_total", "hits_total"].map(|name| cache.count(name)), expected);
    }
    assert_eq!(cache.count("start_misses_total"), 1);
    // A fork goes its own way.
    let mut client = cache.client().await;
    let id = begin(&mut client, program).await;
    client.step(play(id, &actions[..3])).await.unwrap();
    let fork = client.fork_session(ForkSessionRequest { session_id: id }).await.unwrap();
    let fork = fork.into_inner().session_id;
    let (one, other) =
        (step(&mut client, id, 3, &[2]).await, step(&mut client, fork, 7, &[2]).await);
    assert_ne!(one.unwrap().observation, other.unwrap().observation);
    assert_eq!(cache.count("misses_total"), 9);
    assert_eq!(cache.stop(), Some(0));
    assert_eq!(recorded_once(&lake).await, 9);
}

#[tokio::test]
async fn clients_that_miss_at_once_make_one_step() {
    let folder = tempfile::tempdir().unwrap();
    let lake = folder.path().join("lake");
    let mut cache = start(&lake);
    let program = sent(&toy::benchmark(2));
    let mut clients = Vec::new();
    for _ in 0..8 {
        let (mut client, program) = (cache.client().await, program.clone());
        clients.push(tokio::spawn(async move {
            let id = begin(&mut client, program).await;
            for action in numbers(5, 7).take(40) {
                step(&mut client, id, action, &[0, 2]).await.unwrap();
            }
        }));
    }
    for client in clients {
        client.await.unwrap();
    }
    let (misses, hits) = (cache.count("misses_total"), cache.count("hits_total"));
    assert_eq!(misses + hits, 8 * 40);
    assert!(misses <= 40, "{misses} misses");
    assert_eq!(cache.count("start_misses_total"), 1);
    assert_eq!(cache.stop(), Some(0));
    assert_eq!(recorded_once(&lake).await, misses);
}

#[tokio::test]
async fn a_failure_is_recorded_once_and_told_to_all() {
    let folder = tempfile::tempdir().unwrap();
    let lake = folder.path().join("lake");
    let plant = Plant { harm: Harm::Breaks, action: "double".into(), every: 1, only: Only::Ever };
    let uri = "benchmark://user-v0/broken";
    let program = sent(&toy::planted(uri, 100, 7, plant));
    let mut cache = start(&lake);
    let mut said = Vec::new();
    for round in 0..3 {
        if round == 2 {
            assert_eq!(cache.stop(), Some(0));
            cache = start(&lake);
        }
        let mut client = cache.client().await;
        let id = begin(&mut client, program.clone()).await;
        step(&mut client, id, 0, &[0]).await.unwrap();
        let failed = step(&mut client, id, 1, &[0]).await.unwrap_err();
        said.push((failed.code(), failed.message().to_owned()));
        let gone = step(&mut client, id, 0, &[0]).await.unwrap_err();
        assert_eq!(gone.code(), Code::NotFound);
    }
    assert_eq!(said[0].0, Code::DataLoss);
    assert!(said.iter().all(|one| *one == said[0]), "{said:?}");
    assert_eq!(cache.count("misses_total"), 0);
    let after = state(&cache.step(uri, None, "increment"));
    let failed = cache.step(uri, Some(after), "double");
    assert_eq!((&failed["state"], &failed["failure"]["kind"]), (&Value::Null, &json!("verifier")));
    assert_eq!(cache.stop(), Some(0));
    assert_eq!(recorded_once(&lake).await, 2);
}

/// The result of `scatter` differs between processes. A plain server records each way; the cache
/// follows the more frequent one, and goes on from there by the stored state.
#[tokio::test]
async fn of_a_conflict_the_more_frequent_result_is_followed() {
    let folder = tempfile::tempdir().unwrap();
    let lake = folder.path().join("lake");
    let uri = "benchmark://user-v0/unsure";
    let program = sent(&toy::program(uri, 1 << 16, 7));
    let scatter = 6;
    let mut numbers = Vec::new();
    for times in [1, 2] {
        let recorder = ["--ir", "all", "--lake", lake.to_str().unwrap()];
        let mut server = Server::of(toy::UNSURE, &recorder);
        let mut client = server.client().await;
        // One process plays all of them, so that they agree.
        let mut ids = vec![begin(&mut client, program.clone()).await];
        while ids.len() < times {
            let fork = client.fork_session(ForkSessionRequest { session_id: ids[0] }).await;
            ids.push(fork.unwrap().into_inner().session_id);
        }
        for id in ids {
            numbers.push(step(&mut client, id, scatter, &[2]).await.unwrap().observation);
        }
        assert_eq!(server.stop(), Some(0));
    }
    assert_ne!(numbers[0], numbers[1]);
    assert_eq!(numbers[1], numbers[2]);
    let cache = of(toy::UNSURE, &lake, &[]);
    let mut client = cache.client().await;
    let id = begin(&mut client, program).await;
    let found = step(&mut client, id, scatter, &[2]).await.unwrap();
    assert_eq!((found.observation, cache.count("misses_total")), (numbers.remove(1), 0));
    // No compiler comes there again by the actions.
    step(&mut client, id, 3, &[2]).await.unwrap();
    step(&mut client, id, 0, &[2]).await.unwrap();
    assert_eq!((cache.count("misses_total"), cache.count("diverged_total")), (2, 1));
}

#[test]
fn a_state_is_all_that_a_client_needs() {
    let folder = tempfile::tempdir().unwrap();
    let lake = folder.path().join("lake");
    let cache = start(&lake);
    // A program that the lake lacks is made by its dataset.
    let first = cache.step(URI, None, "increment");
    assert_eq!((&first["source"], cache.count("start_misses_total")), (&json!("compiler"), 1));
    let second = cache.step(URI, Some(state(&first)), "double");
    let again = cache.step(URI, Some(state(&first)), "double");
    assert_eq!((&second["source"], &again["source"]), (&json!("compiler"), &json!("lake")));
    assert_eq!(second["state"], again["state"]);
    let (status, looked) = cache.ask(&json!({ "benchmark": URI, "observations": ["CostO0"] }));
    assert_eq!((status, &looked["source"]), (200, &json!("lake")));
    assert!(looked["observations"]["CostO0"].is_i64(), "{looked}");

    // States of one program are none of another one, whose baselines its rewards would be relative
    // to: neither those of the lake nor those recorded since.
    let other = json!({ "benchmark": OTHER, "state": first["state"], "action": "double" });
    let demand_refused = |cache: &Server| {
        let (status, answer) = cache.ask(&other);
        let error = answer["error"].as_str().unwrap_or_default();
        assert!(status == 404 && error.contains("name the benchmark that leads there"), "{answer}");
    };
    demand_refused(&cache);
    drop(cache);
    let cache = start(&lake);
    demand_refused(&cache);
    assert_eq!(cache.step(URI, Some(state(&first)), "double")["source"], json!("lake"));

    let nowhere = "0".repeat(40);
    for (request, status, said) in [
        (json!({ "benchmark": "benchmark://no-v0/x" }), 404, "over gRPC"),
        (
            json!({ "benchmark": "file:///etc/hostname" }),
            404,
            "no program is read from the server's files",
        ),
        (
            json!({ "benchmark": "/etc/hostname" }),
            404,
            "no program is read from the server's files",
        ),
        (json!({ "benchmark": URI, "state": nowhere }), 404, "state 0000"),
        (json!({ "benchmark": URI, "state": "x" }), 400, "x"),
        (json!({ "benchmark": URI, "action": "no-action" }), 400, "no action `no-action`"),
        (json!({ "benchmark": URI, "action": 8 }), 400, "which has 8 actions"),
        (json!({ "benchmark": URI, "observations": ["None"] }), 400, "`None`"),
        (json!({ "benchmark": URI, "rewards": ["None"] }), 400, "`None`"),
    ] {
        let (found, answer) = cache.ask(&request);
        let error = answer["error"].as_str().unwrap_or_default();
        assert!(found == status && error.contains(said), "{request}: {found} {answer}");
    }
    let address = cache.http.as_deref().unwrap();
    let (status, health) = try_http(address, "GET /health", "").unwrap();
    assert_eq!((status, health.contains(r#""status":"ok""#)), (200, true), "{health}");
    for (head, body, status) in [
        ("POST /step", "no json", 400),
        ("POST /step", "{}", 422),
        ("GET /step", "", 405),
        ("POST /health", "", 405),
        ("GET /steps", "", 404),
    ] {
        let (found, answer) = try_http(address, head, body).unwrap();
        assert!(found == status && answer.contains(r#"{"error":""#), "{head}: {found} {answer}");
    }
}

#[tokio::test]
async fn a_lake_without_ir_is_a_cache_too() {
    let folder = tempfile::tempdir().unwrap();
    let lake = folder.path().join("lake");
    let mut cache = of("toy-v0", &lake, &["--ir", "none"]);
    let first = cache.step(URI, None, "increment");
    // The dataset makes the program once more, and its compiler comes to the state.
    let second = cache.step(URI, Some(state(&first)), "double");
    assert_eq!(second["source"], json!("compiler"));
    assert_eq!((cache.count("misses_total"), cache.count("replayed_total")), (2, 1));
    assert_eq!(cache.step(URI, Some(state(&first)), "double")["source"], json!("lake"));
    assert_eq!(cache.stop(), Some(0));
    assert_eq!(recorded_once(&lake).await, 2);
}

#[tokio::test]
async fn a_name_belongs_to_one_program() {
    let folder = tempfile::tempdir().unwrap();
    let cache = start(&folder.path().join("lake"));
    let mut client = cache.client().await;
    let uri = "benchmark://user-v0/a";
    begin(&mut client, sent(&toy::program(uri, 100, 7))).await;
    let other = StartSessionRequest {
        benchmark: Some(sent(&toy::program(uri, 100, 8))),
        action_space: 0,
        observation_space: Vec::new(),
    };
    let refused = client.start_session(other).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert!(refused.message().contains("under another name"), "{}", refused.message());
    // A client that names a program which nobody has sent is told to send it.
    let unknown = Benchmark { program: None, ..sent(&toy::program("benchmark://b/c", 100, 7)) };
    let unknown =
        StartSessionRequest { benchmark: Some(unknown), ..StartSessionRequest::default() };
    assert_eq!(client.start_session(unknown).await.unwrap_err().code(), Code::NotFound);
}

#[test]
fn the_client_of_steplake_shares_it() {
    let folder = tempfile::tempdir().unwrap();
    let cache = start(&folder.path().join("cache"));
    let environment = format!("grpc://{}/cached-v0", cache.address);
    let program = file(folder.path(), "seven", &toy::benchmark(7).program);
    let mut misses = Vec::new();
    for lake in ["one", "two"] {
        let lake = folder.path().join(lake);
        let run = ["generate", "--env", &environment, "--benchmark", &program, "--steps", "300"];
        done(&lake, &run);
        misses.push(cache.count("misses_total"));
    }
    assert!(misses[0] > 100 && misses[0] == misses[1], "{misses:?}");
    assert_eq!(cache.count("observation_misses_total"), 0);
}

/// A program of two instructions, of which one is not needed.
const PROGRAM: &str = "
define i32 @f(i32 %x) {
  %y = add i32 %x, 0
  ret i32 %y
}
";

#[tokio::test]
async fn llvm_is_cached() {
    let folder = tempfile::tempdir().unwrap();
    let lake = folder.path().join("lake");
    let (live, mut cache) = (Server::of("llvm-v0", &[]), of("llvm-v0", &lake, &[]));
    let program = steplake::model::Benchmark {
        uri: "benchmark://user-v0/f".parse().unwrap(),
        program: bitcode(PROGRAM).into(),
        provenance: steplake::model::Provenance::default(),
        execution: None,
    };
    // Ir, IrSha1, Bitcode, InstCount, Autophase, IrInstructionCount and its baselines.
    let spaces = [0, 1, 2, 4, 5, 9, 10, 11, 12];
    let mut expected = Vec::new();
    let mut client = live.client().await;
    let id = begin(&mut client, sent(&program)).await;
    for action in [53, 110, 53, 0] {
        expected.push(step(&mut client, id, action, &spaces).await.unwrap());
    }
    for misses in [4, 0] {
        let mut client = cache.client().await;
        let id = begin(&mut client, sent(&program)).await;
        for (action, expected) in [53, 110, 53, 0].into_iter().zip(&expected) {
            assert_eq!(&step(&mut client, id, action, &spaces).await.unwrap(), expected);
        }
        assert_eq!(cache.count("misses_total"), misses);
        assert_eq!(cache.stop(), Some(0));
        cache = of("llvm-v0", &lake, &[]);
    }
}
