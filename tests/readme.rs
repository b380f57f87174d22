//! The program of the guide on devices, as it stands there: compiled with the feature `cuda`, and run where there is a device.
#![cfg(feature = "cuda")]
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used, clippy::panic)]

mod program {
    include!("readme/devices.rs");

    pub(super) fn run() -> Result<()> {
        main()
    }
}

#[test]
fn the_program_of_devices_stands_in_the_guide_and_runs() {
    assert!(include_str!("../docs/guide/devices.md").contains(include_str!("readme/devices.rs")));
    match selvedge::device::Gpu::open(0) {
        Ok(_) => program::run().unwrap(),
        Err(error) if std::env::var_os("REQUIRE_GPU").is_some() => panic!("{error}"),
        Err(error) => {
            let _ = std::io::Write::write_all(
                &mut std::io::stderr(),
                format!("\nleft out: {error}\n").as_bytes(),
            );
        }
    }
}
