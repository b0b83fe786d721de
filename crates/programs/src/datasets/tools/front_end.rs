//! What makes programs of sources: it depends on the environment that plays them.

use super::clang::{self, Compiled, SourceFile};
use super::preprocessor::Preprocessor;
use crate::datasets::DatasetError;

/// What makes the programs of an environment.
#[derive(Debug, Clone, Default)]
pub enum FrontEnd {
    /// clang: a program is bitcode.
    #[default]
    Clang,
    /// A GCC: a program is preprocessed C.
    Gcc(Preprocessor),
}

impl FrontEnd {
    /// Returns the exact build, part of the cache key of everything that is made.
    pub(in crate::datasets) fn version(&self) -> Result<&str, DatasetError> {
        match self {
            Self::Clang => clang::version(),
            Self::Gcc(preprocessor) => Ok(preprocessor.version()),
        }
    }

    /// Returns the flags for every source, likewise.
    pub(in crate::datasets) fn flags(&self) -> &'static str {
        match self {
            Self::Clang => clang::FLAGS,
            Self::Gcc(_) => Preprocessor::FLAGS,
        }
    }

    /// Makes a program of a source.
    ///
    /// # Errors
    ///
    /// [`DatasetError::DoesNotCompile`]; [`DatasetError::Refused`] if the program takes in a file
    /// that is neither its own nor a header.
    pub(in crate::datasets) fn compile(
        &self,
        source: &SourceFile<'_>,
    ) -> Result<Compiled, DatasetError> {
        match self {
            Self::Clang => clang::compile(source),
            Self::Gcc(preprocessor) => preprocessor.preprocess(source),
        }
    }

    /// Accepts a file that is a program as it is.
    ///
    /// # Errors
    ///
    /// Those of [`FrontEnd::compile`].
    pub(in crate::datasets) fn accept(
        &self,
        uri: &str,
        program: &[u8],
    ) -> Result<(), DatasetError> {
        match self {
            Self::Clang => Ok(()),
            Self::Gcc(preprocessor) => preprocessor.accept(uri, program),
        }
    }
}
