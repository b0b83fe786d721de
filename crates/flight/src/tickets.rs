//! Tickets: what a client holds between asking and fetching. A ticket contains everything needed to
//! answer, so the server keeps nothing for clients that never return.

use std::time::{Duration, Instant};

use tonic::Status;

/// How long a ticket is valid.
const VALID_MAX: Duration = Duration::from_mins(10);

const SIGNATURE_BYTES: usize = blake3::OUT_LEN;

/// A statement with the values of its parameters as sent by a client: an Arrow stream of one row,
/// or nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct BoundStatement {
    pub(crate) text: String,
    pub(crate) values: Vec<u8>,
}

/// Signs tickets and verifies them, with a key that no other server has.
#[derive(Debug)]
pub(crate) struct TicketSigner {
    key: [u8; blake3::KEY_LEN],
    started_at: Instant,
}

impl TicketSigner {
    /// # Errors
    ///
    /// If the system has no random numbers.
    pub(crate) fn new() -> std::io::Result<Self> {
        let mut key = [0; blake3::KEY_LEN];
        getrandom::fill(&mut key).map_err(std::io::Error::other)?;
        Ok(Self { key, started_at: Instant::now() })
    }

    /// Returns a ticket for a statement: a signature, then the time, the length of the text, the
    /// text and the values.
    pub(crate) fn sign(&self, bound: &BoundStatement) -> Vec<u8> {
        let second = self.started_at.elapsed().as_secs();
        let mut ticket = vec![0; SIGNATURE_BYTES];
        ticket.extend(second.to_le_bytes());
        ticket.extend((bound.text.len() as u64).to_le_bytes());
        ticket.extend(bound.text.as_bytes());
        ticket.extend(&bound.values);
        let signature = blake3::keyed_hash(&self.key, &ticket[SIGNATURE_BYTES..]);
        ticket[..SIGNATURE_BYTES].copy_from_slice(signature.as_bytes());
        ticket
    }

    /// Returns the statement of a ticket.
    ///
    /// # Errors
    ///
    /// A status that says what is wrong with the ticket, and to ask for another one.
    pub(crate) fn verify(&self, ticket: &[u8]) -> Result<BoundStatement, Status> {
        let foreign = || {
            Status::invalid_argument(
                "this ticket is not of this server, which may have been restarted: ask for the statement again",
            )
        };
        let (signature, rest) = ticket.split_at_checked(SIGNATURE_BYTES).ok_or_else(foreign)?;
        let signature = blake3::Hash::from_slice(signature).map_err(|_length| foreign())?;
        if signature != blake3::keyed_hash(&self.key, rest) {
            return Err(foreign());
        }
        let (second, rest) = rest.split_first_chunk().ok_or_else(foreign)?;
        let (length, rest) = rest.split_first_chunk().ok_or_else(foreign)?;
        let length = usize::try_from(u64::from_le_bytes(*length)).map_err(|_long| foreign())?;
        let (text, values) = rest.split_at_checked(length).ok_or_else(foreign)?;
        let signed_at = Duration::from_secs(u64::from_le_bytes(*second));
        if self.started_at.elapsed().saturating_sub(signed_at) > VALID_MAX {
            return Err(Status::invalid_argument(format!(
                "this ticket has expired: it was good for {} minutes; ask for the statement again",
                VALID_MAX.as_secs() / 60
            )));
        }
        let text = String::from_utf8(text.to_vec()).map_err(|_text| foreign())?;
        Ok(BoundStatement { text, values: values.to_vec() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_is_its_statement_and_nobody_elses() {
        let signer = TicketSigner::new().unwrap();
        let bound = BoundStatement { text: "SELECT ?".into(), values: vec![1, 2, 3] };
        let ticket = signer.sign(&bound);
        assert_eq!(signer.verify(&ticket).unwrap(), bound);
        let said = |ticket: &[u8], signer: &TicketSigner| {
            signer.verify(ticket).unwrap_err().message().to_owned()
        };
        for at in 0..ticket.len() {
            let mut changed = ticket.clone();
            changed[at] ^= 1;
            assert!(said(&changed, &signer).contains("not of this server"), "byte {at}");
        }
        assert!(said(&ticket[..20], &signer).contains("not of this server"));
        assert!(said(&ticket, &TicketSigner::new().unwrap()).contains("not of this server"));
        let long_ago = TicketSigner { key: signer.key, started_at: signer.started_at };
        let Some(later) = signer.started_at.checked_sub(VALID_MAX * 2) else { return };
        let later = TicketSigner { started_at: later, ..long_ago };
        assert!(said(&ticket, &later).contains("expired"));
    }
}
