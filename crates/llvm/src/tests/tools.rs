//! LLVM's own tools, of the LLVM that is linked.

use std::path::Path;
use std::process::Command;

/// Runs a tool on a file, and returns what it prints.
pub(super) fn run(tool: &str, arguments: &[&str], file: &Path) -> String {
    let tools = Path::new(env!("LLVM_SYS_221_PREFIX")).join("bin");
    #[expect(clippy::disallowed_methods, reason = "LLVM's own tools, on programs of this project")]
    let output = Command::new(tools.join(tool)).args(arguments).arg(file).output().unwrap();
    assert!(output.status.success(), "{tool}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}
