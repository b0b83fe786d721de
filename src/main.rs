//! The steplake binary.
use std::os::fd::AsFd;
fn main() {
    let a: Vec<String> = std::env::args().collect();
    if a.get(1).map(String::as_str) == Some("worker") {
        let e = steplake::env::open(&a[2]).unwrap();
        let s = std::os::unix::net::UnixStream::from(
            std::io::stdin().as_fd().try_clone_to_owned().unwrap(),
        );
        steplake::env::worker::serve(e.as_ref(), s, a[3].as_ref(), a[4].parse().unwrap()).unwrap();
    }
}
