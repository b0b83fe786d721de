//! What `bench` and `sweep` measure, and what they say where there is no device.

use std::fs;
use std::process::Output;

use serde_json::Value;

use crate::on_cpu;
use crate::programs::{InTime as _, program};
use crate::schedules::after;

fn run(arguments: &[&str]) -> Output {
    program(env!("CARGO_BIN_EXE_steplake-cuda")).args(arguments).output_in_time()
}

/// The lines that a command prints.
fn lines(arguments: &[&str]) -> Vec<Value> {
    let output = run(arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The actions of a schedule that `actions` prints.
fn names(line: &Value) -> Vec<&str> {
    line["actions"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect()
}

#[test]
fn measured_schedules_compile_to_machine_code_without_spills() {
    let folder = tempfile::tempdir().unwrap();
    let schedules = lines(&["actions", "--sizes=1024,268435456", "--swept-sizes=4096"]);
    let mut files = Vec::new();
    for (number, line) in schedules.iter().enumerate() {
        let state = after(line["program"].as_str().unwrap(), &names(line));
        assert_eq!(line["state_id"], state.identify().to_string());
        let file = folder.path().join(number.to_string());
        fs::write(&file, state.text()).unwrap();
        files.push(file.to_str().unwrap().to_owned());
    }
    let mut arguments = vec!["compile"];
    arguments.extend(files.iter().map(String::as_str));
    let compiled = lines(&arguments);
    assert_eq!(compiled.len(), schedules.len());
    for (line, needs) in schedules.iter().zip(&compiled) {
        assert_eq!(line["kernel_digest"], needs["kernel_digest"]);
        let [kernel] = needs["kernels"].as_array().unwrap().as_slice() else { panic!("{needs}") };
        assert_eq!(kernel["local_bytes"], 0, "{line}\n{needs}");
        if line["bench"] == "matmul" {
            // Both operands are in shared memory, and two blocks have room in a processor's
            // registers.
            assert!(kernel["shared_bytes"].as_u64() > Some(4096), "{line}\n{needs}");
            // That is room for twelve warps at least.
            assert!(kernel["occupancy"].as_f64() >= Some(12.0 / 64.0), "{line}\n{needs}");
        }
    }
}

#[test]
fn measured_schedules_compute_their_programs() {
    let swept = ["--swept-sizes=1024", "--threads=1,2,32,512,1024"];
    let schedules =
        lines(&[&["actions", "--sizes=1024,8192", "--matmul=256"][..], &swept].concat());
    let small = schedules.iter().filter(|line| line["bench"] != "matmul");
    let mut states = small
        .map(|line| after(line["program"].as_str().unwrap(), &names(line)))
        .collect::<Vec<_>>();
    // A product that its tiles do not divide.
    let products = schedules.iter().filter(|line| line["bench"] == "matmul");
    for line in products {
        states.extend(["matmul-130x33x139", "matmul-256x32x256"].map(|it| after(it, &names(line))));
    }
    assert_eq!(states.len(), 2 + 4 + 5 + 8);
    on_cpu::check(&states);
}

#[test]
fn without_a_device_one_line_says_so() {
    let add = ["bench", "add", "--sizes=1024", "--rounds=1"];
    let sweep = ["sweep", "--swept-sizes=1024", "--threads=1,64", "--rounds=1"];
    for command in [&add, &sweep] {
        let output = run(command);
        if output.status.success() {
            // There is a device.
            assert_eq!(String::from_utf8(output.stdout).unwrap().lines().count(), 2);
            continue;
        }
        assert_eq!(output.status.code(), Some(1), "{command:?}");
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(said.contains("there is no CUDA device"), "{said}");
        assert!(output.stdout.is_empty());
    }
    let refused = run(&["sweep", "--threads=3"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("a power of two"));
}
