//! Tests of `selvedge bench`, run as a user runs it.

#![allow(clippy::unwrap_used)] // a test may panic, and so may the functions that tests share

use std::process::Command;

use serde_json::Value;

fn rows(args: &[&str]) -> Vec<Value> {
    let done = Command::new(env!("CARGO_BIN_EXE_selvedge"))
        .args(args)
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{errors}");
    let text = String::from_utf8(done.stdout).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn limits_between_processes_are_one_json_object_a_line() {
    let rows = rows(&[
        "bench",
        "limits",
        "--placement",
        "process",
        "--payload",
        "4096",
        "--seconds",
        "0.05",
        "--json",
    ]);
    let limits: Vec<&str> = rows.iter().filter_map(|row| row["limit"].as_str()).collect();
    assert!(
        limits.contains(&"futex_unpinned") && limits.contains(&"futex_one_core"),
        "{limits:?}"
    );
    let two_cores = std::thread::available_parallelism().unwrap().get() > 1;
    assert_eq!(limits.contains(&"cache_line_two_lines"), two_cores, "{limits:?}");
    for row in &rows {
        assert_eq!(row["case"], "limits");
        assert!(
            row["p50_ns"].as_f64().unwrap() <= row["p99_ns"].as_f64().unwrap(),
            "{row}"
        );
    }
}

#[test]
fn a_way_to_wait_leaves_the_other_limits_out() {
    let rows = rows(&[
        "bench",
        "limits",
        "--placement",
        "thread",
        "--wait",
        "park",
        "--seconds",
        "0.05",
        "--json",
    ]);
    assert!(rows.iter().any(|row| row["wait"] == "park"));
    assert!(rows.iter().all(|row| row["wait"] != "spin"), "{rows:?}");
}

#[test]
fn nonsense_is_refused_with_the_bounds() {
    let done = Command::new(env!("CARGO_BIN_EXE_selvedge"))
        .args(["bench", "echo", "--payload", "0"])
        .output()
        .unwrap();
    assert_eq!(done.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&done.stderr).contains("0 is not in 1..="));
}

#[test]
fn limits_that_cannot_be_measured_are_an_error() {
    for placement in ["inline", "host"] {
        let done = Command::new(env!("CARGO_BIN_EXE_selvedge"))
            .args(["bench", "limits", "--placement", placement, "--seconds", "0.05"])
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&done.stderr);
        assert!(!done.status.success(), "{placement}");
        assert!(errors.contains(&format!("--placement {placement}")), "{errors}");
    }
}

#[test]
fn every_case_prints_its_fields_at_every_placement() {
    let fields = [
        "case",
        "placement",
        "wait",
        "actors",
        "payload_bytes",
        "iterations",
        "p50_ns",
        "p99_ns",
    ];
    let more = ["per_second", "bytes_per_second"];
    for case in ["echo", "chain", "fanout", "payload", "pipeline", "compile"] {
        for placement in ["inline", "thread", "process"] {
            let args = [
                "bench",
                case,
                "--placement",
                placement,
                "--wait",
                "park",
                "--seconds",
                "0.05",
                "--json",
            ];
            let sizes = ["--payload", "5000", "--actors", "2", "--tasks", "20"];
            let rows = rows(&[args.as_slice(), &sizes].concat());
            assert_eq!(
                rows.len(),
                if case == "compile" { 2 } else { 1 },
                "{case} {placement}"
            );
            for row in rows {
                assert_eq!(row["case"], case);
                assert_eq!(row["placement"], placement);
                assert!(
                    fields.iter().chain(&more).all(|field| row.get(field).is_some()),
                    "{row}"
                );
                assert!(row["iterations"].as_u64().unwrap() > 0, "{row}");
            }
        }
    }
}

#[test]
fn waiting_shows_every_loop_alone_and_beside_a_busy_process() {
    let rows = rows(&["bench", "waiting", "--starts", "2", "--json"]);
    let cores = std::thread::available_parallelism().unwrap().get();
    let mut seen = Vec::new();
    for row in &rows {
        let text = |field: &str| row[field].as_str().unwrap().to_owned();
        let number = |field: &str| row[field].as_f64().unwrap();
        seen.push((text("stage"), row["neighbours"].as_u64().unwrap(), text("wait")));
        assert_eq!(row["iterations"], 2, "one fresh start is one sample");
        assert!(
            0.0 < number("p50_ns") && number("p50_ns") <= number("p90_ns"),
            "{row}"
        );
        let ratio = number("p90_ns") / number("limit_ns");
        assert!((number("ratio") - ratio).abs() <= 0.01 + 0.01 * ratio, "{row}");
    }
    let all = [0, 1].into_iter().flat_map(|neighbours| {
        ["echo", "stage", "callers", "graphs", "together"]
            .into_iter()
            .flat_map(move |shape| {
                // The machine's bare exchange spins on two cores.
                let exchange = (neighbours == 0 && cores > 1).then_some("spin");
                let waits = ["auto", "park"].into_iter().chain(exchange);
                waits.map(move |wait| (shape.to_owned(), neighbours, wait.to_owned()))
            })
    });
    assert_eq!(seen, all.collect::<Vec<_>>());
}

#[test]
fn an_echo_stands_beside_the_limit_of_its_way_to_wait() {
    for (wait, limit) in [("spin", "cache_line_two_lines"), ("park", "futex_one_core")] {
        if wait == "spin" && std::thread::available_parallelism().unwrap().get() < 2 {
            continue;
        }
        let [row] = rows(&["bench", "echo", "--wait", wait, "--seconds", "0.1", "--json"])
            .try_into()
            .unwrap();
        assert_eq!(row["limit"], limit);
        assert!(
            row["limit_ns"].as_f64().unwrap() > 0.0 && row["ratio"].as_f64().unwrap() > 0.0,
            "{row}"
        );
    }
}

#[test]
fn an_inline_echo_has_no_limit() {
    let [row] = rows(&[
        "bench",
        "echo",
        "--placement",
        "inline",
        "--seconds",
        "0.05",
        "--json",
    ])
    .try_into()
    .unwrap();
    assert!(row.get("limit").is_none() && row.get("ratio").is_none(), "{row}");
}

#[test]
fn a_channel_stands_beside_its_limit_on_every_transport() {
    for transport in ["intra", "thread", "shm"] {
        for (mode, payload) in [("copy", "8"), ("copy", "5000"), ("loan", "5000"), ("stream", "8")] {
            let how = ["--transport", transport, "--mode", mode, "--payload", payload];
            let args = [
                "bench",
                "channel",
                "--seconds",
                "0.05",
                "--wait",
                "park",
                "--json",
            ];
            let [row] = rows(&[args.as_slice(), &how].concat()).try_into().unwrap();
            assert_eq!(row["mode"], mode);
            assert_eq!(row["placement"], transport);
            assert!(row["iterations"].as_u64().unwrap() > 0, "{row}");
            // No limit parks and carries a payload.
            let limited = mode != "stream" && transport != "intra" && (mode, payload) != ("copy", "5000");
            assert_eq!(row.get("ratio").is_some(), limited, "{row}");
        }
    }
    let [row] = rows(&[
        "bench",
        "channel",
        "--readers",
        "3",
        "--seconds",
        "0.05",
        "--json",
    ])
    .try_into()
    .unwrap();
    assert_eq!(row["readers"], 3);
}

#[test]
fn dag_02_a_graph_stands_beside_plain_calls_of_the_same_actors() {
    for placement in ["inline", "thread", "process"] {
        for payload in ["8", "5000"] {
            let mut args = vec!["bench", "calls", "--placement", placement, "--payload", payload];
            args.extend(["--actors", "3", "--seconds", "0.1", "--json"]);
            let [row] = rows(&args).try_into().unwrap();
            assert_eq!(
                (&row["case"], &row["limit"]),
                (&"calls".into(), &"plain_calls".into())
            );
            assert_eq!(
                (&row["placement"], &row["actors"]),
                (&placement.into(), &3.into())
            );
            let number = |field: &str| row[field].as_f64().unwrap();
            assert!(
                number("p50_ns") > 0.0 && number("limit_ns") > 0.0 && row["ratio"].is_f64(),
                "{row}"
            );
        }
    }
}

#[test]
fn remote_calls_stand_beside_a_bare_socket_an_echo_and_a_futex() {
    let rows = rows(&[
        "bench",
        "call",
        "--payload",
        "100000",
        "--seconds",
        "0.1",
        "--json",
    ]);
    let beside: Vec<_> = rows
        .iter()
        .map(|row| ["mode", "wait", "limit"].map(|field| row[field].as_str().unwrap_or_default()))
        .collect();
    let mut expected = vec![
        ["one", "auto", "socket"],
        ["one", "park", "socket"],
        ["tokio_postcard", "park", "socket"],
        ["one_apart", "auto", "socket"],
        ["tokio_postcard_apart", "park", "socket"],
        ["one", "auto", "echo"],
        ["one_two_cores", "park", "socket"],
        ["one_two_cores", "park", "futex"],
        ["tokio_postcard_two_cores", "park", "socket"],
        ["one_one_core", "park", "socket"],
        ["one_one_core", "park", "futex"],
        ["tokio_postcard_one_core", "park", "socket"],
        ["in_flight", "auto", ""],
        ["large", "auto", "socket"],
    ];
    if std::thread::available_parallelism().is_ok_and(|cores| cores.get() == 1) {
        expected.retain(|[mode, _, limit]| !mode.ends_with("_two_cores") && *limit != "echo");
    }
    assert_eq!(beside, expected);
    let [in_flight, large] = [2, 1].map(|from_end| &rows[rows.len() - from_end]);
    assert_eq!(in_flight["inflight"], 256);
    assert_eq!(large["payload_bytes"], 100_000);
    assert!(rows.iter().all(|row| row["p50_ns"].as_f64().unwrap() > 0.0));
}

#[test]
fn edges_to_another_host_park_and_spin_beside_bare_tcp() {
    let args = ["bench", "echo", "--placement", "host"];
    let more = ["--payload", "100000", "--seconds", "0.1", "--json"];
    let rows = rows(&[args.as_slice(), &more].concat());
    let found: Vec<_> = rows
        .iter()
        .map(|row| ["mode", "wait", "placement", "limit"].map(|field| row[field].as_str().unwrap()))
        .collect();
    let expected = ["park", "spin"]
        .map(|wait| ["edge", "edge_large"].map(|mode| [mode, wait, "host", "tcp"]))
        .concat();
    assert_eq!(found, expected);
}

#[test]
fn a_worker_over_tcp_stands_beside_bare_tcp() {
    let args = [
        "bench",
        "host",
        "--payload",
        "100000",
        "--seconds",
        "0.1",
        "--json",
    ];
    let rows = rows(&args);
    let modes: Vec<_> = rows.iter().map(|row| row["mode"].as_str().unwrap()).collect();
    let expected = ["one", "in_flight", "large", "edge", "edge_large", "spawn", "join"];
    assert_eq!(modes, expected);
    let limits: Vec<_> = rows.iter().map(|row| row["limit"].as_str()).collect();
    let tcp = Some("tcp");
    assert_eq!(limits, [tcp, None, tcp, tcp, tcp, None, None]);
    assert!(rows.iter().all(|row| row["p50_ns"].as_f64().unwrap() > 0.0));
}

#[test]
fn a_map_stands_beside_rayon() {
    let rows = rows(&["bench", "map", "--seconds", "0.1", "--json"]);
    let modes: Vec<_> = rows.iter().map(|row| row["mode"].as_str().unwrap()).collect();
    assert_eq!(modes, ["batched", "heavy"]);
    let limits: Vec<_> = rows.iter().map(|row| row["limit"].as_str()).collect();
    assert_eq!(limits, [None, Some("rayon")]);
    assert!(rows.iter().all(|row| row["p50_ns"].as_f64().unwrap() > 0.0));
}

#[test]
fn rser_09_objects_stand_beside_a_copy_and_a_call() {
    let rows = rows(&["bench", "objects", "--seconds", "0.05", "--json"]);
    let modes: Vec<_> = rows.iter().map(|row| row["mode"].as_str().unwrap()).collect();
    let large = ["put", "get", "get_anew", "get_there"];
    let calls = ["submitted", "wait", "wait_each"];
    let references = ["references", "references_get", "references_there"];
    assert_eq!(
        modes,
        [&["put"][..], &large, &large, &calls, &references].concat()
    );
    let limits: Vec<_> = rows.iter().filter_map(|row| row["limit"].as_str()).collect();
    assert_eq!(limits, ["memcpy", "call", "memcpy", "call"]);
    assert!(rows.iter().all(|row| row["p50_ns"].as_f64().unwrap() > 0.0));
}

#[test]
fn idle_inputs_stand_beside_one() {
    let rows = rows(&["bench", "idle", "--wait", "park", "--seconds", "0.05", "--json"]);
    let inputs: Vec<u64> = rows.iter().filter_map(|row| row["inputs"].as_u64()).collect();
    assert_eq!(inputs, [1, 10, 100, 1000]);
    assert!(
        rows.iter().all(|row| row["ratio"].as_f64().unwrap() > 0.0),
        "{rows:?}"
    );
    assert_eq!(rows[0]["ratio"], 1.0);
}

#[test]
fn an_allreduce_stands_beside_a_barrier_or_a_copy_of_the_same_ranks() {
    for (placement, ranks, payload, limit) in [
        ("thread", "2", "64", "barrier"),
        ("process", "3", "40000", "copy"),
    ] {
        let mut args = vec!["bench", "allreduce", "--placement", placement, "--ranks", ranks];
        args.extend(["--payload", payload, "--seconds", "0.1", "--json"]);
        if placement == "process" {
            args.push("--hot");
        }
        let rows = rows(&args);
        let modes: Vec<&str> = rows.iter().filter_map(|row| row["mode"].as_str()).collect();
        assert_eq!(modes, ["slot", "private"]);
        for row in &rows {
            assert_eq!(
                (&row["limit"], &row["placement"]),
                (&limit.into(), &placement.into())
            );
            assert_eq!(
                row["ranks"].as_u64().map(|ranks| ranks.to_string()),
                Some(ranks.to_owned())
            );
            assert_eq!(
                row["payload_bytes"].as_u64().map(|bytes| bytes.to_string()),
                Some(payload.to_owned())
            );
            assert!(
                row["p50_ns"].as_f64().unwrap() > 0.0 && row["ratio"].as_f64().unwrap() > 0.0,
                "{row}"
            );
        }
    }
}

/// Makes a folder with programs of these names and texts.
fn programs(name: &str, programs: &[(&str, &str)]) -> std::path::PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    for (name, text) in programs {
        let path = folder.join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    }
    folder
}

#[test]
fn private_vectors_stand_beside_the_better_way_of_open_mpi_in_the_same_run() {
    let mpirun = "#!/bin/sh\n[ \"$*\" = \"${*#*--bind-to core}\" ] && exit 7\n\
        echo '[{\"iterations\":9,\"p50_ns\":5e9,\"p90_ns\":5e9,\"p99_ns\":6e9,\"p999_ns\":7e9},\
        {\"iterations\":9,\"p50_ns\":4e9,\"p90_ns\":4e9,\"p99_ns\":8e9,\"p999_ns\":9e9}]'\n";
    let path = programs("mpi", &[("mpicc", "#!/bin/sh\nexit 0\n"), ("mpirun", mpirun)]);
    let done = Command::new(env!("CARGO_BIN_EXE_selvedge"))
        .args([
            "bench",
            "allreduce",
            "--peers",
            "--ranks",
            "1",
            "--payload",
            "65536",
        ])
        .args(["--seconds", "0.1", "--json"])
        .env("PATH", path)
        .output()
        .unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let text = String::from_utf8(done.stdout).unwrap();
    let rows: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let modes: Vec<&str> = rows.iter().filter_map(|row| row["mode"].as_str()).collect();
    assert_eq!(modes, ["private", "open_mpi_apart", "open_mpi_in_place"]);
    assert_eq!(
        (&rows[0]["limit"], &rows[0]["limit_ns"]),
        (&"open_mpi".into(), &4e9.into())
    );
    assert_eq!(
        (&rows[1]["p50_ns"], &rows[2]["p99_ns"]),
        (&5e9.into(), &8e9.into())
    );
    assert!(
        rows.iter()
            .all(|row| row["placement"] == "process" && row["payload_bytes"] == 65_536)
    );
}

#[test]
fn a_peer_that_is_not_there_is_told_with_where_it_comes_from() {
    let done = Command::new(env!("CARGO_BIN_EXE_selvedge"))
        .args(["bench", "allreduce", "--peers"])
        .env("PATH", programs("no_mpi", &[]))
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&done.stderr);
    assert!(
        !done.status.success() && errors.contains("mpicc") && errors.contains("libopenmpi-dev"),
        "{errors}"
    );
}
