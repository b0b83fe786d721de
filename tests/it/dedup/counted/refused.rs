//! Tables that are not those of the lake are refused, and the message says why.

use std::sync::Arc;

use arrow::array::{
    Array as _, ArrayRef, AsArray as _, BinaryArray, Float64Array, Int32Array, Int64Array,
    RecordBatch, StringArray, UInt32Array,
};
use arrow::compute::{cast, take_record_batch};
use arrow::datatypes::{DataType, Float64Type, Int32Type, Int64Type, Schema};
use serde_json::json;
use steplake::dedup::{DedupOptions, take_counted};
use steplake::lake::{Lake, LakeError, Table, to_the_end};
use steplake::upkeep::RetractionTarget;

use super::{Output, TABLES, found, take};
use crate::fixtures::support::contents;
use crate::fixtures::toy_lake::{in_layers, uri};

/// A change of a note.
type Change<'a> = &'a dyn Fn(&mut serde_json::Value);

/// Rows of a batch, by their numbers.
fn chosen(batch: &RecordBatch, rows: impl Iterator<Item = usize>) -> RecordBatch {
    let rows = rows.map(|row| u32::try_from(row).unwrap()).collect::<UInt32Array>();
    take_record_batch(batch, &rows).unwrap()
}

impl Output {
    /// The same with another number in a row of a column.
    fn with(self, table: Table, column: &str, row: usize, change: impl Fn(i64) -> i64) -> Self {
        let known = &self.tables[&table][column];
        let changed: ArrayRef = if *known.data_type() == DataType::Int32 {
            let values = known.as_primitive::<Int32Type>().iter().enumerate();
            let new = |value: i32| i32::try_from(change(value.into())).unwrap();
            let values = values.map(|(at, value)| if at == row { value.map(new) } else { value });
            Arc::new(values.collect::<Int32Array>())
        } else {
            let values = known.as_primitive::<Int64Type>().iter().enumerate();
            let changed = |value: Option<i64>| value.map(&change);
            let values = values.map(|(at, value)| if at == row { changed(value) } else { value });
            Arc::new(values.collect::<Int64Array>())
        };
        self.with_column(table, column, changed)
    }

    /// The same with other rows of a table, whose number the note says.
    fn with_rows(mut self, table: Table, rows: impl Fn(usize) -> Vec<usize>) -> Self {
        let batch = self.tables.get_mut(&table).unwrap();
        *batch = chosen(batch, rows(batch.num_rows()).into_iter());
        self.note["rows"][table.name()] = json!(batch.num_rows());
        self
    }

    /// The same with another note.
    fn noting(mut self, change: impl Fn(&mut serde_json::Value)) -> Self {
        change(&mut self.note);
        self
    }
}

/// Asserts that tables are refused with this message, and that the lake is as before.
fn assert_refused(lake: &Lake, output: &Output, message: &str) {
    let (rows, newest) = (contents(lake.path()), lake.newest().unwrap());
    let error = take(lake, output).unwrap_err();
    assert!(matches!(error, LakeError::OtherTables { .. }), "{error:?}");
    assert!(error.to_string().contains(message), "{error}\ninstead of: {message}");
    assert_eq!((contents(lake.path()), lake.newest().unwrap()), (rows, newest));
    // Nothing is left for a collection.
    let removed = lake.maintenance().unwrap().collect().unwrap().removed;
    assert_eq!(removed.files, 0, "{message}");
}

#[test]
fn what_the_note_says_has_to_fit() {
    let folder = tempfile::tempdir().unwrap();
    let (lake, _) = in_layers(&folder.path().join("lake"), 2);
    lake.writer().unwrap().begin_run("{}", 0).unwrap();
    let output = Output::of(&lake);
    let cases: [(&str, Change<'_>); 13] = [
        ("they are parquet of version 2", &|note| note["version"] = json!(2)),
        ("they are delta of version 1", &|note| note["format"] = json!("delta")),
        ("they were counted of no lake", &|note| note["lakes"] = json!([])),
        ("does not say what was counted: ", &|note| note["more"] = json!(1)),
        ("has compiler toy 2, and this lake has toy 1", &|note| {
            note["lakes"][0]["identity"]["compiler"] = json!("toy 2");
        }),
        ("has environment other-v0", &|note| {
            note["lakes"][0]["identity"]["environment"] = json!("other-v0");
        }),
        ("has action space toy-v1", &|note| {
            note["lakes"][0]["identity"]["action_space"]["name"] = json!("toy-v1");
        }),
        ("has action 2 `other`", &|note| {
            let actions = &mut note["lakes"][0]["identity"]["action_space"]["actions"];
            actions[2]["name"] = json!("other");
        }),
        ("has actions that this lake lacks", &|note| {
            let actions = &mut note["lakes"][0]["identity"]["action_space"]["actions"];
            let more = actions[0].clone();
            actions.as_array_mut().unwrap().push(more);
        }),
        ("the rewards of file:///there are not the first ones", &|note| {
            note["lakes"][0]["identity"]["rewards"].as_array_mut().unwrap().reverse();
        }),
        ("the lake has retracted other actions", &|note| {
            note["lakes"][0]["retracted"] = json!(["a1"]);
        }),
        ("run nobody of file:///there is not in this lake", &|note| {
            note["lakes"][0]["runs"]["nobody"] = json!(1);
        }),
        ("has number 7 in them, and number 1 in this lake", &|note| {
            for (_, number) in note["lakes"][0]["runs"].as_object_mut().unwrap() {
                *number = json!(7);
            }
        }),
    ];
    for (message, change) in cases {
        assert_refused(&lake, &output.clone().noting(change), message);
    }
    for table in TABLES {
        let rows = output.tables[&table].num_rows();
        let message = format!("{table} has {rows} rows, and {} were written", rows + 1);
        let more = |note: &mut serde_json::Value| note["rows"][table.name()] = json!(rows + 1);
        assert_refused(&lake, &output.clone().noting(more), &message);
    }
    take(&lake, &output).unwrap();
}

#[test]
fn a_job_that_has_not_ended_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (lake, _) = in_layers(&folder.path().join("lake"), 1);
    let place = folder.path().join("output");
    let take = || {
        let options = DedupOptions::default();
        take_counted(&mut lake.maintenance().unwrap(), &place, options, &mut to_the_end)
    };
    let message = take().unwrap_err().to_string();
    assert!(message.contains("the job that wrote them has not ended"), "{message}");
    Output::of(&lake).write(&place);
    std::fs::remove_dir_all(place.join("counted")).unwrap();
    let message = take().unwrap_err().to_string();
    assert!(message.contains("the job that wrote them has not ended"), "{message}");
    Output::of(&lake).write(&place);
    std::fs::remove_dir_all(place.join("failures")).unwrap();
    let message = take().unwrap_err().to_string();
    assert!(message.contains("failures has 0 rows, and "), "{message}");
    Output::of(&lake).write(&place);
    std::fs::write(place.join("conflicts/part-00000-c000.zstd.parquet"), "no Parquet").unwrap();
    let message = take().unwrap_err().to_string();
    assert!(message.contains("part-00000-c000.zstd.parquet cannot become"), "{message}");
    assert!(message.contains("it cannot be read as Parquet"), "{message}");
    assert_eq!(found(&lake), []);
}

#[test]
fn columns_of_other_types_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (lake, _) = in_layers(&folder.path().join("lake"), 2);
    let output = Output::of(&lake);
    let transitions = &output.tables[&Table::StateTransitions];
    let narrow = cast(&transitions["count"], &DataType::Int32).unwrap();
    let other = output.clone().with_column(Table::StateTransitions, "count", narrow);
    assert_refused(&lake, &other, "it has the columns state_id Binary, state_key Int64");
    let mut fewer = output.clone();
    let last = transitions.num_columns() - 1;
    let fields = transitions.schema_ref().fields()[..last].to_vec();
    let columns = transitions.columns()[..last].to_vec();
    let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap();
    fewer.tables.insert(Table::StateTransitions, batch);
    assert_refused(&lake, &fewer, "it has the columns state_id Binary, state_key Int64");
    let ids = transitions["state_id"].as_binary::<i32>();
    let short = ids.iter().map(|id| id.map(|id| &id[1..])).collect::<BinaryArray>();
    let short = output.clone().with_column(Table::StateTransitions, "state_id", Arc::new(short));
    assert_refused(&lake, &short, "cannot become the derived tables of the lake");
    let nulls: Int64Array = (0..transitions.num_rows()).map(|_| None).collect();
    let nulls = output.clone().with_column(Table::StateTransitions, "count", Arc::new(nulls));
    assert_refused(&lake, &nulls, "non-nullable");
    let nan = vec![f64::NAN; transitions.num_rows()];
    let nan = Arc::new(Float64Array::from(nan));
    let nan = output.with_column(Table::StateTransitions, "reward_Size", nan);
    assert_refused(&lake, &nan, "has a reward that is no number");
}

#[test]
fn rows_that_no_lake_has_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (lake, _) = in_layers(&folder.path().join("lake"), 2);
    let output = || Output::of(&lake);
    for table in TABLES {
        let cases: [(&str, Output); 8] = [
            ("stands under another key", output().with(table, "state_key", 3, |key| key + 1)),
            ("is out of its order, or there twice", {
                output().with_rows(table, |rows| [1, 0].into_iter().chain(2..rows).collect())
            }),
            ("is out of its order, or there twice", {
                output().with_rows(table, |rows| [0, 0].into_iter().chain(1..rows).collect())
            }),
            ("has an action that the lake does not have", {
                output().with(table, "action", 0, |_| 8)
            }),
            ("has an action that the lake does not have", {
                output().with(table, "action", 0, |_| -1)
            }),
            ("counts no step", output().with(table, "count", 2, |_| 0)),
            ("has a first step that no episode has", {
                output().with(table, "first_step_index", 2, |_| 0)
            }),
            ("has a first step that no episode has", {
                output().with(table, "first_step_index", 2, |_| -1)
            }),
        ];
        for (message, output) in cases {
            assert_refused(&lake, &output, message);
        }
        if table != Table::Failures {
            let other = output().with(table, "next_state_key", 1, |key| key + 1);
            assert_refused(&lake, &other, "has a next state under another key");
            let other = output().with(table, "wall_time_us", 1, |_| -1);
            assert_refused(&lake, &other, "has a negative time");
        }
    }
    let kinds = vec!["unheard-of"; output().tables[&Table::Failures].num_rows()];
    let kinds: ArrayRef = Arc::new(StringArray::from(kinds));
    let other = output().with_column(Table::Failures, "kind", kinds);
    assert_refused(&lake, &other, "has an unknown kind of failure");
}

#[test]
fn tables_that_contradict_each_other_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (lake, _) = in_layers(&folder.path().join("lake"), 2);
    let output = || Output::of(&lake);
    // A (state, action) with conflicts is not that of its transition, or has one result alone.
    let conflicts = output().tables[&Table::Conflicts].clone();
    let ids = conflicts["state_id"].as_binary::<i32>();
    let actions = conflicts["action"].as_primitive::<Int32Type>();
    let of_first =
        |row: usize| ids.value(row) == ids.value(0) && actions.value(row) == actions.value(0);
    let first = (0..conflicts.num_rows()).take_while(|&row| of_first(row)).count();
    let alone = output().with_rows(Table::Conflicts, |rows| (first - 1..rows).collect());
    assert_refused(&lake, &alone, "in conflicts lacks a row that follows from the steps");
    let transitions = output().tables[&Table::StateTransitions].clone();
    let states = transitions["state_id"].as_binary::<i32>();
    let taken = transitions["action"].as_primitive::<Int32Type>();
    let is_first =
        |row: &usize| states.value(*row) == ids.value(0) && taken.value(*row) == actions.value(0);
    let place = (0..transitions.num_rows()).find(is_first).unwrap();
    let lost = output()
        .with_rows(Table::StateTransitions, |rows| (0..rows).filter(|&row| row != place).collect());
    assert_refused(&lake, &lost, "in state_transitions lacks a row that follows from the steps");
    for column in ["count", "wall_time_us", "first_episode_id"] {
        let other = output().with(Table::StateTransitions, column, place, |value| value + 1);
        let differs = "in state_transitions has other values than follow from the steps";
        assert_refused(&lake, &other, differs);
    }
}

#[test]
fn tables_of_other_steps_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (lake, _) = in_layers(&folder.path().join("lake"), 2);
    let output = || Output::of(&lake);
    let differs = "in state_transitions has other values than follow from the steps";
    // Transitions without conflicts, whose rows follow from some steps.
    let transitions = output().tables[&Table::StateTransitions].clone();
    let conflicts = output().tables[&Table::Conflicts].clone();
    let of = |batch: &RecordBatch| {
        let (states, actions) = (batch["state_id"].as_binary::<i32>(), &batch["action"]);
        let actions = actions.as_primitive::<Int32Type>();
        (0..batch.num_rows())
            .map(|row| (states.value(row).to_vec(), actions.value(row)))
            .collect::<Vec<_>>()
    };
    let unsure = of(&conflicts);
    let sure = of(&transitions);
    let sure = (0..sure.len()).filter(|&row| !unsure.contains(&sure[row])).collect::<Vec<_>>();
    let more = output().with(Table::StateTransitions, "count", sure[0], |count| count + 1);
    assert_refused(&lake, &more, differs);
    let moved = more.with(Table::StateTransitions, "count", sure[1], |count| count + 1);
    let moved = moved.with(Table::StateTransitions, "count", sure[2], |count| count + 1);
    assert_refused(&lake, &moved, "follow from the steps (and 2 more)");
    // As many steps, and one edge for another.
    let ids = transitions["next_state_id"].as_binary::<i32>();
    let forged = (0..ids.len()).map(|row| {
        let mut id = ids.value(row).to_vec();
        id[19] ^= u8::from(row == sure[0]);
        id
    });
    let forged = forged.collect::<Vec<_>>();
    let forged = BinaryArray::from_iter_values(forged.iter());
    let other = output().with_column(Table::StateTransitions, "next_state_id", Arc::new(forged));
    assert_refused(&lake, &other, "has a row that does not follow from the steps; ");
    assert_refused(&lake, &other, "lacks a row that follows from the steps");
    let time = output().with(Table::StateTransitions, "wall_time_us", sure[0], |time| time + 1);
    assert_refused(&lake, &time, differs);
    let fewer = output().with_rows(Table::Failures, |rows| (1..rows).collect());
    assert_refused(&lake, &fewer, "in failures lacks a row that follows from the steps");
    let first = output().with(Table::StateTransitions, "first_step_index", sure[0], |at| at + 1);
    assert_refused(&lake, &first, differs);
    let rewards = transitions["reward_Size"].as_primitive::<Float64Type>();
    let is_doubled = |row: usize| sure[..2].contains(&row);
    let doubled = rewards.iter().enumerate().map(|(row, reward)| {
        reward.map(|reward| if is_doubled(row) { 2.0 * reward + 1.0 } else { reward })
    });
    let doubled = Arc::new(doubled.collect::<Float64Array>());
    let other = output().with_column(Table::StateTransitions, "reward_Size", doubled);
    assert_refused(&lake, &other, "follow from the steps (and 1 more)");
}

#[test]
fn steps_and_actions_that_were_retracted_since_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (lake, _) = in_layers(&folder.path().join("lake"), 2);
    let output = Output::of(&lake);
    lake.maintenance().unwrap().retract_action("a2", "a test").unwrap();
    assert_refused(&lake, &output, "the lake has retracted other actions");
    let output = Output::of(&lake);
    take(&lake, &output).unwrap();
    assert_eq!(found(&lake), []);
    let programs = RetractionTarget::Benchmarks([uri(1)].into());
    let mut writer = lake.writer().unwrap();
    lake.maintenance().unwrap().retract(&mut writer, &programs, "a test").unwrap();
    assert_refused(&lake, &output, "files of steps that were counted: its steps may have changed");
    take(&lake, &Output::of(&lake)).unwrap();
    assert_eq!(found(&lake), []);
}
