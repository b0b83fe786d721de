//! Environments: LLVM, what a state id may depend on, worker processes and their limits.

mod baselines;
mod llvm;
mod llvm_identity;
pub(crate) mod worker;
mod worker_limits;
