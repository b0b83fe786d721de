//! Spaces that a later run appends: older rows have null there, and everything else still works.

use arrow::array::{Array, AsArray as _};
use steplake::lake::{Lake, LakeError, RecordedReward, ScanColumns, Table};

use crate::fixtures::programs::InTime as _;
use crate::fixtures::support::{copy_folder, err, fail, run, steplake};
use crate::fixtures::toy_lake::identity;

const TOY: [&str; 7] =
    ["generate", "--env", "toy-v0", "--benchmark", "generator://toy-v0/0..3", "--episodes", "6"];

fn toy(lake: &std::path::Path, more: &[&str]) {
    run(lake, &[&TOY, more].concat());
}

fn answer(lake: &std::path::Path, sql: &str) -> String {
    run(lake, &["sql", sql, "--format", "csv"]).lines().skip(1).collect::<Vec<_>>().join("; ")
}

/// A lake that had `Cost` alone, and got all other spaces by a second run.
fn grown(folder: &tempfile::TempDir) -> std::path::PathBuf {
    let lake = folder.path().join("lake");
    toy(&lake, &["--observe", "Cost", "--rewards", "Cost"]);
    run(&lake, &["dedup"]);
    toy(&lake, &["--observe", "Bits,Number,Cost", "--rewards", "CostOz", "--seed", "7"]);
    lake
}

#[test]
fn older_rows_have_null_in_new_columns() {
    let folder = tempfile::tempdir().unwrap();
    let lake = grown(&folder);
    for sealed in [false, true] {
        if sealed {
            run(&lake, &["seal"]);
        }
        let of_run = |run: u32| {
            let sql = format!(
                "SELECT count(s.\"reward_Cost\"), count(s.\"reward_CostOz\") FROM steps AS s JOIN \
                 episodes AS e ON e.episode_id = s.episode_id WHERE e.run_id = {run} AND s.action \
                 IS NOT NULL AND s.state_id IS NOT NULL"
            );
            answer(&lake, &sql)
        };
        assert!(of_run(1).ends_with(",0") && !of_run(1).starts_with('0'), "{}", of_run(1));
        assert!(of_run(2).starts_with("0,") && !of_run(2).ends_with(",0"), "{}", of_run(2));
        let seen = answer(
            &lake,
            "SELECT count(*) = count(\"Cost\"), count(\"Bits\") = count(\"Number\"), \
             count(\"Bits\") BETWEEN 1 AND count(*) - 1 FROM observations",
        );
        assert_eq!(seen, "true,true,true");
    }
    run(&lake, &["verify"]);
    assert!(
        run(&lake, &["sql", "SELECT feature(\"Bits\", 'bit0') FROM observations"]).contains('1')
    );
}

#[test]
fn derived_tables_take_the_rewards_that_their_first_step_has() {
    let folder = tempfile::tempdir().unwrap();
    let lake = grown(&folder);
    run(&lake, &["dedup"]);
    let by_layers = answer(&lake, "SELECT * FROM state_transitions ORDER BY state_id, action");
    run(&lake, &["dedup", "--full"]);
    let whole = answer(&lake, "SELECT * FROM state_transitions ORDER BY state_id, action");
    assert_eq!(by_layers, whole);
    let either = "SELECT count(*) FILTER (WHERE (\"reward_Cost\" IS NULL) = (\"reward_CostOz\" IS \
                  NULL)), count(\"reward_CostOz\") > 0 FROM state_transitions";
    assert_eq!(answer(&lake, either), "0,true");
}

#[test]
fn older_snapshots_and_open_lakes_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lake");
    toy(&path, &["--observe", "Cost", "--rewards", "Cost"]);
    run(&path, &["seal"]);
    let opened = Lake::open(&path).unwrap();
    let before = opened.snapshot().unwrap();
    toy(&path, &["--observe", "Bits", "--seed", "7"]);
    run(&path, &["seal"]);
    assert!(before.schema(Table::Observations).field_with_name("Bits").is_err());
    let rows = before.scan(Table::Observations, ScanColumns::All).map(|batch| batch.unwrap());
    assert_eq!(
        rows.map(|batch| batch.num_rows() as u64).sum::<u64>(),
        before.rows(Table::Observations)
    );
    let now = opened.snapshot().unwrap();
    assert!(now.schema(Table::Observations).field_with_name("Bits").is_ok());
    let older = opened.snapshot_at(before.id()).unwrap();
    for batch in older.scan(Table::Observations, ScanColumns::Named(&["Bits"])) {
        let batch = batch.unwrap();
        assert_eq!(batch["Bits"].as_list::<i32>().null_count(), batch.num_rows());
    }
}

#[test]
fn lakes_with_different_spaces_are_merged_into_one_with_all() {
    let folder = tempfile::tempdir().unwrap();
    let [one, other, merged] = ["one", "other", "merged"].map(|name| folder.path().join(name));
    toy(&one, &["--observe", "Cost", "--rewards", "Cost"]);
    toy(&other, &["--observe", "Bits,Cost", "--rewards", "CostOz,Cost"]);
    let paths = [&one, &other].map(|path| path.to_str().unwrap());
    run(&merged, &["merge", paths[0], paths[1], "--into", merged.to_str().unwrap()]);
    run(&merged, &["verify"]);
    // Both have seen the same states: the fuller row is taken.
    let seen = "SELECT count(*) = count(\"Bits\"), count(*) = count(\"Cost\") FROM observations";
    assert_eq!(answer(&merged, seen), "true,true");
    let rewards = "SELECT count(*) FILTER (WHERE \"reward_Cost\" IS NULL), count(*) FILTER (WHERE \
                   \"reward_CostOz\" IS NULL) > 0 FROM steps WHERE action IS NOT NULL AND state_id IS \
                   NOT NULL";
    assert_eq!(answer(&merged, rewards), "0,true");
}

#[test]
fn no_value_is_lost_when_lakes_that_recorded_different_spaces_are_merged() {
    let folder = tempfile::tempdir().unwrap();
    let [one, other] = ["one", "other"].map(|name| folder.path().join(name));
    toy(&one, &["--observe", "Cost", "--rewards", "Cost"]);
    toy(&other, &["--observe", "Bits", "--rewards", "CostOz"]);
    let paths = [&one, &other].map(|path| path.to_str().unwrap());
    let answers = [[0, 1], [1, 0]].map(|[first, second]| {
        let merged = folder.path().join(format!("{first}-{second}"));
        let into = merged.to_str().unwrap();
        run(&merged, &["merge", paths[first], paths[second], "--into", into]);
        run(&merged, &["verify"]);
        let seen = "SELECT count(*) = count(\"Bits\"), count(*) = count(\"Cost\"), count(*) > 0 \
                    FROM observations";
        assert_eq!(answer(&merged, seen), "true,true,true");
        let observations = "SELECT * FROM observations ORDER BY state_key";
        run(&merged, &["sql", observations, "--format", "csv"])
    });
    assert_eq!(answers[0], answers[1]);
}

#[test]
fn a_lost_database_of_a_grown_lake_is_restored() {
    let folder = tempfile::tempdir().unwrap();
    let lake = grown(&folder);
    run(&lake, &["seal"]);
    let steps = "SELECT count(*), count(\"reward_Cost\"), count(\"reward_CostOz\") FROM steps";
    let before = answer(&lake, steps);
    let copy = folder.path().join("copy");
    copy_folder(&lake, &copy);
    std::fs::remove_file(copy.join("hot.sqlite")).unwrap();
    // Repairs end with exit code 1: something was damaged.
    let done = steplake(&copy).args(["verify", "--repair"]).output_in_time();
    assert_eq!(answer(&copy, steps), before, "{}", err(&done));
}

#[test]
fn a_space_is_not_redefined() {
    let folder = tempfile::tempdir().unwrap();
    let lake = Lake::create(folder.path().join("lake"), &identity()).unwrap();
    let mut other = identity();
    other.rewards = vec![RecordedReward::new("Size", "Time")];
    let error = Lake::open_or_create(lake.path(), &other).unwrap_err();
    assert!(matches!(error, LakeError::OtherIdentity { .. }), "{error}");
    other.rewards = vec![RecordedReward::new("Time", "Time")];
    let writer = lake.writer().unwrap();
    let error = Lake::open_or_create(lake.path(), &other).unwrap_err();
    assert!(matches!(error, LakeError::Busy { .. }), "{error}");
    drop(writer);
    let grown = Lake::open_or_create(lake.path(), &other).unwrap();
    assert_eq!(grown.identity().rewards.len(), 3);
    let (code, said) = fail(lake.path(), &["generate", "--env", "toy-v0", "--steps", "1"]);
    assert_eq!(code, 2, "{said}");
}

#[test]
fn every_action_of_steps_has_a_row_in_the_file_of_actions() {
    let folder = tempfile::tempdir().unwrap();
    let lake = folder.path().join("lake");
    toy(&lake, &[]);
    let file = std::fs::read_dir(lake.join("current/actions")).unwrap().next().unwrap().unwrap();
    let file = std::fs::File::open(file.path()).unwrap();
    let reader =
        parquet::arrow::arrow_reader::ParquetRecordBatchReader::try_new(file, 4096).unwrap();
    let names = reader.flat_map(|batch| {
        let batch = batch.unwrap();
        let names = batch["name"].as_string::<i32>().iter().map(|name| name.unwrap().to_owned());
        names.collect::<Vec<_>>()
    });
    let names = names.collect::<Vec<_>>().join("; ");
    assert_eq!(names, answer(&lake, "SELECT name FROM actions ORDER BY action"));
    assert_eq!(
        answer(&lake, "SELECT max(a.action) >= max(s.action) FROM actions AS a, steps AS s"),
        "true"
    );
}

#[test]
fn an_older_lake_json_costs_no_rows() {
    let folder = tempfile::tempdir().unwrap();
    let lake = folder.path().join("lake");
    toy(&lake, &["--observe", "Cost", "--rewards", "Cost"]);
    let file = lake.join("lake.json");
    let older = std::fs::read(&file).unwrap();
    toy(&lake, &["--observe", "Bits,Number,Cost", "--rewards", "CostOz", "--seed", "7"]);
    let rows = "SELECT count(*), count(\"reward_CostOz\") FROM steps";
    let before = answer(&lake, rows);
    for sealed in [false, true] {
        if sealed {
            run(&lake, &["seal"]);
        }
        let newer = std::fs::read(&file).unwrap();
        std::fs::write(&file, &older).unwrap();
        let (_, said) = fail(&lake, &["verify", "--repair"]);
        assert!(said.contains("lake.json") && said.contains("put back"), "{said}");
        fail(&lake, &["verify"]);
        std::fs::write(&file, newer).unwrap();
        assert_eq!(answer(&lake, rows), before);
        run(&lake, &["verify"]);
    }
}
