//! Questions with a mistake in them: one line that says what is wrong and what was meant, and the
//! exit code of a mistake.

use std::path::Path;

use steplake::lake::{BenchmarkRow, Lake, Rows};
use steplake::model::{Baselines, Provenance};

use super::{folder, toy};
use crate::fixtures::programs::InTime as _;
use crate::fixtures::small_lake::{self, Kept};
use crate::fixtures::support::{err, fail, run, steplake};

const ADLER: &str = "benchmark://debian-v0/zlib@1:1.2.13.dfsg-1/adler32.c";
const CRC: &str = "benchmark://debian-v0/zlib@1:1.2.13.dfsg-1/crc32.c";
const OLD: &str = "benchmark://debian-v0/bzip2@1.0.8-5/blocksort.c";
const NEW: &str = "benchmark://debian-v0/bzip2@1.0.8-6/blocksort.c";

/// The small lake, with programs of Debian packages.
fn with_packages(path: &Path) {
    let lake = small_lake::record(path, Kept::Sealed);
    let programs = [ADLER, CRC, OLD, NEW].map(|uri| BenchmarkRow {
        program_digest: "0".repeat(64),
        provenance: Provenance { family: "debian/zlib".into(), ..Provenance::default() },
        baselines: Baselines(vec![
            ("IrInstructionCountO0".into(), 100),
            ("IrInstructionCountOz".into(), 80),
        ]),
        ..BenchmarkRow::new(uri.parse().unwrap(), small_lake::state("a0"))
    });
    lake.writer()
        .unwrap()
        .append(&Rows { benchmarks: programs.into(), ..Rows::default() })
        .unwrap();
}

/// What `query` answers, and what it says beside that.
fn asked(lake: &Path, arguments: &[&str]) -> (String, String) {
    let output = steplake(lake).arg("query").args(arguments).output_in_time();
    assert!(output.status.success(), "{arguments:?}: {}", err(&output));
    (String::from_utf8_lossy(&output.stdout).into_owned(), err(&output))
}

#[test]
fn a_parameter_that_the_lake_does_not_know_is_a_mistake_and_no_empty_answer() {
    let (_folder, lake) = folder();
    with_packages(&lake);
    let known = format!("state={}", small_lake::state("a0"));
    let unknown = format!("state={}", "0".repeat(40));
    let no_state = format!("this lake has no state `{}`", "0".repeat(40));
    let near_adler = format!("did you mean `{ADLER}`");
    let cases: [(&[&str], &str); 12] = [
        (&["path_to", "-p", &unknown], &no_state),
        (&["ir_diff", "-p", &unknown, "-p", "action=dce"], &no_state),
        (
            &[
                "shortest_path",
                "-p",
                &known.replacen("state", "from", 1),
                "-p",
                &unknown.replacen("state", "to", 1),
            ],
            &no_state,
        ),
        (&["ir_diff", "-p", &known, "-p", "action=dse"], "no action `dse`: did you mean `dce`"),
        (&["opcode_delta", "-p", &known, "-p", "action=scalariser"], "did you mean `scalarizer`?"),
        (&["ir_diff", "-p", &known, "-p", "action=zzzzzz"], "there are `dce`, `gvn`, "),
        (&["best_cost", "-p", "cost=IrInstructionCnt"], "did you mean `IrInstructionCount`?"),
        (
            &["mean_reward", "-p", "reward=IrInstructionCountOz"],
            "did you mean `IrInstructionCount`",
        ),
        (&["algebra", "-p", "law=comuting"], "did you mean `commuting`?"),
        (&["noop_rate_by_family", "-p", "family=smal"], "did you mean `small`?"),
        (&["best_cost", "-p", "benchmark=benchmark://debian-v0/zlib/adlr32.c"], &near_adler),
        (
            &["best_episode", "-p", "benchmark=nothing://like/it"],
            "there are `benchmark://debian-v0/bzip2@1.0.8-5/",
        ),
    ];
    for (arguments, says) in cases {
        let (code, text) = fail(&lake, &[&["query"], arguments].concat());
        assert!(text.contains(says), "{arguments:?}: {text}");
        assert_eq!((code, text.lines().count()), (2, 1), "{arguments:?}: {text}");
    }
    // What the lake knows and has nothing to say about is no mistake.
    let nothing = ["ir_diff", "-p", &known, "-p", "action=inline", "--format", "json"];
    assert_eq!(asked(&lake, &nothing), ("[]\n".into(), String::new()));
}

#[test]
fn a_benchmark_is_found_without_the_version_of_its_package() {
    let (_folder, lake) = folder();
    with_packages(&lake);
    let of = |benchmark: &str| {
        let value = format!("benchmark={benchmark}");
        asked(&lake, &["best_cost", "-p", &value, "--format", "csv"])
    };
    let (rows, said) = of("benchmark://debian-v0/zlib/adler32.c");
    assert!(rows.contains(ADLER) && !rows.contains(CRC), "{rows}");
    assert!(said.contains("stands for") && said.contains(ADLER), "{said}");
    let (rows, said) = of("benchmark://debian-v0/zlib/%");
    assert!(rows.contains(ADLER) && rows.contains(CRC), "{rows}");
    assert!(said.contains("`benchmark://debian-v0/zlib@1:1.2.13.dfsg-1/%`"), "{said}");
    for exact in [ADLER, "%/adler32.c", "benchmark://debian-v0/zlib@%/adler32.c"] {
        let (rows, said) = of(exact);
        assert_eq!((rows.lines().count(), said), (2, String::new()), "{exact}: {rows}");
    }
    for (many, named) in [
        ("benchmark://debian-v0/bzip2/blocksort.c", [OLD, NEW]),
        (
            "benchmark://debian-v0/bzip2/%",
            ["benchmark://debian-v0/bzip2@1.0.8-5/%", "benchmark://debian-v0/bzip2@1.0.8-6/%"],
        ),
    ] {
        let (code, text) = fail(&lake, &["query", "best_cost", "-p", &format!("benchmark={many}")]);
        assert!(named.iter().all(|name| text.contains(name)), "{text}");
        assert_eq!((code, text.lines().count()), (2, 1), "{text}");
    }
    let graph = |pattern: &str| run(&lake, &["export", "--benchmark", pattern]);
    assert_eq!(graph("benchmark://debian-v0/zlib/adler32.c"), graph(ADLER));
    assert!(graph(ADLER).contains("<node "));
    let (code, text) =
        fail(&lake, &["export", "--benchmark", "benchmark://debian-v0/zlib/adlr32.c"]);
    assert!(code == 2 && text.contains(ADLER), "{text}");
}

#[test]
fn a_statement_that_asks_wrongly_is_a_mistake_of_its_author() {
    let (_folder, lake) = folder();
    small_lake::record(&lake, Kept::Sealed);
    for (sql, says) in [
        ("SELECT ir('abc')", "`abc` is not a state id: expected 40 hexadecimal digits"),
        ("SELECT ir(X'00')", "a state id has 20 bytes, not 1"),
        ("SELECT ir_diff('abc', 'abc')", "`abc` is not a state id"),
        ("SELECT ir(1)", "expected a state id"),
        ("SELECT action_name(99)", "there is no action 99"),
        ("SELECT avg(InstCount) FROM observations", "feature(InstCount, 'TotalInsts')"),
        ("SELECT best_cost('IrInstructionCount')", "SELECT * FROM best_cost('OBSERVATION SPACE')"),
        ("SELECT * FROM steps WHERE action = 'dce'", "`action_name(action) = 'dce'`"),
        ("SELECT * FROM steps WHERE action IN ('dce', 'gvn')", "`action_name(action) = 'dce'`"),
        ("SELECT policy::INT FROM episodes", "TRY_CAST gives null instead"),
        (&format!("SELECT * FROM reachable('{}')", "0".repeat(40)), "not in the transition graph"),
        ("SELECT * FROM transitions", "did you mean `state_transitions`, `transitions_taken`?"),
    ] {
        let (code, text) = fail(&lake, &["sql", sql]);
        assert!(text.contains(says), "{sql}: {text}");
        assert_eq!((code, text.lines().count()), (2, 1), "{sql}: {text}");
    }
    let lake = Lake::open(&lake).unwrap();
    assert!(lake.snapshot().is_ok(), "nothing is wrong with the lake");
}

#[test]
fn a_query_takes_the_spaces_of_its_lake_where_none_is_named() {
    let (_folder, lake) = folder();
    toy(&lake, &["--steps", "300"]);
    run(&lake, &["dedup"]);
    let rows = |arguments: &[&str]| asked(&lake, &[arguments, &["--format", "csv"]].concat()).0;
    for query in ["best_cost", "best_episode", "mean_reward", "returns", "advantage_by_action"] {
        assert!(rows(&[query]).lines().count() > 1, "{query}");
    }
    let named = rows(&["mean_reward", "-p", "reward=CostNorm"]);
    assert_eq!(rows(&["mean_reward"]), named, "the first scaled one");
    let one = "SELECT state_id FROM state_transitions AS t JOIN actions USING (action) \
               WHERE name = 'increment' AND state_id <> next_state_id LIMIT 1";
    let state = run(&lake, &["sql", one, "--format", "csv"]);
    let state = format!("state={}", state.lines().nth(1).unwrap().trim_matches('"'));
    let bits = rows(&["opcode_delta", "-p", &state, "-p", "action=increment"]);
    assert!(bits.contains("bit0"), "{bits}");
}
