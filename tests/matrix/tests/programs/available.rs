//! Programs that a machine may lack.

use std::path::Path;

/// Whether this machine has a program. If not, the test is left out, unless hosts are required.
pub(crate) fn available(program: &str) -> bool {
    let places = ["/usr/sbin", "/usr/bin", "/sbin", "/bin"];
    let is_here = places.iter().any(|place| Path::new(place).join(program).exists());
    if !is_here {
        assert!(
            std::env::var_os("REQUIRE_HOSTS").is_none(),
            "there is no `{program}`"
        );
        let _ = std::io::Write::write_all(
            &mut std::io::stderr(),
            format!("\nleft out: there is no `{program}`\n").as_bytes(),
        );
    }
    is_here
}
