//! The location of a published lake, and its objects.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use futures::TryStreamExt as _;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{
    ClientConfigKey, Error, ObjectMeta, ObjectStore, ObjectStoreExt as _, PutMode, PutPayload,
    RetryConfig,
};
use steplake_lake::transfer::Inventory;
use steplake_lake::{CONTEXTS, is_context_name};
use steplake_model::line;
use url::Url;

use crate::RemoteError;
use crate::version::{Manifest, Objects, PublicationNote, VersionList, to_json};

/// The time limit of a request: a part of a file over a slow line.
const REQUEST_MAX: &str = "300 seconds";
/// How long the store may take to accept a connection.
const CONNECT_MAX: &str = "10 seconds";
/// How long a request is retried.
const RETRY_MAX: Duration = Duration::from_mins(1);
const RETRIES_MAX: usize = 6;

/// How often a conditional put is sent if the store reports concurrent writers.
const PUTS_MAX: u32 = 3;

/// How often the newest version is looked up again if it was forgotten meanwhile.
const LOOKUPS_MAX: u32 = 16;

/// Unix time in milliseconds.
pub type UnixClock = Arc<dyn Fn() -> i64 + Send + Sync>;

/// The location of a published lake: a prefix in a store.
#[derive(Clone)]
pub struct Remote {
    store: Arc<dyn ObjectStore>,
    prefix: Path,
    address: String,
    clock: UnixClock,
}

/// A version's number and manifest; the damage if the manifest is damaged.
pub type Numbered = (u64, Result<Manifest, RemoteError>);

/// An existing version.
#[derive(Debug, Clone)]
pub struct Published {
    /// The version's manifest.
    pub manifest: Manifest,
    /// The digest of the version's list.
    pub list: String,
    /// The contents of the version.
    pub inventory: Inventory,
    /// The objects of the files.
    pub(crate) objects: Objects,
}

/// The newest version, as a publisher finds it.
#[derive(Debug)]
pub(crate) struct NewestVersion {
    /// The newest version; `None` if nothing was published.
    pub(crate) published: Option<Published>,
    /// The greatest number taken; 0 if none was.
    pub(crate) highest: u64,
    /// Whether newer versions exist that cannot be read.
    pub(crate) skipped_damage: bool,
}

impl fmt::Debug for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Remote").field("address", &self.address).finish_non_exhaustive()
    }
}

impl fmt::Display for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.address)
    }
}

impl Remote {
    /// Creates a prefix in a store; `address` is its name for people.
    pub fn new(store: Arc<dyn ObjectStore>, prefix: Path, address: &str) -> Self {
        let address = address.trim_end_matches('/').to_owned();
        Self { store, prefix, address, clock: Arc::new(now_ms) }
    }

    /// Uses another clock than this machine's. Nothing published depends on it: a wrong clock costs
    /// time and space.
    #[must_use]
    pub fn with_clock(self, clock: UnixClock) -> Self {
        Self { clock, ..self }
    }

    /// Returns the clock's Unix time in milliseconds, for people, and to tell objects that are
    /// probably old from young ones.
    pub fn now_ms(&self) -> i64 {
        (self.clock)()
    }

    /// Opens the location at `address`: `s3://bucket/prefix` or `file:///folder`. The other
    /// settings of an S3 store are taken from the variables that AWS's tools read
    /// (`AWS_ACCESS_KEY_ID`, `AWS_REGION` …).
    ///
    /// # Errors
    ///
    /// [`RemoteError::Address`], [`RemoteError::Misconfigured`]. Sends no request to the store yet.
    pub fn open(
        address: &str,
        endpoint: Option<&str>,
        allow_http: bool,
    ) -> Result<Self, RemoteError> {
        let wrong =
            |why: &str| RemoteError::Address { address: address.to_owned(), why: why.to_owned() };
        let url = Url::parse(address).map_err(|error| wrong(&error.to_string()))?;
        let prefix = Path::from_url_path(url.path()).map_err(|error| wrong(&error.to_string()))?;
        let store: Arc<dyn ObjectStore> = match url.scheme() {
            "s3" => {
                let bucket = url.host_str().ok_or_else(|| wrong("it names no bucket"))?;
                let unusable = |error: Error| RemoteError::Misconfigured {
                    address: address.to_owned(),
                    why: error.to_string(),
                };
                Arc::new(s3(bucket, endpoint, allow_http).map_err(unusable)?)
            }
            "file" => {
                if let Some(host) = url.host_str() {
                    return Err(wrong(&format!(
                        "it names the host {host}; write three slashes before a folder: file:///…"
                    )));
                }
                Arc::new(LocalFileSystem::new())
            }
            other => return Err(wrong(&format!("{other}:// is not supported"))),
        };
        Ok(Self::new(store, prefix, address))
    }

    /// Returns where a context beside the first is published.
    #[must_use]
    pub fn context(&self, name: &str) -> Self {
        let (prefix, address) = (self.path(&format!("{CONTEXTS}/{name}")), &self.address);
        Self { prefix, address: format!("{address}/{CONTEXTS}/{name}"), ..self.clone() }
    }

    /// Returns the names of the contexts that are published beside the first, sorted.
    ///
    /// # Errors
    ///
    /// Errors of the store.
    pub async fn contexts(&self) -> Result<Vec<String>, RemoteError> {
        let listed = self.store.list_with_delimiter(Some(&self.path(CONTEXTS))).await;
        let folders = listed.map_err(self.failed("list", CONTEXTS))?.common_prefixes;
        let names = folders.iter().filter_map(|folder| folder.parts().next_back());
        let mut names: Vec<String> = names.map(|name| name.as_ref().to_owned()).collect();
        // They become folders.
        names.retain(|name| is_context_name(name));
        names.sort_unstable();
        Ok(names)
    }

    /// Returns the store.
    pub(crate) fn store(&self) -> &dyn ObjectStore {
        &*self.store
    }

    /// Returns the path of an object, given its name below the prefix.
    pub(crate) fn path(&self, object: &str) -> Path {
        self.prefix.parts().chain(Path::from(object).parts()).collect()
    }

    /// Returns the name of an object for people.
    pub(crate) fn name(&self, object: &str) -> String {
        format!("{}/{object}", self.address)
    }

    pub(crate) fn failed(
        &self,
        doing: &'static str,
        object: &str,
    ) -> impl FnOnce(Error) -> RemoteError {
        let object = self.name(object);
        move |source| {
            if lacks_credentials(&source) {
                tracing::debug!(%source, "no credentials");
                return RemoteError::NoCredentials { doing, object };
            }
            RemoteError::Store { doing, object, source }
        }
    }

    /// Lists the objects below a folder of the prefix, by their names below the prefix.
    pub(crate) async fn list(
        &self,
        folder: &str,
    ) -> Result<Vec<(String, ObjectMeta)>, RemoteError> {
        let prefix = self.path(folder);
        let listed: Vec<ObjectMeta> = self
            .store
            .list(Some(&prefix))
            .try_collect()
            .await
            .map_err(self.failed("list", folder))?;
        let name = |object: ObjectMeta| {
            let parts = object.location.prefix_match(&prefix)?;
            let parts = parts.map(|part| part.as_ref().to_owned()).collect::<Vec<_>>();
            Some((format!("{folder}/{}", parts.join("/")), object))
        };
        Ok(listed.into_iter().filter_map(name).collect())
    }

    /// Returns the metadata of an object; `None` if it does not exist.
    pub(crate) async fn head(&self, object: &str) -> Result<Option<ObjectMeta>, RemoteError> {
        self.existing("look up", object, self.store.head(&self.path(object)).await)
    }

    /// Returns `None` if `got` says that the object does not exist.
    fn existing<T>(
        &self,
        doing: &'static str,
        object: &str,
        got: Result<T, Error>,
    ) -> Result<Option<T>, RemoteError> {
        match got {
            Err(Error::NotFound { .. }) => Ok(None),
            got => got.map(Some).map_err(self.failed(doing, object)),
        }
    }

    /// Returns a whole object; `None` if it does not exist.
    pub(crate) async fn get(&self, object: &str) -> Result<Option<Bytes>, RemoteError> {
        let got = match self.store.get(&self.path(object)).await {
            Ok(got) => got.bytes().await,
            Err(error) => Err(error),
        };
        self.existing("read", object, got)
    }

    /// Returns a part of an object.
    pub(crate) async fn get_range(
        &self,
        object: &str,
        range: Range<u64>,
    ) -> Result<Bytes, RemoteError> {
        let got = self.store.get_range(&self.path(object), range).await;
        got.map_err(self.failed("read", object))
    }

    /// Writes a whole object. Durable on return, as far as the store promises.
    pub(crate) async fn put(&self, object: &str, content: Bytes) -> Result<(), RemoteError> {
        let put = self.store.put(&self.path(object), PutPayload::from_bytes(content)).await;
        put.map(drop).map_err(self.failed("write", object))
    }

    /// Writes an object, unless one of this name exists. An object of this name exists on return,
    /// as durable as the store promises.
    pub(crate) async fn put_if_absent(
        &self,
        object: &str,
        content: Bytes,
    ) -> Result<(), RemoteError> {
        let mut puts = 1;
        loop {
            match self.create(object, content.clone()).await {
                Ok(()) => return Ok(()),
                Err(error) if !is_taken(&error) => return Err(self.failed("write", object)(error)),
                Err(_) if self.head(object).await?.is_some() => return Ok(()),
                // The store reported concurrent writers, of which none was accepted.
                Err(_) if puts < PUTS_MAX => puts += 1,
                Err(error) => return Err(self.failed("write", object)(error)),
            }
        }
    }

    /// Sends one conditional put, which fails if the object exists.
    async fn create(&self, object: &str, content: Bytes) -> Result<(), Error> {
        let payload = PutPayload::from_bytes(content);
        self.store.put_opts(&self.path(object), payload, PutMode::Create.into()).await.map(drop)
    }

    /// Returns the numbers of all versions that ever existed, in order.
    pub(crate) async fn numbers(&self) -> Result<Vec<u64>, RemoteError> {
        let number = |name: &str| {
            let name = name.strip_prefix("manifests/")?.strip_suffix(".json")?;
            name.parse()
                .ok()
                .filter(|&number| manifest_name(number) == format!("manifests/{name}.json"))
        };
        let listed = self.list("manifests").await?;
        let mut numbers = listed.iter().filter_map(|(name, _)| number(name)).collect::<Vec<_>>();
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// Returns the manifest of a version; `None` if it does not exist.
    pub(crate) async fn manifest(&self, number: u64) -> Result<Option<Manifest>, RemoteError> {
        let object = manifest_name(number);
        match self.get(&object).await? {
            Some(text) => Manifest::from_json(&self.name(&object), number, &text).map(Some),
            None => Ok(None),
        }
    }

    /// Returns whether a version is that of a publication, or was built on it, so that it contains
    /// it. `false` if a manifest between the two is damaged or missing.
    pub(crate) async fn is_built_on(
        &self,
        version: &Manifest,
        note: &PublicationNote,
    ) -> Result<bool, RemoteError> {
        let mut manifest = version.clone();
        while manifest.version > note.version {
            let parent = manifest.parent.filter(|&parent| parent < manifest.version);
            let Some(parent) = parent else { return Ok(false) };
            manifest = match self.manifest(parent).await {
                Ok(Some(parent)) => parent,
                Ok(None) | Err(RemoteError::Damaged { .. }) => return Ok(false),
                Err(error) => return Err(error),
            };
        }
        Ok(manifest.publication == note.publication)
    }

    /// Returns the versions that are not forgotten, in order.
    ///
    /// # Errors
    ///
    /// Errors of the store.
    pub async fn versions(&self) -> Result<Vec<Numbered>, RemoteError> {
        Ok(self.manifests().await?.1)
    }

    /// Returns the greatest number taken, and the versions that are not forgotten.
    pub(crate) async fn manifests(&self) -> Result<(u64, Vec<Numbered>), RemoteError> {
        let numbers = self.numbers().await?;
        let mut versions = Vec::new();
        for &number in &numbers {
            match self.manifest(number).await {
                Ok(found) => {
                    let version = found.filter(|found| found.list.is_some());
                    versions.extend(version.map(|found| (number, Ok(found))));
                }
                Err(damage @ RemoteError::Damaged { .. }) => versions.push((number, Err(damage))),
                Err(error) => return Err(error),
            }
        }
        Ok((numbers.last().copied().unwrap_or(0), versions))
    }

    /// Returns the newest version; `None` if nothing was published.
    ///
    /// # Errors
    ///
    /// Errors of the store; [`RemoteError::Damaged`].
    pub async fn newest(&self) -> Result<Option<Published>, RemoteError> {
        Ok(self.look_up_newest(false).await?.published)
    }

    /// Returns the newest version, or with `skip_damage` the newest readable one, and the greatest
    /// number.
    pub(crate) async fn look_up_newest(
        &self,
        skip_damage: bool,
    ) -> Result<NewestVersion, RemoteError> {
        for _ in 1..LOOKUPS_MAX {
            match self.try_newest(skip_damage).await {
                // Others have published a newer version meanwhile, and forgotten this one.
                Err(RemoteError::Forgotten { .. }) => {}
                other => return other,
            }
        }
        self.try_newest(skip_damage).await
    }

    async fn try_newest(&self, skip_damage: bool) -> Result<NewestVersion, RemoteError> {
        let numbers = self.numbers().await?;
        let highest = numbers.last().copied().unwrap_or(0);
        let mut skipped_damage = false;
        for number in numbers.into_iter().rev() {
            let found = match self.manifest(number).await {
                Ok(Some(manifest)) if manifest.list.is_some() => self.published(manifest).await,
                Ok(_) => continue,
                Err(error) => Err(error),
            };
            match found {
                Ok(found) => {
                    return Ok(NewestVersion { published: Some(found), highest, skipped_damage });
                }
                Err(RemoteError::Damaged { .. }) if skip_damage => skipped_damage = true,
                Err(error) => return Err(error),
            }
        }
        Ok(NewestVersion { published: None, highest, skipped_damage })
    }

    /// Returns a version by its number.
    ///
    /// # Errors
    ///
    /// [`RemoteError::NoVersion`], [`RemoteError::Forgotten`], [`RemoteError::Damaged`], and errors
    /// of the store.
    pub async fn version(&self, number: u64) -> Result<Published, RemoteError> {
        let address = self.address.clone();
        let manifest = self
            .manifest(number)
            .await?
            .ok_or(RemoteError::NoVersion { address, wanted: number })?;
        self.published(manifest).await
    }

    /// Reads the list of a version, and compares its digest.
    pub(crate) async fn published(&self, manifest: Manifest) -> Result<Published, RemoteError> {
        let number = manifest.version;
        let forgotten = || RemoteError::Forgotten { address: self.address.clone(), wanted: number };
        let list = manifest.list.clone().ok_or_else(forgotten)?;
        let object = list_name(&list);
        let name = self.name(&object);
        let Some(content) = self.get(&object).await? else {
            let now = self.manifest(number).await?;
            return Err(match now {
                Some(now) if now.list.is_none() => forgotten(),
                _ => RemoteError::damaged(&name, "it is missing"),
            });
        };
        if blake3::hash(&content).to_hex().as_str() != list {
            return Err(RemoteError::damaged(name, "its content does not match its digest"));
        }
        let VersionList { inventory, objects, .. } = VersionList::from_json(&name, &content)?;
        Ok(Published { manifest, list, inventory, objects })
    }

    /// Refuses a store that overwrites an object despite a conditional put, since the uniqueness of
    /// numbers depends on this. Tests it on `object`, which exists with this content.
    pub(crate) async fn demand_conditions(
        &self,
        object: &str,
        content: Bytes,
    ) -> Result<(), RemoteError> {
        // A collection may have deleted the object meanwhile; then the first attempt restores it.
        for _ in 0..2 {
            match self.create(object, content.clone()).await {
                Ok(()) => {}
                Err(error) if is_taken(&error) => return Ok(()),
                Err(Error::NotImplemented { .. }) => break,
                Err(error) => return Err(self.failed("write", object)(error)),
            }
        }
        Err(RemoteError::Unconditional { address: self.address.clone() })
    }

    /// Takes a number with a manifest if the number is free; returns whether it did. If the store's
    /// answer was lost and the request was sent twice, the existing manifest tells who took it. If
    /// the store only reports concurrent writers and nothing is there, the number is still free:
    /// returns `false`, and the caller tries again.
    pub(crate) async fn announce(&self, manifest: &Manifest) -> Result<bool, RemoteError> {
        let object = manifest_name(manifest.version);
        match self.create(&object, to_json(manifest).into()).await {
            Ok(()) => Ok(true),
            Err(error) if is_taken(&error) => {
                let there = self.manifest(manifest.version).await?;
                Ok(there.is_some_and(|there| there.publication == manifest.publication))
            }
            Err(error) => Err(self.failed("write", &object)(error)),
        }
    }

    /// Replaces the manifest of a version by one that only keeps its number.
    pub(crate) async fn forget(&self, forgotten: &Manifest) -> Result<(), RemoteError> {
        self.put(&manifest_name(forgotten.version), to_json(forgotten).into()).await
    }

    /// Returns the address of the lake, for people.
    pub fn address(&self) -> &str {
        &self.address
    }
}

/// Returns whether a conditional put failed because the object exists, or because of concurrent
/// writers.
fn is_taken(error: &Error) -> bool {
    matches!(error, Error::AlreadyExists { .. } | Error::Precondition { .. })
}

/// Returns a random name for a publication and the objects that only it writes.
pub(crate) fn random_name() -> Result<String, RemoteError> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| RemoteError::Io {
        doing: "draw a random name".to_owned(),
        source: error.into(),
    })?;
    Ok(format!("{:032x}", u128::from_le_bytes(bytes)))
}

#[expect(clippy::disallowed_methods, reason = "this is the edge: objects have times")]
fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// Returns the name of a version's manifest; names sort like numbers.
pub(crate) fn manifest_name(number: u64) -> String {
    format!("manifests/{number:020}.json")
}

/// Returns the name of a list.
pub(crate) fn list_name(digest: &str) -> String {
    format!("lists/{digest}.json")
}

/// The paths under which a machine of AWS provides credentials. They are requested if no variable
/// has any.
const OWN_CREDENTIALS: [&str; 2] = ["/latest/api/token", "/latest/meta-data/iam/"];

/// Returns whether a request failed because there are no credentials.
fn lacks_credentials(error: &Error) -> bool {
    let message = line(error);
    OWN_CREDENTIALS.iter().any(|path| message.contains(path))
}

fn s3(bucket: &str, endpoint: Option<&str>, allow_http: bool) -> Result<impl ObjectStore, Error> {
    let retries = RetryConfig {
        max_retries: RETRIES_MAX,
        retry_timeout: RETRY_MAX,
        ..RetryConfig::default()
    };
    let mut builder = AmazonS3Builder::from_env()
        .with_bucket_name(bucket)
        .with_config(AmazonS3ConfigKey::Client(ClientConfigKey::Timeout), REQUEST_MAX)
        .with_config(AmazonS3ConfigKey::Client(ClientConfigKey::ConnectTimeout), CONNECT_MAX)
        .with_retry(retries);
    if allow_http {
        builder = builder.with_allow_http(true);
    }
    if let Some(endpoint) = endpoint {
        builder = builder.with_endpoint(endpoint);
    }
    builder.build()
}
