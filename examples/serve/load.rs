//! Loads a service with requests.
fn main() {}
