//! The same answers, row for row.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use sqllogictest::{DBOutput, DefaultColumnType, Runner};
use steplake::lake::Lake;
use steplake::model::{EpisodeId, RunId};
use steplake::query::{Engine, NamedQuery};

use crate::lakes::{Embedded, in_layers};
use crate::processes::{Cluster, Refused, answer, texts};
use crate::programs::{InTime as _, program};
use crate::small_lake::{self, Kept};
use crate::toy_lake::Author;

/// What is asked in a test file.
struct Asked<'a> {
    cluster: &'a Cluster,
    lake: &'a Lake,
}

impl sqllogictest::DB for Asked<'_> {
    type Error = Refused;
    type ColumnType = DefaultColumnType;

    fn run(&mut self, text: &str) -> Result<DBOutput<Self::ColumnType>, Refused> {
        let lake = self.lake.path();
        let call = text.strip_prefix("query ").map(|call| {
            let mut words = call.split_whitespace();
            let name = words.next().unwrap_or_default();
            (name, words.filter(|word| word.contains('=')))
        });
        let answer = match call.clone() {
            Some((name, values)) => self.cluster.named(lake, name, values),
            None => self.cluster.sql(lake, text),
        };
        let rows = match answer {
            // What needs the lake itself is refused. The file then says what it gives elsewhere.
            Err(Refused(said)) if said.contains("ask without --engine") => {
                let named = call.as_ref().and_then(|(name, _)| NamedQuery::get(name).ok());
                assert!(needs_the_lake(named.map_or(text, |query| query.sql)), "{text}: {said}");
                let embedded = Embedded::over(self.lake.snapshot().unwrap());
                let answer = match call {
                    Some((name, values)) => embedded.named(name, values),
                    None => embedded.ask(text),
                };
                answer.map_err(|error| Refused(error.to_string()))?
            }
            answer => answer?,
        };
        let columns = rows.first().map_or(0, arrow::array::RecordBatch::num_columns);
        let types = vec![DefaultColumnType::Any; columns];
        let cell = |text: String| if text.is_empty() { "(empty)".to_owned() } else { text };
        let mut rows = texts(&rows);
        for row in rows.iter_mut().filter(|_| text.starts_with("DESCRIBE ")) {
            // The one difference: what is a dictionary in the lake travels as plain text.
            if row[..2] == ["benchmark_uri", "Utf8"] {
                row[1] = "Dictionary(Int32, Utf8)".into();
            }
        }
        let rows = rows.into_iter().map(|row| row.into_iter().map(cell).collect());
        Ok(DBOutput::Rows { types, rows: rows.collect() })
    }

    fn shutdown(&mut self) {}
}

/// Whether a statement calls what only a process with the lake at hand has, or what no executor is
/// sent.
fn needs_the_lake(sql: &str) -> bool {
    let graph = Engine::table_functions().filter_map(|usage| usage.split_once('('));
    let mut calls =
        ["ir", "ir_diff", "generate_series"].into_iter().chain(graph.map(|(name, _)| name));
    calls.any(|name| sql.contains(&format!("{name}("))) || sql.contains("WITH RECURSIVE")
}

fn files() -> Vec<PathBuf> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/sql");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> =
        files.filter(|file| file.extension().is_some_and(|e| e == "slt")).collect();
    files.sort();
    assert!(!files.is_empty(), "no test files in {folder}");
    files
}

#[test]
fn every_test_file_holds_on_a_cluster() {
    let cluster = Cluster::start(2);
    let mut wrong = String::new();
    for kept in Kept::ALL {
        let folder = tempfile::tempdir().unwrap();
        let lake = small_lake::record(&folder.path().join("lake"), kept);
        for file in files() {
            let mut runner = Runner::new(async || Ok(Asked { cluster: &cluster, lake: &lake }));
            for record in sqllogictest::parse_file(&file).unwrap() {
                if let Err(error) = runner.run(record) {
                    writeln!(wrong, "{kept:?}: {error}").unwrap();
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// Questions whose answers come in one order. The first three are about the derived tables.
const ORDERED: [&str; 11] = [
    "SELECT * FROM state_transitions ORDER BY state_key, state_id, action",
    "SELECT * FROM conflicts ORDER BY state_key, state_id, action, next_state_id",
    "SELECT * FROM failures ORDER BY state_key, state_id, action",
    "SELECT * FROM steps ORDER BY episode_id, step_index",
    "SELECT * FROM steps_with_actions ORDER BY episode_id, step_index",
    "SELECT * FROM transitions_taken ORDER BY episode_id, step_index",
    "SELECT *, feature(Counts, 'y') AS y FROM observations ORDER BY state_key",
    "SELECT action_name(action) AS name, count(*) AS steps, avg(reward_Size) AS reward FROM steps \
     GROUP BY action_name(action) ORDER BY 1",
    "SELECT a.name, s.kind, count(*), row_number() OVER (PARTITION BY action_name(s.action) ORDER BY s.kind) \
     FROM failures AS s JOIN actions AS a ON a.name = action_name(s.action) GROUP BY a.name, s.kind, s.action \
     ORDER BY 1, 2",
    "SELECT table_name, count(*), sum(rows) FROM segments GROUP BY table_name ORDER BY 1",
    "SELECT DISTINCT commandline(actions) AS line FROM steps_with_actions WHERE step_index < 4 ORDER BY 1",
];

#[test]
fn layers_answer_as_in_one_process() {
    let cluster = Cluster::start(2);
    let folder = tempfile::tempdir().unwrap();
    for layers in [1, 3] {
        let path = folder.path().join(layers.to_string());
        let lake = in_layers(&path, layers);
        let embedded = Embedded::over(lake.snapshot().unwrap());
        for sql in ORDERED {
            let (found, wanted) = (cluster.sql(&path, sql).unwrap(), embedded.sql(sql));
            assert_eq!(texts(&found), texts(&wanted), "{layers} layers: {sql}");
            assert!(!texts(&wanted).is_empty(), "{sql}");
        }
        let state = texts(&embedded.sql("SELECT state_id FROM conflicts LIMIT 1"))[0][0].clone();
        let sql =
            format!("SELECT * FROM state_transitions WHERE state_id = '{state}' ORDER BY action");
        assert_eq!(texts(&cluster.sql(&path, &sql).unwrap()), texts(&embedded.sql(&sql)));
    }
}

#[test]
fn dedup_on_a_cluster_gives_the_derived_tables() {
    let cluster = Cluster::start(2);
    let folder = tempfile::tempdir().unwrap();
    let lake = in_layers(&folder.path().join("lake"), 3);
    let embedded = Embedded::over(lake.snapshot().unwrap());
    let definitions = ["dedup", "dedup_conflicts", "dedup_failures"];
    for (name, table) in definitions.into_iter().zip(ORDERED) {
        let counted = cluster.named(lake.path(), name, std::iter::empty()).unwrap();
        let kept = texts(&embedded.sql(table));
        assert!(!kept.is_empty(), "{table}");
        assert_eq!(texts(&counted), kept, "{name}");
    }
}

#[test]
fn what_cannot_be_had_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let lake = in_layers(&folder.path().join("lake"), 1);
    let cluster = Cluster::start(1);
    let refused = |sql: &str| cluster.sql(lake.path(), sql).unwrap_err().0;
    for sql in [
        "SELECT ir(state_id) FROM observations",
        "WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 3) SELECT * FROM n",
    ] {
        assert!(refused(sql).contains("ask without --engine"), "{}", refused(sql));
    }
    assert!(refused("SELECT nothing FROM steps").contains("there is no column `nothing`"));
    assert!(refused("DROP TABLE steps").contains("a query only reads"));
    assert_eq!(
        texts(&cluster.sql(lake.path(), "SELECT 1 AS one WHERE 1 = 1").unwrap()),
        [["1".to_owned()]]
    );
    assert!(cluster.sql(lake.path(), "SELECT * FROM steps WHERE false").unwrap().is_empty());
    let raw = in_layers(&folder.path().join("raw"), 0);
    let (mut writer, mut author) = (raw.writer().unwrap(), Author::default());
    author.episode(EpisodeId::new(RunId(1), 1), 1, &[(0, Some(2)), (1, Some(3))]);
    writer.append(&author.take()).unwrap();
    writer.seal().unwrap();
    let said = cluster.sql(raw.path(), "SELECT count(*) FROM failures").unwrap_err().0;
    assert!(said.contains("not counted yet"), "{said}");
    // A name alone is not the table.
    assert!(cluster.sql(raw.path(), "SELECT count(*) FROM steps AS failures").is_ok());
    let gone = cluster.address().to_owned();
    drop(cluster);
    let said = nobody(lake.path(), &gone).unwrap_err().0;
    assert!(said.contains("there is no scheduler at"), "{said}");
    assert!(said.contains("steplake cluster scheduler"), "{said}");
}

fn nobody(lake: &Path, address: &str) -> Result<Vec<arrow::array::RecordBatch>, Refused> {
    let mut command = program(env!("CARGO_BIN_EXE_steplake-cluster"));
    command.env("STEPLAKE_LAKE", lake).args(["sql", "--scheduler", address]);
    answer(command.args(["SELECT count(*) FROM steps WHERE action > 0", "--format", "arrow"]))
}

/// What `sql` prints, asked in this way.
fn printed(cluster: &Cluster, lake: &Lake, arguments: &[&str], script: Stdio) -> String {
    let mut command = cluster.command(lake.path(), "sql");
    let output = command.args(arguments).stdin(script).output_in_time();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_question_may_stand_in_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let lake = in_layers(&folder.path().join("lake"), 1);
    let cluster = Cluster::start(1);
    let script = folder.path().join("script.sql");
    let text = "SELECT count(*) AS n FROM steps\n WHERE action > 9;\n\\x\n\\query unstable;\nSELECT 2 AS two";
    std::fs::write(&script, text).unwrap();
    let path = script.to_str().unwrap();
    for format in ["csv", "table", "expanded"] {
        let given = ["--format", format, "-f", path];
        let from_file = printed(&cluster, &lake, &given, Stdio::null());
        let piped = std::fs::File::open(&script).unwrap();
        assert_eq!(printed(&cluster, &lake, &given[..2], piped.into()), from_file);
        assert!(from_file.contains("two"), "{from_file}");
    }
    let rows = printed(
        &cluster,
        &lake,
        &["--format", "expanded", "--rows", "1", "SELECT * FROM steps"],
        Stdio::null(),
    );
    assert!(rows.contains("row 1 ]") && !rows.contains("row 2 ]"), "{rows}");
    let table = folder.path().join("rows.csv");
    let kept = [
        "--format",
        "csv",
        "--output",
        table.to_str().unwrap(),
        "--",
        "SELECT 3 AS three FROM steps LIMIT 1",
    ];
    assert_eq!(printed(&cluster, &lake, &kept, Stdio::null()), "");
    assert_eq!(std::fs::read_to_string(table).unwrap(), "three\n3\n");
}
