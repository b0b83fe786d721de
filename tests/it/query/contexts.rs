//! A lake of many contexts: recorded in turns, queried across, and merged from pieces.
#![expect(clippy::unwrap_used, reason = "in a test a panic is the report")]

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::fixtures::support::{fail, run};

const HUFFMAN: &str = "benchmark://steplake-v0/huffman";
const LLVM: [&str; 6] = ["--benchmark", HUFFMAN, "--episode-length", "5", "--ir", "all"];

/// What is recorded into each context, in turns.
fn runs() -> [(&'static str, Vec<&'static str>); 4] {
    let space = ["--action-space", "llvm22-pipelines-v0"];
    [
        ("llvm-v0", LLVM.to_vec()),
        ("llvm-v0-llvm22-pipelines-v0", [&LLVM[..], &space].concat()),
        ("gcc-v0", vec!["--env", "gcc-v0", "--benchmark", HUFFMAN, "--episode-length", "3"]),
        ("loops-v0", vec!["--env", "loops-v0", "-b", "benchmark://loops-v0/add-24"]),
    ]
}

fn record(lake: &Path, arguments: &[&str], seed: &str) {
    let more = ["--episodes", "2", "--seed", seed, "--audit", "0"];
    run(lake, &[&["generate"], arguments, &more].concat());
}

/// A lake of four contexts, of which each was recorded into twice, in turns.
fn lake() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let lake = folder.path().join("lake");
    for seed in ["1", "2"] {
        for (_, arguments) in runs() {
            record(&lake, &arguments, seed);
        }
    }
    (folder, lake)
}

fn csv(lake: &Path, context: Option<&str>, sql: &str) -> String {
    let mut arguments = vec!["sql", "--format", "csv", sql];
    arguments.extend(context.iter().flat_map(|name| ["--context", name]));
    run(lake, &arguments)
}

/// The names of the contexts, and the rows of `steps` of each.
fn contexts(lake: &Path) -> Vec<(String, u64)> {
    let listed = run(lake, &["contexts", "--format", "json"]);
    let listed: Vec<Value> = serde_json::from_str(&listed).unwrap();
    let listed = listed.iter();
    let of = |context: &Value| {
        (
            context["context"].as_str().unwrap().to_owned(),
            context["rows"]["steps"].as_u64().unwrap(),
        )
    };
    listed.map(of).collect()
}

#[test]
fn runs_of_other_compilers_and_spaces_are_recorded_in_turns_and_queried_across() {
    let (_folder, lake) = lake();
    let known = contexts(&lake);
    let names: Vec<&str> = known.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["llvm-v0", "gcc-v0", "llvm-v0-llvm22-pipelines-v0", "loops-v0"]);
    let counted =
        csv(&lake, None, "SELECT context, count(*) AS n FROM steps GROUP BY 1 ORDER BY 1");
    let mut sorted = known.clone();
    sorted.sort();
    let wanted = sorted.iter().map(|(name, rows)| format!("{name},{rows}\n"));
    assert_eq!(counted, format!("context,n\n{}", wanted.collect::<String>()));
    for (name, rows) in &known {
        assert!(*rows > 6, "{name}: {rows}");
        let alone = csv(&lake, Some(name), "SELECT count(*) AS n FROM steps");
        assert_eq!(alone, format!("n\n{rows}\n"), "{name}");
        let schema = csv(&lake, None, &format!("SELECT count(*) AS n FROM \"{name}\".steps"));
        assert_eq!(schema, alone, "{name}");
        // Each was recorded into twice.
        let runs = format!("SELECT count(*) AS n FROM runs WHERE context = '{name}'");
        assert_eq!(csv(&lake, None, &runs), "n\n2\n", "{name}");
    }
    // A column of one environment is null in the rows of another.
    let sizes = "SELECT context FROM observations GROUP BY 1 \
                 HAVING count(\"IrInstructionCount\") > 0 ORDER BY 1";
    assert_eq!(csv(&lake, None, sizes), "context\nllvm-v0\nllvm-v0-llvm22-pipelines-v0\n");
    // One state, whichever actions were taken in it.
    let first = "SELECT count(DISTINCT context) AS n FROM steps WHERE state_id = \
                 (SELECT state_id FROM \"llvm-v0\".steps WHERE step_index = 0 LIMIT 1)";
    assert_eq!(csv(&lake, None, first), "n\n2\n");
    let plan = csv(&lake, None, "EXPLAIN SELECT count(*) FROM steps WHERE context = 'gcc-v0'");
    assert!(!plan.contains("llvm-v0"), "the other contexts are not read: {plan}");
}

#[test]
fn dedup_counts_each_context_and_functions_name_theirs() {
    let (_folder, lake) = lake();
    run(&lake, &["dedup", "--context", "gcc-v0"]);
    let counted = "SELECT count(*) > 0 AS counted FROM state_transitions";
    let gcc = format!("{counted} WHERE context = 'gcc-v0'");
    assert_eq!(csv(&lake, None, &gcc), "counted\ntrue\n");
    let (code, said) = fail(&lake, &["sql", counted]);
    assert!(code == 3 && said.contains("steplake dedup"), "{code}: {said}");
    let said = run(&lake, &["dedup"]);
    for (name, _) in contexts(&lake) {
        assert!(said.contains(&format!("{name}:\n")), "{said}");
        let alone = csv(&lake, Some(&name), counted);
        assert_eq!(alone, "counted\ntrue\n", "{name}");
        let names = "SELECT DISTINCT action_name(action) AS a FROM steps ORDER BY a";
        let both = format!(
            "SELECT DISTINCT action_name(context, action) AS a FROM steps \
             WHERE context = '{name}' ORDER BY a"
        );
        assert_eq!(csv(&lake, None, &both), csv(&lake, Some(&name), names), "{name}");
        let walked = csv(&lake, Some(&name), "SELECT count(*) AS n FROM sequences()");
        let of_it = format!("SELECT count(*) AS n FROM sequences('{name}')");
        assert_eq!(csv(&lake, None, &of_it), walked, "{name}");
    }
    let (code, said) = fail(&lake, &["sql", "SELECT * FROM sequences('clang-v0')"]);
    assert!(code == 2 && said.contains("there is no context `clang-v0`"), "{code}: {said}");
    let (code, said) = fail(&lake, &["query", "noop_rate"]);
    assert!(code == 2 && said.contains("works on one context"), "{code}: {said}");
    assert!(said.contains("--context"), "{said}");
    run(&lake, &["query", "noop_rate", "--context", "loops-v0"]);
    let shown = "SELECT ir(state_id) LIKE '%define%' AS shown FROM \"llvm-v0\".steps LIMIT 1";
    assert_eq!(csv(&lake, None, shown), "shown\ntrue\n");
    assert!(run(&lake, &["verify"]).contains("loops-v0:\n"));
    let agreeing = run(&lake, &["contexts", "--replay", "5", "--format", "json"]);
    let agreeing: Vec<Value> = serde_json::from_str(&agreeing).unwrap();
    for context in agreeing {
        let played = &context["replayed"];
        assert_eq!(played["agreeing"], played["transitions"], "{context}");
        let of_llvm = context["environment"] == "llvm-v0";
        assert!(!of_llvm || played["transitions"].as_u64() > Some(0), "{context}");
    }
}

#[test]
fn pieces_of_other_contexts_are_merged_into_one_lake() {
    let (folder, whole) = lake();
    let pieces: Vec<PathBuf> = (0..4).map(|at| folder.path().join(format!("piece-{at}"))).collect();
    for (piece, (_, arguments)) in pieces.iter().zip(runs()) {
        record(piece, &arguments, "1");
    }
    let both = folder.path().join("both");
    record(&both, &runs()[0].1, "2");
    record(&both, &runs()[3].1, "2");
    let into = folder.path().join("merged");
    let mut arguments = vec!["merge", "--into", into.to_str().unwrap()];
    arguments.extend(pieces.iter().map(|piece| piece.to_str().unwrap()));
    arguments.push(both.to_str().unwrap());
    let said = run(Path::new("unused"), &arguments);
    assert!(said.contains("gcc-v0: merged 1 lake into"), "{said}");
    let order = |mut known: Vec<(String, u64)>| {
        known.sort();
        known
    };
    let (merged, recorded) = (order(contexts(&into)), order(contexts(&whole)));
    let names = |known: &[(String, u64)]| known.iter().map(|one| one.0.clone()).collect::<Vec<_>>();
    assert_eq!(names(&merged), names(&recorded));
    for ((name, merged), (_, recorded)) in merged.iter().zip(&recorded) {
        let is_whole = ["llvm-v0", "loops-v0"].contains(&name.as_str());
        assert!(if is_whole { merged == recorded } else { merged < recorded }, "{name}");
    }
    assert!(!folder.path().join(".merged.merging").exists());
    run(&into, &["verify"]);
    // It is recorded into as any other.
    record(&into, &runs()[2].1, "3");
    assert_eq!(contexts(&into).len(), 4);
}

#[test]
fn a_context_is_named_in_full() {
    let (_folder, lake) = lake();
    let (code, said) = fail(&lake, &["sql", "--context", "gcc", "SELECT 1"]);
    assert!(code == 2 && said.contains("no context `gcc`: did you mean `gcc-v0`"), "{said}");
    for arguments in [
        &["export", "--output", "x.csv"][..],
        &["snapshots"],
        &["retract", "--run", "1", "--reason", "x"],
    ] {
        let (code, said) = fail(&lake, arguments);
        assert!(code == 2 && said.contains("works on one context"), "{arguments:?}: {said}");
    }
    assert!(run(&lake, &["snapshots", "--context", "llvm-v0"]).contains("seal"));
    let info = run(&lake, &["info", "--format", "json"]);
    let info: Value = serde_json::from_str(&info).unwrap();
    assert_eq!(info["contexts"]["gcc-v0"]["environment"], "gcc-v0");
    // A context alone is a lake.
    let gcc = lake.join("contexts").join("gcc-v0");
    assert_eq!(csv(&gcc, None, "SELECT count(*) AS n FROM runs"), "n\n2\n");
}
