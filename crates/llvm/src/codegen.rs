//! Machine code of a program.

#![expect(unsafe_code, reason = "calls the C++ shim")]

use std::ffi::c_int;
use std::ptr::NonNull;

use super::ffi::{self, RawBytes, RawObject};
use super::module::borrow;
use super::options;
use super::spaces::{CodeGeneration, Sanitizer};

/// A relocatable object: position-independent code for generic x86-64, unless functions name a CPU.
#[derive(Debug)]
pub(super) struct ObjectFile(NonNull<RawObject>);

impl ObjectFile {
    /// Compiles a copy of a program, given as bitcode that LLVM wrote. Nothing of an earlier
    /// compilation affects it. If the program cannot be compiled, for example because the assembler
    /// rejects inline assembly, LLVM ends the process.
    pub(super) fn compile(bitcode: &[u8], generation: CodeGeneration) -> Self {
        Self::make(bitcode, generation, ffi::SANITIZER_NONE)
    }

    /// Compiles a copy of a program with the checks of a sanitizer in all its functions, as
    /// [`ObjectFile::compile`] does for [`CodeGeneration::O0`]. It needs the sanitizer's library.
    pub(super) fn instrumented(bitcode: &[u8], sanitizer: Sanitizer) -> Self {
        let sanitizer = match sanitizer {
            Sanitizer::Address => ffi::SANITIZER_ADDRESS,
            Sanitizer::Memory => ffi::SANITIZER_MEMORY,
            Sanitizer::Thread => ffi::SANITIZER_THREAD,
        };
        Self::make(bitcode, CodeGeneration::O0, sanitizer)
    }

    fn make(bitcode: &[u8], generation: CodeGeneration, sanitizer: c_int) -> Self {
        let bitcode = RawBytes { data: bitcode.as_ptr().cast(), size: bitcode.len() };
        let generation = match generation {
            CodeGeneration::O0 => ffi::CODE_GENERATION_O0,
            CodeGeneration::Os => ffi::CODE_GENERATION_OS,
            CodeGeneration::Oz => ffi::CODE_GENERATION_OZ,
            CodeGeneration::O3 => ffi::CODE_GENERATION_O3,
        };
        let _options = options::defaults();
        // SAFETY: the bytes come from a slice, and the shim copies them.
        let object = unsafe { ffi::steplake_llvm_object_create(bitcode, generation, sanitizer) };
        Self(NonNull::new(object).expect("operator new does not give null"))
    }

    /// The bytes of its file.
    pub(super) fn bytes(&self) -> &[u8] {
        // SAFETY: the handle is alive.
        let bytes = unsafe { ffi::steplake_llvm_object_bytes(self.0.as_ptr()) };
        // SAFETY: the bytes live as long as the handle.
        unsafe { borrow(bytes) }
    }

    /// The bytes of the sections that are loaded and cannot be written: code, constants and tables
    /// for unwinding. `llvm-size` calls them `text`.
    pub(super) fn text_size(&self) -> i64 {
        // SAFETY: the handle is alive, and has an object.
        let size = unsafe { ffi::steplake_llvm_object_text_size(self.0.as_ptr()) };
        i64::try_from(size).expect("an object in memory has fewer than 2^63 bytes")
    }
}

impl Drop for ObjectFile {
    fn drop(&mut self) {
        // SAFETY: the handle is alive, and nobody else has it.
        unsafe { ffi::steplake_llvm_object_dispose(self.0.as_ptr()) };
    }
}
