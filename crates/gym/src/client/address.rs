//! The address of a service, with what the wire does not say of its environment:
//! `grpc://HOST:PORT[/NAME][?state=SPACE&costs=SPACE,SPACE]`, or `grpc+tls://…`.

use std::collections::BTreeSet;

use steplake::Error;
use steplake::compilers;
use steplake::environments::imports;

/// The name of an environment to which the address gives none.
const NAME: &str = "service-v0";

/// A service and its environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ServiceAddress {
    /// `HOST:PORT`.
    pub(super) authority: String,
    /// Whether the connection is encrypted.
    pub(super) is_encrypted: bool,
    /// The name of the environment in the lake.
    pub(super) name: String,
    /// The observation space that tells states apart, if it is named.
    pub(super) state: Option<String>,
    /// The observation spaces that are costs, if they are named.
    pub(super) costs: Option<BTreeSet<String>>,
}

impl ServiceAddress {
    /// Parses an address.
    ///
    /// # Errors
    ///
    /// If it has another form, or names an environment that is another one.
    pub(super) fn parse(text: &str) -> Result<Self, Error> {
        let wrong = |problem: &str| {
            Error::usage(format!(
                "`{text}` is not the address of a service, since {problem}: write \
                 grpc://HOST:PORT, grpc://HOST:PORT/NAME-v0, or either with \
                 ?state=SPACE&costs=SPACE,SPACE after it"
            ))
        };
        let (is_encrypted, rest) = match text.split_once("://") {
            Some(("grpc", rest)) => (false, rest),
            Some(("grpc+tls", rest)) => (true, rest),
            _ => return Err(wrong("it is neither grpc:// nor grpc+tls://")),
        };
        let (place, options) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, name) = place.split_once('/').unwrap_or((place, ""));
        let (host, port) = authority.rsplit_once(':').unwrap_or_default();
        if host.is_empty() || port.parse::<u16>().is_err() {
            return Err(wrong("it has no host or no port"));
        }
        let name = Some(name).filter(|name| !name.is_empty()).unwrap_or(NAME).to_owned();
        if compilers::is_known(&name) || name == imports::ENVIRONMENT {
            return Err(wrong(&format!(
                "`{name}` is an environment of steplake, and a service's is another one"
            )));
        }
        let authority = authority.to_owned();
        let mut address = Self { authority, is_encrypted, name, state: None, costs: None };
        for option in options.split('&').filter(|option| !option.is_empty()) {
            match option.split_once('=') {
                Some(("state", space)) => address.state = Some(space.to_owned()),
                Some(("costs", spaces)) => {
                    let spaces = spaces.split(',').filter(|space| !space.is_empty());
                    address.costs = Some(spaces.map(str::to_owned).collect());
                }
                _ => return Err(wrong(&format!("it has no option `{option}`"))),
            }
        }
        Ok(address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_place_and_may_have_a_name_and_options() {
        let address =
            ServiceAddress::parse("grpc://[::1]:80/stack-v1?state=Code&costs=Size,Time").unwrap();
        assert_eq!((address.authority.as_str(), address.name.as_str()), ("[::1]:80", "stack-v1"));
        assert_eq!(address.state.as_deref(), Some("Code"));
        let costs = address.costs.unwrap();
        assert_eq!(costs.iter().map(String::as_str).collect::<Vec<_>>(), ["Size", "Time"]);
        assert_eq!(ServiceAddress::parse("grpc://localhost:1").unwrap().name, "service-v0");
        assert!(ServiceAddress::parse("grpc+tls://localhost:1").unwrap().is_encrypted);
        let none = ServiceAddress::parse("grpc://localhost:1?costs=").unwrap().costs;
        assert_eq!(none, Some(BTreeSet::new()));
    }

    #[test]
    fn other_addresses_are_refused() {
        for (text, said) in [
            ("http://a:1", "neither grpc:// nor grpc+tls://"),
            ("grpc://localhost", "no port"),
            ("grpc://:1", "no host"),
            ("grpc://a:x", "no port"),
            ("grpc://a:1/llvm-v0", "`llvm-v0` is an environment of steplake"),
            ("grpc://a:1?size=1", "no option `size=1`"),
        ] {
            let error = ServiceAddress::parse(text).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }
}
