//! Runs the program as a user does: the model that comes with the repository, in two stages, each in its own process.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that cannot set up has failed"
)]

use std::path::Path;
use std::time::Duration;

use selvedge_examples::data::Digits;
use selvedge_examples::model::{Mlp, classes};
use selvedge_examples::weights::shipped_weights;
use selvedge_llama::alphabet;
use selvedge_serve::load::client::Client;
use selvedge_serve::load::server::{Samples, Server, kill, model, workers};
use serde_json::{Value, json};

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
