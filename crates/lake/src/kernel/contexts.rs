//! The contexts of a lake: what was recorded with different compilers and action spaces.
//!
//! A lake holds any number of contexts, and each has tables of its own: their columns are the
//! spaces of their environments, and what is sealed, counted or compacted in one concerns no other.
//! The first context is the folder of the lake itself. Every other is a folder in `contexts/`, with
//! the same files. It is a lake, and whatever works on a lake works on it.
//!
//! States are named by their content. Contexts whose ids have the same scheme therefore name a
//! state that both reached alike.
//!
//! # What is durable when
//!
//! A context exists once its `lake.json` does, as a lake does. What an interrupted creation leaves
//! is no context, and the next creation clears it.

use std::path::{Path, PathBuf};

use super::create::unfinished_work;
use super::error::LakeError;
use super::handle::Lake;
use super::identity::Identity;
use super::identity_file;

/// The folder of the contexts beside the first, in a lake and where one is published.
pub const CONTEXTS: &str = "contexts";

/// One context of a lake.
#[derive(Debug, Clone)]
pub struct Context {
    /// Its name: that of its environment, with that of its action space, or with a number, if other
    /// contexts have the name already.
    pub name: String,
    /// Its tables.
    pub lake: Lake,
}

impl Lake {
    /// Opens the contexts of the lake at `path`: the first, and the others by name.
    ///
    /// # Errors
    ///
    /// Those of [`open`](Self::open) for any of them.
    pub fn contexts(path: impl AsRef<Path>) -> Result<Vec<Context>, LakeError> {
        let first = Self::open(path.as_ref())?;
        let others = first.other_contexts()?.into_iter();
        let name = first.context_name();
        let others = others.map(|(name, path)| Ok(Context { name, lake: Self::open(path)? }));
        std::iter::once(Ok(Context { name, lake: first })).chain(others).collect()
    }

    /// The name of the context that this is: that of its folder in `contexts/`, or of the first
    /// one.
    pub fn context_name(&self) -> String {
        let folder = self.path.file_name().and_then(|name| name.to_str());
        match folder.filter(|_| is_context(&self.path)) {
            Some(name) => name.to_owned(),
            None => self.identity.context_name(),
        }
    }

    /// Returns the names and folders of the contexts beside the first, by name. Opens none of them.
    ///
    /// # Errors
    ///
    /// If the folder of the lake cannot be read.
    pub fn other_contexts(&self) -> Result<Vec<(String, PathBuf)>, LakeError> {
        let folder = self.path.join(CONTEXTS);
        let names = names(&folder)?.into_iter();
        Ok(names.map(|name| (name.clone(), folder.join(name))).collect())
    }

    /// Opens one context of the lake at `path`: that of this name, or the only one.
    ///
    /// # Errors
    ///
    /// [`LakeError::NoContext`] if there is none of this name, [`LakeError::SeveralContexts`] if
    /// none is named where there are several, and the errors of [`open`](Self::open).
    pub fn open_one(path: impl AsRef<Path>, name: Option<&str>) -> Result<Self, LakeError> {
        let first = Self::open(path.as_ref())?;
        let (own, others) = (first.context_name(), first.other_contexts()?);
        if name.map_or(others.is_empty(), |name| name == own) {
            return Ok(first);
        }
        if let Some((_, path)) = others.iter().find(|(other, _)| Some(other.as_str()) == name) {
            return Self::open(path);
        }
        let others = others.into_iter().map(|(other, _)| other);
        let known = std::iter::once(own).chain(others).collect();
        let path = path.as_ref().to_owned();
        Err(match name {
            Some(name) => LakeError::NoContext { path, name: name.to_owned(), known },
            None => LakeError::SeveralContexts { path, known },
        })
    }

    /// Returns the folder for rows of a context of which `is_wanted` is true: that of the first
    /// such context of the lake at `path`, or the folder in which [`open_or_create`] makes one for
    /// rows of this environment and action space. That is `path` itself if there is no lake, and if
    /// it is one context of a lake: a context has none of its own.
    ///
    /// [`open_or_create`]: Self::open_or_create
    ///
    /// # Errors
    ///
    /// Those of [`open`](Self::open), except that there is no lake. A context that cannot be opened
    /// does not keep others from being found.
    pub fn context_folder(
        path: impl AsRef<Path>,
        environment: &str,
        action_space: &str,
        mut is_wanted: impl FnMut(&Identity) -> bool,
    ) -> Result<PathBuf, LakeError> {
        let path = path.as_ref();
        if is_context(path) {
            return Ok(path.to_owned());
        }
        let first = match Self::open(path) {
            Ok(first) => first,
            Err(LakeError::NotFound { .. } | LakeError::NotALake { .. }) => {
                return Ok(path.to_owned());
            }
            Err(error) => return Err(error),
        };
        if is_wanted(&first.identity) {
            return Ok(first.path);
        }
        let (others, mut failed) = (first.other_contexts()?, None);
        for (_, path) in &others {
            match Self::open(path) {
                Ok(other) if is_wanted(&other.identity) => return Ok(other.path),
                Ok(_) => {}
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        if let Some(error) = failed {
            return Err(error);
        }
        let own = first.context_name();
        let name = new_name(environment, action_space, |name| {
            name == own || others.iter().any(|(other, _)| other == name)
        });
        Ok(first.path.join(CONTEXTS).join(name))
    }
}

impl Identity {
    /// The name of the first context of a lake, if it has this identity.
    pub fn context_name(&self) -> String {
        plain(&self.environment)
    }
}

/// Whether a folder is that of one context beside the first of a lake.
fn is_context(path: &Path) -> bool {
    let path = path.canonicalize().unwrap_or_else(|_missing| path.to_owned());
    let parent = path.parent().filter(|parent| parent.ends_with(CONTEXTS));
    let lake = parent.and_then(Path::parent);
    lake.is_some_and(|lake| lake.join(identity_file::FILE_NAME).exists())
}

/// The names of the contexts in a folder, sorted; none if there is no such folder.
fn names(folder: &Path) -> Result<Vec<String>, LakeError> {
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(LakeError::io("read", folder)(error)),
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(LakeError::io("read", folder))?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        let path = entry.path();
        // One without a `lake.json` was never made, or holds the unfinished work of a command.
        let file = path.join(identity_file::FILE_NAME);
        if file.try_exists().map_err(LakeError::io("read", &file))? {
            if is_context_name(&name) {
                names.push(name);
            } else {
                tracing::warn!("{} is no context: none has such a name", path.display());
            }
        } else if let Some(unfinished) = unfinished_work(&path) {
            tracing::debug!(context = name, unfinished, "the context does not exist yet");
        }
    }
    names.sort_unstable();
    Ok(names)
}

/// The name of a new context.
fn new_name(environment: &str, action_space: &str, is_taken: impl Fn(&str) -> bool) -> String {
    let environment = plain(environment);
    let with_space = format!("{environment}-{}", plain(action_space));
    let numbered = (2..).map(|number| format!("{with_space}-{number}"));
    let mut names = [environment, with_space.clone()].into_iter().chain(numbered);
    names.find(|name| is_context_name(name) && !is_taken(name)).expect("the numbers do not end")
}

/// Names that a context cannot have, since a session of SQL has schemas of these names.
const RESERVED: [&str; 2] = ["public", "information_schema"];

/// Whether a context may have this name: it leads to no other folder, and is a schema of its own.
pub fn is_context_name(name: &str) -> bool {
    !name.is_empty() && plain(name) == name && !RESERVED.contains(&name)
}

/// A name as the name of a folder, and as a word of a command line.
fn plain(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || ['-', '_', '.'].contains(&c);
    let name: String = name.chars().map(|c| if is_plain(c) { c } else { '-' }).collect();
    // A folder whose name begins with a dot is hidden.
    name.trim_start_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::super::identity::tests::identity;
    use super::*;

    fn other(change: impl FnOnce(&mut Identity)) -> Identity {
        let mut other = identity();
        change(&mut other);
        other
    }

    fn place(path: &Path, identity: &Identity) -> PathBuf {
        let Identity { environment, action_space, .. } = identity;
        let is_wanted = |there: &Identity| there.difference(identity).is_none();
        Lake::context_folder(path, environment, &action_space.name, is_wanted).unwrap()
    }

    #[test]
    fn another_compiler_or_action_space_gets_a_context_beside_the_first() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap().join("lake");
        let first = identity();
        assert_eq!(place(&path, &first), path);
        Lake::create(&path, &first).unwrap();
        assert_eq!(place(&path, &first), path);
        let environment = first.environment.clone();
        let newer = other(|identity| identity.compiler = "toy 2".into());
        let space = other(|identity| identity.action_space.name = "few v0".into());
        let gcc = other(|identity| identity.environment = "gcc-v0".into());
        let own = format!("{environment}-{}", first.action_space.name);
        let few = format!("{environment}-few-v0");
        for (one, name) in [(&newer, own.as_str()), (&space, &few), (&gcc, "gcc-v0")] {
            let at = place(&path, one);
            assert_eq!(at, path.join(CONTEXTS).join(name));
            Lake::create(&at, one).unwrap();
            assert_eq!(place(&path, one), at);
        }
        let newest = other(|identity| identity.compiler = "toy 3".into());
        assert_eq!(place(&path, &newest), path.join(CONTEXTS).join(format!("{own}-2")));
        assert!(is_context_name(&own));
        assert!(!["", ".", "..", "a/b", "a b", ".hidden"].into_iter().any(is_context_name));
        let contexts = Lake::contexts(&path).unwrap();
        let names: Vec<&str> = contexts.iter().map(|context| context.name.as_str()).collect();
        assert_eq!(names[0], environment);
        assert!(names[1..].is_sorted() && names.len() == 4, "{names:?}");
        assert_eq!(*Lake::open_one(&path, Some("gcc-v0")).unwrap().identity(), gcc);
        // A context has no contexts.
        let inner = path.join(CONTEXTS).join("gcc-v0");
        assert_eq!(place(&inner, &newest), inner);
        let missing = Lake::open_one(&path, Some("gcc")).unwrap_err();
        assert!(matches!(&missing, LakeError::NoContext { known, .. } if known.len() == 4));
        let unnamed = Lake::open_one(&path, None).unwrap_err();
        assert!(matches!(&unnamed, LakeError::SeveralContexts { known, .. } if known.len() == 4));
        assert!(Lake::open_one(&inner, None).is_ok());
    }

    #[test]
    fn what_an_interrupted_creation_leaves_is_no_context() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lake");
        Lake::create(&path, &identity()).unwrap();
        std::fs::create_dir_all(path.join(CONTEXTS).join("gcc-v0").join("data")).unwrap();
        assert_eq!(Lake::contexts(&path).unwrap().len(), 1);
        let gcc = other(|identity| identity.environment = "gcc-v0".into());
        Lake::create(place(&path, &gcc), &gcc).unwrap();
        assert_eq!(Lake::contexts(&path).unwrap().len(), 2);
        // A damaged context does not hide others.
        std::fs::write(path.join(CONTEXTS).join("gcc-v0").join(identity_file::FILE_NAME), "{")
            .unwrap();
        assert_eq!(place(&path, &identity()), path.canonicalize().unwrap());
        assert!(Lake::open_one(&path, Some("toy-v0")).is_ok());
        assert!(Lake::open_one(&path, Some("gcc-v0")).is_err());
    }
}
