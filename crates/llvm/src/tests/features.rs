//! The vectors of features.

use super::{GOLDEN, begin, engine, real_programs};
use crate::features::{autophase_names, inst_count_names};
use crate::session::first_state;

/// Returns the numbers that are not zero, with their names.
fn named<'a>(names: &[&'a str], numbers: &[i32]) -> Vec<(&'a str, i32)> {
    let pairs = names.iter().zip(numbers).filter(|(_, number)| **number != 0);
    pairs.map(|(name, number)| (*name, *number)).collect()
}

#[test]
fn features_of_a_program_counted_by_hand() {
    let features = begin(&engine(), GOLDEN).features();
    assert_eq!(
        named(&inst_count_names(), &features.inst_count),
        [
            ("TotalInsts", 19),
            ("TotalBlocks", 7),
            ("TotalFuncs", 4),
            ("Ret", 1),
            ("Br", 4),
            ("Switch", 1),
            ("Invoke", 1),
            ("Add", 2),
            ("Alloca", 1),
            ("Load", 1),
            ("Store", 1),
            ("GetElementPtr", 1),
            ("ICmp", 1),
            ("PHI", 1),
            ("Call", 1),
            ("ExtractElement", 1),
            ("LandingPad", 1),
            ("Freeze", 1),
        ]
    );
    assert_eq!(
        named(&autophase_names(), &features.autophase),
        [
            ("BBNumArgsLo", 1),
            ("onePred", 4),
            ("onePredOneSuc", 3),
            ("onePredTwoSuc", 1),
            ("oneSuccessor", 3),
            ("twoPred", 1),
            ("twoEach", 1),
            ("twoSuccessor", 2),
            ("morePreds", 1),
            ("BB03Phi", 1),
            ("BBNoPhi", 6),
            ("BeginPhi", 1),
            ("BranchCount", 4),
            ("returnInt", 1),
            ("CriticalCount", 4),
            ("NumEdges", 11),
            // Three of them are the switch's cases.
            ("const32Bit", 8),
            ("const64Bit", 4),
            ("numConstZeroes", 5),
            ("numConstOnes", 5),
            ("UncondBranches", 3),
            ("binaryConstArg", 2),
            ("NumAddInst", 2),
            ("NumAllocaInst", 1),
            ("BlockLow", 7),
            ("NumBrInst", 4),
            ("NumCallInst", 1),
            ("NumGetElementPtrInst", 1),
            ("NumICmpInst", 1),
            ("NumLoadInst", 1),
            ("NumPHIInst", 1),
            ("NumRetInst", 1),
            ("NumStoreInst", 1),
            ("TotalBlocks", 7),
            ("TotalInsts", 19),
            ("TotalMemInst", 6),
            ("TotalFuncs", 4),
            ("ArgsPhi", 5),
            ("testUnary", 3),
        ]
    );
}

#[test]
fn the_two_vectors_agree_where_they_count_the_same() {
    let engine = engine();
    for bitcode in real_programs() {
        let mut program = first_state(&engine, &bitcode).unwrap();
        let features = program.features();
        let count = |name: &str| {
            let place = inst_count_names().iter().position(|known| *known == name).unwrap();
            features.inst_count[place]
        };
        for (name, &number) in autophase_names().iter().zip(&features.autophase) {
            let opcode = name.strip_prefix("Num").and_then(|name| name.strip_suffix("Inst"));
            if let Some(opcode) = opcode {
                assert_eq!(number, count(opcode), "{name}");
            }
        }
        assert_eq!(features.inst_count[3..].iter().sum::<i32>(), count("TotalInsts"));
        assert_eq!(program.instructions(), i64::from(count("TotalInsts")));
    }
}
