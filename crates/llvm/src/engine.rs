//! All that is needed to run passes: the target machine, the pass builder, the analysis managers.

#![expect(unsafe_code, reason = "calls the C++ shim")]

use std::ptr::NonNull;

use inkwell::OptimizationLevel;
use inkwell::targets::{CodeModel, RelocMode, Target, TargetMachine, TargetTriple};

use super::ffi::{self, RawEngine};
use super::module::Module;
use super::options;
use super::spaces::TARGET;

const CPU: &str = "x86-64";

/// Runs pass pipelines. Every run begins without analysis results, so that a step depends on the
/// module alone.
#[derive(Debug)]
pub(super) struct Engine {
    engine: NonNull<RawEngine>,
    /// Dropped after `engine`, which refers to it.
    machine: TargetMachine,
}

// SAFETY: both are reached only through this handle and have no ties to the thread that made them.
unsafe impl Send for Engine {}

/// The effect of a pipeline on a program's content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PipelineEffect {
    /// The content is as before, and in canonical form.
    None,
    /// The content may have changed; call [`Module::verify_changes`] and
    /// [`Module::canonicalise_changes`].
    Some,
}

impl Engine {
    /// Sets LLVM up for [`TARGET`]. Fails with LLVM's message, or if the LLVM loaded is not the one
    /// linked.
    pub(super) fn new() -> Result<Self, String> {
        let (major, minor, patch) = inkwell::support::get_llvm_version();
        let (loaded, linked) = (format!("{major}.{minor}.{patch}"), env!("STEPLAKE_LLVM_VERSION"));
        if loaded != linked {
            return Err(format!("it was built with LLVM {linked} and finds LLVM {loaded}"));
        }
        ffi::steplake_llvm_initialize_x86();
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
        // SAFETY: the machine is alive, and stays so as long as the handle.
        let engine = unsafe { ffi::steplake_llvm_engine_create(machine.as_mut_ptr()) };
        let engine = NonNull::new(engine).expect("operator new does not give null");
        Ok(Self { engine, machine })
    }

    /// Forgets all that earlier runs left behind. Between programs, clearing analysis results is
    /// not enough: LLVM's library information stays that of the first target triple, and the target
    /// machine keeps options of functions that asked it for costs. Between the steps of one program
    /// it is enough; the shim says why.
    pub(super) fn renew(&mut self) {
        *self = Self::new().expect("what could be set up once can be again");
    }

    /// Runs a pass pipeline on a canonical program. It is in the syntax of `opt -passes=…`, or
    /// `with<OPTION=VALUE>(PIPELINE)`: see [`options`].
    ///
    /// # Errors
    ///
    /// LLVM's message if `pipeline` cannot be parsed, or those of [`options::hold`]; then nothing
    /// ran.
    pub(super) fn run(
        &mut self,
        program: &mut Module,
        pipeline: &str,
    ) -> Result<PipelineEffect, String> {
        let (_options, pipeline) = options::hold(pipeline)?;
        let (text, size) = (pipeline.as_ptr().cast(), pipeline.len());
        // SAFETY: both handles are alive, and the text comes from a slice.
        let result = unsafe {
            ffi::steplake_llvm_engine_run(self.engine.as_ptr(), program.raw(), text, size)
        };
        match result {
            ffi::RUN_UNCHANGED => Ok(PipelineEffect::None),
            ffi::RUN_CHANGED => Ok(PipelineEffect::Some),
            _ => Err(program.message()),
        }
    }

    /// Runs a pass pipeline and nothing else; the program is not canonical afterwards.
    ///
    /// # Errors
    ///
    /// Those of [`Engine::run`].
    pub(super) fn run_alone(&mut self, program: &mut Module, pipeline: &str) -> Result<(), String> {
        let (_options, pipeline) = options::hold(pipeline)?;
        let (text, size) = (pipeline.as_ptr().cast(), pipeline.len());
        // SAFETY: both handles are alive, and the text comes from a slice.
        let ran = unsafe {
            ffi::steplake_llvm_engine_run_alone(self.engine.as_ptr(), program.raw(), text, size)
        };
        if ran == 0 { Err(program.message()) } else { Ok(()) }
    }

    pub(super) fn machine(&self) -> &TargetMachine {
        &self.machine
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // SAFETY: the handle is alive, nobody else has it, and the machine is dropped after it.
        unsafe { ffi::steplake_llvm_engine_dispose(self.engine.as_ptr()) };
    }
}
