//! Environments: LLVM, GCC, what a state id may depend on, worker processes, their limits,
//! and what is announced to them.

mod announced;
mod baselines;
mod gcc;
mod llvm;
mod llvm_identity;
mod llvm_options;
mod loops;
pub(crate) mod worker;
mod worker_limits;
