//! How machine code is made of states.

use steplake_model::{Build, EnvironmentSpec, Execution, Linker};

/// How machine code is made of a state that is linked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CodeGeneration {
    /// As `clang -O0` does, which adds no optimisation of its own to the passes of the state.
    O0,
    /// As `clang -O3` does.
    O3,
    /// As the options of the state say, which are a part of it: GCC's.
    OfState,
}

impl CodeGeneration {
    /// Returns that of the objects of an environment's states, without another choice.
    pub fn usual(spec: &EnvironmentSpec) -> Self {
        let is_llvm = spec.observation_index(Self::O0.object_space()).is_some();
        if is_llvm { Self::O0 } else { Self::OfState }
    }

    /// Returns the observation space of such object files.
    pub fn object_space(self) -> &'static str {
        match self {
            Self::O0 => "Object",
            Self::O3 => "ObjectCodegenO3",
            Self::OfState => "obj",
        }
    }

    /// Returns how a text for the column `compilation` begins that names it.
    pub fn words(self) -> &'static str {
        match self {
            Self::O0 => "code generation of clang -O0; ",
            Self::O3 => "code generation of clang -O3; ",
            Self::OfState => "code generation by the options of the state; ",
        }
    }
}

/// How machine code is made of a state and what is run, for the column `compilation`: in words, and
/// as a digest of the whole execution. `tool` is the version of the linker, or of the compiler that
/// a build command is given.
pub fn compilation(execution: &Execution, generation: CodeGeneration, tool: &str) -> String {
    let how = match &execution.build {
        Build::Link { linker, arguments } => {
            let linker = match linker {
                Linker::C => "cc",
                Linker::Cxx => "c++",
            };
            let line = format!("{linker} program.o {}", arguments.join(" "));
            format!("{}{}", generation.words(), line.trim_end())
        }
        Build::Command(command) => command.line(),
    };
    let digest = blake3::hash(execution.to_json().as_bytes()).to_hex();
    format!("{how}; {tool}; execution {}", &digest[..16])
}
