//! Environments: LLVM, GCC, what a state id may depend on, worker processes, their limits,
//! what is announced to them, and wrong kernels.

mod announced;
mod baselines;
mod gcc;
mod gcc_failures;
mod llvm;
mod llvm_identity;
mod llvm_options;
mod loops;
pub(crate) mod worker;
pub(crate) mod worker_limits;
mod wrong_kernels;
