//! Lakes of other formats.

use steplake::generate::{Policy, Stop};

use crate::fixtures::support::{fail, play, toy_lake, toy_plan};

#[test]
fn a_lake_of_an_earlier_format_is_refused_by_every_command_in_one_sentence() {
    let (folder, lake) = toy_lake();
    let path = lake.path().to_owned();
    drop(play(&lake, &toy_plan(Policy::Random, Stop::Episodes(2), 1)));
    let file = path.join("lake.json");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("\"format_version\": 4", "\"format_version\": 2")).unwrap();
    let refusal = format!(
        "steplake: the lake at {} has format 2, and this steplake reads format 4: nothing converts it, so \
         record it anew, into another folder",
        path.display()
    );
    let before = std::fs::read_dir(&path).unwrap().count();
    let into = folder.path().join("into");
    let (first, into) = (path.to_str().unwrap(), into.to_str().unwrap());
    let toy = ["--env", "toy-v0", "--benchmark", "generator://toy-v0/0", "--steps", "1"];
    for command in [
        &["info"][..],
        &["sql", "SELECT 1"],
        &["query", "coverage"],
        &["seal"],
        &["dedup"],
        &["verify"],
        &["verify", "--repair"],
        &["snapshots"],
        &["merge", first, first, "--into", into],
        &[&["generate"][..], &toy].concat(),
        &[&["generate", "--resume"][..], &toy].concat(),
    ] {
        assert_eq!(fail(&path, command), (3, refusal.clone()), "{command:?}");
    }
    assert_eq!(std::fs::read_dir(&path).unwrap().count(), before);
}
