//! The comparison of derived tables with the steps finds every wrong row.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray as _, BooleanArray, Int64Array, RecordBatch, StringArray};
use arrow::compute::{concat_batches, filter_record_batch};
use arrow::datatypes::Int64Type;
use steplake::dedup::{DedupOptions, dedup};
use steplake::lake::{Lake, LayerId, ScanColumns, Table, to_the_end};
use steplake::layers::LayerChange;

use super::{TABLES, found};
use crate::fixtures::support::fail;
use crate::fixtures::toy_lake::{APART, in_layers};

/// Writes the only layer again, with what `forge` makes of its tables.
fn forge(lake: &Lake, forge: impl Fn(Table, RecordBatch) -> RecordBatch) {
    let full = DedupOptions { full: true, ..APART };
    let mut maintenance = lake.maintenance().unwrap();
    dedup(&mut maintenance, full, &mut to_the_end).unwrap();
    let sealed = lake.sealed().unwrap();
    let mut layer = maintenance.layer_writer(LayerId(99));
    for table in TABLES {
        let batches = sealed.scan(table, ScanColumns::All).map(Result::unwrap);
        let whole = concat_batches(&sealed.schema(table), &batches.collect::<Vec<_>>()).unwrap();
        assert!(whole.num_rows() > 4, "{table}");
        layer.write(table, &forge(table, whole)).unwrap();
    }
    let retire = sealed.layers().into_values().flatten().cloned().collect();
    let change = LayerChange { retire, add: vec![layer], ..LayerChange::default() };
    maintenance.publish(change).unwrap();
}

/// The rows but for one.
fn without(batch: &RecordBatch, row: usize) -> RecordBatch {
    let keep = (0..batch.num_rows()).map(|other| Some(other != row)).collect::<BooleanArray>();
    filter_record_batch(batch, &keep).unwrap()
}

/// The rows with another column.
fn with(batch: &RecordBatch, name: &str, column: ArrayRef) -> RecordBatch {
    let (place, _) = batch.schema_ref().column_with_name(name).unwrap();
    let mut columns = batch.columns().to_vec();
    columns[place] = column;
    RecordBatch::try_new(batch.schema(), columns).unwrap()
}

/// The rows with one more in a column of the row with this number.
fn with_more(batch: &RecordBatch, name: &str, row: usize) -> RecordBatch {
    let numbers = batch[name].as_primitive::<Int64Type>().values().iter().enumerate();
    let more = numbers.map(|(at, number)| number + i64::from(at == row));
    with(batch, name, Arc::new(more.collect::<Int64Array>()))
}

#[test]
fn sound_tables_have_no_finding_in_any_number_of_layers() {
    for layers in 1..5 {
        let folder = tempfile::tempdir().unwrap();
        let (lake, _) = in_layers(&folder.path().join("lake"), layers);
        assert_eq!(found(&lake), [], "{layers} layers");
    }
}

#[test]
fn a_lake_that_was_never_counted_has_nothing_to_compare() {
    let folder = tempfile::tempdir().unwrap();
    let (lake, _) = in_layers(&folder.path().join("lake"), 0);
    assert_eq!(found(&lake), []);
}

#[test]
fn each_forged_row_is_found_in_each_table() {
    let folder = tempfile::tempdir().unwrap();
    let (lake, _) = in_layers(&folder.path().join("lake"), 3);
    for forged in TABLES {
        for (change, wrong) in [
            ("lost", "lacks a row that follows from the steps"),
            ("count", "has other values than follow from the steps"),
            ("first_episode_id", "has other values than follow from the steps"),
        ] {
            forge(&lake, |table, batch| match change {
                _ if table != forged => batch,
                "lost" => without(&batch, 2),
                column => with_more(&batch, column, 2),
            });
            assert!(lake.verify(&mut to_the_end).unwrap().is_sound());
            let [finding] = &found(&lake)[..] else { panic!("{forged}, {change}") };
            assert!(finding.path.ends_with(forged.name()), "{finding}");
            assert!(finding.what.contains(wrong), "{finding}");
        }
    }
    forge(&lake, |table, batch| match table {
        Table::Failures => {
            let kinds = vec!["verifier"; batch.num_rows()];
            with(&batch, "kind", Arc::new(StringArray::from(kinds)))
        }
        _ => batch,
    });
    assert!(found(&lake)[0].what.contains(" more such)"), "{:?}", found(&lake));
    // A row that no step makes: the conflicts of one (state, action) are taken from elsewhere.
    forge(&lake, |table, batch| match table {
        Table::Conflicts => {
            let next = batch["next_state_id"].as_fixed_size_binary();
            let forged = (0..batch.num_rows()).map(|row| {
                let mut id = next.value(row).to_vec();
                id[19] ^= u8::from(row == 0);
                Some(id)
            });
            let forged =
                arrow::array::FixedSizeBinaryArray::try_from_sparse_iter_with_size(forged, 20);
            with(&batch, "next_state_id", Arc::new(forged.unwrap()))
        }
        _ => batch,
    });
    let kinds = found(&lake).into_iter().map(|finding| finding.what).collect::<Vec<_>>().concat();
    assert!(kinds.contains("does not follow") && kinds.contains("lacks a row"), "{kinds}");
}

#[test]
fn the_command_lists_what_differs() {
    let folder = tempfile::tempdir().unwrap();
    let (lake, _) = in_layers(&folder.path().join("lake"), 2);
    forge(&lake, |table, batch| match table {
        Table::StateTransitions => with_more(&batch, "wall_time_us", 0),
        _ => batch,
    });
    let (code, said) = fail(lake.path(), &["verify", "--derived"]);
    assert_eq!((code, said.contains("verify found what is listed above")), (4, true), "{said}");
}
