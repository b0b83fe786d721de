//! Runs passes without a session.

use super::engine::Engine;
use super::module::{LocalNames, Module, ModuleError};

/// Runs pipelines on one program after another and does nothing else: no states, no rewards. This
/// is the floor against which benchmarks measure recorded steps.
#[derive(Debug)]
pub struct PassRunner {
    engine: Engine,
    program: Option<Module>,
}

impl PassRunner {
    /// Creates a runner without a program.
    ///
    /// # Errors
    ///
    /// LLVM's message if it cannot be set up.
    pub fn new() -> Result<Self, String> {
        Ok(Self { engine: Engine::new()?, program: None })
    }

    /// Reads a program that is known to be valid; it replaces the previous one.
    ///
    /// # Errors
    ///
    /// [`ModuleError`].
    pub fn load(&mut self, bitcode: &[u8]) -> Result<(), ModuleError> {
        self.program = Some(Module::parse_trusted(bitcode, LocalNames::Drop)?);
        Ok(())
    }

    /// Parses a pipeline, runs it, and forgets the analyses. An empty pipeline does nothing.
    ///
    /// # Errors
    ///
    /// LLVM's message if `pipeline` cannot be parsed.
    ///
    /// # Panics
    ///
    /// If no program was loaded.
    pub fn run(&mut self, pipeline: &str) -> Result<(), String> {
        let program = self.program.as_mut().expect("a program is loaded before passes run");
        if pipeline.is_empty() {
            return Ok(());
        }
        self.engine.run_alone(program, pipeline)
    }
}
