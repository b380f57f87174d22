//! Runs the program as a user does: the model that comes with the repository, in two stages, each in its own process.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that cannot set up has failed"
)]

use std::path::Path;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use selvedge_examples::data::Digits;
use selvedge_examples::model::{Mlp, classes};
use selvedge_examples::weights::shipped_weights;
use selvedge_llama::alphabet;
use selvedge_serve::load::client::Client;
use selvedge_serve::load::server::{Samples, Server, kill, model, workers};
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(60);

async fn chat(client: &Client, text: &str) -> (u16, Value) {
    let messages = json!([{"role": "user", "content": text}]);
    let body =
        json!({"model": "digits-llama", "messages": messages, "temperature": 0.8, "top_p": 0.9, "seed": 7});
    let (status, text) = client
        .post("/v1/chat/completions", body.to_string())
        .await
        .unwrap();
    (status, serde_json::from_str(&text).unwrap())
}

/// Returns the digit that the perceptron recognises in a drawing.
fn seen(drawing: &str) -> Option<u8> {
    let pixels = alphabet::pixels(drawing)?;
    let pixels: Vec<f32> = pixels.iter().map(|pixel| f32::from(*pixel) / 16.0).collect();
    let logits = Mlp::load(&shipped_weights()).unwrap().logits(&pixels).unwrap();
    classes(&logits).first().copied()
}

/// Checks that most of the drawn digits are the requested ones.
async fn draws(client: &Client) {
    let mut right = 0;
    for digit in 0..4 {
        let (status, answer) = chat(client, &format!("Draw a {digit}.")).await;
        assert_eq!(status, 200, "{answer}");
        let drawing = answer["choices"][0]["message"]["content"].as_str().unwrap();
        assert_eq!(answer["choices"][0]["finish_reason"], "stop", "\n{drawing}");
        right += usize::from(seen(drawing) == Some(digit));
    }
    assert!(right >= 2, "{right} of 4");
}

/// The model's first file is a pipe that never ends, so the program loads until it is told to end.
#[tokio::test]
async fn a_signal_ends_it_while_it_loads() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("endless {}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    let pipe = folder.join("tokenizer.json");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_serve"));
    command.args(["--listen", "127.0.0.1:0", "--model"]).arg(&folder);
    let mut child = command.kill_on_drop(true).spawn().unwrap();
    // The pipe opens when the program opens it, too.
    let open = move || std::fs::OpenOptions::new().write(true).open(pipe);
    let opened = tokio::task::spawn_blocking(open);
    let held = tokio::time::timeout(PATIENCE, opened)
        .await
        .unwrap()
        .unwrap()
        .unwrap();
    let pid = Pid::from_raw(i32::try_from(child.id().unwrap()).unwrap()).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
    let status = tokio::time::timeout(PATIENCE, child.wait())
        .await
        .unwrap()
        .unwrap();
    assert!(status.success(), "{status}");
    drop(held);
    std::fs::remove_dir_all(&folder).unwrap();
}

#[tokio::test]
async fn a_taken_port_is_an_error_before_the_model_is_loaded() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_serve"));
    // There is no such model, so the error shows which came first.
    command.args(["--listen", &address, "--model", "/no/such/model"]);
    let output = command.kill_on_drop(true).output();
    let output = tokio::time::timeout(PATIENCE, output).await.unwrap().unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && error.contains(&address), "{error}");
}

#[tokio::test]
async fn it_draws_and_reads_digits_and_outlives_the_death_of_a_rank() {
    let arguments = ["--pipeline", "2", "--slots", "4"].map(str::to_owned);
    let program = Path::new(env!("CARGO_BIN_EXE_serve"));
    let server = Server::start_program(program, &arguments).await.unwrap();
    let client = Client::new(server.address.clone());
    assert_eq!(model(&client).await.unwrap(), "digits-llama");
    draws(&client).await;

    let digits = Digits::load().unwrap();
    let rows = digits.held_out().take(8);
    let read = async |row: usize| {
        let picture = alphabet::picture(digits.image(row).unwrap());
        let (status, answer) = chat(&client, &format!("Read this:\n{picture}")).await;
        assert_eq!(status, 200, "{answer}");
        let said = answer["choices"][0]["message"]["content"].as_str().unwrap();
        alphabet::digit(said) == digits.label(row)
    };
    let mut right = 0;
    for row in rows {
        right += usize::from(read(row).await);
    }
    assert!(right >= 6, "{right} of 8");

    let before = workers(&client).await.unwrap();
    assert_eq!(before.len(), 2);
    kill(before[1]);
    let limit = tokio::time::Instant::now() + Duration::from_secs(60);
    while Samples::read(&client)
        .await
        .unwrap()
        .get("selvedge_rebuilds_total")
        < 1.0
    {
        assert!(tokio::time::Instant::now() < limit, "it is not rebuilt");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    draws(&client).await;
    let after = workers(&client).await.unwrap();
    let gone = |pid: &u32| !Path::new(&format!("/proc/{pid}")).exists();
    assert!(before.iter().all(gone), "those of the first build");
    assert!(server.end().await.unwrap(), "it ends by itself, and well");
    assert!(after.iter().all(gone), "those of the second");
}
