//! A cache that is killed while clients miss: what they were told is in the lake, once.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::cache::recorded_once;
use crate::cache_server::{start, try_http};
use crate::programs::{end_of, until};

const CLIENTS: u64 = 8;

/// The answers after which the server is killed.
const ANSWERS: usize = 150;

/// A question, and what its client was told.
type Told = (Value, Value);

/// Walks until the server is gone, and returns what it said. Clients begin in the same states, so
/// that they miss the same.
fn walk(address: &str, seed: u64, count: &AtomicUsize) -> Vec<Told> {
    let mut told = Vec::new();
    let mut number = seed;
    let mut next = move |below: u64| {
        number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        (number >> 33) % below
    };
    loop {
        let benchmark = format!("generator://toy-v0/{}", next(3));
        let mut state = Value::Null;
        for _ in 0..10 {
            let request = json!({
                "benchmark": benchmark,
                "state": state,
                "action": next(8),
                "observations": ["Cost", "Number"],
                "rewards": ["CostOz"],
            });
            let Some((200, answer)) = try_http(address, "POST /step", &request.to_string()) else {
                return told;
            };
            let mut answer: Value = serde_json::from_str(&answer).unwrap();
            state = answer["state"].clone();
            answer["source"] = Value::Null;
            told.push((request, answer));
            count.fetch_add(1, Ordering::Relaxed);
            if state.is_null() {
                break;
            }
        }
    }
}

#[tokio::test]
async fn what_clients_were_told_outlives_a_kill_and_is_recorded_once() {
    let folder = tempfile::tempdir().unwrap();
    let lake = folder.path().join("lake");
    let told = Mutex::new(Vec::new());
    for round in 0..3 {
        let mut server = start(&lake);
        let address = server.http.clone().unwrap();
        let count = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for client in 0..CLIENTS {
                let (told, count, address) = (&told, &count, &address);
                scope.spawn(move || {
                    let said = walk(address, round * CLIENTS + client, count);
                    told.lock().unwrap().extend(said);
                });
            }
            until("clients have their answers", || count.load(Ordering::Relaxed) >= ANSWERS);
            kill(Pid::from_raw(server.child.id().try_into().unwrap()), Signal::SIGKILL).unwrap();
        });
        end_of(&mut server.child, "a server that was killed");
    }
    let told = told.into_inner().unwrap();
    assert!(told.len() >= 3 * ANSWERS);
    let mut server = start(&lake);
    for (request, answer) in &told {
        let (status, mut found) = server.ask(request);
        let source = found["source"].take();
        assert_eq!((status, source, &found), (200, json!("lake"), answer), "{request}");
    }
    assert_eq!(server.count("misses_total"), 0);
    assert_eq!(server.stop(), Some(0));
    let recorded = recorded_once(&lake).await;
    assert!(recorded > 100, "{recorded}");
}
