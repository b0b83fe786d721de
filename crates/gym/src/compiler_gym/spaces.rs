//! The spaces that clients see, and where their values come from.

use prost::Message as _;
use prost_types::Any;
use steplake::env::llvm;
use steplake::model::{EnvironmentSpec, MachineSpace, ObservationIndex, ValueType};
use tonic::Response;

use super::events::{TYPE_URL, UNSET, int, ints, opaque, tensor};
use crate::client::COMPILED;
use crate::proto::{
    ActionSpace, ByteSequenceSpace, CommandlineSpace, DoubleRange, DoubleSequenceSpace, Event,
    GetSpacesReply, Int64Box, Int64Range, Int64SequenceSpace, NamedDiscreteSpace, ObservationSpace,
    Space, StringSequenceSpace, StringSpace, double_range, int64_range, space,
};

/// The action space of the strict profile, and its name to clients.
const FLAGS: (&str, &str) = ("compilergym-v0", "PassesAll");

/// The formats of [`opaque`] observations.
const JSON: &str = "json://";
const GRAPH: &str = "json://networkx/MultiDiGraph";

/// The graph without nodes, as `CompilerGym` writes it.
const NO_GRAPH: &str = r#"{"directed":true,"graph":{"function":[],"module":[]},"links":[],"multigraph":true,"nodes":[]}"#;

/// Where the values of an observation space come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ValueSource {
    /// The environment.
    Environment(ObservationIndex),
    /// The environment, whose text is data of this format.
    Opaque(ObservationIndex, &'static str),
    /// This machine.
    Machine(MachineSpace),
}

/// What clients see of an environment.
#[derive(Debug)]
pub(super) struct Spaces {
    /// The action spaces: the name in the environment, the number of actions, the description.
    actions: Vec<(String, usize, ActionSpace)>,
    observations: Vec<(ValueSource, ObservationSpace)>,
    /// The names of those that show what the compiler makes of a state, with commas between them.
    compiled: String,
}

impl Spaces {
    /// Returns what clients of `CompilerGym` know of LLVM, no less and no more: some of them
    /// compare the sets. Another environment shows its own spaces, and so does LLVM where only one
    /// action space can be played (`only`) that clients of `CompilerGym` do not know.
    pub(super) fn of(spec: &EnvironmentSpec, only: Option<&str>) -> Self {
        // To clients, the space of a baseline is one of states.
        let compiled = spec.observation_spaces.iter();
        let compiled = compiled.filter(|space| space.is_compiled && !space.of_benchmark);
        let compiled = compiled.map(|space| space.name.as_ref()).collect::<Vec<_>>().join(",");
        if spec.name == llvm::NAME && only.is_none_or(|only| only == FLAGS.0) {
            return Self { actions: vec![flags(spec)], observations: profile(spec), compiled };
        }
        let spaces = spec.action_spaces.iter();
        let spaces = spaces.filter(|space| only.is_none_or(|only| space.name == only));
        let actions = spaces.map(|space| {
            let name = space.actions.iter().map(|action| action.name.clone()).collect();
            let described = described(space::Value::NamedDiscrete(NamedDiscreteSpace { name }));
            let described = ActionSpace { name: space.name.clone(), space: Some(described) };
            (space.name.clone(), space.actions.len(), described)
        });
        let observations = (0..).map(ObservationIndex).zip(&spec.observation_spaces);
        let observations = observations.map(|(index, own)| {
            let (space, default) = own_space(own.value_type, own.features.len());
            (ValueSource::Environment(index), observed(&own.name, space, default, true, false))
        });
        Self { actions: actions.collect(), observations: observations.collect(), compiled }
    }

    /// The reply, with a header for our own client.
    pub(super) fn response(&self) -> Response<GetSpacesReply> {
        let mut response = Response::new(self.reply());
        if !self.compiled.is_empty() {
            let names = self.compiled.parse().expect("names of spaces are words");
            response.metadata_mut().insert(COMPILED, names);
        }
        response
    }

    pub(super) fn reply(&self) -> GetSpacesReply {
        GetSpacesReply {
            action_space_list: self.actions.iter().map(|(.., space)| space.clone()).collect(),
            observation_space_list: self.observations.iter().map(|(_, one)| one.clone()).collect(),
        }
    }

    /// The name in the environment of the action space at a place, and its number of actions.
    pub(super) fn action_space(&self, place: i32) -> Option<(&str, usize)> {
        let (name, len, _) = self.actions.get(usize::try_from(place).ok()?)?;
        Some((name, *len))
    }

    /// Where the values of the observation space at a place come from.
    pub(super) fn source(&self, place: i32) -> Option<ValueSource> {
        self.observations.get(usize::try_from(place).ok()?).map(|(source, _)| *source)
    }
}

fn flags(spec: &EnvironmentSpec) -> (String, usize, ActionSpace) {
    let (own, name) = FLAGS;
    let actions = spec.action_space(own).map(|space| space.actions.as_slice()).unwrap_or_default();
    let names = actions.iter().map(|action| action.name.clone()).collect();
    let value = CommandlineSpace { name: names }.encode_to_vec();
    let any = Any { type_url: format!("{TYPE_URL}CommandlineSpace"), value };
    let space = Some(described(space::Value::AnyValue(any)));
    (own.to_owned(), actions.len(), ActionSpace { name: name.to_owned(), space })
}

/// The 26 observation spaces, in the order by which clients know them.
fn profile(spec: &EnvironmentSpec) -> Vec<(ValueSource, ObservationSpace)> {
    let own = |name| {
        spec.observation_index(name)
            .expect("a test opens the spaces of the environment that it has")
    };
    let same = |name| (name, ValueSource::Environment(own(name)));
    let graph = |name, format| (name, ValueSource::Opaque(own("ProgramlJson"), format));
    let machine = |space: MachineSpace| (space.name(), ValueSource::Machine(space));
    let texts = |one, least, most| named(one, text(least, most), UNSET, true, false);
    let opaques = |one, default, is_of_host| named(one, text(0, None), default, true, is_of_host);
    let counts = |one, is_of_host| named(one, count(), int(0), true, is_of_host);
    let times = |one| named(one, seconds(), UNSET, false, true);
    let can = |one| {
        let range = described(space::Value::BooleanValue(crate::proto::BooleanRange::default()));
        named(one, range, int(0), true, true)
    };
    let vector = |name, len| named(same(name), vector(len), ints(vec![0; len]), true, false);
    vec![
        texts(same("Ir"), 0, None),
        texts(same("IrSha1"), 40, Some(40)),
        // As CompilerGym writes it: without the order of use-lists, and so as a lake has it.
        named(("Bitcode", ValueSource::Environment(own("State"))), bytes(), UNSET, true, false),
        named(machine(MachineSpace::BitcodeFile), text(0, Some(4096)), UNSET, false, false),
        vector("InstCount", 70),
        vector("Autophase", 56),
        opaques(graph("Programl", GRAPH), opaque(GRAPH, NO_GRAPH), false),
        opaques(graph("ProgramlJson", JSON), opaque(JSON, NO_GRAPH), false),
        opaques(machine(MachineSpace::CpuInfo), opaque(JSON, "{}"), true),
        counts(same("IrInstructionCount"), false),
        counts(same("IrInstructionCountO0"), false),
        counts(same("IrInstructionCountO3"), false),
        counts(same("IrInstructionCountOz"), false),
        counts(same("ObjectTextSizeBytes"), true),
        counts(same("ObjectTextSizeO0"), true),
        counts(same("ObjectTextSizeO3"), true),
        counts(same("ObjectTextSizeOz"), true),
        counts(machine(MachineSpace::TextSizeBytes), true),
        counts(machine(MachineSpace::TextSizeO0), true),
        counts(machine(MachineSpace::TextSizeO3), true),
        counts(machine(MachineSpace::TextSizeOz), true),
        can(machine(MachineSpace::IsBuildable)),
        can(machine(MachineSpace::IsRunnable)),
        times(machine(MachineSpace::Runtime)),
        times(machine(MachineSpace::Buildtime)),
        texts(same("LexedIr"), 0, None),
    ]
}

fn named(
    (name, source): (&str, ValueSource),
    space: Space,
    default: Event,
    is_deterministic: bool,
    is_of_host: bool,
) -> (ValueSource, ObservationSpace) {
    (source, observed(name, space, default, is_deterministic, is_of_host))
}

fn observed(
    name: &str,
    space: Space,
    default: Event,
    deterministic: bool,
    platform_dependent: bool,
) -> ObservationSpace {
    let default_observation = Some(default).filter(|default| *default != UNSET);
    let (name, space) = (name.to_owned(), Some(space));
    ObservationSpace { name, space, deterministic, platform_dependent, default_observation }
}

fn described(value: space::Value) -> Space {
    Space { optional_type_id: None, value: Some(value) }
}

fn range(least: Option<i64>, most: Option<i64>) -> Int64Range {
    Int64Range {
        optional_min: least.map(int64_range::OptionalMin::Min),
        optional_max: most.map(int64_range::OptionalMax::Max),
    }
}

fn text(least: i64, most: Option<i64>) -> Space {
    let length_range = Some(range(Some(least), most));
    described(space::Value::StringValue(StringSpace { length_range }))
}

fn bytes() -> Space {
    let length_range = Some(range(Some(0), None));
    described(space::Value::ByteSequence(ByteSequenceSpace { length_range, scalar_range: None }))
}

fn count() -> Space {
    described(space::Value::Int64Value(range(Some(0), None)))
}

fn vector(len: usize) -> Space {
    let (low, high) = (Some(tensor(vec![0; len])), Some(tensor(vec![i64::MAX; len])));
    described(space::Value::Int64Box(Int64Box { low, high }))
}

fn seconds() -> Space {
    let least =
        DoubleRange { optional_min: Some(double_range::OptionalMin::Min(0.0)), optional_max: None };
    doubles(range(Some(0), None), Some(least))
}

fn doubles(length: Int64Range, scalar_range: Option<DoubleRange>) -> Space {
    let length_range = Some(length);
    described(space::Value::DoubleSequence(DoubleSequenceSpace { length_range, scalar_range }))
}

/// The space of values of a type, with so many features, and the value that stands for none.
fn own_space(value_type: ValueType, features: usize) -> (Space, Event) {
    let features = i64::try_from(features).ok().filter(|&features| features > 0);
    let length = || range(features.or(Some(0)), features);
    match value_type {
        ValueType::Int => (described(space::Value::Int64Value(range(None, None))), int(0)),
        ValueType::Float => (described(space::Value::DoubleValue(DoubleRange::default())), UNSET),
        ValueType::Bytes => (bytes(), UNSET),
        ValueType::IntVector => {
            let sequence = Int64SequenceSpace { length_range: Some(length()), scalar_range: None };
            (described(space::Value::Int64Sequence(sequence)), UNSET)
        }
        ValueType::FloatVector => (doubles(length(), None), UNSET),
        ValueType::TextList => {
            let sequence = StringSequenceSpace { length_range: Some(length()) };
            (described(space::Value::StringSequence(sequence)), UNSET)
        }
        // Structs of lists have no space of their own; clients take them as they come.
        ValueType::Text | ValueType::ProgramGraph | ValueType::Tokens => (text(0, None), UNSET),
    }
}

#[cfg(test)]
mod tests {
    use steplake::compilers;

    use super::*;

    fn spaces(environment: &str) -> Spaces {
        Spaces::of(compilers::open(environment).unwrap().spec(), None)
    }

    #[test]
    fn the_strict_profile_has_the_spaces_that_clients_compare() {
        let reply = spaces(llvm::NAME).reply();
        let [actions] = &*reply.action_space_list else { panic!("{:?}", reply.action_space_list) };
        assert_eq!(actions.name, "PassesAll");
        let Some(space::Value::AnyValue(any)) = &actions.space.as_ref().unwrap().value else {
            panic!("{actions:?}");
        };
        let flags = CommandlineSpace::decode(&*any.value).unwrap().name;
        assert_eq!((flags.len(), flags[53].as_str()), (124, "-instcombine"));
        let observations = &reply.observation_space_list;
        assert_eq!(observations.len(), 26);
        let places = |is: &dyn Fn(&ObservationSpace) -> bool| -> Vec<usize> {
            observations.iter().enumerate().filter(|(_, one)| is(one)).map(|(at, _)| at).collect()
        };
        let of_host: Vec<usize> = std::iter::once(8).chain(13..=24).collect();
        assert_eq!(places(&|one| one.platform_dependent), of_host);
        assert_eq!(places(&|one| !one.deterministic), [3, 23, 24]);
        assert_eq!(places(&|one| one.default_observation.is_none()), [0, 1, 2, 3, 23, 24, 25]);
    }

    #[test]
    fn the_strict_profile_is_the_wire_of_the_original() {
        // The digest of the reply of CompilerGym's own service, version 0.2.5.
        let digest = blake3::hash(&spaces(llvm::NAME).reply().encode_to_vec());
        assert_eq!(
            digest.to_hex().as_str(),
            "25a6e4121769dbfef5bf6fc5767ce2e90467e8148470baa75d058f655cb407e9"
        );
    }

    #[test]
    fn other_environments_show_their_own_spaces() {
        let toy = spaces("toy-v0");
        assert_eq!(toy.action_space(0), Some(("toy-v0", 8)));
        assert_eq!(toy.action_space(1), None);
        assert_eq!(toy.source(0), Some(ValueSource::Environment(ObservationIndex(0))));
        assert_eq!([toy.source(-1), toy.source(100)], [None, None]);
        let environment = compilers::open(llvm::NAME).unwrap();
        let of = |only| Spaces::of(environment.spec(), Some(only)).action_space(0).map(|it| it.1);
        let own = environment.spec().action_spaces[0].actions.len();
        assert_eq!(
            [of("compilergym-v0"), of("llvm22-v1"), of("x-v0")],
            [Some(124), Some(own), None]
        );
    }
}
