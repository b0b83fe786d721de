//! One program in LLVM's memory: how to read, write and inspect it.

#![expect(unsafe_code, reason = "calls the C++ shim")]

use std::mem::MaybeUninit;
use std::ptr::NonNull;

use inkwell::context::Context;
use inkwell::targets::TargetMachine;

use super::features::{AUTOPHASE_LEN, FeatureVectors, INST_COUNT_LEN};
use super::ffi::{self, RawBytes, RawModule, RawProgramGraph, RawTextList, RawTokens};
use steplake_model::{List, Lists, ProgramGraph, StateId, Texts, ValueType};

/// Why LLVM rejects a program: one line, in LLVM's own words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ModuleError {
    /// The program cannot be parsed, or is not a valid module.
    #[error("{0}")]
    Unreadable(String),
    /// The program is for another machine.
    #[error("{0}")]
    WrongTarget(String),
}

/// What happens to the names of local values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LocalNames {
    /// They are dropped: states do not depend on them, and passes run faster.
    Drop,
    /// They are kept, which textual IR requires.
    Keep,
}

/// A module in a context of its own. It shares nothing with other programs, so that leftovers of
/// one in its context (names, metadata kinds, constants) cannot affect another.
#[derive(Debug)]
pub(super) struct Module {
    module: NonNull<RawModule>,
    /// Dropped after `module`, which lives in it.
    _context: Context,
}

// SAFETY: the module and its context are reached only through this handle and have no ties to the
// thread that made them.
unsafe impl Send for Module {}

impl Module {
    /// Reads a program and verifies it.
    pub(super) fn parse(bytes: &[u8], names: LocalNames) -> Result<Self, ModuleError> {
        let program = Self::parse_trusted(bytes, names)?;
        // SAFETY: the handle is alive, and holds a program because parsing succeeded.
        let valid = unsafe { ffi::steplake_llvm_module_verify(program.raw()) };
        if valid == 0 { Err(ModuleError::Unreadable(program.message())) } else { Ok(program) }
    }

    /// Restores a state from its bitcode, in canonical form.
    pub(super) fn revive(bitcode: &[u8]) -> Result<Self, ModuleError> {
        let mut program = Self::parse_trusted(bitcode, LocalNames::Drop)?;
        program.canonicalise();
        Ok(program)
    }

    /// Reads a program that this library wrote, or that the caller verifies next.
    pub(super) fn parse_trusted(bytes: &[u8], names: LocalNames) -> Result<Self, ModuleError> {
        let context = Context::create();
        let drop_names = i32::from(names == LocalNames::Drop);
        // SAFETY: the context is alive.
        unsafe { ffi::steplake_llvm_context_prepare(context.raw(), drop_names) };
        // SAFETY: the context is alive, and stays so as long as the handle.
        let module = unsafe { ffi::steplake_llvm_module_create(context.raw()) };
        let module = NonNull::new(module).expect("operator new does not give null");
        let program = Self { module, _context: context };
        let (data, size) = (bytes.as_ptr().cast(), bytes.len());
        // SAFETY: the handle is alive, and the bytes come from a slice; the shim copies them.
        let read = unsafe { ffi::steplake_llvm_module_parse(program.raw(), data, size) };
        if read == 0 {
            return Err(ModuleError::Unreadable(program.message()));
        }
        Ok(program)
    }

    /// Turns a program from outside into one of this environment; see the shim.
    pub(super) fn adopt(&mut self, machine: &TargetMachine) -> Result<(), ModuleError> {
        // SAFETY: the handle and the target machine are alive.
        let fits = unsafe { ffi::steplake_llvm_module_adopt(self.raw(), machine.as_mut_ptr()) };
        if fits == 0 {
            return Err(ModuleError::WrongTarget(self.message()));
        }
        Ok(())
    }

    /// Brings all that bitcode does not hold into canonical form.
    pub(super) fn canonicalise(&mut self) {
        // SAFETY: the handle is alive.
        unsafe { ffi::steplake_llvm_module_canonicalise(self.raw()) };
    }

    /// Verifies what has changed since the last verification. The error is the verifier's message.
    pub(super) fn verify_changes(&mut self) -> Result<(), String> {
        // SAFETY: the handle is alive.
        let valid = unsafe { ffi::steplake_llvm_module_verify_changes(self.raw()) };
        if valid == 0 { Err(self.message()) } else { Ok(()) }
    }

    /// Canonicalises what the last run changed.
    pub(super) fn canonicalise_changes(&mut self) {
        // SAFETY: the handle is alive.
        unsafe { ffi::steplake_llvm_module_settle(self.raw()) };
    }

    /// Serialises the program, as it is now in LLVM's memory, as plain bitcode.
    pub(super) fn write(&mut self) -> &[u8] {
        self.write_bitcode(false)
    }

    /// Serialises the program with the order of its use-lists, which passes of LLVM's own tools see
    /// too. It follows from the content, so states are stored without it: it is a fifth of the
    /// bytes.
    pub(super) fn write_with_use_lists(&mut self) -> &[u8] {
        self.write_bitcode(true)
    }

    fn write_bitcode(&mut self, has_use_lists: bool) -> &[u8] {
        // SAFETY: the handle is alive.
        let bytes = unsafe { ffi::steplake_llvm_module_write(self.raw(), has_use_lists.into()) };
        // SAFETY: the bytes live until the next call that writes, which needs `&mut self`.
        unsafe { borrow(bytes) }
    }

    /// Computes the id of a canonical program's state.
    pub(super) fn state_id(&mut self) -> StateId {
        // SAFETY: the handle is alive.
        let summary = unsafe { ffi::steplake_llvm_module_summary(self.raw()) };
        // SAFETY: the text lives until the next call on the handle, and is hashed at once.
        let hash = blake3::hash(unsafe { borrow(summary) });
        StateId::from_slice(&hash.as_bytes()[..StateId::LEN])
    }

    /// Returns the program as text.
    pub(super) fn print(&mut self) -> String {
        self.print_text(false)
    }

    /// Returns the program as text with the order of its use-lists: as
    /// [`write_with_use_lists`](Self::write_with_use_lists) serialises it.
    pub(super) fn print_with_use_lists(&mut self) -> String {
        self.print_text(true)
    }

    fn print_text(&mut self, has_use_lists: bool) -> String {
        // SAFETY: the handle is alive.
        let text = unsafe { ffi::steplake_llvm_module_print(self.raw(), has_use_lists.into()) };
        // SAFETY: the text lives until the next call that prints, which needs `&mut self`.
        unsafe { copied(text) }
    }

    /// Returns the number of instructions, as of the last canonicalisation.
    pub(super) fn instructions(&self) -> i64 {
        // SAFETY: the handle is alive.
        let count = unsafe { ffi::steplake_llvm_module_instructions(self.raw()) };
        i64::try_from(count).expect("instructions in memory are fewer than 2^63")
    }

    /// Returns `InstCount` and `Autophase` of a canonical program.
    pub(super) fn features(&mut self) -> FeatureVectors {
        let mut features =
            FeatureVectors { inst_count: [0; INST_COUNT_LEN], autophase: [0; AUTOPHASE_LEN] };
        let (inst_count, autophase) =
            (features.inst_count.as_mut_ptr(), features.autophase.as_mut_ptr());
        // SAFETY: the handle is alive, and the arrays have the lengths that the shim writes.
        unsafe { ffi::steplake_llvm_module_features(self.raw(), inst_count, autophase) };
        features
    }

    /// Returns the `ProGraML` graph of a verified program.
    pub(super) fn program_graph(&mut self) -> ProgramGraph {
        let mut raw = MaybeUninit::<RawProgramGraph>::uninit();
        // SAFETY: the handle is alive, and there is room for the struct.
        unsafe { ffi::steplake_llvm_module_program_graph(self.raw(), raw.as_mut_ptr()) };
        // SAFETY: the shim has filled in every field.
        let raw = unsafe { raw.assume_init() };
        let node_text = RawTextList { texts: raw.texts, places: raw.node_texts };
        // SAFETY: the lists have these lengths, and live until the next call on the handle.
        let list = |data, length| unsafe { copied_list(data, length) };
        // SAFETY: as above.
        let bytes = |data, length| unsafe { copied_list(data, length) };
        ProgramGraph {
            node_type: bytes(raw.node_types, raw.nodes),
            // SAFETY: as above.
            node_text: unsafe { copied_texts(&node_text, raw.nodes) },
            node_function: list(raw.node_functions, raw.nodes),
            node_block: list(raw.node_blocks, raw.nodes),
            edge_flow: bytes(raw.edge_flows, raw.edges),
            edge_position: list(raw.edge_positions, raw.edges),
            edge_source: list(raw.edge_sources, raw.edges),
            edge_target: list(raw.edge_targets, raw.edges),
        }
    }

    /// Returns the tokens of the program's text.
    pub(super) fn tokens(&mut self) -> Lists {
        let mut raw = MaybeUninit::<RawTokens>::uninit();
        // SAFETY: the handle is alive, and there is room for the struct.
        unsafe { ffi::steplake_llvm_module_tokens(self.raw(), raw.as_mut_ptr()) };
        // SAFETY: the shim has filled in every field.
        let raw = unsafe { raw.assume_init() };
        // SAFETY: the lists have this length, and live until the next call on the handle.
        let ids = unsafe { copied_list(raw.ids, raw.tokens) };
        // SAFETY: as above.
        let texts = |list| List::Text(unsafe { copied_texts(list, raw.tokens) });
        let texts = [&raw.kinds, &raw.categories, &raw.values].map(texts);
        let lists = [List::Int32(ids)].into_iter().chain(texts);
        Lists::new(ValueType::Tokens, lists.collect())
    }

    /// Returns the program's types, variables and functions as text with typed pointers.
    pub(super) fn typed_text(&mut self) -> String {
        // SAFETY: the handle is alive.
        let text = unsafe { ffi::steplake_llvm_module_typed_text(self.raw()) };
        // SAFETY: the text lives until the next call that prints, which needs `&mut self`.
        unsafe { copied(text) }
    }

    /// Returns the names that passes have registered in the context beyond the fixed list, one per
    /// line.
    pub(super) fn registered(&mut self) -> String {
        // SAFETY: the handle is alive.
        let text = unsafe { ffi::steplake_llvm_module_registered(self.raw()) };
        // SAFETY: the text lives until the next call that prints, which needs `&mut self`.
        unsafe { copied(text) }
    }

    /// Returns why the last call failed.
    pub(super) fn message(&self) -> String {
        // SAFETY: the handle is alive.
        let text = unsafe { ffi::steplake_llvm_module_message(self.raw()) };
        // SAFETY: the text lives until the next call that fails.
        unsafe { copied(text) }
    }

    /// Returns the handle, for the engine.
    pub(super) fn raw(&self) -> *mut RawModule {
        self.module.as_ptr()
    }
}

#[cfg(test)]
impl Module {
    /// Changes one field without telling anything else. Returns the field's name; none if `index`
    /// is past the last field.
    pub(super) fn mutate(&mut self, index: usize) -> Option<String> {
        // SAFETY: the handle is alive.
        let name = unsafe { ffi::steplake_llvm_mutate(self.raw(), index) };
        if name.is_null() {
            return None;
        }
        // SAFETY: the name is a constant of the shim.
        let name = unsafe { std::ffi::CStr::from_ptr(name) };
        Some(name.to_string_lossy().into_owned())
    }

    /// Replaces the function `first` by null wherever it is used.
    pub(super) fn break_constant(&mut self) {
        // SAFETY: the handle is alive.
        unsafe { ffi::steplake_llvm_break_constant(self.raw()) };
    }

    /// Adds a table of `depth` dimensions filled with the function `first`, and the function's
    /// address doubled `depth` times.
    pub(super) fn nest_constants(&mut self, depth: usize) {
        // SAFETY: the handle is alive.
        unsafe { ffi::steplake_llvm_nest_constants(self.raw(), depth) };
    }

    /// Reverses the entries of every phi node.
    pub(super) fn reverse_entries(&mut self) {
        // SAFETY: the handle is alive.
        unsafe { ffi::steplake_llvm_reverse_entries(self.raw()) };
    }

    /// Reverses every use-list.
    pub(super) fn reverse_uses(&mut self) {
        // SAFETY: the handle is alive.
        unsafe { ffi::steplake_llvm_reverse_uses(self.raw()) };
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        // SAFETY: the handle is alive, nobody else has it, and its context is dropped after it.
        unsafe { ffi::steplake_llvm_module_dispose(self.raw()) };
    }
}

/// Returns the bytes as a slice.
///
/// # Safety
///
/// The bytes must stay as they are for `'a`.
pub(super) unsafe fn borrow<'a>(bytes: RawBytes) -> &'a [u8] {
    if bytes.size == 0 {
        return &[];
    }
    // SAFETY: the shim gives a pointer to `size` bytes, and the caller vouches for their lifetime.
    unsafe { std::slice::from_raw_parts(bytes.data.cast(), bytes.size) }
}

/// Returns the items of a list of the shim.
///
/// # Safety
///
/// There must be as many items, and they must stay as they are during the call.
unsafe fn copied_list<T: Copy>(data: *const T, length: usize) -> Vec<T> {
    if length == 0 {
        return Vec::new();
    }
    // SAFETY: the caller vouches for it.
    unsafe { std::slice::from_raw_parts(data, length) }.to_vec()
}

/// Returns a list of texts.
///
/// # Safety
///
/// As for [`copied_list`].
unsafe fn copied_texts(list: &RawTextList, length: usize) -> Texts {
    // SAFETY: the caller vouches for it.
    let texts = unsafe { copied(list.texts) };
    let distinct = texts.split_terminator('\0').map(str::to_owned).collect();
    // SAFETY: the caller vouches for it.
    let places = unsafe { copied_list(list.places, length) };
    Texts { distinct, places }
}

/// Returns the bytes as text.
///
/// # Safety
///
/// The bytes must stay as they are during the call.
unsafe fn copied(bytes: RawBytes) -> String {
    // SAFETY: the caller vouches for it.
    String::from_utf8_lossy(unsafe { borrow(bytes) }).into_owned()
}
