//! The observation spaces that belong to the machine instead of the state.

/// An observation space of CompilerGym whose values take more than the state: the processor, the
/// files and the tools of the machine that observes it. No lake records them with states.
///
/// ```
/// use steplake::model::MachineSpace;
/// assert_eq!(MachineSpace::from_name("Runtime"), Some(MachineSpace::Runtime));
/// assert_eq!(MachineSpace::from_name("Autophase"), None);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MachineSpace {
    /// The wall times of runs of the program, in seconds.
    Runtime,
    /// The wall times of builds of the program, in seconds.
    Buildtime,
    /// 1 if somebody says how the program is built, otherwise 0.
    IsBuildable,
    /// 1 if somebody says how the program is run, otherwise 0.
    IsRunnable,
    /// The size of the built program's code in bytes; that of its object file if nobody says how it
    /// is built.
    TextSizeBytes,
    /// The same, of the program untouched.
    TextSizeO0,
    /// The same, after the compiler's own pipeline `-O3`.
    TextSizeO3,
    /// The same, after the compiler's own pipeline `-Oz`.
    TextSizeOz,
    /// The processor, as JSON.
    CpuInfo,
    /// The path of a file with the state, as the environment serialises it.
    BitcodeFile,
    /// The operations of a schedule in a nanosecond of its run: GFLOP/s.
    Flops,
}

impl MachineSpace {
    /// All spaces.
    pub const ALL: [Self; 11] = [
        Self::Runtime,
        Self::Buildtime,
        Self::IsBuildable,
        Self::IsRunnable,
        Self::TextSizeBytes,
        Self::TextSizeO0,
        Self::TextSizeO3,
        Self::TextSizeOz,
        Self::CpuInfo,
        Self::BitcodeFile,
        Self::Flops,
    ];

    /// Those of programs that are linked: all but the last.
    pub const OF_PROGRAMS: &'static [Self] = Self::ALL.split_last().expect("there are some").1;

    /// Its name, which is CompilerGym's.
    pub fn name(self) -> &'static str {
        match self {
            Self::Runtime => "Runtime",
            Self::Buildtime => "Buildtime",
            Self::IsBuildable => "IsBuildable",
            Self::IsRunnable => "IsRunnable",
            Self::TextSizeBytes => "TextSizeBytes",
            Self::TextSizeO0 => "TextSizeO0",
            Self::TextSizeO3 => "TextSizeO3",
            Self::TextSizeOz => "TextSizeOz",
            Self::CpuInfo => "CpuInfo",
            Self::BitcodeFile => "BitcodeFile",
            Self::Flops => "flops",
        }
    }

    /// Returns the space called `name`.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|space| space.name() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_space_is_found_by_its_name() {
        for space in MachineSpace::ALL {
            assert_eq!(MachineSpace::from_name(space.name()), Some(space));
        }
    }
}
