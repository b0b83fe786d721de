use std::fmt;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::object_store::path::Path as StorePath;
use datafusion::object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use futures::stream::BoxStream;

use crate::store::{Snapshot, retired_place};

/// What a payload is made of, by a name that needs no crate of its own.
type Bytes = <PutPayload as IntoIterator>::Item;

/// The files of a snapshot, wherever they lie: a query opens them as it goes, and one may be retired
/// meanwhile. None of them is deleted while this lives.
#[derive(Debug)]
pub(super) struct SegmentFiles {
    files: Arc<dyn ObjectStore>,
    _snapshot: Arc<Snapshot>,
}

impl SegmentFiles {
    pub(super) fn new(files: Arc<dyn ObjectStore>, snapshot: Arc<Snapshot>) -> Self {
        Self { files, _snapshot: snapshot }
    }
}

/// Where to look for a file that is not in its own place: in that of retired files, and in its own once
/// more, since the same content may come back.
fn other_places(own: &StorePath) -> Result<[StorePath; 2]> {
    let retired = retired_place(&Path::new("/").join(own.as_ref()));
    Ok([StorePath::from_absolute_path(retired)?, own.clone()])
}

fn is_missing<T>(found: &Result<T>) -> bool {
    matches!(found, Err(Error::NotFound { .. }))
}

impl fmt::Display for SegmentFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.files.fmt(f)
    }
}

/// Reading is changed, the rest is passed on.
#[async_trait]
impl ObjectStore for SegmentFiles {
    async fn get_opts(&self, location: &StorePath, options: GetOptions) -> Result<GetResult> {
        let mut found = self.files.get_opts(location, options.clone()).await;
        if is_missing(&found) {
            for place in other_places(location)? {
                if is_missing(&found) {
                    found = self.files.get_opts(&place, options.clone()).await;
                }
            }
        }
        found
    }

    async fn get_ranges(&self, location: &StorePath, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let mut found = self.files.get_ranges(location, ranges).await;
        if is_missing(&found) {
            for place in other_places(location)? {
                if is_missing(&found) {
                    found = self.files.get_ranges(&place, ranges).await;
                }
            }
        }
        found
    }

    async fn put_opts(
        &self,
        location: &StorePath,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        self.files.put_opts(location, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        location: &StorePath,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.files.put_multipart_opts(location, options).await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<StorePath>>,
    ) -> BoxStream<'static, Result<StorePath>> {
        self.files.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&StorePath>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.files.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&StorePath>) -> Result<ListResult> {
        self.files.list_with_delimiter(prefix).await
    }

    async fn copy_opts(
        &self,
        from: &StorePath,
        to: &StorePath,
        options: CopyOptions,
    ) -> Result<()> {
        self.files.copy_opts(from, to, options).await
    }
}
