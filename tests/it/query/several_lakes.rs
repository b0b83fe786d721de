//! One statement over several lakes: `steplake sql --lake a=FOLDER --lake b=FOLDER`.
#![expect(clippy::unwrap_used, reason = "in a test a panic is the report")]

use std::path::{Path, PathBuf};

use crate::fixtures::programs::InTime as _;
use crate::fixtures::small_lake::{self, Kept};
use crate::fixtures::support::{err, fail, run, steplake, toy_lake};

fn arguments<'a>(lakes: &'a [String; 2], more: &[&'a str]) -> Vec<&'a str> {
    let mut arguments = vec!["sql", "--format", "csv"];
    arguments.extend(lakes.iter().map(String::as_str));
    arguments.extend(more);
    arguments
}

/// The small lake as `a`; in `b`, its later episodes are neither sealed nor counted.
struct Lakes {
    folder: tempfile::TempDir,
}

impl Lakes {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        small_lake::record(&folder.path().join("one"), Kept::Sealed);
        small_lake::record(&folder.path().join("other"), Kept::HalfSealed);
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn named(&self, name: &str, folder: &str) -> String {
        format!("--lake={name}={}", self.path(folder).display())
    }

    /// Answers a statement over both.
    fn ask(&self, more: &[&str]) -> String {
        run(Path::new("unused"), &arguments(&self.both(), more))
    }

    /// Refuses a statement over both, as a mistake in it or on the command line.
    fn refuse(&self, more: &[&str]) -> String {
        let (code, said) = fail(Path::new("unused"), &arguments(&self.both(), more));
        assert_eq!((code, said.lines().count()), (2, 1), "{more:?}: {said}");
        said
    }

    fn both(&self) -> [String; 2] {
        [self.named("a", "one"), self.named("b", "other")]
    }
}

#[test]
fn tables_and_views_of_several_lakes_are_joined() {
    let lakes = Lakes::new();
    let alone = |folder: &str, sql: &str| {
        run(&lakes.path(folder), &["sql", "--format", "csv", sql])
            .lines()
            .nth(1)
            .unwrap()
            .to_owned()
    };
    for table in ["steps", "state_transitions", "runs", "steps_with_actions", "transitions_taken"] {
        let of = |schema: &str| format!("(SELECT count(*) FROM {schema}{table})");
        let both = lakes.ask(&[&format!("SELECT {} AS a, {} AS b", of("a."), of("b."))]);
        let [one, other] =
            ["one", "other"].map(|folder| alone(folder, &format!("SELECT {}", of(""))));
        assert_eq!(both, format!("a,b\n{one},{other}\n"), "{table}");
    }
    // All states of `b` are states of `a`.
    let joined = "SELECT count(*) AS n FROM a.steps JOIN b.steps USING (episode_id, step_index) \
                  WHERE a.steps.state_id IS NOT DISTINCT FROM b.steps.state_id";
    let steps = alone("one", "SELECT count(*) FROM steps");
    assert_eq!(lakes.ask(&[joined]), format!("n\n{steps}\n"));
    let shown = lakes.ask(&["SELECT DISTINCT table_schema AS s FROM information_schema.tables \
                             WHERE table_name = 'steps' ORDER BY s"]);
    assert_eq!(shown, "s\na\nb\npublic\n");
    // Without the name of a lake, it is their union.
    let [one, other] = ["one", "other"].map(|folder| alone(folder, "SELECT count(*) FROM steps"));
    let united = "SELECT context, count(*) AS n FROM steps GROUP BY context ORDER BY context";
    assert_eq!(lakes.ask(&[united]), format!("context,n\na,{one}\nb,{other}\n"));
    // Functions that mean the same in both.
    let names = "SELECT action_name(action) AS pass FROM b.steps WHERE action IS NOT NULL \
                 ORDER BY pass LIMIT 1";
    assert_eq!(lakes.ask(&[names]), "pass\ndce\n");
}

#[test]
fn a_warning_names_the_lake_whose_steps_are_not_counted() {
    let lakes = Lakes::new();
    let sql = "SELECT count(*) FROM a.state_transitions, b.state_transitions";
    let (both, unused) = (lakes.both(), Path::new("unused"));
    let done = steplake(unused).args(arguments(&both, &[sql])).output_in_time();
    let said = err(&done);
    assert!(said.contains("b.state_transitions does not count all steps"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
}

#[test]
fn what_needs_one_lake_is_refused() {
    let lakes = Lakes::new();
    for (sql, usage) in [
        ("SELECT * FROM sequences()", "sequences('CONTEXT' [, steps])"),
        (
            "SELECT * FROM returns(7, 'Cost')",
            "returns('CONTEXT', 'REWARD SPACE' [, steps [, gamma]])",
        ),
    ] {
        let said = lakes.refuse(&[sql]);
        let wanted = "its first argument is the name of a context: there are `a`, `b`";
        assert!(said.contains(&format!("{usage}: {wanted}")), "{said}");
    }
    let script = lakes.path("script.sql");
    std::fs::write(&script, "SELECT 1;\n\\query noop_rate\n").unwrap();
    let said = lakes.refuse(&["-f", script.to_str().unwrap()]);
    assert!(said.contains("a named query works on one context"), "{said}");
    std::fs::write(&script, "\\snapshot 1\n").unwrap();
    let said = lakes.refuse(&["-f", script.to_str().unwrap()]);
    assert!(said.contains("chooses a snapshot of one lake or context"), "{said}");
    let said = lakes.refuse(&["--snapshot", "1", "SELECT 1"]);
    assert!(said.contains("--snapshot counts the snapshots of one lake"), "{said}");
    let said = lakes.refuse(&["--engine", "ballista://host:1", "SELECT 1"]);
    assert!(said.contains("a cluster reads one lake"), "{said}");
    for (table, near) in [("stps", "steps"), ("a.stps", "a.steps"), ("c.steps", "b.steps")] {
        let said = lakes.refuse(&[&format!("SELECT * FROM {table}")]);
        assert!(said.contains(&format!("there is no table `{table}`: did you mean")), "{said}");
        assert!(said.contains(&format!("`{near}`")), "{said}");
    }
}

#[test]
fn functions_that_mean_different_things_are_refused() {
    let lakes = Lakes::new();
    let (toys, _lake) = toy_lake();
    let toys = format!("--lake=b={}", toys.path().join("lake").display());
    let one = lakes.named("a", "one");
    let unused = Path::new("unused");
    let asked = |sql: &str| {
        steplake(unused).args(["sql", "--format", "csv", &one, &toys, sql]).output_in_time()
    };
    let refused = err(&asked("SELECT action_name(action) FROM a.steps"));
    assert!(refused.contains("action_name"), "{refused}");
    let named =
        asked("SELECT action_name('b', 0) = (SELECT name FROM b.actions WHERE action = 0) AS same");
    assert_eq!(String::from_utf8_lossy(&named.stdout), "same\ntrue\n", "{}", err(&named));
    let unknown = err(&asked("SELECT action_name('c', 0)"));
    assert!(unknown.contains("there is no context `c`"), "{unknown}");
    let done = asked("SELECT count(*) AS n FROM a.actions JOIN b.actions USING (name)");
    assert!(done.status.success(), "{}", err(&done));
}

#[test]
fn a_lake_that_is_alone_keeps_everything_beside_its_name() {
    let lakes = Lakes::new();
    let sql = "SELECT count(*) > 0 AS found, ir(NULL) IS NULL AS shown \
               FROM a.steps JOIN reachable('STATE') USING (state_id)";
    let sql = sql.replace("STATE'", &format!("{}'", small_lake::state("a0")));
    let a = lakes.named("a", "one");
    let done = steplake(Path::new("unused"))
        .args(["sql", "--format", "csv", "--snapshot", "3", &a, &sql])
        .output_in_time();
    assert_eq!(String::from_utf8_lossy(&done.stdout), "found,shown\ntrue,true\n", "{}", err(&done));
}

#[test]
fn mixed_and_repeated_names_are_mistakes_on_the_command_line() {
    let lakes = Lakes::new();
    let (a, b) = (lakes.named("a", "one"), lakes.named("b", "other"));
    let bare = format!("--lake={}", lakes.path("other").display());
    let public = lakes.named("public", "one");
    for (given, wanted) in [
        (&[&a, &bare][..], "several lakes need a name each"),
        (&[&bare, &bare], "several lakes need a name each"),
        (&[&a, &a], "two lakes are called `a`"),
        (&[&public, &b], "a lake cannot be called `public`"),
    ] {
        let mut arguments: Vec<&str> = vec!["sql", "SELECT 1"];
        arguments.extend(given.iter().map(|lake| lake.as_str()));
        let (code, said) = fail(Path::new("unused"), &arguments);
        assert_eq!((code, said.lines().count()), (2, 1), "{given:?}: {said}");
        assert!(said.contains(wanted), "{given:?}: {said}");
    }
    // A folder with such a name is a folder.
    let odd = lakes.path("x=y");
    small_lake::record(&odd, Kept::Sealed);
    let odd = format!("--lake={}", odd.display());
    assert_eq!(
        run(Path::new("unused"), &["sql", "--format", "csv", &odd, "SELECT 1 AS n"]),
        "n\n1\n"
    );
    let one = format!("--lake={}", lakes.path("one").display());
    for before in [true, false] {
        let sql = ["sql", "--format", "csv", "SELECT min(step_index) AS n FROM steps"];
        let with: Vec<&str> = if before {
            [&[one.as_str()], &sql[..]].concat()
        } else {
            [&sql[..], &[&one]].concat()
        };
        assert_eq!(run(Path::new("unused"), &with), "n\n0\n");
    }
}
