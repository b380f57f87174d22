//! The table at a few points, with short measurements.
#![allow(missing_docs, clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)] // a test may panic

use std::process::Command;

#[test]
fn every_peer_has_its_row_and_the_plot_its_lines() {
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        return; // both sides of `auto` need a core of their own
    }
    let svg = std::env::temp_dir().join(format!("selvedge-peers-{}.svg", std::process::id()));
    let done = Command::new(env!("CARGO_BIN_EXE_selvedge-peers"))
        .args([
            "--seconds",
            "0.002",
            "--payload",
            "8,5000",
            "--wait",
            "park,auto",
            "--json",
        ])
        .args(["--readers", "1,2", "--mode", "copy,stream", "--svg"])
        .arg(&svg)
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success() && errors.is_empty(), "{errors}");
    let text = String::from_utf8(done.stdout).unwrap();
    let rows: Vec<serde_json::Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let has = |name: &str, point: &str| {
        let of =
            |row: &&serde_json::Value| row["name"] == name && row["point"].as_str().unwrap().contains(point);
        let row = rows
            .iter()
            .find(of)
            .unwrap_or_else(|| panic!("{name} at {point}: {text}"));
        let times = ["p50_ns", "p99_ns", "p999_ns"].map(|field| row[field].as_f64().unwrap());
        assert!(
            times.is_sorted() && times[0] > 0.0 && row["ours_over"].as_f64().unwrap() > 0.0,
            "{row}"
        );
    };
    for name in ["selvedge", "crossbeam-channel", "std mpsc", "tokio mpsc"] {
        has(name, "threads, park, 8 B, copied");
        has(name, "threads, auto, 5000 B");
        has(name, "2 readers");
    }
    for name in ["selvedge", "Unix socket", "pipe"] {
        has(name, "processes, park, 8 B, copied");
        has(name, "processes, auto, 8 B, one way");
    }
    let drawn = std::fs::read_to_string(&svg).unwrap();
    std::fs::remove_file(&svg).unwrap();
    assert!(drawn.starts_with("<svg") && drawn.ends_with("</svg>\n"));
}
