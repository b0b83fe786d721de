//! The observation spaces that belong to the machine instead of the state.

crate::named! {
    /// An observation space of CompilerGym whose values take more than the state: the processor,
    /// the files and the tools of the machine that observes it. No lake records them with states.
    ///
    /// ```
    /// use steplake_model::MachineSpace;
    /// assert_eq!(MachineSpace::from_name("Runtime"), Some(MachineSpace::Runtime));
    /// assert_eq!(MachineSpace::from_name("Autophase"), None);
    /// ```
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum MachineSpace {
        /// The wall times of runs of the program, in seconds.
        Runtime = "Runtime",
        /// The wall times of builds of the program, in seconds.
        Buildtime = "Buildtime",
        /// 1 if somebody says how the program is built, otherwise 0.
        IsBuildable = "IsBuildable",
        /// 1 if somebody says how the program is run, otherwise 0.
        IsRunnable = "IsRunnable",
        /// The size of the built program's code in bytes; that of its object file if nobody says
        /// how it is built.
        TextSizeBytes = "TextSizeBytes",
        /// The same, of the program untouched.
        TextSizeO0 = "TextSizeO0",
        /// The same, after the compiler's own pipeline `-O3`.
        TextSizeO3 = "TextSizeO3",
        /// The same, after the compiler's own pipeline `-Oz`.
        TextSizeOz = "TextSizeOz",
        /// The processor, as JSON.
        CpuInfo = "CpuInfo",
        /// The path of a file with the state, as the environment serialises it.
        BitcodeFile = "BitcodeFile",
        /// The operations of a schedule in a nanosecond of its run: GFLOP/s.
        Flops = "flops",
    }

    /// Its name, which is CompilerGym's.
    fn name;
    fn from_name;
}

impl MachineSpace {
    /// Those of programs that are linked: all but the last.
    pub const OF_PROGRAMS: &'static [Self] = Self::ALL.split_last().expect("there are some").1;
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
