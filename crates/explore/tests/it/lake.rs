//! The calls about a lake, over REST.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};
use steplake::dedup::{DedupOptions, dedup};
use steplake::env::toy::{self, ToyEnvironment};
use steplake::env::{Environment as _, Session, Start, Watch};
use steplake::lake::{Lake, to_the_end};
use steplake::model::{ActionIndex, StateId};
use steplake::record::{Recording, RecordingOptions, SpaceChoice, identity};

use crate::explorer::Explorer;
use crate::served::{embedded, lake, record, record_hot};

fn list(value: &Value) -> &Vec<Value> {
    value.as_array().unwrap_or_else(|| panic!("{value}"))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("{value}"))
}

/// Asks in SQL, and returns the rows.
fn sql(server: &Explorer, sql: &str) -> Value {
    server.post("/api/lake/query", &json!({ "sql": sql }))["rows"].take()
}

#[tokio::test]
async fn the_lake_is_described() {
    let (_folder, lake) = lake();
    let server = Explorer::toy(&lake, &[]);
    let described = server.get("/api/describe")["lake"].take();
    let one = async |sql: &str| embedded(&lake, sql).await[0].parse::<u64>().unwrap();
    for (name, query) in [
        ("states", "SELECT count(*) FROM observations"),
        ("steps", "SELECT count(action) FROM steps"),
        ("transitions", "SELECT count(*) FROM state_transitions"),
        ("episodes", "SELECT count(*) FROM episodes"),
        ("benchmarks", "SELECT count(*) FROM benchmarks"),
    ] {
        assert_eq!(described[name].as_u64(), Some(one(query).await), "{name}");
    }
    assert_eq!(described["is_derived_current"], true);
    assert_eq!(
        (&described["environment"], &described["cost_name"]),
        (&json!("toy-v0"), &json!("Cost"))
    );
    let benchmarks = server.get("/api/lake/benchmarks");
    assert_eq!(list(&benchmarks).len(), 3);
    let first = &benchmarks[0];
    assert_eq!(
        (&first["benchmark"], &first["episodes"]),
        (&json!("generator://toy-v0/0"), &json!(10))
    );
    assert_eq!(first["costs"]["Cost"], json!({ "O0": 0.0, "O3": null, "Oz": 0.0 }));
    assert_eq!(list(&server.get("/api/lake/benchmarks?like=TOY-v0/1")).len(), 1);
    assert_eq!(list(&server.get("/api/lake/benchmarks?like=%27%25")).len(), 0);
    assert_eq!(list(&server.get("/api/lake/benchmarks?limit=2")).len(), 2);
}

#[tokio::test]
async fn a_state_has_neighbours_and_ways_to_it() {
    let (_folder, lake) = lake();
    let server = Explorer::toy(&lake, &[]);
    let start = server.get("/api/lake/benchmarks")[1]["first_state"].take();
    let start = text(&start);
    let state = server.get(&format!("/api/lake/states/{start}"));
    assert_eq!(state["is_start_of"], json!(["generator://toy-v0/1"]));
    assert_eq!(list(&state["features"]["Bits"]["values"]).len(), 16);
    assert_eq!((&state["actions_total"], &state["has_ir"]), (&json!(8), &json!(true)));
    let out = server.get(&format!("/api/lake/states/{start}/neighbours"));
    let leading = list(&out).iter().filter(|edge| edge["is_changed"] == true);
    assert_eq!(state["out_degree"].as_u64(), Some(leading.clone().count() as u64));
    let tried: std::collections::BTreeSet<u64> =
        list(&out).iter().map(|edge| edge["action"]["index"].as_u64().unwrap()).collect();
    assert_eq!(state["actions_tried"].as_u64(), Some(tried.len() as u64));
    let edge = leading.clone().next().unwrap();
    let cost = state["observations"]["Cost"].as_f64().unwrap();
    let difference = edge["cost"]["Cost"].as_f64().unwrap() - cost;
    assert_eq!(edge["difference"]["Cost"].as_f64(), Some(difference));
    let next = text(&edge["state_id"]);
    let back = server.get(&format!("/api/lake/states/{next}/neighbours?direction=in"));
    let same = list(&back)
        .iter()
        .find(|other| text(&other["state_id"]) == start && other["action"] == edge["action"]);
    assert_eq!(same.unwrap()["difference"], edge["difference"]);
    let path = server.get(&format!("/api/lake/states/{next}/path"));
    assert_eq!(list(&path["states"]).last(), Some(&json!(next)));
    assert_eq!(list(&path["costs"]).len(), list(&path["states"]).len());
    assert_eq!(list(&path["actions"]).len() + 1, list(&path["states"]).len());
    let named = |shown: &Value| shown["cost_name"] == "Cost";
    assert!(named(&path) && list(&out).iter().all(named), "{path}");
    // Its baselines are those of its own program.
    let programs = server.get("/api/lake/benchmarks");
    let own = list(&programs).iter().find(|program| program["benchmark"] == path["benchmark"]);
    assert_eq!(path["Oz"], own.unwrap()["costs"]["Cost"]["Oz"]);
    // The same actions in a live session lead to the same state.
    let actions: Vec<&Value> = list(&path["actions"]).iter().map(|one| &one["index"]).collect();
    let live = json!({ "benchmark": path["benchmark"], "actions": actions });
    let live = server.post("/api/sessions", &live);
    assert_eq!(list(&live["nodes"]).last().unwrap()["state_id"], json!(next));
    // The program is rebuilt where it is not stored.
    let ir = server.get(&format!("/api/lake/states/{next}/ir"));
    let told = embedded(&lake, &format!("SELECT ir(state('{next}'))")).await;
    assert_eq!(text(&ir["text"]), told[0]);
    let diff = server.get(&format!("/api/lake/diff?from={start}&to={next}"));
    assert_eq!((&diff["functions"], &diff["module"]["change"]), (&json!([]), &json!("changed")));
    let texts = server.get(&format!("/api/lake/diff/text?from={start}&to={next}"));
    assert_eq!(texts["after"], format!("{}\n", text(&ir["text"])));
    for (path, status) in [
        (format!("/api/lake/states/{}", "0".repeat(40)), 404),
        (format!("/api/lake/states/{}/path", "0".repeat(40)), 404),
        (format!("/api/lake/states/{}/ir", "0".repeat(40)), 404),
        ("/api/lake/states/x".to_owned(), 400),
        (format!("/api/lake/states/{start}/neighbours?direction=up"), 400),
        (format!("/api/lake/diff?from={start}"), 400),
    ] {
        server.ask(&path).problem(status);
    }
}

#[tokio::test]
async fn the_graph_is_that_of_the_transitions() {
    let (_folder, lake) = lake();
    let server = Explorer::toy(&lake, &[]);
    let graph = server.get("/api/lake/graph");
    let states = list(&graph["states"]);
    let edges = &graph["edges"];
    let mut shown: Vec<String> = (0..list(&edges["from"]).len())
        .map(|at| {
            let place = |end: &str| usize::try_from(edges[end][at].as_u64().unwrap()).unwrap();
            let state = |end: &str| text(&states[place(end)]);
            format!("{} | {} | {}", state("from"), edges["action"][at], state("to"))
        })
        .collect();
    shown.sort();
    let moves = "SELECT hex(state_id), action, hex(next_state_id) FROM state_transitions \
                 WHERE state_id <> next_state_id ORDER BY 1, 2, 3";
    let mut wanted = embedded(&lake, moves).await;
    wanted.sort();
    assert_eq!(shown, wanted);
    assert_eq!((&graph["is_cut"], &graph["cost_name"]), (&json!(false), &json!("Cost")));
    assert_eq!(list(&graph["starts"]).len(), 3);
    assert_eq!(graph["action_names"][7], "invert");
    let costs: BTreeMap<String, String> =
        embedded(&lake, "SELECT hex(state_id), CAST(Cost AS DOUBLE) FROM observations")
            .await
            .iter()
            .map(|row| row.split_once(" | ").unwrap())
            .map(|(state, cost)| (state.to_owned(), cost.to_owned()))
            .collect();
    for (state, cost) in states.iter().zip(list(&graph["costs"])) {
        assert_eq!(costs[text(state)], cost.to_string());
    }
    let own = server.get("/api/lake/graph?benchmark=generator://toy-v0/1");
    let reached = "SELECT count(*) FROM sequences() WHERE benchmark_uri = 'generator://toy-v0/1'";
    let reached: usize = embedded(&lake, reached).await[0].parse().unwrap();
    assert_eq!((list(&own["states"]).len(), &own["starts"]), (reached, &json!([0])));
    let few = server.get("/api/lake/graph?limit=10");
    assert_eq!((list(&few["states"]).len(), &few["is_cut"]), (10, &json!(true)));
    server.ask("/api/lake/graph?benchmark=generator://toy-v0/99").problem(404);
}

#[tokio::test]
async fn the_best_and_the_frontier_are_those_of_the_queries() {
    let (_folder, lake) = lake();
    let server = Explorer::toy(&lake, &[]);
    let best = server.get("/api/lake/best");
    let wanted = embedded(
        &lake,
        "SELECT benchmark_uri, best_cost, steps, hex(best_state_id) FROM best_sequences('Cost')",
    );
    let mut told: Vec<String> = list(&best)
        .iter()
        .map(|row| {
            let states = list(&row["states"]);
            assert_eq!(list(&row["actions"]).len() + 1, states.len());
            format!(
                "{} | {} | {} | {}",
                text(&row["benchmark"]),
                row["best_cost"].as_f64().unwrap(),
                states.len() - 1,
                text(states.last().unwrap())
            )
        })
        .collect();
    told.sort();
    assert_eq!(told, wanted.await);
    let frontier = server.get("/api/lake/frontier?benchmark=generator://toy-v0/1&limit=5");
    assert_eq!(list(&frontier).len(), 5);
    let all = server.get("/api/lake/frontier");
    assert!(list(&frontier).iter().all(|row| list(&all).contains(row)), "{frontier} {all}");
    let costs: Vec<f64> = list(&frontier).iter().map(|row| row["cost"].as_f64().unwrap()).collect();
    assert!(costs.is_sorted(), "{costs:?}");
    for row in list(&frontier) {
        assert!(row["untried"].as_u64() > Some(0) && row["cost_name"] == "Cost", "{row}");
        let id = text(&row["state_id"]);
        let state = server.get(&format!("/api/lake/states/{id}"));
        let untried =
            state["actions_total"].as_u64().unwrap() - state["actions_tried"].as_u64().unwrap();
        assert_eq!(row["untried"].as_u64(), Some(untried));
    }
}

#[tokio::test]
async fn questions_are_answered_as_rows() {
    let (_folder, lake) = lake();
    let server = Explorer::toy(&lake, &[]);
    let ask = |body: Value| server.post("/api/lake/query", &body);
    let answer = ask(json!({
        "sql": "SELECT 1 AS n, 'a' AS a, NULL AS x, [1, 2] AS l, 0.5 AS f, \
                state('00000000000000000000000000000000000000ff') AS s"
    }));
    let state = format!("{}ff", "0".repeat(38));
    assert_eq!(answer["rows"], json!([[1, "a", null, [1, 2], 0.5, state]]));
    assert_eq!(answer["columns"][0], json!({ "name": "n", "type": "Int64" }));
    let cut = ask(json!({ "sql": "SELECT value FROM generate_series(1, 5000)", "limit": 3 }));
    assert_eq!((&cut["rows"], &cut["is_cut"]), (&json!([[1], [2], [3]]), &json!(true)));
    // JavaScript would round these as numbers.
    let large = ask(json!({
        "sql": "SELECT -9007199254740992 AS a, 9007199254740993 AS b, -9223372036854775807 AS c, \
                CAST(18446744073709551615 AS BIGINT UNSIGNED) AS d, CAST(NULL AS BIGINT) AS e, \
                [7, 9007199254740995] AS f, CAST('0.1234567890123456789' AS DECIMAL(20, 19)) AS g, \
                CAST(1.25 AS DECIMAL(9, 3)) AS h, \
                arrow_cast(9007199254740997, 'Dictionary(Int32, Int64)') AS i"
    }));
    let exact = json!([[
        -9_007_199_254_740_992_i64,
        "9007199254740993",
        "-9223372036854775807",
        "18446744073709551615",
        null,
        [7, "9007199254740995"],
        "0.1234567890123456789",
        1.25,
        "9007199254740997"
    ]]);
    assert_eq!(large["rows"], exact);
    let none = ask(json!({ "sql": "SELECT * FROM steps WHERE 1 = 0" }));
    assert_eq!((&none["rows"], &none["is_cut"]), (&json!([]), &json!(false)));
    let queries = server.get("/api/lake/queries");
    let named = |name: &str| list(&queries).iter().find(|query| query["name"] == name).unwrap();
    let frontier = named("frontier");
    assert_eq!(frontier["topic"], "states");
    assert_eq!(frontier["parameters"][0]["default"], "CostNorm", "the one of this lake");
    assert_eq!(named("advantage")["parameters"][0]["default"], Value::Null);
    // Named queries run with their parameters, and so does the text that comes back.
    let start =
        sql(&server, "SELECT initial_state_id FROM benchmarks ORDER BY benchmark_uri LIMIT 1");
    let parameters = json!({ "state": start[0][0], "gamma": "0.9" });
    let advantage = ask(json!({ "name": "advantage", "parameters": parameters }));
    assert!(!list(&advantage["rows"]).is_empty());
    assert_eq!(ask(json!({ "sql": advantage["sql"] }))["rows"], advantage["rows"]);
    for (wrong, status, told) in [
        (json!({ "sql": "SELECT nothing FROM steps" }), 400, "nothing"),
        (json!({ "sql": "DROP TABLE steps" }), 400, "only reads"),
        (json!({ "sql": "COPY steps TO 'x.csv'" }), 400, "only reads"),
        (json!({ "name": "nothing" }), 400, "no query called"),
        (json!({ "name": "advantage" }), 400, "`state` must be given"),
        (json!({}), 400, "send either"),
    ] {
        let problem = server.try_post("/api/lake/query", &wrong).problem(status);
        assert!(problem.contains(told), "{problem}");
    }
}

#[test]
fn a_query_has_limits() {
    let (_folder, lake) = lake();
    let server = Explorer::toy(&lake, &["--query-timeout", "200ms", "--query-memory", "1MiB"]);
    let endless = json!({ "sql": "SELECT count(*) FROM generate_series(1, 900000000000000)" });
    let told = server.try_post("/api/lake/query", &endless).problem(504);
    assert!(told.contains("took longer than"), "{told}");
    assert_eq!(sql(&server, "SELECT 1"), json!([[1]]));
}

#[test]
fn a_growing_lake_is_followed() {
    let folder = tempfile::tempdir().unwrap();
    let lake = folder.path().join("lake");
    let server = Explorer::toy(&lake, &[]);
    assert_eq!(server.get("/api/describe")["lake"], Value::Null);
    assert!(server.ask("/api/lake/benchmarks").problem(404).contains("there is no lake"));
    // Hot rows are seen, though no dedup has counted them.
    record_hot(&lake, 7);
    let hot = server.get("/api/describe")["lake"].take();
    assert_eq!((&hot["transitions"], &hot["is_derived_current"]), (&json!(0), &json!(false)));
    let steps = hot["steps"].as_u64().unwrap();
    assert!(server.ask("/api/lake/graph").problem(409).contains("steplake dedup"));
    let state = sql(&server, "SELECT state_id FROM steps WHERE step_index = 4 LIMIT 1");
    let path = server.get(&format!("/api/lake/states/{}/path", text(&state[0][0])));
    assert!(!list(&path["states"]).is_empty(), "{path}");
    let state = server.get(&format!("/api/lake/states/{}", text(&state[0][0])));
    assert_eq!((&state["out_degree"], &state["has_ir"]), (&Value::Null, &json!(true)));
    assert!(text(&state["benchmark"]).starts_with("generator://toy-v0/"), "{state}");
    record(&lake, 8);
    let sealed = server.get("/api/describe")["lake"].take();
    assert_eq!(sealed["is_derived_current"], true);
    assert!(sealed["steps"].as_u64() > Some(steps) && sealed["snapshot"].as_i64() > Some(1));
    assert!(!list(&server.get("/api/lake/graph")["states"]).is_empty());
    let pinned = Explorer::toy(&lake, &["--snapshot", "2"]);
    record(&lake, 9);
    let newest = server.get("/api/describe")["lake"]["steps"].as_u64();
    assert!(pinned.get("/api/describe")["lake"]["steps"].as_u64() < newest);
}

/// Records an episode, and a fork of it, which begins at a later state than the program. Returns a
/// state that only the fork has.
fn record_fork(path: &Path) -> StateId {
    let environment = ToyEnvironment::default();
    let spec = environment.spec();
    let identity = identity(spec, &spec.action_spaces[0], &SpaceChoice::default()).unwrap();
    let mut writer = Lake::open_or_create(path, &identity).unwrap().writer().unwrap();
    let run = writer.begin_run("{}", 0).unwrap();
    let options = RecordingOptions { seal: false, ..RecordingOptions::default() };
    let recording = Recording::begin(writer, spec, run, &options).unwrap();
    let mut session = recording.recorder(environment.session().unwrap());
    let start = Start {
        benchmark: &toy::benchmark(1),
        action_space: toy::NAME,
        baselines: None,
        watch: &Watch::default(),
    };
    let mut known = vec![session.start(&start).unwrap().state];
    let changed = |session: &mut dyn Session, known: &[StateId]| {
        let steps = (0..8).map(|action| session.apply(ActionIndex(action)).unwrap());
        let mut states = steps.filter_map(|step| step.outcome.state());
        states.find(|state| !known.contains(state)).unwrap()
    };
    known.push(changed(&mut session, &known));
    let mut fork = session.fork().unwrap();
    let state = changed(fork.as_mut(), &known);
    drop((fork, session));
    let mut writer = recording.close().unwrap();
    writer.finish_run(run).unwrap();
    state
}

#[test]
fn a_way_begins_at_the_program_also_where_only_a_fork_leads() {
    let folder = tempfile::tempdir().unwrap();
    let lake = folder.path().join("lake");
    let state = record_fork(&lake);
    let server = Explorer::toy(&lake, &[]);
    let path = format!("/api/lake/states/{state}/path");
    let told = server.ask(&path).problem(409);
    assert!(told.contains("steplake dedup"), "{told}");
    // Dedup joins the fork with the episode that it came from.
    let opened = Lake::open(&lake).unwrap();
    opened.writer().unwrap().seal().unwrap();
    let mut maintenance = opened.maintenance().unwrap();
    dedup(&mut maintenance, DedupOptions::default(), &mut to_the_end).unwrap();
    let path = server.get(&path);
    let actions: Vec<&Value> = list(&path["actions"]).iter().map(|one| &one["index"]).collect();
    let live = json!({ "benchmark": path["benchmark"], "actions": actions });
    let live = server.post("/api/sessions", &live);
    assert_eq!(list(&live["nodes"]).last().unwrap()["state_id"], json!(state.to_string()));
    // How deep the fork's own state is, its steps do not say.
    let frontier = server.get("/api/lake/frontier");
    let depth = |id: &str| {
        let row = list(&frontier).iter().find(|row| row["state_id"] == id);
        row.map(|row| row["depth"].clone())
    };
    assert_eq!(depth(&state.to_string()), Some(Value::Null));
    let first = server.get("/api/lake/benchmarks")[0]["first_state"].take();
    assert_eq!(depth(text(&first)), Some(json!(0)));
}

#[test]
fn the_progress_of_a_recording_is_told() {
    let (_folder, lake) = lake();
    let server = Explorer::toy(&lake, &[]);
    let told = server.get("/api/lake/progress");
    let run = &told["runs"][0];
    assert_eq!((&run["run_id"], &run["is_complete"]), (&json!(1), &json!(true)));
    assert_eq!((&run["episodes"], &run["is_writing"]), (&json!(30), &json!(false)));
    let total = &list(&told["recent"])[0];
    assert_eq!((&run["steps"], &run["states"]), (&total["steps"], &total["states"]));
    // A run that begins now, of somebody who has the right to write.
    let mut writer = Lake::open(&lake).unwrap().writer().unwrap();
    let arguments =
        json!({ "policy": "random", "seed": 9_007_199_254_740_993_u64, "stop": { "episodes": 9 } });
    writer.begin_run(&arguments.to_string(), 1_700_000_000_500).unwrap();
    let told = server.get("/api/lake/progress");
    let run = &told["runs"][1];
    assert_eq!((&run["policy"], &run["seed"]), (&json!("random"), &json!("9007199254740993")));
    assert_eq!((&run["is_complete"], &run["is_writing"]), (&json!(false), &json!(true)));
    assert_eq!((&run["started_at"], &run["steps"]), (&json!(1_700_000_000.5), &json!(0)));
    assert_eq!(run["stop"], json!({ "episodes": 9 }));
    assert_eq!(told["runs"][0]["is_writing"], false);
    drop(writer);
    assert_eq!(server.get("/api/lake/progress")["runs"][1]["is_writing"], false);
}
