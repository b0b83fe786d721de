//! Logs that no logger wrote, and damaged ones.

use std::path::Path;

use miniz_oxide::deflate::compress_to_vec_zlib;
use rusqlite::{Connection, params};
use steplake::lake::{Disk, Lake, Table};
use steplake::transfer::import::Reason;

use super::written_log::{TABLES, WrittenLog, packed, state, uri, vector};
use super::{ask, folder, import};
use crate::fixtures::support::{fail, rows, run};

#[test]
fn a_row_that_no_logger_writes_is_skipped_and_counted() {
    let (folder, lake) = folder();
    let log = WrittenLog::two_programs(folder.path());
    let id = state(1).to_string();
    let (short, upper) = (&id[1..], id.to_uppercase());
    log.row(&uri(1), "200", 0, Some(0.0), &id);
    log.row(&uri(1), "03", 0, Some(0.0), &id);
    log.row(&uri(1), "5 x", 0, Some(0.0), &id);
    log.row(&uri(1), "50", 0, Some(0.0), short);
    log.row(&uri(1), "51", 0, Some(0.0), &upper);
    log.row(&uri(1), "52", 0, Some(0.0), "");
    log.row(&uri(1), "53", 7, Some(0.0), &id);
    log.row("no program", "", 0, Some(0.0), &id);
    log.row("benchmark://a\nb/c", "", 0, Some(0.0), &id);
    log.row(&uri(1), "54", 0, None, &id);
    log.row(&uri(1), "55", 0, Some(f64::INFINITY), &id);
    let reports = import(Disk::default(), &lake, &[&log]).unwrap();
    let skipped = &reports[0].skipped;
    for (reason, count) in [
        (Reason::UnknownAction, 1),
        (Reason::Actions, 2),
        (Reason::State, 3),
        (Reason::Done, 1),
        (Reason::Benchmark, 2),
        (Reason::Reward, 2),
    ] {
        assert_eq!(skipped.count(reason), count, "{reason:?}");
    }
    assert!(skipped.iter().all(|(_, _, first)| !first.contains('\n')));
    // The two rows without a reward are steps.
    assert_eq!(reports[0].steps, 10);
    let rewards = "SELECT action, count(reward_IrInstructionCountOz) FROM steps \
                   WHERE action > 53 AND action < 60 GROUP BY 1 ORDER BY 1";
    assert_eq!(ask(&lake, rewards), ["54,0", "55,0"]);
    run(&lake, &["verify"]);
}

#[test]
fn a_value_that_cannot_be_read_is_null_and_counted() {
    let (folder, lake) = folder();
    let log = WrittenLog::new(folder.path(), "log.db");
    log.step(1, "", 0);
    let observe = |to: u32, count: &dyn rusqlite::ToSql, ir: &[u8], auto: &str, inst: &str| {
        log.row(&uri(1), &to.to_string(), 0, Some(0.0), &state(to).to_string());
        let sql = "INSERT INTO Observations VALUES (?, ?, ?, x'', ?, ?)";
        let row = params![state(to).to_string(), count, ir, auto, inst];
        log.database.execute(sql, row).unwrap();
    };
    let (ir, auto, inst) = (packed("; good"), vector(1, 56), vector(1, 70));
    let bomb = compress_to_vec_zlib(&vec![0; 100 << 20], 9);
    observe(1, &"many", &ir, &auto, &inst);
    observe(2, &5, &bomb, &auto, &inst);
    observe(3, &5, &ir[..ir.len() - 3], &auto, &inst);
    observe(4, &5, &ir, &vector(1, 55), &inst);
    observe(5, &5, &ir, &auto, &vector(1, 71));
    observe(6, &5, &ir, &auto.replace('1', "one"), &inst);
    observe(7, &5, &compress_to_vec_zlib(&[0xff, 0xfe], 6), &auto, &inst);
    log.row(&uri(1), "8", 0, Some(0.0), &state(8).to_string());
    let reports = import(Disk::default(), &lake, &[&log]).unwrap();
    let skipped = &reports[0].skipped;
    for (reason, count) in [
        (Reason::Count, 1),
        (Reason::Ir, 3),
        (Reason::Autophase, 2),
        (Reason::InstCount, 1),
        (Reason::Unobserved, 1),
    ] {
        assert_eq!(skipped.count(reason), count, "{reason:?}");
    }
    let counts = "SELECT count(*), count(IrInstructionCount), count(Ir), count(Autophase), \
                  count(InstCount) FROM observations";
    assert_eq!(ask(&lake, counts), ["9,7,5,6,7"]);
    run(&lake, &["verify"]);
}

/// Asserts that a file is refused, that the message says `said`, and that no rows came of it.
fn refused(lake: &Path, log: &Path, wanted: &str) {
    let (_, said) = fail(lake, &["import", log.to_str().unwrap()]);
    assert!(said.contains(wanted), "{said}");
    if Lake::open(lake).is_ok() {
        assert_eq!(rows(lake, Table::Steps), [""; 0]);
    }
}

#[test]
fn a_file_that_is_no_log_leaves_no_lake() {
    let (folder, lake) = folder();
    let path = folder.path().join("file");
    refused(&lake, &path, "cannot be opened");
    std::fs::write(&path, "no database, but long enough to be looked at".repeat(100)).unwrap();
    refused(&lake, &path, "file is not a database");
    let path = folder.path().join("other.db");
    Connection::open(&path).unwrap().execute_batch("CREATE TABLE States (done)").unwrap();
    refused(&lake, &path, "has no column States.benchmark_uri");
    // Its rows would never end.
    let path = folder.path().join("view.db");
    let view = format!(
        "{TABLES} DROP TABLE States; CREATE VIEW States AS WITH RECURSIVE n(x) AS \
         (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x AS benchmark_uri, x AS done, \
         x AS ir_instruction_count_oz_reward, x AS state_id, x AS actions FROM n"
    );
    Connection::open(&path).unwrap().execute_batch(&view).unwrap();
    refused(&lake, &path, "has no column States.benchmark_uri");
    assert!(!lake.exists());
}

#[test]
fn the_log_of_a_killed_logger_is_refused_with_what_helps() {
    let (folder, lake) = folder();
    let log = WrittenLog::two_programs(folder.path());
    // A transaction that is too large for the cache is in the file before its end.
    log.database.pragma_update(None, "cache_size", 1).unwrap();
    log.database.execute_batch("BEGIN").unwrap();
    for number in 0..2000 {
        log.row(&uri(9), &format!("{number} {}", "1 ".repeat(100)), 0, None, "");
    }
    // What is on the disk now is what a kill leaves.
    let killed = folder.path().join("killed.db");
    std::fs::copy(&log.path, &killed).unwrap();
    std::fs::copy(folder.path().join("first.db-journal"), folder.path().join("killed.db-journal"))
        .unwrap();
    refused(&lake, &killed, "was killed: open the log once with `sqlite3 ");
    assert!(!lake.exists());
}

#[test]
fn a_damaged_log_is_not_imported_by_half() {
    let (folder, lake) = folder();
    let log = WrittenLog::new(folder.path(), "log.db");
    for program in 0..300 {
        log.step(program, "", 1);
        for action in 0..9 {
            log.step(program, &action.to_string(), 2 + action);
        }
    }
    let path = folder.path().join("damaged.db");
    let mut bytes = std::fs::read(&log.path).unwrap();
    let half = bytes.len() / 2;
    bytes[half..].fill(0xa5);
    std::fs::write(&path, bytes).unwrap();
    refused(&lake, &path, "nothing of it was imported");
}

#[test]
fn a_table_without_its_key_does_not_make_two_steps_of_a_row() {
    let (folder, lake) = folder();
    let path = folder.path().join("log.db");
    let database = Connection::open(&path).unwrap();
    let keyless = TABLES
        .replace(",\n      PRIMARY KEY (benchmark_uri, actions)", "")
        .replace(",\n      PRIMARY KEY (state_id)", "");
    database.pragma_update(None, "foreign_keys", false).unwrap();
    database.execute_batch(&keyless).unwrap();
    let log = WrittenLog { path, database };
    for _ in 0..2 {
        log.step(1, "", 0);
        log.step(1, "3", 1);
        log.step(1, "3 3", 2);
    }
    let reports = import(Disk::default(), &lake, &[&log]).unwrap();
    assert_eq!((reports[0].steps, reports[0].skipped.count(Reason::Repeated)), (2, 3));
    run(&lake, &["verify"]);
}
