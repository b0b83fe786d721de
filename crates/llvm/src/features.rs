//! The feature vectors, with CompilerGym's names and order where it has them.
//!
//! `InstCount` counts opcodes in LLVM 10's order. LLVM 22 numbers some differently, so names
//! decide. LLVM 22's new opcode `PtrToAddr` has no place of its own and counts only in
//! `TotalInsts`. `Autophase` counts the case values of a `switch` among the constants, as LLVM 10
//! did when they were operands.

use steplake_model::Name;

/// The length of `InstCount`.
pub(super) const INST_COUNT_LEN: usize = 70;
/// The length of `Autophase`.
pub(super) const AUTOPHASE_LEN: usize = 56;

/// Both vectors of one state, from one walk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FeatureVectors {
    pub(super) inst_count: [i32; INST_COUNT_LEN],
    pub(super) autophase: [i32; AUTOPHASE_LEN],
}

/// The names of `InstCount`'s numbers.
const INST_COUNT_NAMES: &str = "\
    TotalInsts TotalBlocks TotalFuncs Ret Br Switch IndirectBr Invoke Resume Unreachable \
    CleanupRet CatchRet CatchSwitch CallBr FNeg Add FAdd Sub FSub Mul FMul UDiv SDiv FDiv URem \
    SRem FRem Shl LShr AShr And Or Xor Alloca Load Store GetElementPtr Fence AtomicCmpXchg \
    AtomicRMW Trunc ZExt SExt FPToUI FPToSI UIToFP SIToFP FPTrunc FPExt PtrToInt IntToPtr \
    BitCast AddrSpaceCast CleanupPad CatchPad ICmp FCmp PHI Call Select UserOp1 UserOp2 VAArg \
    ExtractElement InsertElement ShuffleVector ExtractValue InsertValue LandingPad Freeze";

/// The names of `Autophase`'s numbers.
const AUTOPHASE_NAMES: &str = "\
    BBNumArgsHi BBNumArgsLo onePred onePredOneSuc onePredTwoSuc oneSuccessor twoPred \
    twoPredOneSuc twoEach twoSuccessor morePreds BB03Phi BBHiPhi BBNoPhi BeginPhi BranchCount \
    returnInt CriticalCount NumEdges const32Bit const64Bit numConstZeroes numConstOnes \
    UncondBranches binaryConstArg NumAShrInst NumAddInst NumAllocaInst NumAndInst BlockMid \
    BlockLow NumBitCastInst NumBrInst NumCallInst NumGetElementPtrInst NumICmpInst NumLShrInst \
    NumLoadInst NumMulInst NumOrInst NumPHIInst NumRetInst NumSExtInst NumSelectInst NumShlInst \
    NumStoreInst NumSubInst NumTruncInst NumXorInst NumZExtInst TotalBlocks TotalInsts \
    TotalMemInst TotalFuncs ArgsPhi testUnary";

/// The length of `IR2Vec`.
pub(super) const EMBEDDING_LEN: usize = 75;

/// The length of `InstCountNorm`.
pub(super) const INST_COUNT_NORM_LEN: usize = INST_COUNT_LEN - 1;

impl FeatureVectors {
    /// Returns `InstCountNorm`: all counts but the first, which is that of all instructions, over
    /// the first. A program without instructions has zeros.
    pub(super) fn inst_count_norm(&self) -> [f64; INST_COUNT_NORM_LEN] {
        let [all, counts @ ..] = &self.inst_count;
        counts.map(|count| f64::from(count) / f64::from(*all.max(&1)))
    }
}

/// The names of `InstCountNorm`'s numbers, such as `RetDensity`.
pub(super) fn inst_count_norm_names() -> Vec<Name> {
    let names = inst_count_names().into_iter().skip(1);
    names.map(|name| format!("{name}Density").into()).collect()
}

/// The names of `IR2Vec`'s numbers. They mean nothing one by one.
pub(super) fn embedding_names() -> [Name; EMBEDDING_LEN] {
    std::array::from_fn(|place| format!("ir2vec_{place}").into())
}

pub(super) fn inst_count_names() -> [&'static str; INST_COUNT_LEN] {
    names(INST_COUNT_NAMES)
}

pub(super) fn autophase_names() -> [&'static str; AUTOPHASE_LEN] {
    names(AUTOPHASE_NAMES)
}

fn names<const COUNT: usize>(list: &'static str) -> [&'static str; COUNT] {
    let names: Vec<_> = list.split(' ').collect();
    names.try_into().expect("every number has one name")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn densities_are_counts_over_that_of_all_instructions() {
        let mut features =
            FeatureVectors { inst_count: [0; INST_COUNT_LEN], autophase: [0; AUTOPHASE_LEN] };
        assert!(features.inst_count_norm().iter().all(|&density| density == 0.0));
        features.inst_count[..4].copy_from_slice(&[8, 2, 0, 6]);
        features.inst_count[INST_COUNT_LEN - 1] = 8;
        let norm = features.inst_count_norm();
        // Each is a fraction of small powers of two, so it is exact.
        let bits = |norm: &[f64]| norm.iter().map(|density| density.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&norm[..4]), bits(&[0.25, 0.0, 0.75, 0.0]));
        assert_eq!(bits(&norm[INST_COUNT_NORM_LEN - 1..]), bits(&[1.0]));
    }
}
