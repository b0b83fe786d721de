//! What is known of outputs: a state is a choice of options, and most states of a program have the
//! output of another one.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use sha1::{Digest as _, Sha1};

use steplake_model::{Failure, StateId};

/// The most states whose outputs are remembered, and the most outputs whose sizes are.
const STATES_MAX: usize = 1 << 20;
const OUTPUTS_MAX: usize = 1 << 16;

/// The most bytes of assembly that are kept.
const ASSEMBLY_BYTES_MAX: usize = 64 << 20;

/// The name of an output: the SHA-1 of its assembly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct OutputId([u8; 20]);

/// A result of the compiler, or how it failed.
pub(super) type CompilerResult<T> = Result<T, Failure>;

/// What the assembler made of an output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ObjectFacts {
    pub(super) bytes: i64,
    /// The size of its code and read-only data.
    pub(super) text: i64,
    pub(super) md5: String,
}

/// What is known of one output.
#[derive(Debug, Clone, Default)]
pub(super) struct CompilerOutput {
    /// The number of bytes of its assembly.
    pub(super) bytes: i64,
    /// The assembly, unless it had to make room for others.
    pub(super) assembly: Option<Arc<[u8]>>,
    pub(super) object: Option<CompilerResult<ObjectFacts>>,
}

/// Outputs by state, which the sessions of an environment share.
#[derive(Debug, Default)]
pub(super) struct Outputs(Mutex<OutputCache>);

#[derive(Debug, Default)]
struct OutputCache {
    of_states: HashMap<StateId, CompilerResult<OutputId>>,
    outputs: HashMap<OutputId, CompilerOutput>,
    assembly_bytes: usize,
}

impl Outputs {
    /// Returns the output of a state, or how the compiler failed on it, if either is known.
    pub(super) fn of_state(
        &self,
        state: StateId,
    ) -> Option<CompilerResult<(OutputId, CompilerOutput)>> {
        let known = self.0.lock();
        Some(match known.of_states.get(&state)? {
            Ok(id) => Ok((*id, known.outputs.get(id)?.clone())),
            Err(failure) => Err(failure.clone()),
        })
    }

    /// Notes the assembly of a state, and returns its output, of which more may be known.
    pub(super) fn note(&self, state: StateId, assembly: Vec<u8>) -> (OutputId, CompilerOutput) {
        let id = OutputId(Sha1::digest(&assembly).into());
        let mut known = self.0.lock();
        known.make_room(assembly.len());
        known.of_states.insert(state, Ok(id));
        let OutputCache { outputs, assembly_bytes, .. } = &mut *known;
        let output = outputs.entry(id).or_default();
        output.bytes = i64::try_from(assembly.len()).unwrap_or(i64::MAX);
        if output.assembly.is_none() {
            *assembly_bytes += assembly.len();
            output.assembly = Some(assembly.into());
        }
        (id, output.clone())
    }

    /// Notes that the compiler fails on a state.
    pub(super) fn note_failure(&self, state: StateId, failure: Failure) {
        let mut known = self.0.lock();
        known.make_room(0);
        known.of_states.insert(state, Err(failure));
    }

    /// Notes what the assembler makes of an output.
    pub(super) fn note_object(&self, id: OutputId, object: CompilerResult<ObjectFacts>) {
        if let Some(output) = self.0.lock().outputs.get_mut(&id) {
            output.object = Some(object);
        }
    }
}

impl OutputCache {
    /// Forgets what takes too much room. It can all be made again.
    fn make_room(&mut self, assembly_bytes: usize) {
        if self.of_states.len() >= STATES_MAX || self.outputs.len() >= OUTPUTS_MAX {
            *self = Self::default();
        }
        if self.assembly_bytes + assembly_bytes > ASSEMBLY_BYTES_MAX {
            self.outputs.values_mut().for_each(|output| output.assembly = None);
            self.assembly_bytes = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use steplake_model::FailureKind;

    const STATES: [StateId; 3] = [StateId([1; 20]), StateId([2; 20]), StateId([3; 20])];

    #[test]
    fn states_with_one_assembly_share_what_is_known_of_it() {
        let outputs = Outputs::default();
        assert!(outputs.of_state(STATES[0]).is_none());
        let (id, output) = outputs.note(STATES[0], b"ret".to_vec());
        assert_eq!((output.bytes, output.assembly.as_deref()), (3, Some(b"ret".as_slice())));
        let object = ObjectFacts { bytes: 900, text: 90, md5: String::new() };
        outputs.note_object(id, Ok(object.clone()));
        let (same, output) = outputs.note(STATES[1], b"ret".to_vec());
        assert_eq!((same, output.object), (id, Some(Ok(object))));
        assert_ne!(outputs.note(STATES[2], b"nop".to_vec()).0, id);
        let failure = Failure { kind: FailureKind::Rejected, detail: "no".to_owned() };
        outputs.note_failure(STATES[2], failure.clone());
        assert_eq!(outputs.of_state(STATES[2]).unwrap().unwrap_err(), failure);
    }

    #[test]
    fn assembly_makes_room_and_sizes_stay() {
        let outputs = Outputs::default();
        outputs.note(STATES[0], vec![b'a'; ASSEMBLY_BYTES_MAX - 1]);
        outputs.note(STATES[1], vec![b'b'; 2]);
        let (_, first) = outputs.of_state(STATES[0]).unwrap().unwrap();
        assert_eq!((first.assembly, first.bytes), (None, 64 * 1024 * 1024 - 1));
        let (_, second) = outputs.of_state(STATES[1]).unwrap().unwrap();
        assert!(second.assembly.is_some());
    }
}
