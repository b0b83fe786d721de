//! The specification of an environment, from what its service says of itself.

use std::collections::{BTreeMap, HashSet};

use prost::Message as _;
use steplake::model::{
    ActionFlags, ActionSpace, ActionSpec, EnvironmentSpec, Name, ObservationSpace, RewardSpace,
    Scale, ValueType,
};

use super::address::ServiceAddress;
use super::connection::Description;
use crate::proto::{self, CommandlineSpace, GetVersionReply, Space, space};

/// The observation spaces that tell states apart in the services of `CompilerGym`, the best first.
const STATES: [&str; 2] = ["Bitcode", "Ir"];

/// The endings of the names of spaces that hold the cost of a whole program, not of its state.
const BASELINES: [&str; 6] = ["O0", "O1", "O2", "O3", "Os", "Oz"];

/// What an environment is, and where its spaces are at the service.
#[derive(Debug)]
pub(super) struct EnvironmentDescription {
    pub(super) spec: EnvironmentSpec,
    /// For each action space, its place at the service.
    pub(super) action_spaces: Vec<i32>,
    /// For each observation space, its place at the service.
    pub(super) observation_spaces: Vec<i32>,
    /// The spaces that cannot be recorded, each with the reason.
    pub(super) left_out: Vec<(Name, String)>,
}

/// Returns the environment of a service, or what is wrong with it, in one sentence.
pub(super) fn described(
    address: &ServiceAddress,
    opened: &Description,
) -> Result<EnvironmentDescription, String> {
    let Description { version, spaces, compiled } = opened;
    let mut left_out = Vec::new();
    let mut actions = Vec::new();
    for (place, sent) in spaces.action_space_list.iter().enumerate() {
        match action_space(sent) {
            Ok(space) => actions.push((place, space)),
            Err(reason) => left_out.push((sent.name.clone().into(), reason)),
        }
    }
    if actions.is_empty() {
        let reasons = left_out.iter().map(|(name, reason)| format!("{name}: {reason}"));
        let reasons = reasons.collect::<Vec<_>>().join("; ");
        return Err(format!("it has no action space that is a list of actions ({reasons})"));
    }
    let state = state_space(address, &spaces.observation_space_list)?;
    let mut observations = Vec::new();
    for (place, sent) in spaces.observation_space_list.iter().enumerate() {
        let name = Name::from(sent.name.clone());
        let found = if sent.name == state {
            Ok(ObservationSpace::new(name.clone(), ValueType::Bytes))
        } else {
            observation(sent)
        };
        match found {
            Ok(space) => observations.push((place, space)),
            Err(reason) => left_out.push((name, reason)),
        }
    }
    let costs = costs(address, &spaces.observation_space_list, &observations, &left_out)?;
    for (place, space) in &mut observations {
        // What depends on the machine, or on the program alone, is recorded if somebody wants it.
        let is_usual = !spaces.observation_space_list[*place].platform_dependent
            && !is_baseline(&space.name, &spaces.observation_space_list);
        space.on_request = !is_usual && space.name != state && !costs.contains(&space.name);
        space.is_compiled = compiled.iter().any(|name| space.name == name.as_str());
    }
    let (action_places, action_spaces): (_, Vec<_>) = actions.into_iter().unzip();
    let (observation_places, observation_spaces): (_, Vec<_>) = observations.into_iter().unzip();
    let spec = EnvironmentSpec {
        name: address.name.clone().into(),
        compiler: compiler(version)?,
        // What tells states apart is part of what a lake is of, like the compiler.
        target: format!("any, states by {state}"),
        action_spaces,
        observation_spaces,
        reward_spaces: costs.into_iter().map(reward).collect(),
        baselines: "none".into(),
        state_space: state.into(),
        action_costs: BTreeMap::new(),
        state_scheme: 1,
    };
    Ok(EnvironmentDescription {
        spec,
        action_spaces: indices(action_places)?,
        observation_spaces: indices(observation_places)?,
        left_out,
    })
}

/// The wire counts in 32 bits.
fn indices(places: Vec<usize>) -> Result<Vec<i32>, String> {
    let places = places.into_iter().map(i32::try_from).collect::<Result<_, _>>();
    places.map_err(|_many| "it has more spaces than the wire can name".into())
}

/// The exact build: what the service says of its compiler, and of itself.
fn compiler(version: &GetVersionReply) -> Result<String, String> {
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let (compiler, service) = (words(&version.compiler_version), words(&version.service_version));
    match (compiler.is_empty(), service.is_empty()) {
        (true, _) => Err("GetVersion does not say which compiler it has".into()),
        (_, true) => Ok(compiler),
        _ => Ok(format!("{compiler} (service {service})")),
    }
}

fn action_space(sent: &proto::ActionSpace) -> Result<ActionSpace, String> {
    let names = match sent.space.as_ref().and_then(|space| space.value.as_ref()) {
        Some(space::Value::NamedDiscrete(space)) => space.name.clone(),
        Some(space::Value::Discrete(space)) => {
            let count = u16::try_from(space.n);
            let count = count.map_err(|_many| format!("it has {} actions", space.n))?;
            (0..count).map(|place| place.to_string()).collect()
        }
        Some(space::Value::AnyValue(any))
            if any.type_url.ends_with("compiler_gym.CommandlineSpace") =>
        {
            let flags = CommandlineSpace::decode(&*any.value);
            flags.map_err(|error| format!("its CommandlineSpace cannot be read: {error}"))?.name
        }
        _ => return Err("it is no list of actions".into()),
    };
    let action = |(name, sent)| ActionSpec::new(name, sent, ActionFlags::UNREMARKABLE);
    let actions = numbered(&names).into_iter().zip(names).map(action).collect();
    Ok(ActionSpace { name: sent.name.clone(), actions })
}

/// Returns names that differ: of several equal ones, the second is called `name#2`, and so on.
fn numbered(names: &[String]) -> Vec<String> {
    let mut taken: HashSet<String> = names.iter().cloned().collect();
    let mut seen = HashSet::new();
    let own = |name: &String| {
        if seen.insert(name.clone()) {
            return name.clone();
        }
        let mut others = (2_u32..).map(|number| format!("{name}#{number}"));
        let own = others.find(|other| !taken.contains(other)).expect("numbers do not end");
        taken.insert(own.clone());
        own
    };
    names.iter().map(own).collect()
}

/// Returns a space as a lake holds it, or why none can.
fn observation(sent: &proto::ObservationSpace) -> Result<ObservationSpace, String> {
    let name = &sent.name;
    if !sent.deterministic {
        return Err("its values are not deterministic, and a lake keeps one for each state".into());
    }
    let is_word = name.starts_with(|first: char| first.is_ascii_alphabetic())
        && name.chars().all(|one| one.is_ascii_alphanumeric() || one == '_');
    if !is_word {
        return Err("its name cannot be that of a column: letters, digits and `_`".into());
    }
    let value_type = value_type(sent.space.as_ref())?;
    Ok(ObservationSpace::new(name.clone(), value_type))
}

fn value_type(space: Option<&Space>) -> Result<ValueType, String> {
    use space::Value as Kind;

    let kind = space.and_then(|space| space.value.as_ref());
    Ok(match kind.ok_or("the service does not say which values it has")? {
        Kind::Int64Value(_)
        | Kind::BooleanValue(_)
        | Kind::Discrete(_)
        | Kind::NamedDiscrete(_) => ValueType::Int,
        Kind::DoubleValue(_) | Kind::FloatValue(_) => ValueType::Float,
        Kind::StringValue(_) => ValueType::Text,
        Kind::ByteSequence(_) => ValueType::Bytes,
        Kind::Int64Sequence(_) | Kind::BooleanSequence(_) => ValueType::IntVector,
        Kind::DoubleSequence(_) | Kind::FloatSequence(_) => ValueType::FloatVector,
        Kind::ByteBox(space) => flat(space.low.as_ref().map(|low| &*low.shape), ValueType::Bytes)?,
        Kind::BooleanBox(space) => {
            flat(space.low.as_ref().map(|low| &*low.shape), ValueType::IntVector)?
        }
        Kind::Int64Box(space) => {
            flat(space.low.as_ref().map(|low| &*low.shape), ValueType::IntVector)?
        }
        Kind::DoubleBox(space) => {
            flat(space.low.as_ref().map(|low| &*low.shape), ValueType::FloatVector)?
        }
        Kind::FloatBox(space) => {
            flat(space.low.as_ref().map(|low| &*low.shape), ValueType::FloatVector)?
        }
        Kind::StringSequence(_) => ValueType::TextList,
        _ => return Err("a lake has no type for its values".into()),
    })
}

fn flat(shape: Option<&[u64]>, value_type: ValueType) -> Result<ValueType, String> {
    match shape.map_or(1, <[u64]>::len) {
        1 => Ok(value_type),
        dimensions => Err(format!("its values have {dimensions} dimensions, and a vector has one")),
    }
}

/// Returns the space that tells states apart: two states are the same if and only if their values
/// in it are. It is the one that the address names, or `Bitcode`, or `Ir`, or the only one of
/// texts or bytes.
fn state_space(
    address: &ServiceAddress,
    sent: &[proto::ObservationSpace],
) -> Result<String, String> {
    let serialises = |space: &&proto::ObservationSpace| {
        let value_type = observation(space).map(|space| space.value_type);
        matches!(value_type, Ok(ValueType::Text | ValueType::Bytes))
    };
    let fit: Vec<&str> = sent.iter().filter(serialises).map(|one| one.name.as_str()).collect();
    if let Some(wanted) = &address.state {
        if fit.contains(&wanted.as_str()) {
            return Ok(wanted.clone());
        }
        return Err(format!(
            "`{wanted}` cannot tell its states apart: that takes a deterministic space of texts or \
             bytes, of which it has {}",
            if fit.is_empty() { "none".to_owned() } else { fit.join(", ") }
        ));
    }
    if let Some(known) = STATES.into_iter().find(|known| fit.contains(known)) {
        return Ok(known.to_owned());
    }
    match fit[..] {
        [only] => Ok(only.to_owned()),
        [] => Err("nothing tells its states apart: it has no deterministic observation space of \
                   texts or bytes"
            .into()),
        _ => Err(format!(
            "it has several spaces that may tell its states apart: name the one whose values are \
             equal if and only if the states are, with ?state=SPACE after the address: {}",
            fit.join(", ")
        )),
    }
}

/// Returns the names of the spaces that are costs: those that the address names, or all single
/// numbers that depend on the state alone. Truth values and categories are none by themselves.
fn costs(
    address: &ServiceAddress,
    sent: &[proto::ObservationSpace],
    observations: &[(usize, ObservationSpace)],
    left_out: &[(Name, String)],
) -> Result<Vec<Name>, String> {
    let numbers = observations
        .iter()
        .map(|(_, space)| space)
        .filter(|space| matches!(space.value_type, ValueType::Int | ValueType::Float));
    if let Some(wanted) = &address.costs {
        let wanted = wanted.iter().map(|name| {
            let known = numbers.clone().find(|space| space.name == name.as_str());
            let reason = || {
                let left_out = left_out.iter().find(|(one, _)| one.as_ref() == name.as_str());
                left_out.map_or("it is no space of single numbers", |(_, reason)| reason)
            };
            known
                .map(|space| space.name.clone())
                .ok_or_else(|| format!("`{name}` is no cost: {}", reason()))
        });
        return wanted.collect();
    }
    let is_cost = |one: &proto::ObservationSpace| {
        let kind = one.space.as_ref().and_then(|space| space.value.as_ref());
        let is_number = matches!(
            kind,
            Some(
                space::Value::Int64Value(_)
                    | space::Value::DoubleValue(_)
                    | space::Value::FloatValue(_)
            )
        );
        is_number && !one.platform_dependent
    };
    let is_sent_as_cost = |name: &str| sent.iter().any(|one| one.name == name && is_cost(one));
    let of_state =
        numbers.filter(|space| is_sent_as_cost(&space.name) && !is_baseline(&space.name, sent));
    Ok(of_state.map(|space| space.name.clone()).collect())
}

/// Whether a space is the cost of the program after a pipeline: `SizeOz` beside `Size`, or beside
/// `SizeBytes`, as `CompilerGym` names them, or `size_Oz` beside `size`.
fn is_baseline(name: &str, sent: &[proto::ObservationSpace]) -> bool {
    let stem = BASELINES.iter().find_map(|ending| name.strip_suffix(ending));
    stem.map(|stem| stem.trim_end_matches('_')).is_some_and(|stem| {
        let of = |cost: &str| cost == stem || cost.strip_suffix("Bytes") == Some(stem);
        sent.iter().any(|space| of(&space.name))
    })
}

fn reward(cost: Name) -> RewardSpace {
    RewardSpace { name: cost.clone(), initial: cost.clone(), cost, scale: Scale::Absolute }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::{
        BooleanBox, BooleanRange, BooleanTensor, ByteBox, ByteTensor, DiscreteSpace, DoubleBox,
        DoubleTensor, FloatBox, FloatTensor, GetSpacesReply, Int64Box, Int64Range, Int64Tensor,
        NamedDiscreteSpace, StringSpace,
    };

    fn sent(name: &str, value: space::Value) -> proto::ObservationSpace {
        proto::ObservationSpace {
            name: name.to_owned(),
            space: Some(Space { optional_type_id: None, value: Some(value) }),
            deterministic: true,
            ..proto::ObservationSpace::default()
        }
    }

    #[test]
    fn values_of_several_dimensions_are_no_vectors() {
        let boxes = |shape: Vec<u64>| {
            let one = || shape.clone();
            [
                space::Value::Int64Box(Int64Box {
                    low: Some(Int64Tensor { shape: one(), value: vec![] }),
                    high: None,
                }),
                space::Value::BooleanBox(BooleanBox {
                    low: Some(BooleanTensor { shape: one(), value: vec![] }),
                    high: None,
                }),
                space::Value::ByteBox(ByteBox {
                    low: Some(ByteTensor { shape: one(), value: vec![] }),
                    high: None,
                }),
                space::Value::DoubleBox(DoubleBox {
                    low: Some(DoubleTensor { shape: one(), value: vec![] }),
                    high: None,
                }),
                space::Value::FloatBox(FloatBox {
                    low: Some(FloatTensor { shape: one(), value: vec![] }),
                    high: None,
                }),
            ]
        };
        for value in boxes(vec![3]) {
            assert!(observation(&sent("Box", value)).is_ok());
        }
        for value in boxes(vec![3, 2]) {
            let refusal = observation(&sent("Box", value)).unwrap_err();
            assert!(refusal.contains("2 dimensions"), "{refusal}");
        }
    }

    #[test]
    fn actions_of_one_name_are_numbered() {
        let of = |names: &[&str]| {
            numbered(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())
        };
        assert_eq!(of(&["a", "b", "a", "a"]), ["a", "b", "a#2", "a#3"]);
        assert_eq!(of(&["a", "a", "a#2", "a#2"]), ["a", "a#3", "a#2", "a#2#2"]);
    }

    #[test]
    fn numbers_are_costs_by_default_and_the_state_space_is_part_of_the_identity() {
        let spaces = GetSpacesReply {
            action_space_list: vec![proto::ActionSpace {
                name: "any".into(),
                space: Some(Space {
                    optional_type_id: None,
                    value: Some(space::Value::Discrete(DiscreteSpace { n: 2 })),
                }),
            }],
            observation_space_list: vec![
                sent("Ir", space::Value::StringValue(StringSpace::default())),
                sent("Source", space::Value::StringValue(StringSpace::default())),
                sent("Size", space::Value::Int64Value(Int64Range::default())),
                sent("SizeOz", space::Value::Int64Value(Int64Range::default())),
                sent("Size_Os", space::Value::Int64Value(Int64Range::default())),
                sent("IsSmall", space::Value::BooleanValue(BooleanRange::default())),
                sent("Kind", space::Value::NamedDiscrete(NamedDiscreteSpace::default())),
            ],
        };
        let version =
            GetVersionReply { service_version: "1".into(), compiler_version: "any 1".into() };
        let opened = Description { version, spaces, compiled: vec!["Size".into()] };
        let spec = |options: &str| {
            let address = ServiceAddress::parse(&format!("grpc://a:1/any-v0{options}")).unwrap();
            described(&address, &opened).unwrap().spec
        };
        let costs = |spec: &EnvironmentSpec| {
            spec.reward_spaces.iter().map(|space| space.name.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(costs(&spec("")), ["Size"]);
        assert_eq!(costs(&spec("?costs=IsSmall")), ["IsSmall"]);
        let spaces = spec("").observation_spaces;
        let names = |is_one: fn(&ObservationSpace) -> bool| {
            let those = spaces.iter().filter(|&space| is_one(space));
            those.map(|space| space.name.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(names(|space| space.is_compiled), ["Size"]);
        assert_eq!(names(|space| space.on_request), ["SizeOz", "Size_Os"]);
        let targets = ["", "?state=Source"].map(|options| spec(options).target);
        assert_eq!(targets, ["any, states by Ir", "any, states by Source"]);
    }
}
