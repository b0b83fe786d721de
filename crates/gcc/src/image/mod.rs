//! Compilers in container images.
//!
//! No container is run. The files of an image are taken out once and kept in the cache, and the
//! compiler's programs run there like installed ones: the image's own loader starts them with the
//! image's own libraries. So a compile costs what it costs with an installed compiler, and has the
//! same walls and limits.

mod engine;
mod root;

use std::fmt::Display;
use std::path::{Path, PathBuf};

use self::engine::{ContainerEngine, ID_DIGITS, InspectedImage};
use self::root::{DRIVER, RootFilesystem};
use steplake_programs::datasets::ProgramCache;

pub(super) use self::root::Placed;

/// The folder of the images in the cache.
const FOLDER: &str = "images";

/// The folders of an image that hold no part of a compiler, or nothing of the image.
const LEFT_OUT: [&str; 10] =
    ["boot", "dev", "home", "proc", "run", "sys", "tmp", "usr/share", "usr/src", "var"];

/// An image whose files are at hand.
#[derive(Debug)]
pub(super) struct Image {
    /// The first digits of its id.
    pub(super) id: String,
    /// The driver, to be called like an installed one.
    pub(super) driver: PathBuf,
    root: RootFilesystem,
}

impl Image {
    /// Takes the compiler out of the image of this name or id, unless that was done already.
    ///
    /// # Errors
    ///
    /// Why there is none, and what to do.
    pub(super) fn open(name: &str) -> Result<Self, String> {
        let cache =
            ProgramCache::new(ProgramCache::users_root().map_err(|error| error.to_string())?);
        Self::open_with(name, &cache, &ContainerEngine::installed())
    }

    fn open_with(
        name: &str,
        cache: &ProgramCache,
        engines: &[ContainerEngine],
    ) -> Result<Self, String> {
        if name.is_empty() || name.starts_with('-') {
            return Err(format!("`{name}` is no name of a container image"));
        }
        let images = cache.folder(FOLDER).map_err(text)?;
        // The image of a lake is named by its id, and may be gone from docker and podman.
        let is_id = name.len() == ID_DIGITS && name.bytes().all(|byte| byte.is_ascii_hexdigit());
        if is_id && images.join(name).is_dir() {
            return Self::in_folder(&images, name.to_owned(), name);
        }
        let (engine, found) = engine::with_image(engines, name)?;
        let id = found.id[..ID_DIGITS].to_owned();
        if !images.join(&id).is_dir() {
            let _lock = cache.lock(&format!("{FOLDER}-{id}")).map_err(text)?;
            // Another process may have taken it out while this one waited.
            if !images.join(&id).is_dir() {
                tracing::info!("taking the compiler out of the container image {name}");
                let scratch = cache.scratch().map_err(text)?;
                take_out(engine, &found, scratch.path(), name)?;
                std::fs::rename(scratch.keep(), images.join(&id)).map_err(text)?;
            }
        }
        Self::in_folder(&images, id, name)
    }

    fn in_folder(images: &Path, id: String, name: &str) -> Result<Self, String> {
        let folder = images.join(&id);
        let root = RootFilesystem::open(folder.clone())
            .map_err(|error| format!("the container image `{name}`: {error}"))?;
        Ok(Self { id, driver: folder.join(root::SCRIPTS).join(DRIVER), root })
    }

    /// Returns how the program that the driver calls `name` is started, and its file; none if the
    /// image has it not as a part of its compiler.
    pub(super) fn program(&self, name: &str) -> Option<Placed> {
        self.root.program(name)
    }

    /// Returns the folder of everything that its programs read.
    pub(super) fn folder(&self) -> &Path {
        &self.root.folder
    }
}

/// Writes the files of an image below `folder`, with scripts that start its compiler.
fn take_out(
    engine: &ContainerEngine,
    found: &InspectedImage,
    folder: &Path,
    name: &str,
) -> Result<(), String> {
    let failed = |error: String| format!("the container image `{name}`: {error}");
    let archive = folder.join("image.tar");
    engine.export(found, &archive)?;
    root::unpack(&archive, folder, &LEFT_OUT).map_err(failed)?;
    std::fs::remove_file(&archive).map_err(text)?;
    RootFilesystem::make(folder, &found.variables).map_err(failed)
}

fn text(error: impl Display) -> String {
    error.to_string()
}

#[cfg(test)]
mod tests;
