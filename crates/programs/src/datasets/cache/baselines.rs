//! A cache of the baselines of programs.

use super::program_cache::Key;
use crate::datasets::{DatasetError, ProgramCache};
use steplake_model::{Baselines, EnvironmentSpec, Name};

/// Changes with the stored format.
const FORMAT: &str = "1";

/// Costs of programs after a compiler's own pipelines, kept in the [`ProgramCache`] beside the
/// programs: computing them can cost more than an episode.
///
/// The key of an entry consists of the environment, its compiler and target, the settings by which
/// it computes baselines, the limits of the workers, which decide whether the computation ends, and
/// the digest of the program. If any of them changes, the baselines are computed anew.
#[derive(Debug)]
pub struct KnownBaselines {
    cache: ProgramCache,
    key: [String; 5],
    names: Vec<Name>,
}

impl KnownBaselines {
    /// Opens the baselines that an environment with this spec computes within these limits.
    pub fn new(cache: ProgramCache, spec: &EnvironmentSpec, limits: &str) -> Self {
        let (name, baselines) = (spec.name.to_string(), spec.baselines.to_string());
        let key = [name, spec.compiler.clone(), spec.target.clone(), baselines, limits.to_owned()];
        let spaces = spec.observation_spaces.iter();
        let spaces = spaces.filter(|space| space.of_benchmark && !space.on_request);
        Self { cache, key, names: spaces.map(|space| space.name.clone()).collect() }
    }

    /// Returns the baselines of a program, if all that are not on request are known. An unreadable
    /// entry counts as not known.
    pub fn read(&self, program: &[u8]) -> Option<Baselines> {
        let read = self.cache.get(self.key_of(program));
        let bytes =
            read.inspect_err(|error| tracing::debug!(%error, "known baselines cannot be read"));
        let baselines = Baselines(postcard::from_bytes(&bytes.ok()??).ok()?);
        self.names.iter().all(|name| baselines.get(name).is_some()).then_some(baselines)
    }

    /// Stores the baselines of a program and replaces what was known.
    ///
    /// # Errors
    ///
    /// Those of the cache.
    pub fn write(&self, program: &[u8], baselines: &Baselines) -> Result<(), DatasetError> {
        let bytes = postcard::to_stdvec(&baselines.0).map_err(std::io::Error::other);
        let bytes = bytes.map_err(DatasetError::cache(&self.cache.root))?;
        self.cache.put(self.key_of(program), &bytes)
    }

    fn key_of(&self, program: &[u8]) -> Key {
        let digest = blake3::hash(program).to_hex();
        let [name, compiler, target, baselines, limits] = &self.key;
        Key::of("baselines", &[FORMAT, name, compiler, target, baselines, limits, &digest])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use steplake_model::ObservationSpace;

    fn spec() -> EnvironmentSpec {
        EnvironmentSpec {
            name: "test-v0".into(),
            compiler: "test 1".into(),
            target: "any".into(),
            action_spaces: Vec::new(),
            observation_spaces: vec![
                ObservationSpace::int("Size"),
                ObservationSpace::int("SizeO0").of_benchmark(),
            ],
            reward_spaces: Vec::new(),
            baselines: "1: small".into(),
            state_space: "Size".into(),
            action_costs: std::collections::BTreeMap::new(),
            state_scheme: 1,
        }
    }

    fn baselines(size: i64) -> Baselines {
        Baselines(vec![("SizeO0".into(), size)])
    }

    #[test]
    fn baselines_are_known_by_all_that_they_depend_on() {
        let folder = tempfile::tempdir().unwrap();
        let within = |spec: &EnvironmentSpec, limits| {
            KnownBaselines::new(ProgramCache::new(folder.path()), spec, limits)
        };
        let known = |spec: &EnvironmentSpec| within(spec, "1 s");
        let here = known(&spec());
        assert_eq!(here.read(b"program"), None);
        here.write(b"program", &baselines(7)).unwrap();
        assert_eq!(here.read(b"program"), Some(baselines(7)));
        assert_eq!(known(&spec()).read(b"program"), Some(baselines(7)));
        assert_eq!(here.read(b"another"), None);
        for other in [
            EnvironmentSpec { name: "test-v1".into(), ..spec() },
            EnvironmentSpec { compiler: "test 2".into(), ..spec() },
            EnvironmentSpec { target: "another".into(), ..spec() },
            EnvironmentSpec { baselines: "1: large".into(), ..spec() },
        ] {
            assert_eq!(known(&other).read(b"program"), None);
        }
        assert_eq!(within(&spec(), "2 s").read(b"program"), None);
    }

    #[test]
    fn what_is_damaged_or_lacks_something_is_not_known_and_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let known = KnownBaselines::new(ProgramCache::new(folder.path()), &spec(), "1 s");
        known.write(b"program", &Baselines(vec![("Other".into(), 7)])).unwrap();
        assert_eq!(known.read(b"program"), None);
        known.write(b"program", &baselines(7)).unwrap();
        let shard = std::fs::read_dir(folder.path().join("baselines")).unwrap().next().unwrap();
        let entry = std::fs::read_dir(shard.unwrap().path()).unwrap().next().unwrap();
        let entry = entry.unwrap().path();
        for damaged in [&b""[..], b"damaged", &[0; 64]] {
            std::fs::write(&entry, damaged).unwrap();
            assert_eq!(known.read(b"program"), None);
        }
        known.write(b"program", &baselines(8)).unwrap();
        assert_eq!(known.read(b"program"), Some(baselines(8)));
    }
}
