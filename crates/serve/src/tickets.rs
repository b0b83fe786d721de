//! Tickets: what a client holds between asking and fetching. A ticket contains everything needed to
//! answer, so the server keeps nothing for clients that never return.

use std::time::{Duration, Instant};

use tonic::Status;

/// How long a ticket is valid.
const GOOD_FOR: Duration = Duration::from_mins(10);

const SEAL_BYTES: usize = blake3::OUT_LEN;

/// A statement with the values of its parameters as sent by a client: an Arrow stream of one row,
/// or nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) text: String,
    pub(crate) values: Vec<u8>,
}

/// Issues tickets and takes them back. It recognises its own by a key that no other server has.
#[derive(Debug)]
pub(crate) struct Office {
    key: [u8; blake3::KEY_LEN],
    opened_at: Instant,
}

impl Office {
    /// # Errors
    ///
    /// If the system has no random numbers.
    pub(crate) fn open() -> std::io::Result<Self> {
        let mut key = [0; blake3::KEY_LEN];
        getrandom::fill(&mut key).map_err(std::io::Error::other)?;
        Ok(Self { key, opened_at: Instant::now() })
    }

    /// Returns a ticket for a statement: a seal, then the time, the length of the text, the text,
    /// the values.
    pub(crate) fn sell(&self, asked: &Asked) -> Vec<u8> {
        let second = self.opened_at.elapsed().as_secs();
        let mut ticket = vec![0; SEAL_BYTES];
        ticket.extend(second.to_le_bytes());
        ticket.extend((asked.text.len() as u64).to_le_bytes());
        ticket.extend(asked.text.as_bytes());
        ticket.extend(&asked.values);
        let seal = blake3::keyed_hash(&self.key, &ticket[SEAL_BYTES..]);
        ticket[..SEAL_BYTES].copy_from_slice(seal.as_bytes());
        ticket
    }

    /// Returns the statement of a ticket.
    ///
    /// # Errors
    ///
    /// A status that says what is wrong with the ticket, and to ask for another one.
    pub(crate) fn take(&self, ticket: &[u8]) -> Result<Asked, Status> {
        let foreign = || {
            Status::invalid_argument(
                "this ticket is not of this server, which may have been restarted: ask for the statement again",
            )
        };
        let (seal, rest) = ticket.split_at_checked(SEAL_BYTES).ok_or_else(foreign)?;
        let seal = blake3::Hash::from_slice(seal).map_err(|_length| foreign())?;
        if seal != blake3::keyed_hash(&self.key, rest) {
            return Err(foreign());
        }
        let (second, rest) = rest.split_first_chunk().ok_or_else(foreign)?;
        let (length, rest) = rest.split_first_chunk().ok_or_else(foreign)?;
        let length = usize::try_from(u64::from_le_bytes(*length)).map_err(|_long| foreign())?;
        let (text, values) = rest.split_at_checked(length).ok_or_else(foreign)?;
        let sold = Duration::from_secs(u64::from_le_bytes(*second));
        if self.opened_at.elapsed().saturating_sub(sold) > GOOD_FOR {
            return Err(Status::invalid_argument(format!(
                "this ticket has expired: it was good for {} minutes; ask for the statement again",
                GOOD_FOR.as_secs() / 60
            )));
        }
        let text = String::from_utf8(text.to_vec()).map_err(|_text| foreign())?;
        Ok(Asked { text, values: values.to_vec() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_is_its_statement_and_nobody_elses() {
        let office = Office::open().unwrap();
        let asked = Asked { text: "SELECT ?".into(), values: vec![1, 2, 3] };
        let ticket = office.sell(&asked);
        assert_eq!(office.take(&ticket).unwrap(), asked);
        let said =
            |ticket: &[u8], office: &Office| office.take(ticket).unwrap_err().message().to_owned();
        for at in 0..ticket.len() {
            let mut changed = ticket.clone();
            changed[at] ^= 1;
            assert!(said(&changed, &office).contains("not of this server"), "byte {at}");
        }
        assert!(said(&ticket[..20], &office).contains("not of this server"));
        assert!(said(&ticket, &Office::open().unwrap()).contains("not of this server"));
        let long_ago = Office { key: office.key, opened_at: office.opened_at };
        let Some(later) = office.opened_at.checked_sub(GOOD_FOR * 2) else { return };
        let later = Office { opened_at: later, ..long_ago };
        assert!(said(&ticket, &later).contains("expired"));
    }
}
