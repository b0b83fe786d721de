//! Compilers that really die, the whole way: LLVM in worker processes under `steplake generate`.

use std::path::Path;

use serde_json::{Value, json};
use steplake::env::Environment;
use steplake::env::llvm::LlvmEnvironment;

use crate::fixtures::support::{assert_same, run};

/// LLVM's scalarizer dies on some of the vector code that llvm-stress makes; on that of `PROGRAM`
/// each time, on others as addresses come out.
const SPACE: &str = "compilergym-v0";
const DEADLY: &str = "-scalarizer";
const PROGRAM: &str = "generator://llvm-stress-v0/1";

fn ask(lake: &Path, sql: &str) -> Vec<Value> {
    serde_json::from_str(&run(lake, &["sql", sql, "--format", "json"])).unwrap()
}

#[test]
fn a_crash_of_llvm_is_recorded_and_the_run_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let lake = folder.path().join("lake");
    let actions = LlvmEnvironment::new().spec().action_space(SPACE).unwrap().actions.len();
    // Episodes of one step that explore: every action once, in the program's first state.
    let episodes = actions.to_string();
    let plan = ["--action-space", SPACE, "--policy", "explore", "--episode-length", "1"];
    let generate = ["generate", "--benchmark", PROGRAM, "--episodes", &episodes];
    let said = run(&lake, &[&generate[..], &plan].concat());
    for command in ["seal", "dedup", "verify"] {
        run(&lake, &[command]);
    }

    let failures = ask(
        &lake,
        "SELECT action_name(f.action) AS name, f.kind, f.detail, f.count, a.crashes \
         FROM failures AS f JOIN actions AS a ON a.action = f.action",
    );
    let crash = json!({
        "name": DEADLY,
        "kind": "crash",
        "detail": format!("SIGSEGV in the action, step 1 on {PROGRAM}"),
        "count": 1,
        "crashes": true,
    });
    assert!(failures.contains(&crash), "{failures:#?}");
    assert!(
        failures.iter().all(|failure| failure["crashes"] == true),
        "a flag lacks: {failures:#?}"
    );
    let count = failures.len();
    assert!(said.contains(&format!(" {actions} episodes, {count} failure")), "{said}");
    let info: Value = serde_json::from_str(&run(&lake, &["info", "--format", "json"])).unwrap();
    assert_eq!(info["tables"]["failures"]["rows"], count);

    let ended = ask(
        &lake,
        "SELECT e.ordinal, e.outcome, e.detail, s.state_id, s.end_of_episode \
         FROM episodes AS e JOIN steps AS s ON s.episode_id = e.episode_id \
         WHERE s.step_index = 1 ORDER BY e.ordinal",
    );
    assert_eq!(ended.len(), actions, "an episode has no step or no row");
    let failed = |episode: &&Value| episode["outcome"] != "complete";
    assert_eq!(ended.iter().filter(failed).count(), count);
    let died = ended.iter().position(|episode| episode["detail"] == crash["detail"]).unwrap();
    assert_eq!(
        (&ended[died]["outcome"], &ended[died]["state_id"]),
        (&json!("crash"), &Value::Null)
    );
    assert_eq!(ended[died]["end_of_episode"], true);
    let after = ended[died + 1..].iter().find(|episode| episode["outcome"] == "complete");
    assert!(after.is_some_and(|episode| episode["state_id"].is_string()), "the run did not go on");
}

#[test]
fn a_crash_amid_a_batch_is_the_same_for_any_number_of_jobs() {
    let folder = tempfile::tempdir().unwrap();
    let lakes = ["1", "2"].map(|jobs| {
        let lake = folder.path().join(jobs);
        let what = ["generate", "--action-space", SPACE, "--benchmark", PROGRAM];
        let much = ["--episodes", "8", "--episode-length", "40", "--seed", "4", "--jobs", jobs];
        run(&lake, &[&what[..], &much].concat());
        run(&lake, &["dedup"]);
        lake
    });
    assert_same(&lakes[0], &lakes[1]);
    let died = ask(
        &lakes[0],
        "SELECT e.ordinal, e.steps, count(s.state_id) AS states, max(s.step_index) AS last \
         FROM episodes AS e JOIN steps AS s ON s.episode_id = e.episode_id \
         WHERE e.outcome = 'crash' GROUP BY 1, 2 ORDER BY 1",
    );
    let number = |episode: &Value, column: &str| episode[column].as_u64().unwrap();
    let amid = |episode: &&Value| number(episode, "steps") > 1 && number(episode, "ordinal") < 7;
    let episode = died.iter().find(amid).unwrap_or_else(|| panic!("nothing died amid: {died:?}"));
    // A state for step 0 and each step but the last.
    let steps = number(episode, "steps");
    assert_eq!((number(episode, "states"), number(episode, "last")), (steps, steps));
    let all = ask(&lakes[0], "SELECT count(*) AS n FROM episodes");
    assert_eq!(all, [json!({ "n": 8 })], "the run did not go on");
}
