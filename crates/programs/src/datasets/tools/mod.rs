//! The foreign programs that make benchmarks, each confined and limited: clang, gcc, the tools of
//! LLVM, and what is known of their flags and of the files that they read.

pub(super) mod assembler_text;
pub(super) mod clang;
pub(super) mod clang_flags;
pub(super) mod command;
pub(super) mod front_end;
pub(super) mod llvm_tools;
pub(super) mod opened;
pub(super) mod preprocessor;
pub(super) mod source_flags;
