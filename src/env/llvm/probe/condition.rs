//! What children run, and how.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::env::llvm::spaces::action_spaces;

/// The CPU time that a step may take; a longer step is killed and counts as slow.
pub(super) const STEP_CPU_MAX: Duration = Duration::from_secs(10);

/// How a child is run: environment variables for its allocator and for the CPU that its C library
/// sees, and whether addresses are random.
#[derive(Debug, Clone, Copy)]
pub(super) struct Condition {
    pub(super) variables: &'static [(&'static str, &'static str)],
    pub(super) random_addresses: bool,
}

pub(super) const CONDITIONS: [Condition; 3] = [
    Condition { variables: &[], random_addresses: true },
    Condition {
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
    Condition {
        variables: &[
            ("GLIBC_TUNABLES", "glibc.malloc.mxfast=0:glibc.malloc.top_pad=67108864"),
            ("MALLOC_ARENA_MAX", "1"),
        ],
        random_addresses: true,
    },
];

/// Returns every pipeline of any action space, in a fixed order.
pub(super) fn pipelines() -> Vec<String> {
    let actions = action_spaces().into_iter().flat_map(|space| space.actions);
    let pipelines: BTreeSet<_> = actions.map(|action| action.pipeline).collect();
    pipelines.into_iter().filter(|pipeline| !pipeline.is_empty()).collect()
}
