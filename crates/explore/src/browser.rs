//! Opens the page in the user's browser.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};

use tempfile::NamedTempFile;

/// A page that leads to the explorer, and its token. It is there for its owner alone, until it is
/// dropped: a token on the command line of a browser could be seen by everybody on the machine.
#[derive(Debug)]
pub(super) struct WayThere {
    _page: Option<NamedTempFile>,
}

/// Opens `link` in the browser, if there is a display. Returns what has to be kept meanwhile.
pub(super) fn open(link: &str, has_token: bool) -> Option<WayThere> {
    let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    if !is_set("DISPLAY") && !is_set("WAYLAND_DISPLAY") {
        return None;
    }
    let page = has_token.then(|| leading_to(link)).transpose();
    let page = page.map_err(|error| tracing::info!("the browser is not opened: {error}")).ok()?;
    let target = page.as_ref().map_or(link.to_owned(), |page| page.path().display().to_string());
    #[expect(clippy::disallowed_methods, reason = "the user's own browser, in the user's session")]
    let mut command = Command::new("xdg-open");
    command.arg(target).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    match command.spawn() {
        // Nobody else waits for it.
        Ok(mut child) => drop(std::thread::spawn(move || child.wait())),
        Err(error) => tracing::info!("xdg-open cannot be started: {error}"),
    }
    Some(WayThere { _page: page })
}

/// Writes a page that leads to `link`.
fn leading_to(link: &str) -> std::io::Result<NamedTempFile> {
    let mut page =
        tempfile::Builder::new().prefix("steplake-explore-").suffix(".html").tempfile()?;
    fs::set_permissions(page.path(), fs::Permissions::from_mode(0o600))?;
    let link = link.replace('&', "&amp;").replace('"', "&quot;").replace('<', "&lt;");
    writeln!(
        page,
        "<!doctype html><meta charset=\"utf-8\"><meta name=\"referrer\" content=\"no-referrer\">\
         <meta http-equiv=\"refresh\" content=\"0; url={link}\"><title>steplake</title>\
         <a href=\"{link}\">steplake</a>"
    )?;
    page.flush()?;
    Ok(page)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_there_is_for_its_owner_alone() {
        let page = leading_to("http://127.0.0.1:1/#token=a\"b").unwrap();
        let mode = fs::metadata(page.path()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let text = fs::read_to_string(page.path()).unwrap();
        assert!(text.contains("url=http://127.0.0.1:1/#token=a&quot;b\""), "{text}");
    }
}
