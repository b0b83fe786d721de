//! `lake.json`: the identity of a lake on disk.

use std::path::Path;

use super::create::unfinished_work;
use super::error::LakeError;
use super::identity::{Identity, IdentityError};
use super::ids::FORMAT_VERSION;
use crate::kernel::files::disk::Disk;

/// The name of the file in the lake.
pub(crate) const FILE_NAME: &str = "lake.json";

impl Identity {
    /// Writes the lake's `lake.json`.
    pub(crate) fn write(&self, lake: &Path, disk: &Disk) -> Result<(), LakeError> {
        disk.write_file(&lake.join(FILE_NAME), self.to_json().as_bytes())
    }

    /// Reads the lake's `lake.json`.
    pub(crate) fn read(lake: &Path, disk: &Disk) -> Result<Self, LakeError> {
        let path = lake.join(FILE_NAME);
        let content = disk.read(&path).map_err(|error| missing(lake, &path, error))?;
        let Ok(text) = String::from_utf8(content) else {
            return Err(LakeError::corrupt(&path, "it is not text"));
        };
        Self::from_json(&text).map_err(|error| match error {
            IdentityError::Damaged(what) => LakeError::corrupt(&path, what),
            IdentityError::Format { found } => {
                LakeError::Format { path: lake.to_owned(), found, known: FORMAT_VERSION }
            }
        })
    }

    /// Refuses an identity that [differs](Self::difference).
    pub(crate) fn demand(&self, wanted: &Self, path: &Path) -> Result<(), LakeError> {
        match self.difference(wanted) {
            None => Ok(()),
            Some((what, lake, wanted)) => {
                Err(LakeError::OtherIdentity { path: path.to_owned(), what, lake, wanted })
            }
        }
    }

    /// This identity with what `other` has behind it. Rows of both can be in one lake: those of
    /// each have the first columns of the result.
    ///
    /// # Errors
    ///
    /// [`LakeError::OtherIdentity`] if the two differ, or have their columns in another order.
    pub(crate) fn extended(&self, other: &Self, path: &Path) -> Result<Self, LakeError> {
        self.demand(other, path)?;
        let mut extended = self.grown(other).unwrap_or_else(|| self.clone());
        // What an audit of either found holds for both.
        let theirs = &other.action_space.actions;
        for (action, theirs) in extended.action_space.actions.iter_mut().zip(theirs) {
            action.flags.replayable &= theirs.flags.replayable;
        }
        if extended.observations.starts_with(&other.observations)
            && extended.rewards.starts_with(&other.rewards)
            && extended.baselines.starts_with(&other.baselines)
        {
            return Ok(extended);
        }
        let (path, what) = (path.to_owned(), "columns".to_owned());
        Err(LakeError::OtherIdentity { path, what, lake: self.columns(), wanted: other.columns() })
    }

    /// The names of the spaces and baselines, in order.
    fn columns(&self) -> String {
        let observations = self.observations.iter().map(|space| &space.name);
        let rewards = self.rewards.iter().map(|space| &space.name);
        let names = observations.chain(rewards).chain(&self.baselines);
        names.map(String::as_str).collect::<Vec<_>>().join(", ")
    }
}

fn missing(lake: &Path, path: &Path, error: std::io::Error) -> LakeError {
    use std::io::ErrorKind::{NotADirectory, NotFound};
    match error.kind() {
        NotFound | NotADirectory if lake.is_dir() => {
            let detail = unfinished_work(lake).unwrap_or_else(|| "it has no lake.json".into());
            LakeError::NotALake { path: lake.to_owned(), detail }
        }
        NotFound | NotADirectory if lake.exists() => {
            LakeError::NotALake { path: lake.to_owned(), detail: "it is a file".into() }
        }
        NotFound | NotADirectory => LakeError::NotFound { path: lake.to_owned() },
        _ => LakeError::io("read", path)(error),
    }
}

#[cfg(test)]
mod tests {
    use super::super::identity::RecordedReward;
    use super::super::identity::tests::identity;
    use super::*;

    #[test]
    fn an_identity_survives_its_file() {
        let folder = tempfile::tempdir().unwrap();
        identity().write(folder.path(), &Disk::default()).unwrap();
        assert_eq!(Identity::read(folder.path(), &Disk::default()).unwrap(), identity());
    }

    #[test]
    fn what_differs_is_named_with_both_values() {
        let path = Path::new("l");
        let other = |change: fn(&mut Identity)| {
            let mut other = identity();
            change(&mut other);
            identity().demand(&other, path).unwrap_err().to_string()
        };
        assert!(identity().demand(&identity(), path).is_ok());
        let text = other(|i| i.compiler = "toy 2".into());
        assert!(text.contains("compiler toy 1") && text.contains("toy 2"), "{text}");
        assert!(other(|i| i.action_space.name = "x".into()).contains("action space toy-v0"));
        assert!(other(|i| i.action_space.actions[0].pipeline = "x".into()).contains("(`x`)"));
        assert!(other(|i| i.rewards[0].cost = "Time".into()).contains("reward space Cost Size"));
        let text = other(|i| i.observations[1].features[0] = "w".into());
        assert!(text.contains("observation space Counts"), "{text}");
    }

    #[test]
    fn actions_and_spaces_are_appended_and_nothing_else_changes() {
        let mut other = identity();
        other.rewards.insert(0, RecordedReward { name: "New".into(), cost: "Size".into() });
        other.action_space.actions.push(other.action_space.actions[0].clone());
        let grown = identity().grown(&other).unwrap();
        assert_eq!(identity().difference(&other), None);
        assert_eq!(grown.rewards.last(), other.rewards.first());
        assert_eq!((grown.rewards.len(), grown.action_space.actions.len()), (3, 3));
        assert_eq!(grown.digest(), identity().digest());
        assert_eq!(grown.grown(&other), None);
    }

    #[test]
    fn what_an_audit_took_away_of_either_is_gone_in_both() {
        let (sure, mut found) = (identity(), identity());
        found.action_space.actions[0].flags.replayable = false;
        for (one, other) in [(&sure, &found), (&found, &sure), (&found, &found)] {
            let both = one.extended(other, Path::new("lake")).unwrap();
            assert!(!both.action_space.actions[0].flags.replayable);
        }
        assert_eq!(sure.extended(&sure, Path::new("lake")).unwrap(), sure);
    }

    #[test]
    fn another_format_is_refused_before_its_content_is_read() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(FILE_NAME), r#"{"format_version": 99, "news": []}"#)
            .unwrap();
        let error = Identity::read(folder.path(), &Disk::default()).unwrap_err();
        assert!(matches!(error, LakeError::Format { found: 99, known: FORMAT_VERSION, .. }));
        assert!(error.to_string().contains("format 99"));
    }
}
