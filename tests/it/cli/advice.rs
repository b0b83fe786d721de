//! Messages that say what to do.

use std::path::Path;

use serde_json::Value;
use steplake::lake::{Lake, Table};

use super::{folder, toy};
use crate::fixtures::programs::InTime as _;
use crate::fixtures::support::{err, fail, run, steplake};

#[test]
fn nothing_to_replay_says_why() {
    let (_folder, lake) = folder();
    toy(&lake, &["--steps", "50"]);
    let replay = |count| run(&lake, &["verify", "--replay", count]);
    let wants_a_dedup = |said: &str| said.contains("a dedup has to count them first");
    assert!(wants_a_dedup(&replay("5")), "its steps are not counted");
    assert!(!wants_a_dedup(&replay("0")));
    run(&lake, &["dedup"]);
    assert!(replay("5").contains("\nreplay: 5 of 5 transitions agree"));
    let none = replay("0");
    assert!(none.ends_with("\nreplay: no transition was to be replayed\n"), "{none}");

    // Episodes without a step have no transitions, however often they are counted.
    let (_folder, lake) = folder();
    toy(&lake, &["--episodes", "2", "--policy", "greedy", "--episode-length", "1"]);
    run(&lake, &["retract", "--run", "1", "--reason", "a mistake"]);
    let said = run(&lake, &["verify", "--replay", "5"]);
    let none = "\nreplay: there are no state transitions: no recorded episode takes a step, as in \
                searches among choices\n";
    assert!(said.ends_with(none), "{said}");
}

#[test]
fn runs_are_told_in_sentences_and_with_all_of_their_arguments() {
    let (_folder, lake) = folder();
    toy(&lake, &["--episodes", "4", "--seed", "9", "--episode-length", "6"]);
    let mut writer = Lake::open(&lake).unwrap().writer().unwrap();
    writer.begin_run("{}", 0).unwrap();
    writer.begin_run("of another program", 0).unwrap();
    drop(writer);
    let text = run(&lake, &["info"]);
    let first = "\nrun 1 is finished: it plays 4 episodes of 4 programs (generator://toy-v0/0..3) by \
                 the policy random, at most 6 steps an episode, from seed 9\n  its arguments: {";
    assert!(text.contains(first), "{text}");
    assert!(text.contains("\nrun 2 is not finished\n  its arguments: {}\n"), "{text}");
    let other = "\nrun 3 is not finished\n  its arguments: of another program\n";
    assert!(text.contains(other), "{text}");
    let arguments = text.lines().find_map(|line| line.strip_prefix("  its arguments: ")).unwrap();
    let info: Value = serde_json::from_str(&run(&lake, &["info", "--format", "json"])).unwrap();
    let whole: Value = serde_json::from_str(arguments).unwrap();
    assert_eq!(whole, info["runs"][0]["arguments"]);
}

#[test]
fn the_packages_that_read_the_lake_are_named() {
    let (_folder, lake) = folder();
    toy(&lake, &["--steps", "100"]);
    run(&lake, &["dedup"]);
    let text = run(&lake, &["info"]);
    let packages = "\n  polars and pandas read Delta tables by the package deltalake: \
                    pip install deltalake pyarrow\n";
    assert!(text.contains(packages), "{text}");
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn a_merge_into_a_lake_says_how_that_lake_is_merged_too() {
    let (folder, lake) = folder();
    let [other, into] = ["other", "into"].map(|name| folder.path().join(name));
    for (path, seed) in [(&lake, "1"), (&other, "2"), (&into, "3")] {
        toy(path, &["--steps", "50", "--seed", seed]);
    }
    let steps = |lake: &Path| Lake::open(lake).unwrap().snapshot().unwrap().rows(Table::Steps);
    let before = steps(&into);
    for lakes in [[&lake, &other], [&into, &other]] {
        let (code, said) =
            fail(&lake, &["merge", text(lakes[0]), text(lakes[1]), "--into", text(&into)]);
        let told = format!(
            "steplake: {} holds a lake already: name a new or empty folder, since a merge makes a new \
             lake; to add to the one there, name it among the lakes to merge",
            into.display()
        );
        assert_eq!((code, said), (3, told));
    }
    assert_eq!(steps(&into), before);
}

#[test]
fn a_lake_without_a_good_identity_says_how_to_get_one() {
    for damage in [Some(""), Some("{"), Some("{\"format_version\": 5}"), None] {
        let (folder, lake) = folder();
        toy(&lake, &["--steps", "50", "--seed", "4"]);
        let file = lake.join("lake.json");
        let sound = std::fs::read(&file).unwrap();
        match damage {
            Some(text) => std::fs::write(&file, text).unwrap(),
            None => std::fs::remove_file(&file).unwrap(),
        }
        let resume = ["generate", "--env", "toy-v0", "--benchmark", "generator://toy-v0/0..3"];
        let resume = [&resume[..], &["--steps", "50", "--resume"]].concat();
        for command in [&["info"][..], &["verify", "--repair"], &["sql", "SELECT 1"], &resume] {
            let (code, said) = fail(&lake, command);
            assert_eq!(code, 3, "{said}");
            let what = if damage.is_some() { "lake.json is damaged" } else { "lake.json" };
            assert!(said.contains(what), "{damage:?}, {command:?}: {said}");
            let how = "`steplake --lake NEW generate` with the same --env, --action-space, \
                       --observe and --rewards makes one";
            assert!(said.contains(how), "{damage:?}, {command:?}: {said}");
        }
        // It is as the message says.
        let new = folder.path().join("new");
        toy(&new, &["--episodes", "1", "--seed", "5"]);
        std::fs::copy(new.join("lake.json"), &file).unwrap();
        assert_eq!(std::fs::read(&file).unwrap(), sound);
        run(&lake, &["verify"]);
    }
}

/// What the command warns of.
fn warned(lake: &Path, more: &[&str]) -> (String, String) {
    let command = ["generate", "--env", "toy-v0", "--benchmark", "generator://toy-v0/0..3"];
    let output = steplake(lake).args([&command[..], more].concat()).output_in_time();
    assert!(output.status.success(), "{}", err(&output));
    (String::from_utf8_lossy(&output.stdout).into_owned(), err(&output))
}

#[test]
fn an_older_unfinished_run_is_named_where_another_is_complete() {
    let (_folder, lake) = folder();
    let mut arguments = String::new();
    for _ in 0..2 {
        toy(&lake, &["--episodes", "4"]);
        let mut writer = Lake::open(&lake).unwrap().writer().unwrap();
        if arguments.is_empty() {
            arguments.clone_from(&writer.runs().unwrap()[0].arguments);
            writer.begin_run(&arguments, 0).unwrap();
        }
    }
    // Run 2 was left, and run 3 came to its end.
    let (said, warned) = warned(&lake, &["--episodes", "4", "--resume"]);
    assert!(said.contains("nothing is left to do"), "{said}");
    let left = "steplake: warning: run 2 has the same arguments and was left unfinished; run 3 did all \
                of it, so nothing continues run 2: retracting it takes back what it recorded";
    assert_eq!(warned, left);
}

#[test]
fn the_run_that_is_left_is_named_with_what_differs() {
    let (_folder, lake) = folder();
    toy(&lake, &["--episodes", "4"]);
    let mut writer = Lake::open(&lake).unwrap().writer().unwrap();
    let whole = writer.runs().unwrap()[0].arguments.clone();
    // An older program wrote fewer arguments.
    let mut older: Value = serde_json::from_str(&whole).unwrap();
    older.as_object_mut().unwrap().remove("ir");
    writer.begin_run(&older.to_string(), 0).unwrap();
    drop(writer);
    let (_, warned) = warned(&lake, &["--episodes", "5", "--resume"]);
    let told = "run 2 is unfinished and has `ir` nothing, not \"all\"; `stop` {\"episodes\":4}, not \
                {\"episodes\":5}: ";
    assert!(warned.contains(told), "{warned}");
}

#[test]
fn replay_means_the_number_of_an_action_as_the_lake_has_it() {
    let (_folder, lake) = folder();
    let huffman = "benchmark://steplake-v0/huffman";
    let space = ["--action-space", "llvm22-v0"];
    let of = ["generate", "--benchmark", huffman, "--episodes", "1", "--episode-length", "2"];
    run(&lake, &[&of[..], &space].concat());
    let of_lake = run(&lake, &["replay", huffman, "72"]);
    assert!(of_lake.contains("newgvn"), "{of_lake}");
    assert_eq!(run(&lake, &[&["replay", huffman, "72"], &space[..]].concat()), of_lake);
    let default = ["--action-space", "llvm22-v1"];
    let default = run(&lake, &[&["replay", huffman, "72"], &default[..]].concat());
    assert!(!default.contains("newgvn"), "{default}");
    // Without a lake, it is meant as the environment has it.
    assert_eq!(run(&lake.with_file_name("none"), &["replay", huffman, "72"]), default);
    let (code, said) = fail(&lake.with_file_name("none"), &["replay", huffman, "newgvn"]);
    assert_eq!(code, 2, "{said}");
    assert!(said.contains("(`--action-space llvm22-all-v0` has it)"), "{said}");
}
