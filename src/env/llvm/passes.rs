//! Passes alone.

use super::engine::Engine;
use super::program::{LocalNames, Program, ProgramError};

/// Runs pipelines over one program after another and does nothing else: no states, no rewards. This
/// is the floor that benchmarks measure recorded steps against.
#[derive(Debug)]
pub struct PassRunner {
    engine: Engine,
    program: Option<Program>,
}

impl PassRunner {
    /// A runner without a program.
    ///
    /// # Errors
    ///
    /// LLVM's message when it cannot be set up.
    pub fn new() -> Result<Self, String> {
        Ok(Self { engine: Engine::new()?, program: None })
    }

    /// Reads a program that is known to be valid, in place of the one before.
    ///
    /// # Errors
    ///
    /// [`ProgramError`].
    pub fn load(&mut self, bitcode: &[u8]) -> Result<(), ProgramError> {
        self.program = Some(Program::parse_trusted(bitcode, LocalNames::Drop)?);
        Ok(())
    }

    /// Parses a pipeline, runs it, and forgets the analyses. An empty one does nothing.
    ///
    /// # Errors
    ///
    /// LLVM's message when `pipeline` is not one.
    ///
    /// # Panics
    ///
    /// When no program was loaded.
    pub fn run(&mut self, pipeline: &str) -> Result<(), String> {
        let program = self.program.as_mut().expect("a program is loaded before passes run");
        if pipeline.is_empty() {
            return Ok(());
        }
        self.engine.run_alone(program, pipeline)
    }
}
