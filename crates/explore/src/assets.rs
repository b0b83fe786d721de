//! The page: files that are part of the program.

use axum::http::{Method, StatusCode, Uri, header};
use axum::response::{IntoResponse as _, Response};
use include_dir::{Dir, include_dir};

use super::answers::Problem;

/// What `make web` built.
static PAGE: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../../web/dist");

/// The folder of files whose names change with their content.
const HASHED: &str = "assets/";

/// Answers with a file of the page.
pub(super) async fn file(method: Method, uri: Uri) -> Response {
    let path = uri.path().trim_start_matches('/');
    if path == "api" || path.starts_with("api/") {
        return Problem::missing(format!("there is no call `{method} /{path}`")).into_response();
    }
    if !matches!(method, Method::GET | Method::HEAD) {
        let problem = Problem::new(StatusCode::METHOD_NOT_ALLOWED, "the page can only be read");
        return ([(header::ALLOW, "GET,HEAD")], problem).into_response();
    }
    let path = if path.is_empty() { "index.html" } else { path };
    let Some(file) = PAGE.get_file(path) else {
        return Problem::missing(format!("there is no file `{path}`")).into_response();
    };
    let caching =
        if path.starts_with(HASHED) { "public, max-age=31536000, immutable" } else { "no-cache" };
    let headers = [(header::CONTENT_TYPE, content_type(path)), (header::CACHE_CONTROL, caching)];
    (headers, file.contents()).into_response()
}

/// The type of a file, by the end of its name.
fn content_type(path: &str) -> &'static str {
    match path.rsplit_once('.').map_or("", |(_, end)| end) {
        "html" => "text/html; charset=utf-8",
        "js" | "mjs" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "ico" => "image/x-icon",
        "woff2" => "font/woff2",
        "json" | "map" => "application/json",
        "txt" => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_of_the_page_has_a_type() {
        assert!(PAGE.get_file("index.html").is_some());
        let mut folders = vec![&PAGE];
        while let Some(folder) = folders.pop() {
            folders.extend(folder.dirs());
            for file in folder.files() {
                let path = file.path().to_str().unwrap();
                assert_ne!(content_type(path), "application/octet-stream", "{path}");
            }
        }
    }
}
