//! Builds the library so that it stays loaded: its threads may still run when the program that loaded it closes it.

fn main() {
    println!("cargo::rustc-link-arg-cdylib=-Wl,-z,nodelete");
    println!("cargo::rerun-if-changed=build.rs");
}
