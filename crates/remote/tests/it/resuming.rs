//! Runs that are published before all of their episodes are sealed, and resumed in a fetched copy.

use steplake_lake::{Lake, ScanColumns, Table, Writer};

use crate::support::{
    assert_same, assert_sound, derive, lake, memory, play, receive, rows_of, send_plainly, version,
};

/// Records a finished run of 7 episodes, of which the last 4 are not sealed. The writer is open.
fn half_sealed(lake: &Lake) -> Writer {
    let mut writer = lake.writer().unwrap();
    let run = writer.begin_run("a run", 1).unwrap();
    let mut writer = play(writer, run, 1, 3);
    writer.seal().unwrap();
    let mut writer = play(writer, run, 1, 7);
    writer.finish_run(run).unwrap();
    writer
}

/// Returns the rows of a table without measured times.
fn recorded(lake: &Lake, table: Table) -> Vec<String> {
    let schema = lake.snapshot().unwrap().schema(table);
    let names = schema.fields().iter().map(|field| field.name().as_str());
    let names = names.filter(|name| *name != "wall_time_us").collect::<Vec<_>>();
    rows_of(lake, table, ScanColumns::Named(&names))
}

#[test]
fn a_run_that_is_not_sealed_completely_is_published_as_unfinished() {
    let folder = tempfile::tempdir().unwrap();
    let (_store, remote) = memory();
    let here = lake(&folder.path().join("here"));
    let mut writer = half_sealed(&here);
    // The writer has the right to seal, so `publish` does not get it.
    assert_eq!(version(&send_plainly(&remote, &here)), 1);
    let there = receive(&remote, &folder.path().join("there")).unwrap().lake;
    let runs = there.sealed().unwrap().runs().to_vec();
    assert_eq!((runs.len(), runs[0].finished), (1, false), "{runs:?}");

    let mut resumed = play(there.writer().unwrap(), runs[0].id, 1, 7);
    resumed.finish_run(runs[0].id).unwrap();
    resumed.seal().unwrap();
    writer.seal().unwrap();
    drop((resumed, writer));
    for lake in [&here, &there] {
        derive(lake);
        assert_sound(lake);
    }
    for table in Table::ALL {
        assert_eq!(recorded(&here, table), recorded(&there, table), "{table}");
    }
    // Once all of it is sealed, the run is published as finished.
    assert_eq!(version(&send_plainly(&remote, &here)), 2);
    let newer = receive(&remote, &folder.path().join("newer")).unwrap().lake;
    assert!(newer.sealed().unwrap().runs()[0].finished);
}

#[test]
fn closed_episodes_are_sealed_before_they_are_published() {
    let folder = tempfile::tempdir().unwrap();
    let (_store, remote) = memory();
    let here = lake(&folder.path().join("here"));
    drop(half_sealed(&here));
    send_plainly(&remote, &here);
    let there = receive(&remote, &folder.path().join("there")).unwrap().lake;
    assert!(there.sealed().unwrap().runs()[0].finished);
    assert_eq!(recorded(&there, Table::Episodes).len(), 7);
    assert_same(&here, &there);
    assert_sound(&there);
}
