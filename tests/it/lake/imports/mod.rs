//! Imports of logs of CompilerGym's logger.

mod hostile;
mod written_log;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rusqlite::Connection;
use steplake::dedup::{DedupOptions, dedup};
use steplake::env::{Environment as _, Start, Watch};
use steplake::environments::imports::{COMPILER, TARGET, identity_of_logs};
use steplake::lake::{Disk, Lake, Table, to_the_end};
use steplake::model::{ActionIndex, Benchmark, Provenance};
use steplake::replay::cached::{CachedEnvironment, CachedOptions, recorded_spec};
use steplake::transfer::import::{ImportError, ImportReport, Importer, Reason};

use self::written_log::{WrittenLog, count, state, uri};
use crate::fixtures::power::Power;
use crate::fixtures::programs::InTime as _;
use crate::fixtures::support::{contents, fail, rows, run, scratch, steplake};

fn folder() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let lake = folder.path().join("lake");
    (folder, lake)
}

/// The answer to a statement, as CSV without its head.
fn ask(lake: &Path, sql: &str) -> Vec<String> {
    let csv = run(lake, &["sql", sql, "--format", "csv"]);
    csv.lines().skip(1).map(str::to_owned).collect()
}

/// Imports logs into a lake on a disk.
fn import(disk: Disk, lake: &Path, logs: &[&WrittenLog]) -> Result<Vec<ImportReport>, ImportError> {
    let identity = identity_of_logs(COMPILER, TARGET).unwrap();
    let lake = Lake::open_or_create_on(disk, lake, &identity)?;
    let mut importer = Importer::new(&lake)?;
    let mut reports = Vec::new();
    for log in logs {
        let report;
        (importer, report) = importer.import(&log.path, &mut |_, _| ())?;
        reports.push(report);
    }
    Ok(reports)
}

#[test]
fn a_log_becomes_episodes_in_which_each_row_is_one_step() {
    let (folder, lake) = folder();
    let log = WrittenLog::two_programs(folder.path());
    let said = run(&lake, &["import", log.name()]);
    assert!(
        said.contains(
            "run 1: 2 new benchmarks, 4 episodes (1 of them forks), 8 steps, 7 new states, 1 \
             failure of the compiler\n"
        ) && said.contains("pickled")
            && !said.contains("skipped"),
        "{said}"
    );
    let taken = "SELECT episode_id % 4294967296, step_index, action, \
                 encode(state_id, 'hex'), round(reward_IrInstructionCountOz, 6), end_of_episode \
                 FROM steps ORDER BY episode_id, step_index";
    let step = |episode: u32, index: u32, action: &str, to: u32, reward: &str, end: bool| {
        format!("{episode},{index},{action},{},{reward},{end}", state(to))
    };
    assert_eq!(
        ask(&lake, taken),
        [
            step(0, 0, "", 0, "", false),
            step(0, 1, "31", 1, "0.1", false),
            step(0, 2, "116", 2, "0.1", false),
            step(0, 3, "103", 4, "0.2", false),
            step(1, 0, "", 1, "", false),
            step(1, 1, "7", 1, "0.0", false),
            step(1, 2, "9", 3, "0.2", false),
            "1,3,5,,,true".to_owned(),
            step(2, 0, "", 0, "", false),
            step(2, 1, "4", 2, "0.2", true),
            step(3, 0, "", 5, "", false),
            step(3, 1, "0", 6, "0.1", false),
        ]
    );
    let episodes = "SELECT episode_id % 4294967296, parent_episode_id % 4294967296, \
                    parent_step_index, steps, outcome FROM episodes ORDER BY 1";
    let wanted = ["0,,,3,complete", "1,0,1,3,crash", "2,,,1,ended", "3,,,1,complete"];
    assert_eq!(ask(&lake, episodes), wanted);
    assert_eq!(
        ask(&lake, "SELECT count(*), sum(count) FROM state_transitions"),
        ["7,7"],
        "no row is counted more often than the log has it"
    );
    assert_eq!(
        ask(&lake, "SELECT kind, action_name(action) FROM failures"),
        ["crash,-argpromotion"]
    );
}

#[test]
fn the_lake_of_a_log_is_read_and_checked_like_any_other_and_never_played() {
    let (folder, lake) = folder();
    let log = WrittenLog::two_programs(folder.path());
    run(&lake, &["import", log.name()]);
    let observed = "SELECT IrInstructionCount, InstCount[1], Autophase[1], array_length(InstCount), \
                    array_length(Autophase), Ir FROM observations ORDER BY 1 DESC LIMIT 2";
    let of = |to: u32| {
        let count = count(to);
        format!("{count},{count},{to},70,56,\"; state {to}\n\"")
    };
    let csv = run(&lake, &["sql", observed, "--format", "csv"]);
    assert!(csv.ends_with(&format!("{}\n{}\n", of(0), of(1))), "{csv}");
    let actions = "SELECT count(*), min(pipeline = name), max(name) FROM actions";
    assert_eq!(ask(&lake, actions), ["124,true,-tailcallelim"]);
    let initial = "SELECT IrInstructionCountO0 FROM benchmarks ORDER BY 1";
    assert_eq!(ask(&lake, initial), ["950", "1000"]);
    let info = run(&lake, &["info"]);
    assert!(info.contains("compilergym-llvm-v0 (LLVM 10.0.0 (CompilerGym 0.2.5)"), "{info}");
    let best = "SELECT benchmark_uri, best_cost, steps FROM best_sequences('IrInstructionCount') \
                ORDER BY 1";
    let wanted = [format!("{},{},2", uri(1), count(4)), format!("{},{},1", uri(2), count(6))];
    assert_eq!(ask(&lake, best), wanted);
    let query = ["query", "best_episode", "-p", "reward=IrInstructionCountOz", "--format", "csv"];
    assert!(run(&lake, &query).contains(&uri(1)));
    let said = run(&lake, &["verify"]);
    assert!(said.contains("verify: sound"), "{said}");
    for command in [
        &["verify", "--replay", "3"][..],
        &["backfill", "--space", "Programl"],
        &["replay", "--env", "compilergym-llvm-v0", &uri(1), "gvn"],
        &["sql", "SELECT ir(state_id) FROM observations"],
    ] {
        let (_, said) = fail(&lake, command);
        assert!(said.contains("compilergym-llvm-v0"), "{command:?}: {said}");
    }
    let rows_of = folder.path().join("rows");
    let output = rows_of.to_str().unwrap();
    run(&lake, &["export", "--training", "--by", "benchmark", "--output", output]);
    assert!(rows_of.join("README.md").exists() || rows_of.is_dir());
}

#[test]
fn a_lake_of_logs_answers_steps_without_a_compiler() {
    let (folder, path) = folder();
    import(Disk::default(), &path, &[&WrittenLog::two_programs(folder.path())]).unwrap();
    let lake = Lake::open(&path).unwrap();
    dedup(&mut lake.maintenance().unwrap(), DedupOptions::default(), &mut to_the_end).unwrap();
    let (spec, snapshot) = (recorded_spec(lake.identity()), Arc::new(lake.snapshot().unwrap()));
    let environment = CachedEnvironment::open(snapshot, &spec, CachedOptions::default()).unwrap();
    let mut session = environment.session().unwrap();
    let (program, provenance) = (Arc::new([]), Provenance::default());
    let benchmark =
        &Benchmark { uri: uri(1).parse().unwrap(), program, provenance, execution: None };
    let (action_space, watch) = ("compilergym-v0", &Watch::default());
    session.start(&Start { benchmark, action_space, baselines: None, watch }).unwrap();
    for (action, to, reward) in [(31, 1, 0.1), (7, 1, 0.0), (9, 3, 0.2)] {
        let step = session.apply(ActionIndex(action)).unwrap();
        assert_eq!(step.outcome.state(), Some(state(to)));
        assert!((step.rewards[0] - reward).abs() < 1e-6, "{step:?}");
    }
    assert!(session.apply(ActionIndex(5)).unwrap().outcome.state().is_none());
}

#[test]
fn several_logs_are_taken_as_one_and_a_row_is_never_taken_twice() {
    let (folder, lake) = folder();
    let first = WrittenLog::two_programs(folder.path());
    let second = WrittenLog::new(folder.path(), "second.db");
    second.step(1, "", 0);
    second.step(1, "31", 1);
    second.step(1, "31 116", 2);
    second.step(1, "31 116 103", 4);
    second.step(1, "31 116 103 8", 3);
    second.step(1, "31 116 50", 2);
    run(&lake, &["import", first.name(), second.name()]);
    let steps = "SELECT count(*) FROM steps WHERE action IS NOT NULL";
    assert_eq!(ask(&lake, steps), ["10"]);
    let forks = "SELECT episode_id, parent_episode_id, parent_step_index FROM episodes \
                 WHERE run_id = 2 ORDER BY 1";
    let (one, two) = (1_i64 << 32, 2_i64 << 32);
    assert_eq!(ask(&lake, forks), [format!("{two},{one},3"), format!("{},{one},2", two + 1)]);
    let before = contents(&lake);
    let said = run(&lake, &["import", second.name(), first.name()]);
    assert_eq!(said.matches("is new").count(), 2, "{said}");
    assert_eq!(contents(&lake), before);
    first.step(2, "0 1", 7);
    let said = run(&lake, &["import", first.name()]);
    assert!(said.contains("run 3: 0 new benchmarks, 1 episode (1 of them forks), 1 step, 1 new"));
    assert!(said.contains("in the lake already: 10 rows"), "{said}");
    run(&lake, &["verify"]);
}

#[test]
fn a_row_is_not_taken_twice_after_another_program_or_a_run_was_retracted() {
    let (folder, lake) = folder();
    let log = WrittenLog::two_programs(folder.path());
    run(&lake, &["import", log.name()]);
    // A later run forks an episode of the first.
    log.step(1, "31 116 7", 3);
    log.step(1, "31 116 7 9", 4);
    run(&lake, &["import", log.name()]);
    let steps = "SELECT count(*), sum(CAST(action IS NOT NULL AS INT)) FROM steps WHERE \
                 benchmark_uri = 'generator://csmith-v0/1'";
    let before = ask(&lake, steps);
    // The segments of the first run are written anew, behind those of the second.
    run(&lake, &["retract", "--benchmark", &uri(2), "--reason", "a test"]);
    let said = run(&lake, &["import", log.name()]);
    assert!(said.contains("1 episode (0 of them forks), 1 step"), "{said}");
    assert!(said.contains("in the lake already: 10 rows"), "{said}");
    assert_eq!(ask(&lake, steps), before);
    run(&lake, &["retract", "--run", "1", "--reason", "a test"]);
    let (code, error) = fail(&lake, &["import", log.name()]);
    assert!(code == 3 && error.contains("import the logs into a new lake"), "{code} {error}");
}

#[test]
fn logs_that_contradict_each_other_make_a_conflict() {
    let (folder, lake) = folder();
    let first = WrittenLog::two_programs(folder.path());
    let second = WrittenLog::new(folder.path(), "second.db");
    second.step(1, "", 0);
    second.step(1, "31", 9);
    second.step(1, "31 116", 2);
    run(&lake, &["import", first.name(), second.name()]);
    let conflicts = "SELECT action, count FROM conflicts ORDER BY next_state_id";
    assert_eq!(ask(&lake, conflicts), ["31,1", "31,1"]);
    let third = WrittenLog::new(folder.path(), "third.db");
    third.step(1, "", 9);
    let before = contents(&lake);
    let (code, said) = fail(&lake, &["import", third.name()]);
    assert!(code == 3 && said.contains("different programs"), "{said}");
    assert_eq!(contents(&lake), before);
}

#[test]
fn a_gap_is_counted_and_nothing_behind_it_is_made_up() {
    let (folder, lake) = folder();
    let log = WrittenLog::two_programs(folder.path());
    log.step(1, "31 2 6", 3);
    log.step(1, "31 2 6 6", 4);
    log.step(3, "8", 3);
    log.step(1, "31 7 9 5 1", 3);
    let reports = import(Disk::default(), &lake, &[&log]).unwrap();
    let skipped = &reports[0].skipped;
    assert_eq!(skipped.count(Reason::Gap), 3);
    assert_eq!(skipped.count(Reason::AfterFailure), 1);
    assert_eq!((reports[0].steps, reports[0].benchmarks), (8, 2));
    let (_, other) = (folder.path(), folder.path().join("other"));
    let said = run(&other, &["import", log.name()]);
    let gap = "  skipped: 3 rows, since the log lacks the step before (first: \
               generator://csmith-v0/1, actions `31 2 6`)\n";
    assert!(said.contains(gap), "{said}");
}

#[test]
fn an_end_that_another_session_went_past_is_a_fork() {
    let (folder, lake) = folder();
    let log = WrittenLog::new(folder.path(), "log.db");
    log.step(1, "", 0);
    log.step_of(&uri(1), "3", 1, 1);
    log.step(1, "3 4", 2);
    run(&lake, &["import", log.name()]);
    let episodes = "SELECT steps, outcome, parent_step_index FROM episodes ORDER BY episode_id";
    assert_eq!(ask(&lake, episodes), ["1,ended,", "1,complete,1"]);
    run(&lake, &["verify"]);
}

#[test]
fn logs_and_runs_are_never_mixed() {
    let (folder, lake) = folder();
    let log = WrittenLog::two_programs(folder.path());
    run(&lake, &["import", log.name()]);
    let before = contents(&lake);
    let benchmark = "benchmark://steplake-v0/huffman";
    let generate = ["generate", "--benchmark", benchmark, "--action-space", "compilergym-v0"];
    run(&lake, &[&generate[..], &["--steps", "1"]].concat());
    run(&lake, &["import", "--compiler", "LLVM 14", log.name()]);
    assert_eq!(contents(&lake), before);
    let names = ["llvm-v0", "compilergym-llvm-v0-"];
    let contexts = Lake::contexts(&lake).unwrap();
    let has = |name: &str| contexts[1..].iter().any(|context| context.name.starts_with(name));
    assert!(contexts.len() == 3 && names.into_iter().all(has), "{contexts:?}");
    let toy = folder.path().join("toy");
    let generate = ["generate", "--env", "toy-v0", "--benchmark", "generator://toy-v0/0"];
    run(&toy, &[&generate[..], &["--steps", "1"]].concat());
    run(&toy, &["import", log.name()]);
    assert_eq!(Lake::contexts(&toy).unwrap()[1].name, "compilergym-llvm-v0");
}

#[test]
fn a_kill_at_any_moment_leaves_all_of_a_log_or_nothing_and_it_can_be_imported_again() {
    let logs = scratch();
    let first = WrittenLog::two_programs(logs.path());
    let second = WrittenLog::new(logs.path(), "second.db");
    second.step(1, "", 0);
    second.step(1, "31", 1);
    second.step(1, "31 9", 8);
    let both = [&first, &second];
    let whole = logs.path().join("whole");
    import(Disk::default(), &whole, &both).unwrap();
    let wanted = contents(&whole);
    // Steps with the rows that begin episodes.
    let complete = [0, 12, 14];
    for operations in 0.. {
        let folder = scratch();
        let path = folder.path().join("lake");
        let (disk, power) = Power::disk(operations, false);
        let imported = import(disk, &path, &both);
        assert!(imported.is_ok() || power.lock().unwrap().off, "at {operations}: {imported:?}");
        power.lock().unwrap().cut();
        if path.join("lake.json").exists() {
            let found = rows(&path, Table::Steps).len();
            assert!(complete.contains(&found), "{found} steps after {operations} operations");
        }
        import(Disk::default(), &path, &both).unwrap();
        assert_eq!(contents(&path), wanted, "after {operations} operations");
        if !power.lock().unwrap().off {
            assert!(operations > 20);
            return;
        }
    }
}

#[test]
fn a_log_is_read_while_its_logger_goes_on() {
    let (folder, lake) = folder();
    let log = WrittenLog::two_programs(folder.path());
    log.database.pragma_update(None, "journal_mode", "wal").unwrap();
    let logger = Connection::open(&log.path).unwrap();
    logger.execute_batch("BEGIN IMMEDIATE").unwrap();
    logger.execute("DELETE FROM States", []).unwrap();
    let output = steplake(&lake).args(["import", log.name()]).output_in_time();
    assert!(output.status.success());
    logger.execute_batch("ROLLBACK").unwrap();
    assert_eq!(rows(&lake, Table::Steps).len(), 12);
}
