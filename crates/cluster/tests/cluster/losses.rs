//! Executors and files that go in the middle of a query.

use std::path::Path;
use std::process::Stdio;

use steplake::dedup::DedupOptions;
use steplake::lake::{Lake, Table};

use crate::lakes::{APART, Embedded, count, in_layers};
use crate::processes::{Cluster, rows, texts};
use crate::programs::{InTime as _, output_of, program};

const QUESTION: &str = "SELECT action, count(*) AS steps, sum(wall_time_us) AS time, min(reward_Size) AS least \
                        FROM steps GROUP BY action ORDER BY action";

/// The lake as executors see it: links to its files, but for one segment of steps, which is a pipe.
/// Whoever opens that waits until somebody writes to it, which nobody does.
fn mount(lake: &Lake, there: &Path) -> Held {
    let snapshot = lake.snapshot().unwrap();
    for table in Table::ALL {
        std::fs::create_dir_all(there.join("data").join(table.name())).unwrap();
        for segment in snapshot.segments(table) {
            let inner = segment.path.strip_prefix(lake.path()).unwrap();
            std::os::unix::fs::symlink(&segment.path, there.join(inner)).unwrap();
        }
    }
    let held = snapshot.segments(Table::Steps).iter().min_by_key(|segment| segment.bytes).unwrap();
    let file = there.join(held.path.strip_prefix(lake.path()).unwrap());
    std::fs::remove_file(&file).unwrap();
    assert!(program("mkfifo").arg(&file).status_in_time().success());
    Held { file, target: held.path.clone() }
}

struct Held {
    file: std::path::PathBuf,
    target: std::path::PathBuf,
}

impl Held {
    /// Whoever opens it from now on reads the segment.
    fn release(&self) {
        let link = self.file.with_extension("link");
        std::os::unix::fs::symlink(&self.target, &link).unwrap();
        std::fs::rename(&link, &self.file).unwrap();
    }
}

#[test]
fn an_executor_that_is_killed_does_not_change_the_answer() {
    let folder = tempfile::tempdir().unwrap();
    let lake = in_layers(&folder.path().join("lake"), 4);
    let wanted = texts(&Embedded::over(lake.snapshot().unwrap()).sql(QUESTION));
    let there = folder.path().join("there");
    let held = mount(&lake, &there);
    let mut cluster = Cluster::start(2);
    cluster.mount = Some(there);
    let mut command = cluster.command(lake.path(), "sql");
    command.args(["--format", "arrow", "--", QUESTION]);
    let asking = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // Some tasks are done, and one executor waits for the pipe.
    let (mut begun, mut done) = ([0, 0], [0, 0]);
    let stuck = loop {
        let (executor, line) = cluster.next_line();
        begun[executor] += usize::from(line.contains("Received task"));
        done[executor] += usize::from(line.contains("Finished task"));
        let stuck = (0..2).find(|&executor| begun[executor] > done[executor]);
        if let Some(stuck) = stuck
            && done.iter().sum::<usize>() >= 3
        {
            break stuck;
        }
    };
    held.release();
    cluster.kill(stuck);
    let output = output_of(asking, "a question to the cluster");
    assert_eq!(texts(&rows(output).unwrap()), wanted);
}

#[test]
fn a_file_that_is_retired_meanwhile_is_read_all_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let lake = in_layers(&folder.path().join("lake"), 3);
    let question = "SELECT * FROM state_transitions ORDER BY state_key, state_id, action";
    let wanted = texts(&Embedded::over(lake.snapshot().unwrap()).sql(question));
    // The query waits for somebody to work on it, with the paths that the files have now.
    let mut cluster = Cluster::start(0);
    let mut command = cluster.command(lake.path(), "sql");
    command.args(["--format", "arrow", "--", question]);
    let asking = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    cluster.wait_for_a_job();
    count(&lake, DedupOptions { full: true, ..APART });
    cluster.add_executor();
    let output = output_of(asking, "a question to the cluster");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(texts(&rows(output).unwrap()), wanted);
    assert_eq!(said, "");
}

#[test]
fn what_is_never_found_is_asked_for_three_times() {
    let folder = tempfile::tempdir().unwrap();
    let lake = in_layers(&folder.path().join("lake"), 1);
    let mut cluster = Cluster::start(1);
    cluster.mount = Some(folder.path().join("nowhere"));
    let mut command = cluster.command(lake.path(), "sql");
    let said = rows(command.args(["--", QUESTION]).output_in_time()).unwrap_err();
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.len(), 3, "{said}");
    assert!(lines[..2].iter().all(|line| line.ends_with(": the query runs again")), "{said}");
    assert!(lines[2].contains("lost executors or files of the query 3 times"), "{said}");
}

#[test]
fn a_mistake_is_no_loss_whatever_it_is_about() {
    let folder = tempfile::tempdir().unwrap();
    let lake = in_layers(&folder.path().join("lake"), 1);
    let cluster = Cluster::start(1);
    let sql = "SELECT sum(CAST(action_name(action) || ' transport error: No such file or directory' AS BIGINT)) \
               FROM steps";
    let output = cluster.command(lake.path(), "sql").args(["--", sql]).output_in_time();
    let said = rows(output).unwrap_err();
    assert!(said.contains("transport error: No such file") && said.lines().count() == 1, "{said}");
}
