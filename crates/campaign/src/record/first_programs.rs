//! The programs in which benchmarks begin, compared where two of them have one id.

use std::collections::HashMap;

use parking_lot::Mutex;

use steplake_env::SessionError;
use steplake_lake::Lake;
use steplake_model::{BenchmarkUri, Error, ErrorKind, StateId};

/// The serialised first states of the benchmarks that a recording adds to its lake.
#[derive(Debug)]
pub(super) struct FirstPrograms {
    lake: Lake,
    /// The BLAKE3 of each.
    seen: Mutex<HashMap<StateId, blake3::Hash>>,
}

impl FirstPrograms {
    pub(super) fn new(lake: Lake) -> Self {
        Self { lake, seen: Mutex::default() }
    }

    /// Refuses a program whose first state has the id of another program: one of those that this
    /// recording has begun with, or one that is stored in the lake, if the state `is_stored` there.
    /// The lake would take the two for one.
    ///
    /// # Errors
    ///
    /// [`SessionError::Recording`].
    pub(super) fn demand(
        &self,
        uri: &BenchmarkUri,
        state: StateId,
        is_stored: bool,
        program: &[u8],
    ) -> Result<(), SessionError> {
        let hash = blake3::hash(program);
        let mut known = self.seen.lock().get(&state).copied();
        if known.is_none() && is_stored {
            let stored = self.lake.snapshot().and_then(|snapshot| snapshot.ir(&[state]));
            let stored = stored.map_err(|error| SessionError::Recording(Error::from(error)))?;
            known = stored.into_iter().flatten().next().map(|program| blake3::hash(&program));
        }
        // Another program may have come first meanwhile.
        let known = known.unwrap_or_else(|| *self.seen.lock().entry(state).or_insert(hash));
        if known != hash {
            let said = format!(
                "{uri} begins in state {state}, and by this id the lake has another program: one \
                 of the two was forged to have the id of the other, and cannot be recorded into \
                 the same lake"
            );
            return Err(SessionError::Recording(Error::new(ErrorKind::Lake, said)));
        }
        Ok(())
    }
}
