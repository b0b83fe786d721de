//! Loops that LLVM unrolls in several ways, by the order of addresses.

use std::path::Path;

use steplake::lake::Lake;

use crate::fixtures::support::run;

#[test]
fn what_unrolling_led_to_is_stored_and_nothing_is_rebuilt_through_it() {
    let folder = tempfile::tempdir().unwrap();
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    // Actions of two spaces: single passes, and LLVM's own pipelines.
    for (program, space, least) in
        [("unroll_exits.c", "llvm22-v0", 5), ("unroll_pragma.c", "llvm22-pipelines-v0", 20)]
    {
        let path = folder.path().join(space);
        let uri = format!("file://{}", data.join(program).display());
        let how = ["--episode-length", "25", "--ir", "keyframes=1000", "--seed", "3"];
        let what = ["generate", "--benchmark", &uri, "--episodes", "30", "--action-space", space];
        run(&path, &[&what[..], &how].concat());
        let sql = "SELECT count(*), count(*) FILTER (WHERE now.keyframe)
                   FROM steps AS now JOIN steps AS before ON now.episode_id = before.episode_id
                     AND now.step_index = before.step_index + 1 JOIN actions ON now.action = actions.action
                   WHERE now.state_id <> before.state_id
                     AND regexp_like(pipeline, 'loop-unroll|default<') AND name <> 'loop-unroll-and-jam'";
        let counts = run(&path, &["sql", sql, "--format", "csv"]);
        let (all, stored) = counts.lines().last().unwrap().split_once(',').unwrap();
        assert_eq!(all, stored);
        assert!(all.parse::<u32>().unwrap() >= least, "{all} of {program}");
        assert_eq!(Lake::open(&path).unwrap().identity().action_space.name, space);
        run(&path, &["dedup"]);
        let said = run(&path, &["verify", "--replay", "1000"]);
        assert!(
            said.starts_with("verify: sound; ")
                && (said.contains(" and 0 have no IR") || !said.contains("have no IR")),
            "{said}"
        );
        assert!(said.contains("were rebuilt first") || space != "llvm22-v0", "{said}");
    }
}
