//! What it takes to run passes: the target machine, the pass builder, the analysis managers.

#![expect(unsafe_code, reason = "calls the C++ shim")]

use std::ptr::NonNull;

use inkwell::OptimizationLevel;
use inkwell::llvm_sys::target_machine::LLVMTargetMachineRef;
use inkwell::targets::{
    CodeModel, InitializationConfig, RelocMode, Target, TargetMachine, TargetTriple,
};

use super::ffi::{self, RawEngine};
use super::program::Program;

/// The target that all programs are compiled for: any x86-64, so that the states do not depend on
/// the machine they were made on.
pub(super) const TARGET: &str = "x86_64-pc-linux-gnu";
const CPU: &str = "x86-64";

/// Runs pass pipelines. Every run begins without any analysis results, so that a step depends on
/// the module alone.
#[derive(Debug)]
pub(super) struct Engine {
    engine: NonNull<RawEngine>,
    /// Dropped after `engine`, which refers to it.
    machine: TargetMachine,
}

// SAFETY: both are reached through this handle alone and have no ties to the thread that made them.
unsafe impl Send for Engine {}

/// What a pipeline did to a program's content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// It is as before, and in canonical form.
    None,
    /// It may be another; [`Program::verify_changes`] and [`Program::settle`] are due.
    Some,
}

impl Engine {
    /// Sets LLVM up for [`TARGET`]. The error is LLVM's, or that another LLVM was loaded than
    /// linked.
    pub(super) fn new() -> Result<Self, String> {
        let (major, minor, patch) = inkwell::support::get_llvm_version();
        let (loaded, linked) = (format!("{major}.{minor}.{patch}"), env!("STEPLAKE_LLVM_VERSION"));
        if loaded != linked {
            return Err(format!("it was built with LLVM {linked} and finds LLVM {loaded}"));
        }
        Target::initialize_x86(&InitializationConfig::default());
        let triple = TargetTriple::create(TARGET);
        let target = Target::from_triple(&triple).map_err(|error| error.to_string())?;
        let machine = target
            .create_target_machine(
                &triple,
                CPU,
                "",
                OptimizationLevel::Default,
                RelocMode::Default,
                CodeModel::Default,
            )
            .ok_or_else(|| format!("LLVM has no target machine for {TARGET}"))?;
        // SAFETY: the machine is alive, and stays so for as long as the handle.
        let engine = unsafe { ffi::steplake_llvm_engine_create(machine.as_mut_ptr()) };
        let engine = NonNull::new(engine).expect("operator new does not give null");
        Ok(Self { engine, machine })
    }

    /// Forgets all that earlier runs left behind. Between programs it is not enough to clear the
    /// results of analyses: LLVM's library information stays that of the first target triple, and
    /// the target machine keeps options of the first function that asked it for costs. Between the
    /// steps of one program it is; the shim says why.
    pub(super) fn renew(&mut self) {
        *self = Self::new().expect("what could be set up once can be again");
    }

    /// Runs a pass pipeline, in the words of `opt -passes=…`, over a canonical program.
    ///
    /// # Errors
    ///
    /// LLVM's message when the pipeline is not one. Nothing ran then.
    pub(super) fn run(&mut self, program: &mut Program, pipeline: &str) -> Result<Change, String> {
        let (text, size) = (pipeline.as_ptr().cast(), pipeline.len());
        // SAFETY: both handles are alive, and the text is that of a slice.
        let result = unsafe {
            ffi::steplake_llvm_engine_run(self.engine.as_ptr(), program.raw(), text, size)
        };
        match result {
            ffi::RUN_UNCHANGED => Ok(Change::None),
            ffi::RUN_CHANGED => Ok(Change::Some),
            _ => Err(program.message()),
        }
    }

    /// Runs a pass pipeline and nothing else; the program is in no canonical form afterwards.
    ///
    /// # Errors
    ///
    /// Those of [`Engine::run`].
    pub(super) fn run_alone(
        &mut self,
        program: &mut Program,
        pipeline: &str,
    ) -> Result<(), String> {
        let (text, size) = (pipeline.as_ptr().cast(), pipeline.len());
        // SAFETY: both handles are alive, and the text is that of a slice.
        let ran = unsafe {
            ffi::steplake_llvm_engine_run_alone(self.engine.as_ptr(), program.raw(), text, size)
        };
        if ran == 0 { Err(program.message()) } else { Ok(()) }
    }

    /// For the shim.
    pub(super) fn machine(&self) -> LLVMTargetMachineRef {
        self.machine.as_mut_ptr()
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // SAFETY: the handle is alive, nobody else has it, and the machine is dropped after it.
        unsafe { ffi::steplake_llvm_engine_dispose(self.engine.as_ptr()) };
    }
}
