//! The library stays loaded once it is: its threads may be running when whoever loaded it lets it go.

fn main() {
    println!("cargo::rustc-link-arg-cdylib=-Wl,-z,nodelete");
    println!("cargo::rerun-if-changed=build.rs");
}
