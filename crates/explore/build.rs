//! Has cargo look at the page, which the macro that takes it in does not tell.

fn main() {
    println!("cargo::rerun-if-changed=../../web/dist");
}
