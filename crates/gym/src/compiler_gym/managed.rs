//! A service that its client starts: how the two find each other.

use std::io::{Result, Write as _};
use std::path::Path;
use std::time::Duration;

/// How often the service looks whether its client is still there.
const CLIENT_PERIOD: Duration = Duration::from_secs(1);

/// Tells the client where the service is, now that it answers there.
///
/// # Errors
///
/// If the folder cannot be written to.
pub(super) fn announce(folder: &Path, port: u16) -> Result<()> {
    // The client looks for the port, so the other file has to be there by then.
    write_whole(folder, "pid.txt", &std::process::id().to_string())?;
    write_whole(folder, "port.txt", &port.to_string())
}

/// Writes a file that nobody sees half written.
fn write_whole(folder: &Path, name: &str, text: &str) -> Result<()> {
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    writeln!(file, "{text}")?;
    file.persist(folder.join(name))?;
    Ok(())
}

/// Waits until the process that started this one is gone: a client that was killed ends no service.
pub(super) async fn client_is_gone(client: u32) {
    while std::os::unix::process::parent_id() == client {
        tokio::time::sleep(CLIENT_PERIOD).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_can_be_read_and_nothing_else_is_left() {
        let folder = tempfile::tempdir().unwrap();
        announce(folder.path(), 4321).unwrap();
        let read = |name| std::fs::read_to_string(folder.path().join(name)).unwrap();
        assert_eq!(read("port.txt").trim(), "4321");
        assert_eq!(read("pid.txt").trim(), std::process::id().to_string());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
    }
}
