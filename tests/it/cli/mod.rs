//! The command line as its users meet it: what goes where, exit codes, and one clear line for bad
//! input.

mod advice;
mod demo;
mod info;
mod leaderboard;
mod leaderboard_entries;
mod optimize;
mod optimize_commands;
mod output;
mod own_files;
mod own_inputs;
mod questions;
mod sealing;
mod shell;

use std::path::Path;
use std::process::Stdio;

use steplake::lake::{Lake, Table};

use crate::fixtures::programs::{InTime as _, end_of, output_of, until};
use crate::fixtures::support::{
    contents, err, fail, rows, run, signal, steplake, toy_identity, toy_lake,
};

const TOY: [&str; 5] = ["generate", "--env", "toy-v0", "--benchmark", "generator://toy-v0/0..3"];

fn toy(lake: &Path, more: &[&str]) -> String {
    run(lake, &[&TOY, more].concat())
}

fn folder() -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let lake = folder.path().join("lake");
    (folder, lake)
}

#[test]
fn the_whole_way_on_the_toy_environment() {
    let (_folder, lake) = folder();
    toy(&lake, &["--steps", "2000"]);
    assert!(run(&lake, &["seal"]).starts_with("sealed "));
    run(&lake, &["dedup"]);
    run(&lake, &["verify", "--replay", "200"]);
    let info: serde_json::Value =
        serde_json::from_str(&run(&lake, &["info", "--format", "json"])).unwrap();
    let steps = info["tables"]["steps"]["rows"].as_u64().unwrap();
    let counted = run(&lake, &["sql", "SELECT count(*) AS n FROM steps", "--format", "json"]);
    assert_eq!(counted.trim(), format!("[{{\"n\":{steps}}}]"));
    assert!(run(&lake, &["query", "--list"]).contains("best_episode"));
    assert!(run(&lake, &["query", "noop_rate"]).contains("align"));
    let winding = lake.join("data").join("..");
    assert!(run(&winding, &["query", "noop_rate"]).contains("align"), "a path with `..`");
    assert!(run(&lake, &["info"]).contains("toy-v0"));
}

#[test]
fn all_transitions_are_replayed_when_more_are_asked_for() {
    let (_folder, lake) = folder();
    toy(&lake, &["--steps", "100"]);
    run(&lake, &["dedup"]);
    let transitions = rows(&lake, Table::StateTransitions).len();
    let said = run(&lake, &["verify", "--replay", &usize::MAX.to_string()]);
    assert!(
        said.contains(&format!("replay: {transitions} of {transitions} transitions agree")),
        "{said}"
    );
}

#[test]
fn seal_and_dedup_twice_change_nothing() {
    let (_folder, lake) = folder();
    toy(&lake, &["--steps", "500"]);
    run(&lake, &["seal"]);
    run(&lake, &["dedup"]);
    let before = contents(&lake);
    run(&lake, &["seal"]);
    run(&lake, &["dedup"]);
    assert_eq!(contents(&lake), before);
}

#[test]
fn a_run_without_resume_is_appended_and_a_complete_one_is_not_repeated() {
    let (_folder, lake) = folder();
    toy(&lake, &["--episodes", "4", "--resume"]);
    let once = rows(&lake, Table::Steps).len();
    assert!(toy(&lake, &["--episodes", "4", "--resume"]).contains("nothing is left to do"));
    assert_eq!(rows(&lake, Table::Steps).len(), once);
    toy(&lake, &["--episodes", "4"]);
    assert_eq!(rows(&lake, Table::Steps).len(), 2 * once);
}

#[test]
fn a_run_that_is_begun_anew_is_said_to_be() {
    let (_folder, lake) = folder();
    let said = |more: &[&str]| {
        let output = steplake(&lake).args([&TOY[..], more].concat()).output_in_time();
        assert!(output.status.success(), "{}", err(&output));
        err(&output)
    };
    let again = "steplake: warning: this lake has a finished run with these arguments: the same \
                 episodes are recorded again; another seed records others";
    let anew = "steplake: warning: there is no unfinished run with these arguments: a new one begins; \
                run 3 is unfinished and has `seed` 0, not 2: resuming with its arguments \
                continues it, and retracting it takes it back";
    assert_eq!(said(&["--episodes", "4", "--resume"]), "", "the first run can only be new");
    assert_eq!(said(&["--episodes", "4", "--resume"]), "");
    assert_eq!(said(&["--episodes", "4"]), again);
    let mut writer = Lake::open(&lake).unwrap().writer().unwrap();
    let arguments = writer.runs().unwrap()[0].arguments.clone();
    writer.begin_run(&arguments, 0).unwrap();
    drop(writer);
    let beside = "steplake: warning: this lake has an unfinished run with these arguments: the same \
                  episodes are recorded again; resuming would continue it";
    assert_eq!(said(&["--episodes", "4"]), beside);
    assert_eq!(said(&["--episodes", "4", "--seed", "1"]), "");
    assert_eq!(said(&["--episodes", "4", "--seed", "2", "--resume"]), anew);
}

#[test]
fn one_of_a_kind_is_no_plural() {
    let (_folder, lake) = folder();
    let said = toy(&lake, &["--steps", "1"]);
    assert!(said.starts_with("recorded 1 step and ") && said.contains("; 1 episode, "), "{said}");
    let said = run(&lake, &["datasets", "install", "benchmark://steplake-v0/huffman"]);
    assert!(said.ends_with(": 1 benchmark is ready\n"), "{said}");
    assert!(run(&lake, &["dedup"]).starts_with("1 step counted: "));
}

#[test]
fn a_program_that_cannot_be_had_leaves_no_lake() {
    let (folder, lake) = folder();
    let folder = std::fs::canonicalize(folder.path()).unwrap();
    for (name, text) in [("whole.c", "int one(void) { return 1; }"), ("broken.c", "int one(")] {
        std::fs::write(folder.join(name), text).unwrap();
    }
    let uri = |name| format!("file://{}", folder.join(name).display());
    let (whole, broken) = (uri("whole.c"), uri("broken.c"));
    let (code, text) = fail(&lake, &["generate", "-b", &whole, "-b", &broken, "--steps", "1"]);
    assert!(code != 0 && text.contains("broken.c"), "{text}");
    assert!(!lake.exists(), "{text}");
}

#[test]
fn what_the_user_got_wrong_is_said_in_one_line() {
    let (_folder, lake) = folder();
    toy(&lake, &["--steps", "100"]);
    let before = contents(&lake);
    let cases: [(&[&str], i32, &str); 11] = [
        (
            &["generate", "--env", "nope", "-b", "generator://toy-v0/0", "--steps", "1"],
            2,
            "there is no environment `nope`",
        ),
        (
            &["generate", "--env", "toy-v0", "-b", "generator://toy-v0/x", "--steps", "1"],
            2,
            "there is no benchmark `generator://toy-v0/x`: a seed from 0 to",
        ),
        (
            &["generate", "--env", "toy-v0", "-b", "generator://toy-v0/9..1", "--steps", "1"],
            2,
            "the range runs backwards: write 1..9",
        ),
        (
            &[
                "generate",
                "-b",
                "benchmark://steplake-v0/huffmann",
                "--steps",
                "1",
                "--lake",
                "/nonexistent/l",
            ],
            2,
            "huffman",
        ),
        (
            &[
                "generate",
                "-b",
                "benchmark://nope-v0/x",
                "--steps",
                "1",
                "--lake",
                "/nonexistent/l",
            ],
            2,
            "there is no dataset",
        ),
        (
            &["generate", "-b", "huffman", "--steps", "1", "--lake", "/nonexistent/l"],
            2,
            "there is no benchmark `huffman`: there is no such file, and it is no URI",
        ),
        (&["sql", "SELECT nope FROM steps"], 2, "nope"),
        (&["sql", "DROP TABLE steps"], 2, "steplake: "),
        (&["query", "nope"], 2, "`best_episode`,"),
        (&["query", "best_episode", "--param", "reward"], 2, "has no value"),
        (&["replay", "--env", "toy-v0", "generator://toy-v0/0", "nope"], 2, "is not an action"),
    ];
    for (arguments, code, says) in cases {
        let (found, text) = fail(&lake, arguments);
        assert!(text.contains(says), "{arguments:?}: {text}");
        assert_eq!((found, text.lines().count()), (code, 1), "{arguments:?}: {text}");
        assert!(text.starts_with("steplake: "), "{text}");
    }
    assert_eq!(contents(&lake), before);
}

#[test]
fn a_misspelt_name_is_answered_with_the_nearest() {
    let (_folder, lake) = folder();
    toy(&lake, &["--steps", "1"]);
    let program = "benchmark://steplake-v0/huffman";
    let cases: [(&[&str], &str); 3] = [
        (&["query", "best_episod"], "`best_episod`: did you mean `best_episode`?"),
        (&["replay", program, "instcombin"], "(did you mean `instcombine`?)"),
        (
            &["replay", program, "--action-space", "compilergym-v0", "instcombin"],
            "(did you mean `instcombine`?)",
        ),
    ];
    for (arguments, says) in cases {
        let (code, text) = fail(&lake, arguments);
        assert!(code == 2 && text.contains(says) && text.lines().count() == 1, "{text}");
    }
}

#[test]
fn spaces_that_cannot_be_recorded_make_no_lake() {
    let (_folder, lake) = folder();
    for (choice, says) in [
        (
            ["--observe", "Costs"],
            "`Costs` is no observation space that can be recorded: Cost, Bits, Number are",
        ),
        (
            ["--rewards", "Bits"],
            "`Bits` is no reward space that can be recorded: Cost, CostNorm, CostOz are",
        ),
        (["--observe", "Cost,Cost"], "the observation space `Cost` is chosen more than once"),
    ] {
        let failed = fail(&lake, &[&TOY[..], &["--steps", "1"], &choice].concat());
        assert_eq!(failed, (2, format!("steplake: {says}")));
        assert!(!lake.exists());
    }
    let (code, said) =
        fail(&lake, &[&TOY[..], &["--steps", "1", "--observe", "Cost,TextSizeOz"]].concat());
    let of_machine = "belongs to the machine that observes it, not to the state, so it is never \
                      recorded with states; `steplake measure`";
    assert!(code == 2 && said.contains(&format!("`TextSizeOz` {of_machine}")), "{said}");
    assert!(!lake.exists());
    toy(&lake, &["--steps", "1", "--observe", "Bits", "--rewards", "CostOz,Cost"]);
    let (code, said) = fail(&lake, &["backfill", "--space", "Runtime"]);
    assert!(code == 2 && said.contains(&format!("`Runtime` {of_machine}")), "{said}");
    toy(&lake, &["--steps", "1"]);
    let columns = run(&lake, &["sql", "SELECT * FROM observations LIMIT 1", "--format", "csv"]);
    assert!(columns.starts_with("state_id,state_key,Bits\n"), "{columns}");
}

#[test]
fn a_lake_that_is_none_is_refused_by_every_reading_command() {
    let (folder, lake) = folder();
    let other = folder.path().join("other");
    std::fs::create_dir(&other).unwrap();
    std::fs::write(other.join("notes.txt"), "mine").unwrap();
    for command in [
        &["info"][..],
        &["seal"],
        &["compact"],
        &["dedup"],
        &["verify"],
        &["sql", "SELECT 1"],
        &["query", "coverage"],
    ] {
        assert_eq!(fail(&lake, command).0, 3, "{command:?}");
        let (code, text) = fail(&other, command);
        assert!(code == 3 && text.contains("is no lake"), "{command:?}: {text}");
    }
    let (code, text) = fail(&other, &[&TOY[..], &["--steps", "5"]].concat());
    assert!(code == 3 && text.contains("notes.txt"), "{text}");
    assert_eq!(std::fs::read_dir(&other).unwrap().count(), 1, "nothing was put there");
}

#[test]
fn another_compiler_gets_a_context_and_another_format_is_refused() {
    let (_folder, lake) = folder();
    toy(&lake, &["--steps", "5"]);
    let file = lake.join("lake.json");
    let text = std::fs::read_to_string(&file).unwrap();
    let mut other = Lake::open(&lake).unwrap().identity().clone();
    other.compiler = "toy 0.9".into();
    std::fs::write(&file, other.to_json()).unwrap();
    toy(&lake, &["--steps", "5"]);
    let newer = Lake::open(lake.join("contexts").join("toy-v0-toy-v0")).unwrap();
    assert!(newer.snapshot().unwrap().rows(Table::Steps) >= 5);
    assert_eq!(Lake::open(&lake).unwrap().identity().compiler, "toy 0.9");
    std::fs::write(&file, text.replace("\"format_version\": 5", "\"format_version\": 77")).unwrap();
    let (code, said) = fail(&lake, &["info"]);
    assert!(code == 3 && said.contains("77") && said.contains("format 5"), "{said}");
}

#[test]
fn a_damaged_lake_json_is_not_to_be_mended_by_what_cannot_read_it() {
    let (_folder, lake) = folder();
    toy(&lake, &["--steps", "5"]);
    std::fs::write(lake.join("lake.json"), "{").unwrap();
    for command in [&["info"][..], &["verify"], &["verify", "--repair"]] {
        let (code, said) = fail(&lake, command);
        assert!(code == 3 && said.contains("lake.json is damaged"), "{said}");
        let helps =
            "a new lake of the same environment, compiler and choices, whose lake.json is equal";
        assert!(said.contains(helps) && !said.contains("steplake verify"), "{said}");
    }
}

#[test]
fn a_run_is_shown_with_all_of_its_arguments() {
    let (_folder, lake) = folder();
    let many: Vec<String> = (0..20).map(|seed| format!("generator://toy-v0/{seed}")).collect();
    let flags = many.iter().flat_map(|uri| ["--benchmark", uri]).collect::<Vec<_>>();
    run(&lake, &[&["generate", "--env", "toy-v0", "--steps", "5"], &flags[..]].concat());
    let text = run(&lake, &["info"]);
    let arguments = text.lines().find_map(|line| line.strip_prefix("  its arguments: ")).unwrap();
    let arguments: serde_json::Value = serde_json::from_str(arguments).unwrap();
    assert_eq!(arguments["benchmarks"].as_array().unwrap().len(), many.len());
}

#[test]
fn a_second_writer_is_told_who_writes() {
    let (folder, lake) = toy_lake();
    let writer = lake.writer().unwrap();
    let path = folder.path().join("lake");
    let (code, text) = fail(&path, &[&TOY[..], &["--steps", "5"]].concat());
    assert!(code == 3 && text.contains(&std::process::id().to_string()), "{text}");
    assert_eq!(fail(&path, &["seal"]).0, 3);
    run(&path, &["info"]);
    drop(writer);
    toy(&path, &["--steps", "5"]);
    assert_eq!(lake.identity(), &toy_identity());
}

#[test]
fn a_damaged_segment_is_named_and_verify_fails() {
    let (_folder, lake) = folder();
    toy(&lake, &["--steps", "500"]);
    run(&lake, &["seal"]);
    let mut files = std::fs::read_dir(lake.join("data/steps")).unwrap();
    let segment = files.find_map(|file| {
        let path = file.unwrap().path();
        path.is_file().then_some(path)
    });
    let segment = segment.unwrap();
    let bytes = std::fs::read(&segment).unwrap();
    let name = segment.file_name().unwrap().to_str().unwrap().to_owned();
    let mut flipped = bytes.clone();
    flipped[bytes.len() / 2] ^= 4;
    std::fs::write(&segment, flipped).unwrap();
    let output = steplake(&lake).arg("verify").output_in_time();
    assert_eq!(output.status.code(), Some(4), "{}", err(&output));
    assert!(String::from_utf8_lossy(&output.stdout).contains(&name));
    std::fs::write(&segment, &bytes[..bytes.len() / 3]).unwrap();
    let (_, text) = fail(&lake, &["sql", "SELECT sum(wall_time_us) FROM steps"]);
    assert!(text.contains(&name) && text.lines().count() == 1, "{text}");
    std::fs::write(&segment, bytes).unwrap();
    run(&lake, &["verify"]);
}

#[test]
fn rewards_are_described_in_words() {
    let (_folder, lake) = folder();
    let text = run(&lake, &["env", "describe", "toy-v0"]);
    for (name, words) in [
        ("Cost", "the reduction of Cost"),
        ("CostNorm", "the reduction of Cost, divided by CostO0 (at least 1)"),
        ("CostOz", "the reduction of Cost, divided by that from CostO0 to CostOz (at least 1)"),
    ] {
        let line = format!("{name:<29} {words}");
        assert!(text.lines().any(|found| found.trim() == line), "{text}");
    }
}

#[test]
fn an_environment_is_described_by_whichever_argument_names_it() {
    let (_folder, lake) = folder();
    let described = |arguments: &[&str]| run(&lake, &[&["env", "describe"], arguments].concat());
    assert_eq!(described(&["--env", "toy-v0"]), described(&["toy-v0"]));
    assert_eq!(described(&["--env", "llvm-v0"]), described(&[]));
    let (code, said) = fail(&lake, &["env", "describe", "toy-v0", "--env", "llvm-v0"]);
    assert!(code == 2 && said.contains("cannot be used with"), "{said}");
}

#[test]
fn completions_name_the_commands() {
    let (_folder, lake) = folder();
    for shell in ["bash", "zsh", "fish"] {
        assert!(run(&lake, &["completions", shell]).contains("generate"), "{shell}");
    }
}

/// A pipe whose reader has gone.
fn closed() -> Stdio {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    writer.into()
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    let (_folder, lake) = folder();
    toy(&lake, &["--steps", "200"]);
    let states = ["sql", "SELECT * FROM steps", "--format"];
    let commands: [&[&str]; 26] = [
        &[&TOY[..], &["--steps", "50"]].concat(),
        &["seal"],
        &["compact"],
        &["dedup"],
        &["dedup"],
        &["verify"],
        &["verify", "--replay", "10"],
        &["info"],
        &["info", "--format", "json"],
        &[&states[..], &["table"]].concat(),
        &[&states[..], &["csv"]].concat(),
        &[&states[..], &["json"]].concat(),
        &[&states[..], &["arrow"]].concat(),
        &[&states[..], &["parquet"]].concat(),
        &["query", "--list"],
        &["query", "noop_rate"],
        &["replay", "--env", "toy-v0", "generator://toy-v0/0", "halve"],
        &["replay", "--env", "toy-v0", "generator://toy-v0/0", "halve", "--ir"],
        &["env", "describe"],
        &["env", "describe", "toy-v0", "--format", "json"],
        &["datasets", "list"],
        &["datasets", "benchmarks", "benchmark://steplake-v0/*"],
        &["datasets", "install", "benchmark://steplake-v0/huffman"],
        &["completions", "bash"],
        &["--help"],
        &["--version"],
    ];
    for command in commands {
        let mut child = steplake(&lake);
        let child = child.args(command).stdout(closed()).stderr(Stdio::piped()).spawn().unwrap();
        let output = output_of(child, &format!("{command:?}"));
        assert_eq!((output.status.code(), err(&output)), (Some(0), String::new()), "{command:?}");
    }
}

#[test]
fn an_exit_code_needs_no_reader() {
    let (_folder, lake) = folder();
    let mut command = steplake(&lake);
    let status = command.arg("info").stdout(closed()).stderr(closed()).status_in_time();
    assert_eq!(status.code(), Some(3));
    let mut unknown = steplake(&lake);
    let status = unknown.args(["query", "--nope"]).stderr(closed()).status_in_time();
    assert_eq!(status.code(), Some(2));
}

#[test]
fn ctrl_c_keeps_what_was_recorded_and_resume_goes_on() {
    use nix::sys::signal::Signal;
    let (_folder, lake) = folder();
    let arguments = [&TOY[..], &["--steps", "300000", "--resume"]].concat();
    let mut child = steplake(&lake).args(&arguments).spawn().unwrap();
    // As soon as an episode is there, it is interrupted.
    let episodes = || {
        let snapshot = Lake::open(&lake).and_then(|lake| lake.snapshot());
        snapshot.map_or(0, |snapshot| snapshot.rows(Table::Episodes))
    };
    until("an episode is recorded", || episodes() > 0 || child.try_wait().unwrap().is_some());
    signal(&child, Signal::SIGINT);
    let code = end_of(&mut child, "a run that was interrupted").code();
    assert!(matches!(code, Some(0 | 130)), "{code:?}");
    let before = episodes();
    let said = run(&lake, &arguments).replace(',', "");
    if code == Some(130) {
        let own = format!("; {} episodes ", episodes() - before);
        assert!(said.contains(&own), "{before} before: {said}");
    }
    assert_eq!(
        rows(&lake, Table::Steps).iter().filter(|row| !row.contains("action=null")).count(),
        300_000
    );
    run(&lake, &["verify"]);
}
