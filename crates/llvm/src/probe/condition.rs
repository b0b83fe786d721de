//! What children run, and how.

use std::time::Duration;

/// The CPU time that a step may take; a longer step is killed and counts as slow.
pub(super) const STEP_CPU_MAX: Duration = Duration::from_secs(10);

/// How a child is run: environment variables for its allocator and for the CPU that its C library
/// sees, and whether addresses are random.
#[derive(Debug, Clone, Copy)]
pub(super) struct ProbeCondition {
    pub(super) variables: &'static [(&'static str, &'static str)],
    pub(super) random_addresses: bool,
}

pub(super) const CONDITIONS: [ProbeCondition; 4] = [
    ProbeCondition { variables: &[], random_addresses: true },
    ProbeCondition {
        variables: &[
            (
                "GLIBC_TUNABLES",
                "glibc.malloc.tcache_count=0:glibc.malloc.mmap_threshold=32768:\
                 glibc.cpu.hwcaps=-FMA,-FMA4,-AVX2",
            ),
            ("MALLOC_PERTURB_", "90"),
        ],
        random_addresses: false,
    },
    ProbeCondition {
        variables: &[
            ("GLIBC_TUNABLES", "glibc.malloc.mxfast=0:glibc.malloc.top_pad=67108864"),
            ("MALLOC_ARENA_MAX", "1"),
        ],
        random_addresses: true,
    },
    ProbeCondition {
        variables: &[
            ("GLIBC_TUNABLES", "glibc.malloc.tcache_count=1:glibc.malloc.mmap_threshold=4096"),
            ("MALLOC_PERTURB_", "165"),
            ("MALLOC_TRIM_THRESHOLD_", "0"),
        ],
        random_addresses: true,
    },
];
