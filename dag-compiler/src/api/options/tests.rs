use super::*;

fn from(variables: &[(&str, &str)]) -> Result<Options, String> {
    let find = |name: &str| {
        variables
            .iter()
            .find(|(key, _)| *key == name)
            .map(|(_, value)| (*value).to_owned())
    };
    Options::from_lookup(find)
}

#[test]
fn dag_52_the_environment_overrides_defaults() {
    let options = from(&[
        ("SELVEDGE_MAX_INFLIGHT", "3"),
        ("SELVEDGE_BUFFER_BYTES", " 2000 "),
        ("SELVEDGE_MAX_PAYLOAD_BYTES", "4000"),
        ("SELVEDGE_TIMEOUT_MS", "250"),
        ("SELVEDGE_TEARDOWN_TIMEOUT_MS", "4000"),
        ("SELVEDGE_TRACE", "7"),
        ("SELVEDGE_SUBMIT_TIMEOUT_MS", ""),
    ])
    .unwrap();
    let settings = options.settings();
    assert_eq!(
        (settings.max_inflight, settings.slots),
        (3, 3),
        "a slot per execution in flight (BUF-07)"
    );
    assert_eq!(
        (settings.slot_bytes, settings.max_bytes, settings.trace_events),
        (2000, 4000, 7)
    );
    assert_eq!(options.timeout_value(), Some(Duration::from_millis(250)));
    assert_eq!(options.teardown_timeout_value(), Duration::from_secs(4));
    assert_eq!(
        options.submit_timeout_value(),
        Some(Duration::from_secs(10)),
        "empty is the default"
    );
}

#[test]
fn dag_52_off_means_off() {
    for off in ["false", "off", "-1"] {
        assert_eq!(
            from(&[("SELVEDGE_TIMEOUT_MS", off)]).unwrap().timeout_value(),
            None,
            "{off}"
        );
    }
    for off in ["false", "off", "0"] {
        assert_eq!(
            from(&[("SELVEDGE_TRACE", off)]).unwrap().settings().trace_events,
            0,
            "{off}"
        );
    }
    assert_eq!(
        from(&[("SELVEDGE_TIMEOUT_MS", "0")]).unwrap().timeout_value(),
        Some(Duration::ZERO)
    );
}

#[test]
fn dag_52_what_is_no_number_is_named() {
    assert!(
        from(&[("SELVEDGE_TRACE", "yes")])
            .unwrap_err()
            .contains("SELVEDGE_TRACE is `yes`")
    );
    assert!(
        from(&[("SELVEDGE_MAX_INFLIGHT", "-2")])
            .unwrap_err()
            .contains("SELVEDGE_MAX_INFLIGHT is -2")
    );
}

#[test]
fn dag_52_chan_04_a_time_that_is_none_is_refused_by_name() {
    for (name, value) in [
        ("SELVEDGE_TIMEOUT_MS", "-5"),
        ("SELVEDGE_SUBMIT_TIMEOUT_MS", "-2"),
        ("SELVEDGE_TEARDOWN_TIMEOUT_MS", "-5"),
        ("SELVEDGE_TEARDOWN_TIMEOUT_MS", "off"),
        ("SELVEDGE_TEARDOWN_TIMEOUT_MS", "-1"),
        ("SELVEDGE_TIMEOUT_MS", "1.5"),
    ] {
        let refused = from(&[(name, value)]).unwrap_err();
        assert!(refused.contains(name), "{name}={value}: {refused}");
    }
}

#[test]
fn every_variable_that_options_read_is_a_known_one() {
    let read = std::cell::RefCell::new(Vec::new());
    let _ = Options::from_lookup(|name| {
        read.borrow_mut().push(name.to_owned());
        None
    })
    .unwrap();
    let read = read.into_inner();
    assert_eq!(read.len(), 8);
    for name in read {
        assert!(selvedge_core::flags::is_variable(&name), "{name}");
    }
}

#[test]
fn chan_19_every_bound_is_checked_and_named() {
    assert_eq!(Options::new().out_of_bounds(), None);
    for (options, name) in [
        (Options::new().max_inflight(0), "max_inflight"),
        (Options::new().max_inflight((1 << 20) + 1), "max_inflight"),
        (Options::new().max_buffered(0), "max_buffered"),
        (Options::new().slots(0), "slots"),
        (Options::new().buffer_bytes(999), "buffer_bytes"),
        (Options::new().max_payload_bytes(65_535), "max_payload_bytes"),
        (Options::new().trace(1 << 25), "trace"),
    ] {
        let found = options.out_of_bounds().unwrap();
        assert!(found.contains(&format!("`{name}`")), "{found}");
    }
}

#[test]
fn dag_34_a_time_out_too_long_for_a_clock_is_without_end() {
    let options = Options::new()
        .timeout(Duration::MAX)
        .submit_timeout(Duration::MAX)
        .teardown_timeout(Duration::MAX);
    assert_eq!(
        (options.timeout_value(), options.submit_timeout_value()),
        (None, None)
    );
    assert!(
        std::time::Instant::now()
            .checked_add(options.teardown_timeout_value())
            .is_some()
    );
}
