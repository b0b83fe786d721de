//! What `info` says to those who read a lake with other tools.

use serde_json::Value;
use steplake::dedup::{DedupOptions, dedup};
use steplake::lake::{Lake, to_the_end};

use super::{folder, toy};
use crate::fixtures::support::run;

fn info(lake: &std::path::Path, more: &[&str]) -> Value {
    let text = run(lake, &[&["info", "--format", "json"], more].concat());
    serde_json::from_str(&text).unwrap()
}

#[test]
fn each_tool_gets_the_line_that_reads_the_lake() {
    let (_folder, lake) = folder();
    toy(&lake, &["--steps", "100", "--no-seal"]);
    assert!(info(&lake, &[])["other_tools"].is_null(), "nothing is sealed yet");
    assert!(!run(&lake, &["info"]).contains("other tools"));
    run(&lake, &["dedup"]);
    let path = lake.canonicalize().unwrap();
    let path = path.display();
    let lines = [
        (
            "duckdb",
            format!(
                "SELECT * FROM read_parquet('{path}/current/steps/*.parquet', union_by_name=true)"
            ),
        ),
        ("polars", format!("pl.scan_delta(\"{path}/data/steps\")")),
        ("pandas", format!("deltalake.DeltaTable(\"{path}/data/steps\").to_pandas()")),
        (
            "spark",
            format!(
                "spark.read.option(\"mergeSchema\", True).parquet(\"file://{path}/current/steps\")"
            ),
        ),
    ];
    let (json, text) = (info(&lake, &[]), run(&lake, &["info"]));
    for (tool, line) in &lines {
        assert_eq!(json["other_tools"]["read_with"][tool], *line);
        assert!(text.ends_with('\n') && text.contains(&format!("\n  {tool:<8}{line}\n")), "{text}");
    }
    assert_eq!(json["other_tools"]["snapshot"], json["snapshot"]);
    let seen = format!("\nother tools see snapshot {}\n", json["snapshot"]);
    assert!(text.contains(&seen), "{text}");
    assert!(info(&lake, &["--snapshot", "1"])["other_tools"].is_null(), "they see the newest");
}

#[test]
fn info_counts_the_rows_that_other_tools_do_not_see() {
    let (_folder, lake) = folder();
    // Only the newest layers may stay by themselves.
    let layers = DedupOptions { one_layer_rows_max: 0, tier: 0, lag: 0, ..DedupOptions::default() };
    let mut rows = Vec::new();
    for seed in ["1", "2", "3"] {
        toy(&lake, &["--steps", "100", "--seed", seed]);
        let opened = Lake::open(&lake).unwrap();
        opened.writer().unwrap().seal().unwrap();
        let report = dedup(&mut opened.maintenance().unwrap(), layers, &mut to_the_end).unwrap();
        rows.push(report.transitions);
    }
    let tools = &info(&lake, &[])["other_tools"];
    let newer = tools["rows_in_newer_layers"].as_u64().unwrap();
    // The oldest layer still has most of its rows.
    assert!(newer > rows[2] - rows[0] && newer < rows[2], "{newer} of {rows:?}");
    assert_eq!(tools["snapshots_behind"], 0);
    let text = run(&lake, &["info"]);
    let behind = format!(
        "without in globs of `state_transitions` {newer} rows of newer layers (its Delta table has them)"
    );
    assert!(text.contains(&behind), "{text}");

    toy(&lake, &["--steps", "10", "--seed", "4", "--no-seal"]);
    let text = run(&lake, &["info"]);
    assert!(
        text.contains("hot rows of steps (`seal`)")
            && text.contains("of steps not counted (`dedup`)"),
        "{text}"
    );

    run(&lake, &["dedup", "--full"]);
    assert_eq!(info(&lake, &[])["other_tools"]["rows_in_newer_layers"], 0);
    // A link that a crash left behind.
    std::fs::remove_file(lake.join("current")).unwrap();
    std::os::unix::fs::symlink("views/1", lake.join("current")).unwrap();
    let tools = &info(&lake, &[])["other_tools"];
    assert_eq!(tools["snapshot"], 1);
    let newest = info(&lake, &[])["snapshot"].as_u64().unwrap();
    assert_eq!(tools["snapshots_behind"], newest - 1);
}
