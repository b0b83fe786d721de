//! Program graphs as a column: in hot rows and sealed ones, in SQL, and merged with states that
//! have none.

use std::path::Path;

use arrow::array::{Array, AsArray as _};
use steplake::lake::{Lake, ScanColumns, Table};

use crate::fixtures::support::{cells, run};

fn generate(lake: &Path, observed: &str, seed: &str) {
    let programs = ["huffman", "introsort"].map(|name| format!("benchmark://steplake-v0/{name}"));
    let [first, second] = programs.each_ref().map(String::as_str);
    let run_of = ["generate", "--benchmark", first, "--benchmark", second, "--episodes", "4"];
    let more = ["--episode-length", "12", "--ir", "keyframes=8", "--jobs", "2"];
    run(lake, &[&run_of[..], &more, &["--observe", observed, "--seed", seed]].concat());
}

fn answer(lake: &Path, sql: &str) -> String {
    run(lake, &["sql", sql, "--format", "csv"]).lines().skip(1).collect::<Vec<_>>().join("; ")
}

fn graphs(lake: &Path) -> Vec<String> {
    cells(lake, Table::Observations, |name| ["state_id", "Programl"].contains(&name))
}

#[test]
fn a_run_records_the_graph_of_each_state() {
    let folder = tempfile::tempdir().unwrap();
    let [lake, again] = ["lake", "again"].map(|name| folder.path().join(name));
    generate(&lake, "IrInstructionCount,Programl", "0");
    // The rows of a run's end are hot until something seals them.
    let hot = graphs(&lake);
    let instructions = "SELECT count(*) > 10, count(*) FILTER (WHERE instructions = \
        \"IrInstructionCount\") = count(*) FROM (SELECT \"IrInstructionCount\", cardinality( \
        array_remove_all(\"Programl\"['node_type'], 1)) - cardinality(array_remove_all( \
        array_remove_all(\"Programl\"['node_type'], 1), 0)) - 1 - cardinality( \
        array_positions(\"Programl\"['node_text'], '; undefined function')) AS instructions \
        FROM observations)";
    assert_eq!(answer(&lake, instructions), "true,true");
    run(&lake, &["seal"]);
    assert_eq!(graphs(&lake), hot);
    assert_eq!(answer(&lake, instructions), "true,true");
    run(&lake, &["verify"]);
    assert!(run(&lake, &["sql", "DESCRIBE observations"]).contains("Programl"));
    generate(&again, "Programl", "0");
    assert_eq!(graphs(&again), hot, "equal runs have equal graphs");
}

#[test]
fn states_without_a_graph_have_null_beside_those_with_one() {
    let folder = tempfile::tempdir().unwrap();
    let [lake, other, merged] = ["lake", "other", "merged"].map(|name| folder.path().join(name));
    generate(&lake, "IrInstructionCount", "0");
    run(&lake, &["seal"]);
    generate(&lake, "Programl", "1");
    run(&lake, &["seal"]);
    let some = "SELECT count(\"Programl\") BETWEEN 1 AND count(*) - 1 FROM observations";
    assert_eq!(answer(&lake, some), "true");
    generate(&other, "Programl,IrInstructionCount", "0");
    let paths = [&lake, &other].map(|path| path.to_str().unwrap());
    run(&merged, &["merge", paths[0], paths[1], "--into", merged.to_str().unwrap()]);
    run(&merged, &["verify"]);
    let all = "SELECT count(\"Programl\") = count(*) FROM observations";
    assert_eq!(answer(&merged, all), "true", "the graph comes from the lake that has it");
    let snapshot = Lake::open(&merged).unwrap().snapshot().unwrap();
    for batch in snapshot.scan(Table::Observations, ScanColumns::Named(&["Programl"])) {
        let batch = batch.unwrap();
        let graphs = batch["Programl"].as_struct();
        assert_eq!((graphs.num_columns(), graphs.null_count()), (8, 0));
    }
}
