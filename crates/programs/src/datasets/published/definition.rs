//! The definitions of the datasets, in `data/published/datasets.json`.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

use super::fetch::Download;
use crate::datasets::DatasetDescription;

/// A dataset as it was published.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PublishedDefinition {
    pub(super) name: &'static str,
    pub(super) uri: &'static str,
    pub(super) example: &'static str,
    pub(super) description: &'static str,
    /// The licence that CompilerGym states for the dataset as a whole.
    pub(super) licence: &'static str,
    /// The number of programs; unknown for a few that others succeeded.
    pub(super) size: Option<u64>,
    pub(super) archive: Download,
    /// The compressed list of the programs' names, one a line.
    pub(super) manifest: Option<Download>,
    /// The folder of the programs in the archive.
    pub(super) folder: String,
    /// What follows a program's name in that of its file.
    pub(super) suffix: String,
    pub(super) kind: ContentKind,
    #[serde(default)]
    pub(super) families: Families,
    /// The collection of the works; the dataset's name without its version unless it is another.
    pub(super) collection: Option<String>,
    /// The families of works that are elsewhere, or more than once here, by the works' names.
    #[serde(default)]
    pub(super) kin: BTreeMap<String, String>,
    /// The files of the programs, where no rule says them and there is no manifest.
    #[serde(default)]
    pub(super) programs: BTreeMap<String, String>,
    /// The dataset that replaces this one.
    pub(super) successor: Option<String>,
}

/// What the files of a dataset are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum ContentKind {
    Bitcode,
    C,
    /// C++ that a judge prepared before it compiled it.
    Solution,
    Opencl,
}

/// What the programs of one family are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Families {
    /// Nobody knows which programs of the dataset are related: all are.
    #[default]
    Dataset,
    /// Those of one work, whose name is the program's up to the first hyphen.
    Programs,
}

impl ContentKind {
    /// The flags with which its sources are compiled, after those that all sources have.
    pub(super) fn flags(self) -> &'static [&'static str] {
        match self {
            Self::Bitcode => &[],
            Self::C => &["-ferror-limit=1"],
            Self::Solution => &["-std=c++11"],
            Self::Opencl => &["-cl-std=CL1.2", "-Xclang", "-finclude-default-header"],
        }
    }
}

impl PublishedDefinition {
    /// Returns the family of a program: what is split between training and test together.
    pub(super) fn family(&self, program: &str) -> String {
        let Self { name, families, collection, kin, .. } = self;
        let base = name.rsplit_once("-v").map_or(*name, |(base, _version)| base).to_lowercase();
        let base = collection.clone().unwrap_or(base);
        let work = program.split('-').next().unwrap_or(program);
        match families {
            Families::Dataset => base,
            Families::Programs => {
                kin.get(work).cloned().unwrap_or_else(|| format!("{base}/{work}"))
            }
        }
    }
}

pub(super) fn definitions() -> &'static [(PublishedDefinition, DatasetDescription)] {
    static DEFINITIONS: OnceLock<Vec<(PublishedDefinition, DatasetDescription)>> = OnceLock::new();
    DEFINITIONS.get_or_init(|| {
        let text = include_str!("../../../../../data/published/datasets.json");
        parsed(text).unwrap_or_else(|error| panic!("data/published/datasets.json: {error}"))
    })
}

pub(super) fn parsed(
    text: &'static str,
) -> Result<Vec<(PublishedDefinition, DatasetDescription)>, serde_json::Error> {
    let all: Vec<PublishedDefinition> = serde_json::from_str(text)?;
    let with_about = |definition: PublishedDefinition| {
        let PublishedDefinition { name, uri, description, licence, size, example, .. } = definition;
        (definition, DatasetDescription { name, uri, description, licence, size, example })
    };
    Ok(all.into_iter().map(with_about).collect())
}
