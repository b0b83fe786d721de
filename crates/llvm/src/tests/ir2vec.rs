//! Embeddings against those of LLVM's own tool.

use std::collections::BTreeMap;
use std::path::Path;

use super::tools::run;
use super::{EVERYTHING, begin, engine, real_programs};
use crate::features::EMBEDDING_LEN;
use crate::ir2vec::VOCABULARY_JSON;
use crate::module::Module;
use crate::session::first_state;

/// The tool prints two decimals. All weights times this power of two make them hundredths of a
/// millionth, and change no digit.
const SCALE: f64 = 1_048_576.0;

/// The sum of the embeddings that the tool prints, one for each function, and how many there are.
fn by_the_tool(bitcode: &Path, vocabulary: &Path) -> (Vec<f64>, usize) {
    // LLVM's weights are 1, 0.5 and 0.2, the last one as a number of 32 bits.
    let weights = [("opc", SCALE), ("type", 0.5 * SCALE), ("arg", f64::from(0.2_f32) * SCALE)];
    let mut arguments = vec![format!("--ir2vec-vocab-path={}", vocabulary.display())];
    arguments.extend(weights.map(|(name, weight)| format!("--ir2vec-{name}-weight={weight}")));
    let arguments: Vec<&str> =
        ["embeddings"].into_iter().chain(arguments.iter().map(String::as_str)).collect();
    let said = run("llvm-ir2vec", &arguments, bitcode);
    let vectors = said.lines().filter_map(|line| line.trim().strip_prefix('[')?.strip_suffix(']'));
    let mut sum = vec![0.0; EMBEDDING_LEN];
    let mut functions = 0;
    for vector in vectors {
        let numbers = vector.split_whitespace().map(|number| number.parse::<f64>().unwrap());
        let numbers: Vec<f64> = numbers.collect();
        assert_eq!(numbers.len(), EMBEDDING_LEN);
        sum.iter_mut().zip(numbers).for_each(|(sum, number)| *sum += number / SCALE);
        functions += 1;
    }
    (sum, functions)
}

/// An embedding, exactly.
fn bits(program: &Module) -> [u64; EMBEDDING_LEN] {
    program.embedding().map(f64::to_bits)
}

#[test]
fn embeddings_are_those_of_the_tool() {
    let engine = engine();
    let folder = tempfile::tempdir().unwrap();
    let [bitcode, vocabulary] = ["a.bc", "vocabulary.json"].map(|name| folder.path().join(name));
    std::fs::write(&vocabulary, VOCABULARY_JSON).unwrap();
    let mut programs: Vec<Module> =
        real_programs().iter().map(|program| first_state(&engine, program).unwrap()).collect();
    programs.push(begin(&engine, EVERYTHING));
    for (at, program) in programs.iter_mut().enumerate() {
        std::fs::write(&bitcode, program.write()).unwrap();
        let (wanted, functions) = by_the_tool(&bitcode, &vocabulary);
        assert!(functions > 2, "program {at}");
        let rounding = 0.005 / SCALE * f64::from(i32::try_from(functions).unwrap());
        for (place, (ours, theirs)) in program.embedding().iter().zip(wanted).enumerate() {
            let difference = (ours - theirs).abs();
            assert!(difference < rounding * 1.01, "program {at}, {place}: {ours} and {theirs}");
        }
    }
}

#[test]
fn an_embedding_is_the_sum_of_entries_of_the_vocabulary() {
    type Section = BTreeMap<String, Vec<f64>>;
    let vocabulary: BTreeMap<String, Section> = serde_json::from_str(VOCABULARY_JSON).unwrap();
    let entry = |section: &str, name: &str| vocabulary[section][name].clone();
    let sum = |terms: &[(f64, Vec<f64>)]| -> Vec<f64> {
        let number = |place| terms.iter().map(|(times, entry)| times * entry[place]).sum();
        (0..EMBEDDING_LEN).map(number).collect()
    };
    let text = b"declare i32 @g(i32)
        define i32 @f(i32 %x) {
          %y = call i32 @g(i32 %x)
          ret i32 %y
        unreached:
          ret i32 1
        }";
    let wanted = sum(&[
        (1.0, entry("Opcodes", "Call")),
        (1.0, entry("Opcodes", "Ret")),
        (0.5, entry("Types", "IntegerTy")),
        (0.5, entry("Types", "VoidTy")),
        (0.2, entry("Arguments", "Function")),
        (0.4, entry("Arguments", "Variable")),
    ]);
    let ours = begin(&engine(), text).embedding();
    for (place, (ours, wanted)) in ours.iter().zip(wanted).enumerate() {
        assert!((ours - wanted).abs() < 1e-7, "{place}: {ours} and {wanted}");
    }
    assert_eq!(bits(&begin(&engine(), b"declare i32 @g(i32)")), [0; EMBEDDING_LEN]);
}

#[test]
fn an_embedding_depends_on_the_program_alone_and_leaves_it_as_it_was() {
    let engine = engine();
    for bitcode in real_programs() {
        let mut program = first_state(&engine, &bitcode).unwrap();
        let id = program.state_id();
        let embedding = bits(&program);
        assert_eq!(bits(&Module::revive(program.write()).unwrap()), embedding);
        assert_eq!((program.state_id(), program.registered()), (id, String::new()));
    }
}
