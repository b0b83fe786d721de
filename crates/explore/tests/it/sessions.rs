//! Live sessions as trees, over REST.

use serde_json::{Value, json};

use crate::explorer::Explorer;
use crate::programs::PATIENCE;

/// A folder in which there is no lake.
fn nowhere() -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lake");
    (folder, path)
}

fn toy() -> (tempfile::TempDir, Explorer) {
    let (folder, lake) = nowhere();
    let server = Explorer::toy(&lake, &[]);
    (folder, server)
}

/// Starts a session of the toy environment.
fn start(server: &Explorer, more: &Value) -> Value {
    let mut sent = json!({ "benchmark": "generator://toy-v0/5" });
    for (name, value) in more.as_object().unwrap() {
        sent[name] = value.clone();
    }
    server.post("/api/sessions", &sent)
}

fn id(session: &Value) -> &str {
    session["id"].as_str().unwrap()
}

/// Plays actions from a node.
fn play(server: &Explorer, session: &Value, parent: u64, actions: &[u32]) -> Vec<Value> {
    let path = format!("/api/sessions/{}/nodes", id(session));
    let answer = server.post(&path, &json!({ "parent": parent, "actions": actions }));
    answer["nodes"].as_array().unwrap().clone()
}

fn number(node: &Value) -> u64 {
    node["id"].as_u64().unwrap()
}

#[test]
fn a_session_is_a_tree() {
    let (_folder, server) = toy();
    let session = start(&server, &json!({}));
    assert_eq!(session["reward_space"], "Cost");
    assert_eq!(session["nodes"].as_array().unwrap().len(), 1);
    // increment, double; then from the first node halve, and increment again.
    let way = play(&server, &session, 0, &[0, 1]);
    let other = play(&server, &session, 0, &[2]);
    let again = play(&server, &session, 0, &[0]);
    assert_eq!(way[0], again[0], "what was played is not played again");
    assert_eq!((&way[1]["parent"], &way[1]["depth"]), (&way[0]["id"], &json!(2)));
    assert_eq!(way[0]["action"], json!({ "index": 0, "name": "increment" }));
    let first = &session["nodes"][0];
    for node in way.iter().chain(&other) {
        let parent = if node["parent"] == json!(0) { first } else { &way[0] };
        let saved = parent["cost"].as_f64().unwrap() - node["cost"].as_f64().unwrap();
        assert_eq!(node["reward"].as_f64(), Some(saved), "{node}");
    }
    let sum = way[0]["reward"].as_f64().unwrap() + way[1]["reward"].as_f64().unwrap();
    assert_eq!(way[1]["cumulative_reward"].as_f64(), Some(sum));
    let shown = server.get(&format!("/api/sessions/{}", id(&session)));
    assert_eq!(shown["nodes"].as_array().unwrap().len(), 4);
    // Undo takes away what is below.
    let undone =
        server.delete(&format!("/api/sessions/{}/nodes/{}", id(&session), number(&way[0])));
    assert_eq!(undone, json!({ "removed": [number(&way[0]), number(&way[1])] }));
    let path = format!("/api/sessions/{}", id(&session));
    assert_eq!(server.get(&path)["nodes"].as_array().unwrap().len(), 2);
    assert_eq!(server.delete(&path), json!({ "ended": true }));
    assert!(server.ask(&path).problem(404).contains("it has ended"));
}

#[test]
fn a_fork_has_the_whole_tree_and_goes_on_by_itself() {
    let (_folder, server) = toy();
    let session = start(&server, &json!({ "actions": [0, 1] }));
    let base = format!("/api/sessions/{}", id(&session));
    let other = play(&server, &session, 0, &[2]).remove(0);
    let gone = play(&server, &session, number(&other), &[5]).remove(0);
    server.delete(&format!("{base}/nodes/{}", number(&gone)));
    // What a link names is played again where the tree does not have it any more.
    let fork = server.post(&format!("{base}/fork"), &json!({ "actions": [2, 5] }));
    assert_ne!(fork["id"], session["id"]);
    for name in ["benchmark", "action_space", "reward_space", "cost_name", "baselines"] {
        assert_eq!(fork[name], session[name], "{name}");
    }
    let nodes = |of: &str| server.get(of)["nodes"].as_array().unwrap().clone();
    let [of_first, of_fork] = [nodes(&base), fork["nodes"].as_array().unwrap().clone()];
    assert_eq!(of_fork[..of_first.len()], of_first[..], "the nodes have their numbers");
    assert_eq!((of_first.len(), of_fork.len()), (4, 5));
    let again = &of_fork[4];
    assert_eq!((&again["parent"], &again["state_id"]), (&other["id"], &gone["state_id"]));
    // Neither sees what the other does.
    let [one, same] = [&session, &fork].map(|of| play(&server, of, 2, &[4]).remove(0));
    assert_eq!(one["state_id"], same["state_id"]);
    let fork_base = format!("/api/sessions/{}", id(&fork));
    server.delete(&format!("{fork_base}/nodes/1"));
    assert_eq!((nodes(&base).len(), nodes(&fork_base).len()), (5, 3));
    assert_eq!(server.delete(&fork_base), json!({ "ended": true }));
    assert_eq!(play(&server, &session, number(&one), &[1]).len(), 1);
    assert!(
        server.try_post(&format!("{fork_base}/fork"), &json!({})).problem(404).contains("ended")
    );
    let wrong = server.try_post(&format!("{base}/fork"), &json!({ "actions": [99] }));
    assert!(wrong.problem(400).contains("no action 99"));
}

#[test]
fn a_link_restores_a_path() {
    let (_folder, server) = toy();
    let actions: Vec<u32> = (0..60).map(|at| [0, 1, 5, 2, 3, 6][at % 6]).collect();
    let session = start(&server, &json!({ "actions": actions, "reward_space": "CostOz" }));
    let nodes = session["nodes"].as_array().unwrap();
    assert_eq!(nodes.len(), 61);
    let other = start(&server, &json!({}));
    let played = play(&server, &other, 0, &actions);
    for (one, other) in nodes[1..].iter().zip(&played) {
        assert_eq!(one["state_id"], other["state_id"]);
    }
    // A node in the middle, whose compiler is gone, is played again when it is needed.
    let at = number(&played[29]);
    let next = play(&server, &other, at, &[4]);
    let same = [&actions[..30], &[4]].concat();
    let again = start(&server, &json!({ "actions": same }));
    assert_eq!(next[0]["state_id"], again["nodes"][31]["state_id"]);
    let features = server.get(&format!("/api/sessions/{}/features?node={at}", id(&other)));
    assert_eq!(features["nodes"].as_array().unwrap().len(), 31);
    assert_eq!(features["Bits"]["values"].as_array().unwrap().len(), 31);
    assert_eq!(features["Bits"]["names"][3], "bit3");
    let one = server.get(&format!("/api/sessions/{}/nodes/{at}/features", id(&other)));
    assert_eq!(one["Bits"]["values"], features["Bits"]["values"][30]);
}

#[test]
fn a_failure_is_a_leaf() {
    let (_folder, server) = toy();
    // `invert` fails in the state 250.
    let session = start(&server, &json!({ "benchmark": "generator://toy-v0/0" }));
    let text = server.get(&format!("/api/sessions/{}/nodes/0/ir", id(&session)));
    let begin: u32 = text["text"].as_str().unwrap().rsplit(' ').next().unwrap().parse().unwrap();
    let steps = if begin <= 250 { 250 - begin } else { panic!("{text}") };
    let mut actions = vec![0; steps as usize];
    actions.extend([7, 0]);
    let way = play(&server, &session, 0, &actions);
    let failed = way.last().unwrap();
    assert_eq!(way.len(), steps as usize + 1, "nothing follows a failure");
    assert_eq!((&failed["state_id"], &failed["cost"]), (&Value::Null, &Value::Null));
    assert_eq!(failed["failure"]["kind"], "crash", "{failed}");
    let nodes = format!("/api/sessions/{}/nodes", id(&session));
    let after = json!({ "parent": number(failed), "actions": [0] });
    assert!(server.try_post(&nodes, &after).problem(409).contains("nothing can follow"));
    let features = server.ask(&format!("{nodes}/{}/features", number(failed)));
    assert!(features.problem(409).contains("the compiler failed"));
    // The tree grows on from the node before.
    let before = number(&way[way.len() - 2]);
    assert_eq!(play(&server, &session, before, &[2]).len(), 1);
}

const SUM: &str = "\
int f(int n) { int s = 0; for (int i = 0; i < n; i++) s += i; return s; }
int main() { return f(3); }
";

/// Starts a session of a source with an explorer of GCC.
fn start_gcc(server: &Explorer, text: &str, more: &Value) -> Value {
    let mut sent = json!({ "source": { "name": "sum.c", "text": text } });
    for (name, value) in more.as_object().unwrap() {
        sent[name] = value.clone();
    }
    server.post("/api/sessions", &sent)
}

/// No action asks GCC for anything: it fails when the state is looked at.
#[test]
fn a_state_that_does_not_compile_is_a_failed_leaf() {
    let (_folder, lake) = nowhere();
    let server = Explorer::start(&lake, &["--env", "gcc-v0"]);
    let described = server.get("/api/describe");
    let actions = ["-fsection-anchors", "-fno-toplevel-reorder", "-O2"];
    let actions = actions.map(|name| action(&described, name));
    let session = start_gcc(&server, SUM, &json!({ "actions": actions }));
    let nodes = session["nodes"].as_array().unwrap();
    assert_eq!(nodes.len(), 3, "nothing follows a failure: {session}");
    assert!(nodes[1]["cost"].is_number(), "{session}");
    let failed = &nodes[2];
    assert_eq!((&failed["state_id"], &failed["cost"]), (&Value::Null, &Value::Null));
    assert_eq!(failed["failure"]["kind"], "rejected", "{failed}");
    let detail = failed["failure"]["detail"].as_str().unwrap();
    assert!(detail.contains("section anchors must be disabled"), "{failed}");
    // A link to the node opens up to it, and the tree grows on from the node before.
    let other = start_gcc(&server, SUM, &json!({}));
    let fork = format!("/api/sessions/{}/fork", id(&other));
    let fork = server.post(&fork, &json!({ "actions": actions[..2] }));
    assert_eq!(fork["nodes"], session["nodes"]);
    let nodes = format!("/api/sessions/{}/nodes", id(&fork));
    let after = json!({ "parent": 2, "actions": [actions[2]] });
    assert!(server.try_post(&nodes, &after).problem(409).contains("nothing can follow"));
    let on = play(&server, &fork, 1, &actions[2..]).remove(0);
    assert!(on["cost"].is_number() && on["failure"].is_null(), "{on}");
    // The state as a program has no session.
    let options = "-fsection-anchors -fno-toplevel-reorder";
    let text = format!("// gcc-v0 state 1: {options}\n# 1 \"sum.c\"\n{SUM}");
    let sent = json!({ "source": { "name": "state.i", "text": text } });
    let problem = server.try_post("/api/sessions", &sent).problem(422);
    assert!(problem.contains("before the first step: rejected: cc1: error: sec"), "{problem}");
}

#[test]
fn a_program_opens_without_the_baselines_on_which_the_compiler_fails() {
    let (_folder, lake) = nowhere();
    let server = Explorer::start(&lake, &["--env", "gcc-v0"]);
    let described = server.get("/api/describe");
    // The call is left over where the constant is known.
    let text = "extern void bad(void) __attribute__((error(\"x\")));
                static inline int g(int x) { if (__builtin_constant_p(x)) bad(); return x; }
                int main() { return g(3); }\n";
    let session = start_gcc(&server, text, &json!({ "reward_space": "asm_size_Oz" }));
    let first = &session["nodes"][0];
    assert!(first["cost"].is_number() && session["baselines"]["O0"].is_number(), "{session}");
    assert_eq!([&session["baselines"]["O3"], &session["baselines"]["Oz"]], [&Value::Null; 2]);
    let step = play(&server, &session, 0, &[action(&described, "-fno-gcse")]).remove(0);
    assert!(step["cost"].is_number(), "{step}");
    assert_eq!([&step["reward"], &step["cumulative_reward"]], [&Value::Null; 2], "{step}");
    // A reward has its baseline, also one that is not shown.
    let session = start_gcc(&server, SUM, &json!({ "reward_space": "asm_size_Os" }));
    let step = play(&server, &session, 0, &[action(&described, "-Os")]).remove(0);
    assert_eq!(step["reward"], 1.0, "{step}");
}

#[test]
fn wrong_requests_change_nothing() {
    let (_folder, server) = toy();
    let session = start(&server, &json!({}));
    let nodes = format!("/api/sessions/{}/nodes", id(&session));
    for (sent, status, text) in [
        (json!({ "parent": 0, "actions": [0, 99] }), 400, "no action 99"),
        (json!({ "parent": 7, "actions": [0] }), 404, "no node 7"),
        (json!({ "parent": 0 }), 400, "`actions` is missing"),
        (json!({ "parent": 0, "actions": [-1] }), 400, "whole number is wanted"),
        (json!({ "parent": 0, "actions": vec![0; 3000] }), 400, "may have 2000 actions"),
    ] {
        let told = server.try_post(&nodes, &sent).problem(status);
        assert!(told.contains(text), "{told}");
    }
    let shown = server.get(&format!("/api/sessions/{}", id(&session)));
    assert_eq!(shown["nodes"].as_array().unwrap().len(), 1);
    for (sent, text) in [
        (json!({}), "name a `benchmark`"),
        (json!({ "benchmark": "nothing" }), "there is no such file"),
        (json!({ "benchmark": "generator://toy-v0/x" }), "a seed"),
        (json!({ "benchmark": "generator://toy-v0/1", "reward_space": "x" }), "Cost, CostNorm"),
        (json!({ "benchmark": "generator://toy-v0/1", "action_space": "x" }), "no space called"),
    ] {
        let told = server.try_post("/api/sessions", &sent).problem(400);
        assert!(told.contains(text), "{told}");
    }
    assert!(server.send(&format!("DELETE {nodes}/0"), &[], "").problem(400).contains("first node"));
    assert!(server.ask(&format!("{nodes}/x/ir")).problem(400).contains("not the number"));
    let diff = format!("/api/sessions/{}/diff/text?from=0&to=0&function=f", id(&session));
    assert!(server.ask(&diff).problem(404).contains("neither program has a function `f`"));
    assert!(server.ask("/api/nothing").problem(404).contains("there is no call"));
}

#[test]
fn clients_are_served_at_the_same_time() {
    let (_folder, server) = toy();
    let states: Vec<Vec<Value>> = std::thread::scope(|scope| {
        let client = |seed: usize| {
            let server = &server;
            move || {
                let uri = format!("generator://toy-v0/{}", seed % 2);
                let session = start(server, &json!({ "benchmark": uri }));
                let mut at = 0;
                let mut states = Vec::new();
                for action in [0, 1, 5, 0, 6, 1] {
                    let node = play(server, &session, at, &[action]).remove(0);
                    at = number(&node);
                    states.push(node["state_id"].clone());
                }
                states
            }
        };
        let threads: Vec<_> = (0..6).map(|seed| scope.spawn(client(seed))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    for seed in 2..6 {
        assert_eq!(states[seed], states[seed % 2]);
    }
    assert_ne!(states[0], states[1]);
}

#[tokio::test]
async fn sessions_that_nobody_uses_end() {
    let (_folder, lake) = nowhere();
    let server = Explorer::toy(&lake, &["--session-timeout", "300ms", "--sessions", "2"]);
    let first = start(&server, &json!({}));
    let second = start(&server, &json!({}));
    server.get(&format!("/api/sessions/{}", id(&first)));
    // One more than there may be: the one that nobody used for the longest time ends.
    let third = start(&server, &json!({}));
    assert_eq!(server.ask(&format!("/api/sessions/{}", id(&second))).status, 404);
    let path = format!("/api/sessions/{}", id(&third));
    assert_eq!(server.ask(&path).status, 200);
    let deadline = std::time::Instant::now() + PATIENCE;
    loop {
        assert!(std::time::Instant::now() < deadline, "an idle session never ends");
        // To ask is to use it, so the pause is longer than the time-out.
        tokio::time::sleep(std::time::Duration::from_millis(500)).await;
        if server.ask(&path).status == 404 {
            break;
        }
    }
}

const SOURCE: &str = "\
#include <stdio.h>
static int square(int x) { int y = x; return y * y; }
int twice(int x) { return x + x; }
int main(void) { printf(\"%d\\n\", square(3) + twice(2)); return 0; }
";

/// The number of an action of the default space.
fn action(described: &Value, name: &str) -> u32 {
    let spaces = described["live"]["action_spaces"].as_array().unwrap();
    let default = &described["live"]["default_action_space"];
    let space = spaces.iter().find(|space| space["name"] == *default).unwrap();
    let actions = space["actions"].as_array().unwrap();
    let place = actions.iter().position(|action| action["name"] == name).unwrap();
    u32::try_from(place).unwrap()
}

#[test]
fn the_code_of_ones_own_program_is_shown_function_by_function() {
    let (_folder, lake) = nowhere();
    let server = Explorer::start(&lake, &[]);
    let described = server.get("/api/describe");
    assert_eq!(described["lake"], Value::Null);
    assert_eq!(described["live"]["feature_spaces"]["InstCount"].as_array().unwrap().len(), 70);
    let [sroa, inline] = ["sroa", "inline"].map(|name| action(&described, name));
    let source = json!({ "name": "mine.c", "text": SOURCE });
    let session = server.post("/api/sessions", &json!({ "source": source }));
    assert_eq!(session["benchmark"], "benchmark://user-v0/mine.c");
    assert_eq!(session["reward_space"], "IrInstructionCountOz");
    let [o0, oz] = ["O0", "Oz"].map(|name| session["baselines"][name].as_f64().unwrap());
    assert!(oz < o0 && session["nodes"][0]["cost"] == json!(o0), "{session}");
    let way = play(&server, &session, 0, &[sroa, sroa, inline]);
    assert_eq!(way[1]["is_changed"], false);
    let base = format!("/api/sessions/{}", id(&session));
    let diff = server.get(&format!("{base}/diff?from=0&to={}", number(&way[0])));
    let parts = diff["functions"].as_array().unwrap();
    let part = |name: &str| parts.iter().find(|part| part["name"] == name).unwrap();
    assert_eq!(part("square")["change"], "changed");
    assert!(part("square")["removed"].as_u64().unwrap() > 0);
    let texts = format!("{base}/diff/text?from=0&to={}&function=square", number(&way[0]));
    let texts = server.get(&texts);
    assert!(texts["before"].as_str().unwrap().contains("alloca"), "{texts}");
    assert!(!texts["after"].as_str().unwrap().contains("alloca"), "{texts}");
    let ir = server.get(&format!("{base}/nodes/{}/ir", number(&way[2])));
    assert!(ir["text"].as_str().unwrap().contains("define"));
    let command = server.get(&format!("{base}/nodes/{}/command", number(&way[2])));
    let opt = command["opt"].as_str().unwrap();
    assert!(
        opt.starts_with("opt -passes='function(sroa") && opt.ends_with("-o output.bc"),
        "{opt}"
    );
    assert_eq!(opt.matches("sroa").count(), 1, "what changes nothing is left out: {opt}");
    let features = server.get(&format!("{base}/nodes/0/features"));
    assert_eq!(features["Autophase"]["values"].as_array().unwrap().len(), 56);
    // A program that does not compile, and one that takes in other files.
    for (name, text, told) in [
        ("a.c", "int main( {", "does not compile"),
        ("a.c", "#include \"/etc/passwd\"\n", "takes in"),
        ("a.ll", "define void @f() {\n  rot\n}\n", "does not compile"),
        ("../a.c", "", "not the name of a source"),
        ("a.rs", "", "must end in"),
    ] {
        let sent = json!({ "source": { "name": name, "text": text } });
        let problem = server.try_post("/api/sessions", &sent).problem(400);
        assert!(problem.contains(told) && !problem.contains("/tmp/"), "{problem}");
    }
}

#[test]
fn the_calls_of_the_peer_are_answered() {
    let (_folder, lake) = nowhere();
    let server = Explorer::start(&lake, &[]);
    let described = server.get("/api/v4/describe");
    assert_eq!(described["actions"].as_object().unwrap().len(), 124);
    let mem2reg = &described["actions"]["-mem2reg"];
    assert_eq!(described["benchmarks"]["benchmark://steplake-v0"].as_array().unwrap().len(), 10);
    assert_eq!(described["benchmarks"]["generator://csmith-v0"][9], "generator://csmith-v0/9");
    let rewards: Vec<&str> = described["rewards"]
        .as_array()
        .unwrap()
        .iter()
        .map(|name| name.as_str().unwrap())
        .collect();
    assert!(rewards.is_sorted() && rewards.contains(&"IrInstructionCountOz"));
    let base = "/api/v4/step?benchmark=benchmark://steplake-v0/huffman&reward=IrInstructionCount";
    let step = |more: &str| server.send(&format!("POST {base}{more}"), &[], "");
    let with = |more: String| step(&more).json();
    let two = with(format!("&actions={mem2reg},{mem2reg}&all_states=1"));
    assert_eq!(two["commandline"], "opt -mem2reg -mem2reg input.bc -o output.bc");
    assert_eq!(two["done"], false);
    let states = two["states"].as_array().unwrap();
    assert_eq!(states.len(), 3);
    let insts = |state: &Value| state["instcount"]["TotalInstsCount"].as_f64().unwrap();
    assert_eq!(states[0]["reward"], 0.0);
    assert_eq!(states[1]["reward"].as_f64(), Some(insts(&states[0]) - insts(&states[1])));
    assert_eq!(states[2]["reward"], 0.0);
    let autophase = states[1]["autophase"].as_object().unwrap();
    assert_eq!((states[1]["instcount"].as_object().unwrap().len(), autophase.len()), (70, 56));
    assert!(two["ir"].as_str().unwrap().lines().count() <= 1024);
    let last = with(format!("&actions={mem2reg}"));
    assert_eq!(last["states"], json!([states[1]]));
    assert_eq!(with(String::new())["states"], json!([states[0]]));
    for (wrong, told) in [
        ("&actions=x", "`x` is not an action"),
        ("&actions=999", "no action 999"),
        ("&benchmark_source=int%20main(%20%7B", "does not compile"),
    ] {
        let problem = step(wrong).problem(400);
        assert!(problem.contains(told), "{problem}");
    }
    let problem = server.send("POST /api/v4/step?reward=IrInstructionCount", &[], "").problem(400);
    assert!(problem.contains("`benchmark` is missing"), "{problem}");
    let own = "&benchmark_source=int%20main(void)%7Breturn%200%3B%7D".to_owned();
    assert!(with(own)["ir"].as_str().unwrap().contains("@main"));
}
