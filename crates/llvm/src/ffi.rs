//! Declarations of the C++ shim; `shim/steplake_llvm.h` documents them.

#![expect(unsafe_code, reason = "declares foreign functions")]

use std::ffi::{c_char, c_int};

use inkwell::llvm_sys::prelude::LLVMContextRef;
use inkwell::llvm_sys::target_machine::LLVMTargetMachineRef;

/// The shim's `SteplakeModule`.
#[repr(C)]
pub(super) struct RawModule {
    _private: [u8; 0],
}

/// The shim's `SteplakeEngine`.
#[repr(C)]
pub(super) struct RawEngine {
    _private: [u8; 0],
}

/// The shim's `SteplakeObject`.
#[repr(C)]
pub(super) struct RawObject {
    _private: [u8; 0],
}

/// The shim's `SteplakeVocabulary`.
#[repr(C)]
pub(super) struct RawVocabulary {
    _private: [u8; 0],
}

/// The shim's `SteplakeOption`.
#[repr(C)]
pub(super) struct RawOption {
    _private: [u8; 0],
}

/// Borrowed bytes, valid until the next call on the handle they came from.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct RawBytes {
    pub(super) data: *const c_char,
    pub(super) size: usize,
}

/// The shim's `SteplakeProgramGraph`: borrowed lists.
#[repr(C)]
pub(super) struct RawProgramGraph {
    pub(super) texts: RawBytes,
    pub(super) nodes: usize,
    pub(super) node_types: *const i8,
    pub(super) node_texts: *const u32,
    pub(super) node_functions: *const i32,
    pub(super) node_blocks: *const i32,
    pub(super) edges: usize,
    pub(super) edge_flows: *const i8,
    pub(super) edge_positions: *const i32,
    pub(super) edge_sources: *const i32,
    pub(super) edge_targets: *const i32,
}

/// The shim's `SteplakeTextList`: borrowed lists.
#[repr(C)]
pub(super) struct RawTextList {
    pub(super) texts: RawBytes,
    pub(super) places: *const u32,
}

/// The shim's `SteplakeTokens`: borrowed lists.
#[repr(C)]
pub(super) struct RawTokens {
    pub(super) tokens: usize,
    pub(super) ids: *const i32,
    pub(super) kinds: RawTextList,
    pub(super) categories: RawTextList,
    pub(super) values: RawTextList,
}

/// `SteplakeUnchanged`.
pub(super) const RUN_UNCHANGED: c_int = 0;
/// `SteplakeChanged`.
pub(super) const RUN_CHANGED: c_int = 1;

/// `SteplakeCodeGenerationO0`.
pub(super) const CODE_GENERATION_O0: c_int = 0;
/// `SteplakeCodeGenerationOs`.
pub(super) const CODE_GENERATION_OS: c_int = 1;
/// `SteplakeCodeGenerationOz`.
pub(super) const CODE_GENERATION_OZ: c_int = 2;
/// `SteplakeCodeGenerationO3`.
pub(super) const CODE_GENERATION_O3: c_int = 3;

/// `SteplakeSanitizerNone`.
pub(super) const SANITIZER_NONE: c_int = 0;
/// `SteplakeSanitizerAddress`.
pub(super) const SANITIZER_ADDRESS: c_int = 1;
/// `SteplakeSanitizerMemory`.
pub(super) const SANITIZER_MEMORY: c_int = 2;
/// `SteplakeSanitizerThread`.
pub(super) const SANITIZER_THREAD: c_int = 3;

unsafe extern "C" {
    pub(super) fn steplake_llvm_context_prepare(context: LLVMContextRef, discard_names: c_int);
    pub(super) fn steplake_llvm_module_create(context: LLVMContextRef) -> *mut RawModule;
    pub(super) fn steplake_llvm_module_dispose(module: *mut RawModule);
    pub(super) fn steplake_llvm_module_parse(
        module: *mut RawModule,
        data: *const c_char,
        size: usize,
    ) -> c_int;
    pub(super) fn steplake_llvm_module_verify(module: *mut RawModule) -> c_int;
    pub(super) fn steplake_llvm_module_message(module: *const RawModule) -> RawBytes;
    pub(super) fn steplake_llvm_module_adopt(
        module: *mut RawModule,
        machine: LLVMTargetMachineRef,
    ) -> c_int;
    pub(super) fn steplake_llvm_module_canonicalise(module: *mut RawModule);
    pub(super) fn steplake_llvm_module_verify_changes(module: *mut RawModule) -> c_int;
    pub(super) fn steplake_llvm_module_settle(module: *mut RawModule);
    pub(super) fn steplake_llvm_module_write(
        module: *mut RawModule,
        has_use_lists: c_int,
    ) -> RawBytes;
    pub(super) fn steplake_llvm_module_summary(module: *mut RawModule) -> RawBytes;
    pub(super) fn steplake_llvm_module_print(
        module: *mut RawModule,
        has_use_lists: c_int,
    ) -> RawBytes;
    pub(super) fn steplake_llvm_module_instructions(module: *const RawModule) -> u64;
    pub(super) fn steplake_llvm_module_features(
        module: *mut RawModule,
        inst_count: *mut i32,
        autophase: *mut i32,
    );
    pub(super) fn steplake_llvm_module_program_graph(
        module: *mut RawModule,
        graph: *mut RawProgramGraph,
    );
    pub(super) fn steplake_llvm_module_tokens(module: *mut RawModule, tokens: *mut RawTokens);
    pub(super) fn steplake_llvm_module_typed_text(module: *mut RawModule) -> RawBytes;
    pub(super) fn steplake_llvm_vocabulary_create(json: RawBytes) -> *mut RawVocabulary;
    pub(super) fn steplake_llvm_module_embedding(
        module: *const RawModule,
        vocabulary: *const RawVocabulary,
        embedding: *mut f64,
    );
    pub(super) fn steplake_llvm_module_registered(module: *mut RawModule) -> RawBytes;
    pub(super) safe fn steplake_llvm_initialize_x86();
    pub(super) fn steplake_llvm_engine_create(machine: LLVMTargetMachineRef) -> *mut RawEngine;
    pub(super) fn steplake_llvm_engine_dispose(engine: *mut RawEngine);
    pub(super) fn steplake_llvm_engine_run(
        engine: *mut RawEngine,
        module: *mut RawModule,
        pipeline: *const c_char,
        size: usize,
    ) -> c_int;
    pub(super) fn steplake_llvm_engine_run_alone(
        engine: *mut RawEngine,
        module: *mut RawModule,
        pipeline: *const c_char,
        size: usize,
    ) -> c_int;
    pub(super) fn steplake_llvm_option_set(name: RawBytes, value: RawBytes) -> *mut RawOption;
    pub(super) fn steplake_llvm_option_reset(option: *mut RawOption);
    pub(super) fn steplake_llvm_object_create(
        bitcode: RawBytes,
        generation: c_int,
        sanitizer: c_int,
    ) -> *mut RawObject;
    pub(super) fn steplake_llvm_object_dispose(object: *mut RawObject);
    pub(super) fn steplake_llvm_object_text_size(object: *const RawObject) -> u64;
    pub(super) fn steplake_llvm_object_bytes(object: *const RawObject) -> RawBytes;
}

// For tests, from `shim/mutations.cpp`.
#[cfg(test)]
unsafe extern "C" {
    pub(super) fn steplake_llvm_mutate(module: *mut RawModule, index: usize) -> *const c_char;
    pub(super) fn steplake_llvm_break_constant(module: *mut RawModule);
    pub(super) fn steplake_llvm_nest_constants(module: *mut RawModule, depth: usize);
    pub(super) fn steplake_llvm_reverse_entries(module: *mut RawModule);
    pub(super) fn steplake_llvm_reverse_uses(module: *mut RawModule);
}
