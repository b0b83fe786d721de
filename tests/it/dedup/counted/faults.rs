//! Faults of the disk while counted tables are taken: the lake has the old tables or the new ones.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use steplake::dedup::{DedupOptions, DedupReport, take_counted};
use steplake::lake::{Disk, DiskOperation, FaultEffect, Lake, LakeError, Table, to_the_end};

use super::{Output, found};
use crate::fixtures::power::Power;
use crate::fixtures::support::{copy_folder, scratch};
use crate::fixtures::toy_lake::in_layers;

/// A lake in two layers, and the tables that were counted of it.
fn prepared(folder: &Path) -> (PathBuf, PathBuf) {
    let (lake, output) = (folder.join("lake"), folder.join("output"));
    let (made, _) = in_layers(&lake, 2);
    Output::of(&made).write(&output);
    (lake, output)
}

fn take(disk: Disk, lake: &Path, output: &Path) -> Result<DedupReport, LakeError> {
    let lake = Lake::open_on(disk, lake)?;
    let options = DedupOptions::default();
    take_counted(&mut lake.maintenance()?, output, options, &mut to_the_end)
}

/// Asserts that the lake is whole, with two layers or with one, and that it takes the tables now.
fn assert_whole(path: &Path, output: &Path, case: &str) {
    let lake = Lake::open(path).unwrap();
    lake.maintenance().unwrap().collect().unwrap();
    assert!(lake.verify(&mut to_the_end).unwrap().is_sound(), "{case}");
    assert_eq!(found(&lake), [], "{case}");
    let layers = lake.sealed().unwrap().layers().len();
    assert!((1..=2).contains(&layers), "{case}: {layers} layers");
    let listed = Table::ALL.into_iter().filter(|table| table.is_derived());
    let files = |table: Table| std::fs::read_dir(path.join("data").join(table.name())).unwrap();
    for table in listed {
        let unfinished = files(table).map(|entry| entry.unwrap().file_name());
        let unfinished = unfinished.filter(|name| name.to_string_lossy().ends_with(".tmp"));
        assert_eq!(unfinished.count(), 0, "{case}");
    }
    take(Disk::default(), path, output).unwrap();
    assert_eq!(lake.sealed().unwrap().layers().len(), 1, "{case}");
    assert_eq!(found(&lake), [], "{case}");
}

#[test]
fn a_power_cut_at_every_operation() {
    let folder = scratch();
    let (lake, output) = prepared(folder.path());
    for at in 0.. {
        let case = format!("cut before operation {at}");
        let copy = folder.path().join("copy");
        copy_folder(&lake, &copy);
        let (disk, power) = Power::disk(at, true);
        let taken = take(disk, &copy, &output);
        let off = power.lock().unwrap().off;
        if !off {
            taken.unwrap();
            assert!(at > 10, "{at} operations");
            return;
        }
        power.lock().unwrap().cut();
        assert_whole(&copy, &output, &case);
        std::fs::remove_dir_all(copy).unwrap();
    }
}

#[test]
fn a_full_disk_at_every_operation() {
    let folder = scratch();
    let (lake, output) = prepared(folder.path());
    for at in 0.. {
        let case = format!("full at operation {at}");
        let copy = folder.path().join("copy");
        copy_folder(&lake, &copy);
        let count = AtomicUsize::new(0);
        let came = std::sync::Arc::new(AtomicUsize::new(0));
        let shared = std::sync::Arc::clone(&came);
        let disk = Disk::with_faults(move |operation| {
            use DiskOperation::{Commit, Create, CreateDir, Write};
            let takes = matches!(operation, CreateDir(_) | Create(_) | Write(..) | Commit(_));
            if takes && count.fetch_add(1, Ordering::Relaxed) == at {
                shared.store(1, Ordering::Relaxed);
                return FaultEffect::Fail(ErrorKind::StorageFull.into());
            }
            FaultEffect::Proceed
        });
        let taken = take(disk, &copy, &output);
        if came.load(Ordering::Relaxed) == 0 {
            taken.unwrap();
            return;
        }
        if let Err(error) = taken {
            assert!(matches!(error, LakeError::DiskFull { .. }), "{case}: {error}");
        }
        assert_whole(&copy, &output, &case);
        std::fs::remove_dir_all(copy).unwrap();
    }
}
