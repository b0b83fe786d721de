//! The scripts that measure and draw, on lines that were recorded: no GPU is needed.

use std::fmt::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Output;
use std::{env, fs};

use serde_json::json;
use steplake::env::loops::programs::program;
use steplake::env::loops::state::LoopsState;

use crate::programs::{self, InTime as _};

/// Names a Python that has matplotlib; without it, the system's one may lack it.
const PYTHON: &str = "STEPLAKE_PYTHON";

/// Where the scripts are.
const SCRIPTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../benches/loops");

fn python(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = programs::program(env::var(PYTHON).unwrap_or_else(|_| "python3".to_owned()));
    command.current_dir(folder).arg("-B").args(arguments).output_in_time()
}

fn script(folder: &Path, name: &str, arguments: &[&str]) -> String {
    let file = format!("{SCRIPTS}/{name}");
    let output = python(folder, &[&[file.as_str()][..], arguments].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn points_of_a_sweep_are_tabled_and_drawn() {
    let folder = tempfile::tempdir().unwrap();
    let mut points = String::new();
    for (elements, threads, speed) in [(1024, 1, 0.5), (1024, 4, 1.75), (4096, 1, 0.25)] {
        let point = json!({
            "elements": elements, "threads": threads, "gb_per_s": speed,
            "gflops": speed / 12.0, "machine": { "device": "a device" },
        });
        writeln!(points, "{point}").unwrap();
    }
    fs::write(folder.path().join("points.jsonl"), &points).unwrap();
    let said = script(folder.path(), "sweep.py", &["drawn.svg", "--points", "points.jsonl"]);
    let lines = said.lines().collect::<Vec<_>>();
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(words(lines[0]), ["GB/s", "1", "4", "threads"]);
    assert_eq!(words(lines[1]), ["1,024", "0.50", "1.75"]);
    assert_eq!(words(lines[2]), ["4,096", "0.25"]);
    let kept = fs::read_to_string(folder.path().join("drawn.jsonl")).unwrap();
    assert_eq!(kept.lines().count(), 3);
    if env::var_os(PYTHON).is_none() && said.contains("for want of matplotlib") {
        return;
    }
    assert_eq!(lines.len(), 3, "{said}");
    let drawn = fs::read_to_string(folder.path().join("drawn.svg")).unwrap();
    assert!(drawn.contains("<svg") && drawn.contains("GFLOP/s"));
}

#[test]
fn schedules_of_a_sweep_on_a_processor_are_states() {
    for (elements, threads, loops) in
        [(4096, 4, 3), (1024, 1, 2), (1024, 128, 2), (1024, 1024, 1), (8, 1, 2), (16, 8, 2)]
    {
        let write = format!(
            "import sys; sys.path.insert(0, '{SCRIPTS}'); import sweep; \
             print(sweep.schedule({elements}, {threads}), end='')"
        );
        let output = python(Path::new("."), &["-c", &write]);
        let state = LoopsState::parse(&output.stdout).unwrap();
        assert_eq!(state.text().into_bytes(), output.stdout);
        assert_eq!(LoopsState::initial((*state.dag).clone()), {
            LoopsState::initial(program(&format!("add-{elements}")).unwrap())
        });
        assert_eq!(state.outline().loops.len(), loops, "{}", state.text());
    }
}

#[test]
fn the_tables_of_a_gpu_are_made_of_what_bench_prints() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    let machine = json!({ "device": "a device" });
    let copy = json!({
        "bench": "copy", "array_bytes": 256 << 20, "best": "driver", "gb_per_s": 400.0,
        "machine": machine,
    });
    let add = json!({
        "bench": "add", "elements": 1024, "schedule": "256 threads", "gb_per_s": 300.0,
        "copy_gb_per_s": 400.0, "graph_s": 2e-8, "machine": machine,
    });
    let matmul = json!({
        "bench": "matmul", "program": "matmul-4096x4096x4096", "schedule": "tiles",
        "gflops": 900.0, "cublas": "there is no cuBLAS", "cublas_gflops": null, "ratio": null,
    });
    for (name, line) in [("copy", copy), ("add", add), ("matmul", matmul)] {
        fs::write(file(name), format!("{line}\n")).unwrap();
    }
    // In place of `steplake-cuda bench --rounds=N WHAT`.
    let program = file("steplake-cuda");
    fs::write(&program, "#!/bin/sh\ncat \"$3\"\n").unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let said = script(folder.path(), "gpu.py", &["--steplake-cuda", "./steplake-cuda"]);
    assert!(said.contains("copy of 256 MiB: 400.0 GB/s, by driver"), "{said}");
    assert!(said.contains(" 300.0    400.0  0.750        -      -    614.4 "), "{said}");
    assert!(said.contains("900 GFLOP/s by tiles; there is no cuBLAS"), "{said}");
    assert_eq!(script(folder.path(), "gpu.py", &["--from", "gpu.jsonl"]), said);
}
