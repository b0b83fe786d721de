//! Older copies of a database, put back or left behind, do not undo what the log of snapshots says.

use steplake::upkeep::RetractionTarget;

use crate::fixtures::support::scratch;
use crate::fixtures::toy_lake::{read, uri};
use crate::lake::repair::{RUN, derive, findings, record_sealing, repair};
use crate::lake::restore::{Lists, append, change, record_and_retract};

#[test]
fn rows_that_were_retracted_do_not_come_back_with_a_restored_database() {
    let folder = scratch();
    for seals in [&[3][..], &[1, 3]] {
        let path = folder.path().join(format!("lake-{}", seals.len()));
        let lake = record_sealing(&path, seals);
        let before_retraction = std::fs::read(path.join("hot.sqlite")).unwrap();
        let mut writer = lake.writer().unwrap();
        let subject = RetractionTarget::benchmark(uri(1));
        lake.maintenance().unwrap().retract(&mut writer, &subject, "not ours").unwrap();
        drop(writer);
        derive(&lake).unwrap();
        let (wanted, lists) = (read(&lake), Lists::of(&lake));
        assert!(wanted.steps.iter().all(|row| row.benchmark != uri(1)));
        // Even if an older copy of the database is put back.
        std::fs::write(path.join("hot.sqlite"), before_retraction).unwrap();
        assert!(!repair(&lake).unwrap().restored.unwrap().hot_rows);
        assert_eq!(findings(&lake), [""; 0]);
        assert_eq!(Lists::of(&lake), lists);
        assert!(read(&lake).steps.iter().all(|row| wanted.steps.contains(row)));
    }
}

#[test]
fn a_database_that_was_put_aside_long_ago_gives_its_lists_and_no_rows() {
    let folder = scratch();
    let lake = record_and_retract(&folder.path().join("lake"));
    let lists = Lists::of(&lake);
    change(lake.path(), "UPDATE content SET digest = zeroblob(32)");
    assert!(repair(&lake).unwrap().restored.unwrap().hot_rows);
    let mut writer = lake.writer().unwrap();
    append(&mut writer, 20);
    writer.seal().unwrap();
    writer.discard_open(RUN).unwrap();
    drop(writer);
    derive(&lake).unwrap();
    let wanted = read(&lake);
    std::fs::remove_file(lake.path().join("hot.sqlite")).unwrap();
    assert!(!repair(&lake).unwrap().restored.unwrap().hot_rows);
    derive(&lake).unwrap();
    assert_eq!(findings(&lake), [""; 0]);
    assert_eq!((read(&lake).steps, Lists::of(&lake)), (wanted.steps, lists));
}

#[test]
fn a_finished_run_stays_finished_although_an_older_database_is_put_back() {
    let folder = scratch();
    for seals in 0..3 {
        let lake = record_sealing(&folder.path().join(format!("lake-{seals}")), &[3]);
        let older = std::fs::read(lake.path().join("hot.sqlite")).unwrap();
        let mut writer = lake.writer().unwrap();
        writer.discard_open(RUN).unwrap();
        writer.finish_run(RUN).unwrap();
        append(&mut writer, 20);
        writer.seal().unwrap();
        for ordinal in 0..seals {
            append(&mut writer, 30 + ordinal);
            writer.seal().unwrap();
        }
        drop(writer);
        let lists = Lists::of(&lake);
        std::fs::write(lake.path().join("hot.sqlite"), older).unwrap();
        repair(&lake).unwrap().restored.unwrap();
        assert_eq!(Lists::of(&lake), lists, "{seals}");
    }
}
