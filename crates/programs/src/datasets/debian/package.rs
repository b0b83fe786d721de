//! A source package in one version, unpacked, and the programs that its files are.

use std::path::Path;

use super::URI;
use super::control::SourceRecord;
use super::copyright::Copyright;
use super::includes::SourceTree;
use crate::datasets::cache::stored::StoredProgram;
use crate::datasets::tools::clang::{Language, SourceFile};
use crate::datasets::{DatasetError, FrontEnd};
use steplake_model::suggestions::did_you_mean;
use steplake_model::{BenchmarkUri, Provenance};

/// What `configure` would find on every Debian system, and what makes the compiler accept old C:
/// calls without a declaration, declarations without a type, and careless pointers.
pub(super) const FLAGS: &str = "-D_GNU_SOURCE -DSTDC_HEADERS=1 -DHAVE_FCNTL_H=1 \
    -DHAVE_INTTYPES_H=1 \
    -DHAVE_LIMITS_H=1 -DHAVE_MEMORY_H=1 -DHAVE_STDARG_H=1 -DHAVE_STDBOOL_H=1 -DHAVE_STDINT_H=1 \
    -DHAVE_STDLIB_H=1 -DHAVE_STRING_H=1 -DHAVE_SYS_STAT_H=1 -DHAVE_SYS_TYPES_H=1 \
    -DHAVE_UNISTD_H=1 -DHAVE__BOOL=1 -Wno-error=implicit-function-declaration \
    -Wno-error=implicit-int -Wno-error=int-conversion \
    -Wno-error=incompatible-function-pointer-types";

/// A package with a definite version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PackageVersion {
    pub(super) name: String,
    pub(super) version: String,
}

/// A source package on disk; deleted on drop.
#[derive(Debug)]
pub(super) struct UnpackedPackage {
    pub(super) package: PackageVersion,
    pub(super) record: SourceRecord,
    pub(super) tree: SourceTree,
    pub(super) copyright: Copyright,
    pub(super) _folder: tempfile::TempDir,
}

impl PackageVersion {
    pub(super) fn uri(&self, file: &str) -> Result<BenchmarkUri, DatasetError> {
        Ok(format!("{URI}/{}@{}/{file}", self.name, self.version).parse()?)
    }
}

impl UnpackedPackage {
    pub(super) fn compile(
        &self,
        front_end: &FrontEnd,
        file: &str,
    ) -> Result<StoredProgram, DatasetError> {
        let uri = self.package.uri(file)?;
        let files = self.tree.sources();
        if !files.iter().any(|known| known == file) {
            let near = did_you_mean(file, files.iter().map(String::as_str));
            let package = format!("{URI}/{}", self.package.name);
            let hint = format!("{package} has {} files{near}", files.len());
            return Err(DatasetError::unknown(&uri, hint));
        }
        let language = Language::of(Path::new(file)).unwrap_or(Language::C);
        let include_flags = self.tree.include_flags(file);
        let flags = FLAGS.split(' ').chain(include_flags.iter().map(String::as_str));
        let flags: Vec<&str> = flags.collect();
        let compiled = front_end.compile(&SourceFile {
            uri: uri.as_str(),
            language,
            folder: &self.tree.root,
            file,
            flags: &flags,
            beside: &[],
        })?;
        let PackageVersion { name, version } = &self.package;
        let description = self.record.description_file();
        let digest = self.record.files.iter().find(|(_, name)| Some(name.as_str()) == description);
        let digest = digest.map_or("", |(digest, _)| digest);
        let provenance = Provenance {
            family: format!("debian/{name}"),
            licence: self.copyright.licence(file).to_owned(),
            origin: format!("Debian source package {name} {version}, sha256 {digest}, {file}"),
            compile_command: compiled.command,
        };
        Ok(StoredProgram { provenance, program: compiled.program })
    }
}
