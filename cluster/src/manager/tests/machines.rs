use std::net::Ipv6Addr;
use std::num::{NonZeroU16, NonZeroUsize};

use proptest::prelude::*;

use crate::manager::{BindAddress, Count, HostName, MachineSpec, MachineSpecError, PartError, UserName};

fn port(number: u16) -> Option<NonZeroU16> {
    NonZeroU16::new(number)
}

fn refused(line: &str) -> String {
    line.parse::<MachineSpec>().unwrap_err().to_string()
}

fn hosts() -> impl Strategy<Value = HostName> {
    let names = "[A-Za-z0-9._][A-Za-z0-9._-]{0,30}".prop_map(|name| name.parse().unwrap());
    let zones = proptest::option::of("[a-z][a-z0-9]{0,8}");
    let addresses = (any::<[u16; 8]>(), zones).prop_map(|(groups, zone)| {
        let zone = zone.map_or_else(String::new, |zone| format!("%{zone}"));
        format!("[{}{zone}]", Ipv6Addr::from(groups)).parse().unwrap()
    });
    prop_oneof![names, addresses]
}

fn ports() -> impl Strategy<Value = Option<NonZeroU16>> {
    any::<u16>().prop_map(NonZeroU16::new)
}

fn machines() -> impl Strategy<Value = MachineSpec> {
    let counts = prop_oneof![
        Just(Count::Auto),
        Just(Count::ONE),
        any::<NonZeroU16>().prop_map(Count::Exactly)
    ];
    let users = "[A-Za-z0-9._+@][A-Za-z0-9._+@-]{0,20}".prop_map(|name| name.parse::<UserName>().unwrap());
    let binds = (hosts(), ports()).prop_map(|(host, port)| BindAddress { host, port });
    let optional = (proptest::option::of(users), proptest::option::of(binds));
    (counts, hosts(), ports(), optional).prop_map(|(count, host, port, (user, bind))| MachineSpec {
        count,
        user,
        host,
        port,
        bind,
    })
}

proptest! {
    #[test]
    fn jclust_02_a_machine_is_read_as_it_was_written(machine in machines()) {
        prop_assert_eq!(machine.to_string().parse::<MachineSpec>(), Ok(machine));
    }

    #[test]
    fn jclust_02_files_are_read_line_by_line(machines in proptest::collection::vec(machines(), 0..20)) {
        let mut file = "\u{feff}# ours\r\n".to_owned();
        for machine in &machines {
            file += &format!("\n \t\n\t{machine}  # a comment, 4*x\r\n");
        }
        prop_assert_eq!(MachineSpec::parse_file(&file), Ok(machines));
    }

    #[test]
    fn jclust_03_any_text_is_a_machine_or_an_error_that_quotes_it(line in "[a0\u{e9}*@:\\[\\]# .%-]{0,40}|[^\r\n]{0,80}") {
        match line.parse::<MachineSpec>() {
            Ok(machine) => prop_assert_eq!(machine.to_string().parse::<MachineSpec>(), Ok(machine)),
            Err(error) => prop_assert!(error.to_string().starts_with("line 1, `")),
        }
    }
}

#[test]
fn jclust_02_what_a_line_leaves_out_has_its_default() {
    let machine: MachineSpec = "gpu0".parse().unwrap();
    assert_eq!(machine, MachineSpec::new("gpu0".parse().unwrap()));
    assert_eq!(
        (machine.count, machine.user, machine.port, machine.bind),
        (Count::ONE, None, None, None)
    );
    let machine: MachineSpec = "2*ada@gpu1:2222 10.0.0.7:4711".parse().unwrap();
    assert_eq!(machine.count, Count::Exactly(port(2).unwrap()));
    assert_eq!(machine.user.unwrap().as_str(), "ada");
    assert_eq!((machine.host.as_str(), machine.port), ("gpu1", port(2222)));
    let bind = machine.bind.unwrap();
    assert_eq!((bind.host.as_str(), bind.port), ("10.0.0.7", port(4711)));
}

#[test]
fn jclust_03_addresses_of_ipv6_stand_in_brackets() {
    let machine: MachineSpec = "4*ada@[fe80::1%eth0]:2222 [::1]:99".parse().unwrap();
    assert_eq!(
        (machine.host.as_str(), machine.port),
        ("fe80::1%eth0", port(2222))
    );
    assert_eq!(machine.bind.unwrap().host.as_str(), "::1");
    for line in ["fe80::1", "[fe80::1", "[gpu0]", "[::1%]", "[::1%-x]", "[]"] {
        let error = line.parse::<MachineSpec>().unwrap_err();
        assert!(matches!(error.part, PartError::Ipv6(_)), "{error}");
    }
}

#[test]
fn jclust_03_a_wrong_line_is_quoted_with_its_number_its_part_and_a_remedy() {
    let error = MachineSpec::parse_file("# ours\n\ngpu0\n 4*ada@gpu1:65536 \ngpu2:0").unwrap_err();
    let text = "4*ada@gpu1:65536".to_owned();
    let part = PartError::Port("65536".to_owned());
    assert_eq!(error, MachineSpecError { line: 4, text, part });
    let shown = "line 4, `4*ada@gpu1:65536`: `65536` is no port: write a number from 1 to 65535";
    assert_eq!(error.to_string(), shown);
}

#[test]
fn jclust_03_every_part_that_is_wrong_is_named() {
    for (line, part) in [
        ("", "there is no machine"),
        ("  # gpu0", "there is no machine"),
        ("gpu0:0", "`0` is no port"),
        ("gpu0:", "`` is no port"),
        ("gpu0:+22", "`+22` is no port"),
        ("gpu0:ssh", "`ssh` is no port"),
        ("[::1]:65536", "`65536` is no port"),
        ("[::1]22", "`22` is no port"),
        ("gpu0 10.0.0.7:0", "`0` is no port"),
        ("0*gpu0", "`0` is no count"),
        ("-1*gpu0", "`-1` is no count"),
        ("65536*gpu0", "`65536` is no count"),
        ("Auto*gpu0", "`Auto` is no count"),
        ("*gpu0", "`` is no count"),
        ("2*3*gpu0", "`3*gpu0` is no host"),
        ("@gpu0", "`` is no user"),
        ("a;b@gpu0", "`a;b` is no user"),
        ("-l@gpu0", "`-l` is no user"),
        ("2*", "`` is no host"),
        ("gpu$(id)", "`gpu$(id)` is no host"),
        ("-oProxyCommand=id", "`-oProxyCommand=id` is no host"),
        ("gpü0", "`gpü0` is no host"),
        ("gpu0 -x", "`-x` is no host"),
        ("gpu0 10.0.0.7 gpu1", "`gpu1` is a word too many"),
    ] {
        let error = refused(line);
        assert!(error.contains(part), "{line:?}: {error}");
    }
}

#[test]
fn jclust_03_an_error_neither_repeats_a_long_line_nor_its_control_characters() {
    let error = refused(&format!("\u{1b}[2Jgpu{}", "0".repeat(100_000)));
    assert!(error.len() < 1000 && !error.contains('\u{1b}'), "{error}");
}

#[test]
fn jmgr_15_auto_is_one_worker_a_core() {
    let cores = |cores| NonZeroUsize::new(cores).unwrap();
    let four: Count = "4".parse().unwrap();
    assert_eq!(four.on(cores(64)).get(), 4);
    assert_eq!(Count::Auto.on(cores(64)).get(), 64);
    assert_eq!(Count::Auto.on(cores(100_000)), NonZeroU16::MAX);
    assert_eq!(Count::default(), Count::ONE);
}
