//! Prepared statements, which clients name by handles.

use std::collections::HashMap;
use std::time::Instant;

use parking_lot::Mutex;
use tonic::Status;

use crate::tickets::BoundStatement;

/// The maximum number of handles; beyond it, the least recently used one is dropped.
const HANDLES_MAX: usize = 4096;
/// The maximum size of all statements and values together, in bytes.
const BYTES_MAX: usize = 64 << 20;
/// The maximum size of one statement and its values, in bytes.
const STATEMENT_BYTES_MAX: usize = 1 << 20;

/// The prepared statements of all clients. Their number and size are bounded.
#[derive(Debug, Default)]
pub(crate) struct Handles(Mutex<HashMap<Vec<u8>, PreparedStatement>>);

#[derive(Debug)]
struct PreparedStatement {
    bound: BoundStatement,
    used_at: Instant,
}

fn size(bound: &BoundStatement) -> usize {
    bound.text.len() + bound.values.len()
}

impl Handles {
    /// Stores a statement under a new handle, which nobody can guess.
    ///
    /// # Errors
    ///
    /// If the statement is too large.
    pub(crate) fn add(&self, bound: BoundStatement) -> Result<Vec<u8>, Status> {
        demand_small(&bound)?;
        let mut handle = vec![0; 16];
        getrandom::fill(&mut handle).map_err(|error| Status::internal(error.to_string()))?;
        let mut kept = self.0.lock();
        kept.insert(handle.clone(), PreparedStatement { bound, used_at: Instant::now() });
        make_room(&mut kept);
        Ok(handle)
    }

    /// Returns the statement of a handle, with its current values.
    ///
    /// # Errors
    ///
    /// If there is none.
    pub(crate) fn get(&self, handle: &[u8]) -> Result<BoundStatement, Status> {
        let mut kept = self.0.lock();
        let prepared = kept.get_mut(handle).ok_or_else(unknown)?;
        prepared.used_at = Instant::now();
        Ok(prepared.bound.clone())
    }

    /// Sets the values of a statement, replacing earlier ones.
    ///
    /// # Errors
    ///
    /// If there is no such statement, or the values are too large.
    pub(crate) fn bind(&self, handle: &[u8], values: Vec<u8>) -> Result<(), Status> {
        let mut kept = self.0.lock();
        let prepared = kept.get_mut(handle).ok_or_else(unknown)?;
        let bound = BoundStatement { text: prepared.bound.text.clone(), values };
        demand_small(&bound)?;
        *prepared = PreparedStatement { bound, used_at: Instant::now() };
        make_room(&mut kept);
        Ok(())
    }

    /// Forgets a handle, known or not.
    pub(crate) fn remove(&self, handle: &[u8]) {
        self.0.lock().remove(handle);
    }
}

fn unknown() -> Status {
    Status::not_found(format!(
        "there is no such prepared statement: it was closed, it was not used for longer than any other when \
         there were more than {HANDLES_MAX} (or {} MiB of them), or the server was restarted; prepare it again",
        BYTES_MAX >> 20
    ))
}

fn demand_small(bound: &BoundStatement) -> Result<(), Status> {
    if size(bound) <= STATEMENT_BYTES_MAX {
        return Ok(());
    }
    Err(Status::invalid_argument(format!(
        "the statement and the values of its parameters are larger than {} MiB together",
        STATEMENT_BYTES_MAX >> 20
    )))
}

/// Drops the least recently used statements while there are too many.
fn make_room(kept: &mut HashMap<Vec<u8>, PreparedStatement>) {
    let bytes = |kept: &HashMap<_, PreparedStatement>| {
        kept.values().map(|own| size(&own.bound)).sum::<usize>()
    };
    while kept.len() > HANDLES_MAX || bytes(kept) > BYTES_MAX {
        let oldest = kept.iter().min_by_key(|(_, prepared)| prepared.used_at);
        let Some(handle) = oldest.map(|(handle, _)| handle.clone()) else { return };
        kept.remove(&handle);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bound(text: &str) -> BoundStatement {
        BoundStatement { text: text.to_owned(), values: Vec::new() }
    }

    #[test]
    fn a_handle_is_good_until_it_is_removed() {
        let handles = Handles::default();
        let handle = handles.add(bound("SELECT 1")).unwrap();
        handles.bind(&handle, vec![7]).unwrap();
        assert_eq!(
            handles.get(&handle).unwrap(),
            BoundStatement { text: "SELECT 1".into(), values: vec![7] }
        );
        handles.remove(&handle);
        assert_eq!(handles.get(&handle).unwrap_err().code(), tonic::Code::NotFound);
    }

    #[test]
    fn the_oldest_goes_where_there_are_too_many() {
        let handles = Handles::default();
        let first = handles.add(bound("first")).unwrap();
        let second = handles.add(bound("second")).unwrap();
        handles.get(&first).unwrap();
        for _ in 0..HANDLES_MAX - 1 {
            handles.add(bound("more")).unwrap();
        }
        assert!(handles.get(&first).is_ok());
        let gone = handles.get(&second).unwrap_err();
        assert!(gone.message().contains("more than 4096"), "{}", gone.message());
    }

    #[test]
    fn a_statement_has_a_largest_size() {
        let handles = Handles::default();
        let large = handles.add(bound(&"x".repeat(STATEMENT_BYTES_MAX + 1)));
        assert_eq!(large.unwrap_err().code(), tonic::Code::InvalidArgument);
    }
}
