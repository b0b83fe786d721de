//! Tickets: what a client holds between asking and fetching. A ticket contains everything needed to
//! answer, so the server keeps nothing for clients that never return, except the contents of the
//! lake that parts of an answer are of.

use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

use steplake::query::AnswerPart;
use steplake_server::{PINNED_MAX, PinId};
use tonic::Status;

/// How long a ticket is valid.
pub(crate) const VALID_MAX: Duration = PINNED_MAX;

const SIGNATURE_BYTES: usize = blake3::OUT_LEN;

/// A statement with the values of its parameters as sent by a client: an Arrow stream of one row,
/// or nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct BoundStatement {
    pub(crate) text: String,
    pub(crate) values: Vec<u8>,
}

/// What a client may fetch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Claim {
    pub(crate) bound: BoundStatement,
    /// The part of the answer, and the contents of the lake that it is of. `None`: the whole
    /// answer, of what the lake holds when it is fetched.
    pub(crate) part: Option<(AnswerPart, PinId)>,
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

    /// Returns a ticket: a signature, then the time, the part (its number, of how many, and of what
    /// contents; zeros for the whole answer), the length of the text, the text and the values.
    pub(crate) fn sign(&self, claim: &Claim) -> Vec<u8> {
        let second = self.started_at.elapsed().as_secs();
        let bound = &claim.bound;
        let part = claim
            .part
            .map_or([0; 3], |(part, pin)| [part.number as u64, part.of.get() as u64, pin.0]);
        let mut ticket = vec![0; SIGNATURE_BYTES];
        ticket.extend(second.to_le_bytes());
        ticket.extend(part.iter().flat_map(|number| number.to_le_bytes()));
        ticket.extend((bound.text.len() as u64).to_le_bytes());
        ticket.extend(bound.text.as_bytes());
        ticket.extend(&bound.values);
        let signature = blake3::keyed_hash(&self.key, &ticket[SIGNATURE_BYTES..]);
        ticket[..SIGNATURE_BYTES].copy_from_slice(signature.as_bytes());
        ticket
    }

    /// Returns what a ticket is for.
    ///
    /// # Errors
    ///
    /// A status that says what is wrong with the ticket, and to ask for another one.
    pub(crate) fn verify(&self, ticket: &[u8]) -> Result<Claim, Status> {
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
        let (numbers, rest) = rest.split_first_chunk::<40>().ok_or_else(foreign)?;
        let (numbers, _none) = numbers.as_chunks::<8>();
        let [second, number, of, pin, length] =
            [0, 1, 2, 3, 4].map(|at| u64::from_le_bytes(numbers[at]));
        let size = |number: u64| usize::try_from(number).map_err(|_large| foreign());
        let (number, length) = (size(number)?, size(length)?);
        let of = NonZeroUsize::new(size(of)?);
        let (text, values) = rest.split_at_checked(length).ok_or_else(foreign)?;
        let signed_at = Duration::from_secs(second);
        if self.started_at.elapsed().saturating_sub(signed_at) > VALID_MAX {
            return Err(Status::invalid_argument(format!(
                "this ticket has expired: it was good for {} minutes; ask for the statement again",
                VALID_MAX.as_secs() / 60
            )));
        }
        let text = String::from_utf8(text.to_vec()).map_err(|_text| foreign())?;
        Ok(Claim {
            bound: BoundStatement { text, values: values.to_vec() },
            part: of.map(|of| (AnswerPart { number, of }, PinId(pin))),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_is_its_statement_and_nobody_elses() {
        let signer = TicketSigner::new().unwrap();
        let bound = BoundStatement { text: "SELECT ?".into(), values: vec![1, 2, 3] };
        let of = NonZeroUsize::new(8).unwrap();
        let part = (AnswerPart { number: 7, of }, PinId(9));
        let claim = Claim { bound: bound.clone(), part: Some(part) };
        assert_eq!(signer.verify(&signer.sign(&claim)).unwrap(), claim);
        let claim = Claim { bound, part: None };
        let ticket = signer.sign(&claim);
        assert_eq!(signer.verify(&ticket).unwrap(), claim);
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
