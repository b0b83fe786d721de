//! Random schedules compiled for a GPU by NVRTC, which `scripts/test-cuda.sh` puts where the loader
//! looks.

use std::fs;

use crate::programs::{InTime as _, program};
use crate::schedules::{Numbers, random, tiled};

#[test]
fn kernels_of_random_schedules_compile_to_machine_code() {
    let mut numbers = Numbers(99);
    let folder = tempfile::tempdir().unwrap();
    let mut command = program(env!("CARGO_BIN_EXE_steplake-cuda"));
    command.current_dir(folder.path()).args(["compile", "tiled"]);
    fs::write(folder.path().join("tiled"), tiled("matmul-64x64x64").text()).unwrap();
    for number in 0..30 {
        fs::write(folder.path().join(number.to_string()), random(&mut numbers).text()).unwrap();
        command.arg(number.to_string());
    }
    let output = command.output_in_time();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8(output.stdout).unwrap();
    assert_eq!(lines.lines().count(), 31);
    let first = lines.lines().next().unwrap();
    // Two buffers for two tiles of operands beside the 1,024 bytes that the architecture keeps for
    // itself, and a tile of the product in registers.
    assert!(first.contains("\"shared_bytes\":3328"), "{first}");
    assert!(first.contains("\"local_bytes\":0"), "{first}");
}
