//! `IR2Vec`: the embedding of a program, by LLVM's own analysis.
//!
//! The vocabulary is LLVM's `seedEmbeddingVocab75D.json`; `data/ir2vec` has it with its licence.

#![expect(unsafe_code, reason = "calls the C++ shim")]

use std::ptr::NonNull;
use std::sync::LazyLock;

use super::features::EMBEDDING_LEN;
use super::ffi::{self, RawBytes, RawVocabulary};
use super::module::Module;

pub(super) const VOCABULARY_JSON: &str =
    include_str!("../../../data/ir2vec/seedEmbeddingVocab75D.json");

/// The embeddings of opcodes, types and operands. It lives as long as the process.
struct Vocabulary(NonNull<RawVocabulary>);

// SAFETY: it is a table of numbers, with no ties to the thread that made it.
unsafe impl Send for Vocabulary {}

// SAFETY: nothing changes it once it is made.
unsafe impl Sync for Vocabulary {}

static VOCABULARY: LazyLock<Vocabulary> = LazyLock::new(|| {
    let json = RawBytes { data: VOCABULARY_JSON.as_ptr().cast(), size: VOCABULARY_JSON.len() };
    // SAFETY: the bytes come from a string, and the shim keeps none of them.
    let vocabulary = unsafe { ffi::steplake_llvm_vocabulary_create(json) };
    Vocabulary(NonNull::new(vocabulary).expect("the committed vocabulary has 75 dimensions"))
});

impl Module {
    /// Returns the sum of the embeddings of all functions, of the symbolic kind.
    pub(super) fn embedding(&self) -> [f64; EMBEDDING_LEN] {
        let mut embedding = [0.0; EMBEDDING_LEN];
        let (vocabulary, out) = (VOCABULARY.0.as_ptr(), embedding.as_mut_ptr());
        // SAFETY: both handles are alive, and the array has the length that the shim writes.
        unsafe { ffi::steplake_llvm_module_embedding(self.raw(), vocabulary, out) };
        embedding
    }
}
