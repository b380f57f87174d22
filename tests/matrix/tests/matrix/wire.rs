//! The bytes that cross between hosts, by the counters of the kernel.

use selvedge_test_hosts::Hosts;

use crate::driver::Driver;
use crate::sshd::Sshd;

/// The bytes that come to host 1 in ten steps of a load; `None` if there are no hosts.
fn received(load: &str) -> Option<u64> {
    let hosts = Hosts::or_left_out(3).unwrap()?;
    let received = std::thread::scope(|scope| {
        let sshd = Sshd::start(scope, &hosts);
        let arguments = ["driver", load, "60000", "60000"];
        let mut driver = Driver::start(scope, hosts.host(0), &sshd.socket(), &arguments);
        driver.hear("ready");
        // The load does not go on by itself after this one.
        let before = hosts.host(1).interface_bytes().unwrap().received;
        driver.tell("steps 10");
        driver.hear("steps");
        let after = hosts.host(1).interface_bytes().unwrap().received;
        driver.tell("end");
        driver.hear("second well");
        driver.hear("left nothing");
        assert!(driver.process.wait().unwrap().success());
        for number in [1, 2] {
            sshd.worker(number).wait().unwrap();
        }
        after - before
    });
    Some(received)
}

#[test]
fn q_09_four_readers_on_a_host_receive_what_one_does() {
    let (Some(one), Some(four)) = (received("one reader"), received("four readers")) else {
        return;
    };
    let payload = 10 * (4_u64 << 20);
    let line = format!("wire: {payload} bytes of payload; one reader {one}, four readers {four}\n");
    std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes()).unwrap();
    assert!(
        one >= payload && one.abs_diff(four) <= payload / 50,
        "{one} and {four}"
    );
}

/// A tensor comes to a host from each of the two others, however many ranks there are.
#[test]
fn comm_23_a_sum_over_twelve_ranks_of_three_hosts_costs_what_one_rank_a_host_does() {
    let (Some(one), Some(four)) = (received("one rank"), received("four ranks")) else {
        return;
    };
    let payload = 10 * 2 * (1_u64 << 20);
    let line = format!("wire: {payload} bytes of shares; one rank a host {one}, four ranks {four}\n");
    std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes()).unwrap();
    assert!(
        one >= payload && one.abs_diff(four) <= payload / 50,
        "{one} and {four}"
    );
}
