//! What a program is optimised for, and LLVM's own pipelines, with which the result is compared.

use crate::datasets::Aim;
use crate::generate::Costed;
use crate::measure::{CodeGeneration, MeasuredSpace};

/// How machine code is made of programs that are to be fast.
pub(super) const GENERATION: CodeGeneration = CodeGeneration::O3;

/// What a program is optimised for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Goal {
    /// Few instructions of the IR.
    Ir,
    /// Few bytes of code and constants in the object file, with code generation for functions that
    /// are marked as those of `clang -Oz`.
    Size,
    /// A short wall time of a run, with code generation as that of `clang -O3`.
    Runtime,
}

impl Goal {
    /// Returns the observation space of its costs.
    pub(super) fn cost(self) -> &'static str {
        match self {
            Self::Ir => "IrInstructionCount",
            Self::Size => "ObjectTextSizeBytesCodegenOz",
            Self::Runtime => MeasuredSpace::Runtime.as_str(),
        }
    }

    /// Returns which state says what a sequence costs. Machine code takes longer to make than a
    /// pass takes, so it is made once for each sequence, where that has the fewest instructions.
    pub(super) fn costed(self) -> Costed {
        match self {
            Self::Ir => Costed::EachState,
            Self::Size => Costed::LowestOf(Self::Ir.cost().to_owned()),
            Self::Runtime => Costed::LastState,
        }
    }

    /// Returns the observation space of the result as an object file.
    pub(super) fn object_space(self) -> &'static str {
        match self {
            Self::Ir | Self::Size => "ObjectCodegenOz",
            Self::Runtime => GENERATION.object_space(),
        }
    }

    /// Returns how a file of C or C++ is compiled.
    pub(super) fn aim(self) -> Aim {
        match self {
            Self::Ir | Self::Size => Aim::Size,
            Self::Runtime => Aim::Speed,
        }
    }

    /// Returns what costs are counted in.
    pub fn unit(self) -> &'static str {
        match self {
            Self::Ir => "instructions",
            Self::Size => "bytes",
            Self::Runtime => "seconds",
        }
    }
}

/// One of LLVM's own pipelines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LlvmPipeline {
    O3,
    Oz,
}

impl LlvmPipeline {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::O3 => "-O3",
            Self::Oz => "-Oz",
        }
    }
}
