//! The rows and columns of datasets.

use std::collections::BTreeMap;

use arrow::array::{Array as _, AsArray as _, RecordBatch};
use arrow::datatypes::Float64Type;
use futures::TryStreamExt as _;
use proptest::prelude::*;
use steplake::lake::{Identity, Lake, RecordedObservation};
use steplake::load::{LoadError, MatrixCache, NumberType, Source, TrainingDataset};
use steplake::model::{Classified as _, EpisodeId, Remedy, RunId, StateId};

use super::{open, request, rows, sealed, wait};
use crate::fixtures::layered_lake::{Played, pieces, record};
use crate::fixtures::support::{engine, run};
use crate::fixtures::toy_lake::{Author, float64, id, identity, int32, int64, state};

/// The observations that the author gives a state.
fn observed(number: u32) -> Vec<f64> {
    vec![f64::from(number), 1.0, f64::from(number), -3.0]
}

/// The numbers of states by their ids.
fn numbers() -> BTreeMap<StateId, u32> {
    (0..12).map(|number| (state(number), number)).collect()
}

/// The rows that an answer has.
fn answer<T>(lake: &Lake, sql: &str, row: impl Fn(&RecordBatch, usize) -> T) -> Vec<T> {
    let batches: Vec<RecordBatch> =
        wait(async { engine(lake).await.sql(sql).await.unwrap().try_collect().await.unwrap() });
    let row = &row;
    batches.iter().flat_map(|batch| (0..batch.num_rows()).map(move |at| row(batch, at))).collect()
}

/// The rows of steps: the state, the action, the reward, the next state, and how it ended.
fn steps(pieces: &[Vec<Played>]) -> Vec<Vec<f64>> {
    let mut all = Vec::new();
    for (first, path) in pieces.iter().flatten() {
        let mut at = *first;
        for (place, &(action, to)) in path.iter().enumerate() {
            let next = to.unwrap_or(at);
            let reward = to.map_or(0.0, f64::from);
            let is_last = place + 1 == path.len();
            let ends = [to.is_none(), to.is_some() && is_last].map(|end| f64::from(u8::from(end)));
            let row = [observed(at), vec![f64::from(action), reward], observed(next), ends.into()];
            all.push(row.concat());
            at = next;
        }
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8, ..ProptestConfig::default() })]

    #[test]
    fn rows_are_those_that_were_recorded(pieces in pieces()) {
        let folder = tempfile::tempdir().unwrap();
        let lake = record(folder.path(), &pieces);

        let columns =
            ["Size", "Counts", "action", "reward_Size", "next_Size", "next_Counts", "terminated", "truncated"];
        let taken = open(&lake, Source::Steps, &columns, None).unwrap();
        prop_assert_eq!(rows(&taken), steps(&pieces));

        let numbers = numbers();
        let sql = "SELECT * FROM state_transitions ORDER BY state_key, state_id, action";
        let wanted = answer(&lake, sql, |batch, row| {
            let before = observed(numbers[&id(batch, "state_id", row)]);
            let after = observed(numbers[&id(batch, "next_state_id", row)]);
            let count = i32::try_from(int64(batch, "count", row)).unwrap();
            let own = vec![f64::from(int32(batch, "action", row)), f64::from(count)];
            [before, own, vec![float64(batch, "reward_Size", row)], after].concat()
        });
        let columns = ["Size", "Counts", "action", "count", "reward_Size", "next_Size", "next_Counts"];
        let transitions = open(&lake, Source::StateTransitions, &columns, None).unwrap();
        prop_assert_eq!(rows(&transitions), wanted);

        let sql = "SELECT state_id FROM observations ORDER BY state_key, state_id";
        let wanted = answer(&lake, sql, |batch, row| {
            let id = id(batch, "state_id", row);
            [id.0.map(f64::from).to_vec(), observed(numbers[&id])].concat()
        });
        let columns = ["state_id", "Size", "Counts"];
        let states = open(&lake, Source::Observations, &columns, None).unwrap();
        prop_assert_eq!(rows(&states), wanted);
    }

    #[test]
    fn a_condition_chooses_rows_and_keeps_their_order(pieces in pieces()) {
        let folder = tempfile::tempdir().unwrap();
        let lake = record(folder.path(), &pieces);
        let columns = ["action", "reward_Size"];
        for (source, condition) in [
            (Source::StateTransitions, "action <> 1 AND state_id <> next_state_id"),
            (Source::Steps, "action = 2 OR step_index > 3 -- a comment"),
            (Source::StateTransitions, "false"),
        ] {
            let all = rows(&open(&lake, source, &columns, None).unwrap());
            let chosen = open(&lake, source, &columns, Some(condition)).unwrap();
            let relation = match source {
                Source::Steps => "transitions_taken",
                _ => "state_transitions",
            };
            let order = match source {
                Source::Steps => "episode_id, step_index",
                _ => "state_key, state_id, action",
            };
            let sql = format!("SELECT ({condition}\n) AS x FROM {relation} ORDER BY {order}");
            let kept = answer(&lake, &sql, |batch, row| {
                let column = batch.column(0);
                column.is_valid(row) && arrow::array::AsArray::as_boolean(column).value(row)
            });
            let wanted: Vec<_> =
                all.into_iter().zip(kept).filter(|(_, kept)| *kept).map(|(row, _)| row).collect();
            prop_assert_eq!(rows(&chosen), wanted);
        }
    }
}

fn small(folder: &std::path::Path) -> Lake {
    let path = vec![(0, Some(1)), (1, Some(2)), (2, None)];
    record(folder, &[vec![(0, path.clone()), (3, path)]])
}

/// Adds an episode of a later run that observes another space, `Depth`. The states so far have no
/// value in it, and each new one has 5.
fn grown(lake: &Lake, steps: &[(u32, Option<u32>)]) -> Lake {
    let observations = [identity().observations, vec![RecordedObservation::int("Depth")]].concat();
    let grown = Identity { observations, ..identity() };
    let lake = Lake::open_or_create(lake.path(), &grown).unwrap();
    let mut author = Author::default();
    author.known.extend([0, 1, 2, 3].map(state));
    author.episode(EpisodeId::new(RunId(2), 0), 0, steps);
    let mut rows = author.take();
    rows.benchmarks.clear();
    for row in &mut rows.observations {
        row.values.push(Some(steplake::model::Value::Int(5)));
    }
    let mut writer = lake.writer().unwrap();
    writer.append(&rows).unwrap();
    writer.seal().unwrap();
    lake
}

#[test]
fn a_column_that_cannot_be_had_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let lake = small(folder.path());
    let error = |column: &str| {
        open(&lake, Source::StateTransitions, &[column], None).unwrap_err().to_string()
    };
    let unknown = error("Cots");
    let near = "state_transitions have no column `Cots`: did you mean `Counts`";
    assert!(unknown.starts_with(near), "{unknown}");
    let unknown = error("Programl");
    assert!(unknown.contains("`Counts`, `next_Counts`"), "{unknown}");
    assert!(unknown.contains("`state_id`, `next_state_id`"), "{unknown}");
    let advice = "; it may be an observation space that no run recorded";
    assert!(unknown.ends_with(advice), "{unknown}");
    assert!(open(&lake, Source::Observations, &["next_Size"], None).is_err());
    assert!(open(&lake, Source::Steps, &["benchmark_uri"], None).is_err());
    let wrong = open(&lake, Source::Steps, &["action"], Some("actio = 1")).unwrap_err();
    assert!(matches!(wrong, LoadError::Query(_)), "{wrong}");
}

#[test]
fn numbers_come_in_the_type_that_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let lake = small(folder.path());
    let types = |wanted: Option<NumberType>| {
        let mut request = request(Source::StateTransitions, &["Counts", "reward_Size"], None);
        request.columns[0].number_type = wanted;
        let cache = MatrixCache::new(folder.path().join("cache"));
        let dataset =
            wait(async { TrainingDataset::open(&sealed(&lake, &cache).await, &request).await })?;
        Ok::<_, LoadError>(
            dataset.columns().iter().map(|column| column.number_type).collect::<Vec<_>>(),
        )
    };
    assert_eq!(types(None).unwrap(), vec![NumberType::I32, NumberType::F32]);
    for wanted in [NumberType::F32, NumberType::I64] {
        assert_eq!(types(Some(wanted)).unwrap()[0], wanted);
    }
    // There are negative counts.
    assert!(matches!(types(Some(NumberType::U8)), Err(LoadError::OtherType { .. })));
}

#[test]
fn a_row_without_a_value_is_an_error_until_it_is_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let lake = small(folder.path());
    let lake = grown(&lake, &[(0, Some(1)), (1, Some(7))]);
    let all = open(&lake, Source::Observations, &["Depth"], None).unwrap();
    let error = all.gather(&[0]).unwrap_err();
    assert!(matches!(error, LoadError::Missing { missing: 4, rows: 5, .. }), "{error}");
    assert_eq!(error.remedy(), Some(Remedy::Backfill(Some("Depth".to_owned()))), "{error}");
    // The second steps of slices have a value, and the first ones have none.
    let cache = MatrixCache::new(folder.path().join("cache"));
    let second = format!("episode_id = {}", EpisodeId::new(RunId(2), 0).0);
    let steps = open(&lake, Source::Steps, &["next_Depth"], Some(&second)).unwrap();
    let slices = steps.sequences(&cache, Some(2), 1).unwrap();
    let error = slices.gather(&[0]).unwrap_err();
    assert!(matches!(error, LoadError::Missing { missing: 1, rows: 2, .. }), "{error}");
    let kept = open(&lake, Source::Observations, &["Depth"], Some("\"Depth\" IS NOT NULL"));
    assert_eq!(rows(&kept.unwrap()), [[5.0]]);
}

#[test]
fn the_advice_about_missing_values_leaves_rows_that_have_them() {
    let folder = tempfile::tempdir().unwrap();
    // Steps of both runs fail. Those of the first have a state without a value.
    let lake = grown(&small(folder.path()), &[(0, Some(7)), (1, Some(8)), (2, None)]);
    for column in ["Depth", "next_Depth"] {
        let all = open(&lake, Source::Steps, &[column], None).unwrap();
        let error = all.gather(&[0]).unwrap_err().to_string();
        let (_, advice) = error.split_once("a filter such as `").unwrap();
        let condition = advice.trim_end_matches('`');
        let kept = open(&lake, Source::Steps, &[column], Some(condition)).unwrap();
        let kept = rows(&kept);
        // The step that fails is kept, with the state that it began in.
        let wanted = if column == "Depth" { 2 } else { 3 };
        assert_eq!(kept, vec![[5.0]; wanted], "{condition}");
    }
}

#[test]
fn a_damaged_or_lost_matrix_is_made_again() {
    let folder = tempfile::tempdir().unwrap();
    let lake = small(folder.path());
    let columns = ["Counts", "action", "next_Size"];
    let wanted = rows(&open(&lake, Source::Steps, &columns, None).unwrap());
    let matrices = || std::fs::read_dir(folder.path().join("cache")).unwrap();
    let count = matrices().count();
    assert!(count >= 6, "{count}");
    for file in matrices().map(|file| file.unwrap().path()) {
        for damaged in [None, Some(b"damaged".as_slice())] {
            match damaged {
                None => std::fs::remove_file(&file).unwrap(),
                Some(bytes) => std::fs::write(&file, bytes).unwrap(),
            }
            assert_eq!(rows(&open(&lake, Source::Steps, &columns, None).unwrap()), wanted);
        }
    }
    assert_eq!(matrices().count(), count);
}

#[test]
fn equal_lakes_have_equal_fingerprints_and_others_do_not() {
    let folders = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let lakes = [small(folders[0].path()), small(folders[1].path())];
    let longer = vec![(0, Some(1)), (1, Some(2)), (1, Some(3))];
    let other = record(folders[2].path(), &[vec![(0, longer.clone()), (3, longer)]]);
    let fingerprint = |lake: &Lake, columns: &[&str], condition| {
        let dataset = open(lake, Source::Steps, columns, condition).unwrap();
        dataset.fingerprint().to_owned()
    };
    let one = fingerprint(&lakes[0], &["action"], None);
    assert_eq!(one, fingerprint(&lakes[1], &["Size"], None));
    assert_ne!(one, fingerprint(&other, &["action"], None));
    assert_ne!(one, fingerprint(&lakes[0], &["action"], Some("action < 9")));
}

#[test]
fn texts_and_tokens_are_no_tensors_and_embeddings_are() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lake");
    let huffman = ["generate", "--benchmark", "benchmark://steplake-v0/huffman", "--episodes", "1"];
    let observed = ["--episode-length", "6", "--observe", "IR2Vec,ProgramlJson,LexedIr"];
    run(&path, &[&huffman[..], &observed].concat());
    run(&path, &["seal"]);
    let lake = Lake::open(&path).unwrap();
    for (name, words) in [("ProgramlJson", "has no numbers"), ("LexedIr", "lists of any length")] {
        let error = open(&lake, Source::Observations, &[name], None).unwrap_err();
        let LoadError::NotNumbers { column, problem } = &error else { panic!("{error}") };
        assert!(column == name && problem.contains(words), "{error}");
    }
    let loaded = rows(&open(&lake, Source::Observations, &["IR2Vec"], None).unwrap());
    let sql = "SELECT \"IR2Vec\" AS it FROM observations ORDER BY state_key, state_id";
    let recorded = answer(&lake, sql, |batch, row| {
        let numbers = batch["it"].as_list::<i32>().value(row);
        numbers.as_primitive::<Float64Type>().values().to_vec()
    });
    assert!(loaded == recorded && loaded.len() > 3 && loaded[0].len() == 75);
}
