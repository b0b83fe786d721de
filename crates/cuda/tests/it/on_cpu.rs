//! What kernels compute, without a GPU: their text as ordinary C++ (`cuda_on_cpu.h`), compared with
//! the reference.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use steplake::env::loops::cuda::{CudaSource, KernelLaunch};
use steplake::env::loops::reference::{Reference, element};
use steplake::env::loops::state::LoopsState;

use crate::programs::{self, InTime as _};
use crate::schedules::{Numbers, after, random, tiled};

/// The programs that are compiled together.
const TOGETHER: usize = 30;

/// The seed of the inputs.
const SEED: u64 = 5;

/// The elements of the inputs, in order.
fn inputs(state: &LoopsState) -> Vec<Vec<f32>> {
    let dag = &state.dag;
    let numbers = |(input, node)| {
        let operation = &dag.node(node).operation;
        let is_positive = format!("{operation:?}").contains("is_positive: true");
        (0..dag.elements(node)).map(|place| element(SEED, input, place, is_positive)).collect()
    };
    (0..).zip(dag.inputs()).map(numbers).collect()
}

/// A function that runs a state's kernels on what it reads, forwards and backwards, and writes the
/// outputs.
fn function(number: usize, state: &LoopsState) -> String {
    let source = CudaSource::of(state);
    let text = source.text.replace("extern \"C\" ", "");
    let mut code = format!("namespace n{number} {{\n{text}\nvoid run(FILE* in, FILE* out) {{\n");
    let mut line = |text: String| writeln!(code, "{text}").unwrap();
    let mut arguments = Vec::new();
    for (at, numbers) in inputs(state).iter().enumerate() {
        line(format!("device::Array a{at}({});\na{at}.read(in);", numbers.len()));
        arguments.push(format!("a{at}.numbers"));
    }
    line("for (bool is_backwards : {false, true}) {".to_owned());
    for (at, output) in state.dag.outputs().iter().enumerate() {
        line(format!("device::Array o{at}({});", state.dag.elements(output.node)));
        arguments.push(format!("o{at}.numbers"));
    }
    line(format!("device::Array scratch({});", source.scratch_places));
    arguments.push("scratch.numbers".to_owned());
    for KernelLaunch { name, blocks, threads } in &source.kernels {
        let call = format!("{name}({})", arguments.join(", "));
        line(format!("device::launch({blocks}, {threads}, is_backwards, [&] {{ {call}; }});"));
    }
    for at in 0..state.dag.outputs().len() {
        line(format!("o{at}.write(out);"));
    }
    code.push_str("}\n}\n}\n");
    code
}

fn run(folder: &Path, program: &str, arguments: &[&str]) {
    let mut command = programs::program(program);
    let output = command.current_dir(folder).args(arguments).output_in_time();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program}: {}\n{said}", output.status);
}

/// Runs states, and compares what they compute with the reference.
pub(crate) fn check(states: &[LoopsState]) {
    let folder = tempfile::tempdir().unwrap();
    let mut code = "#include \"cuda_on_cpu.h\"\n".to_owned();
    code.extend(states.iter().enumerate().map(|(number, state)| function(number, state)));
    code.push_str("int main() {\n    FILE* in = fopen(\"in\", \"rb\");\n    FILE* out = fopen(\"out\", \"wb\");\n");
    (0..states.len()).for_each(|number| writeln!(code, "    n{number}::run(in, out);").unwrap());
    code.push_str("    fclose(out);\n}\n");
    fs::write(folder.path().join("kernels.cpp"), &code).unwrap();
    fs::write(folder.path().join("cuda_on_cpu.h"), include_str!("cuda_on_cpu.h")).unwrap();
    let given = states.iter().flat_map(inputs).flatten().flat_map(f32::to_le_bytes);
    fs::write(folder.path().join("in"), given.collect::<Vec<u8>>()).unwrap();
    // Strict aliasing is off for the groups of numbers, which CUDA allows.
    let compile = [
        "-std=c++17",
        "-O1",
        "-w",
        "-fno-strict-aliasing",
        "-fsanitize=alignment,bounds",
        "-fsanitize-undefined-trap-on-error",
        "-o",
        "kernels",
        "kernels.cpp",
    ];
    run(folder.path(), "g++", &compile);
    run(folder.path(), "./kernels", &[]);
    let found = fs::read(folder.path().join("out")).unwrap();
    let (numbers, rest) = found.as_chunks::<4>();
    assert!(rest.is_empty());
    let mut numbers = numbers.iter().map(|bytes| f32::from_le_bytes(*bytes));
    for state in states {
        compare(state, &mut numbers);
    }
    assert_eq!(numbers.count(), 0);
}

/// Compares the outputs of two runs.
fn compare(state: &LoopsState, numbers: &mut impl Iterator<Item = f32>) {
    let mut reference = Reference::new(&state.dag, SEED);
    for order in ["forwards", "backwards"] {
        for output in state.dag.outputs() {
            for place in 0..state.dag.elements(output.node) {
                let index = reference.index(output.node, place);
                let right = reference.value(output.node, &index);
                let found = numbers.next().unwrap();
                // A comparison with NaN fails.
                let is_near = (f64::from(found) - right.value).abs() <= right.error;
                assert!(
                    is_near,
                    "{order}, {} at {place}: {found}, not {right:?}\n{}\n{}",
                    output.node,
                    state.text(),
                    CudaSource::of(state).text
                );
            }
        }
    }
}

#[test]
fn kernels_of_random_schedules_compute_their_programs() {
    for seed in 0..3 {
        let mut numbers = Numbers(seed);
        let states = (0..TOGETHER).map(|_| random(&mut numbers)).collect::<Vec<_>>();
        check(&states);
    }
}

#[test]
fn kernels_with_tiles_in_shared_memory_compute_their_programs() {
    let programs = ["matmul-64x64x64", "matmul-48x32x80", "matmul-50x37x41", "matmul-33x20x35"];
    let states = programs.map(tiled);
    // Parts of the next iteration are on their way if no tile has a tail.
    let is_pipelined = states.each_ref().map(|state| CudaSource::of(state).text.contains("_next"));
    assert_eq!(is_pipelined, [true, true, false, false]);
    check(&states);
    check(&[after(
        "add-4099",
        &["split[0,1024]", "split[1,4]", "grid[0]", "block[1]", "vectorize[2]"],
    )]);
}
