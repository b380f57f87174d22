//! The service's command line.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use selvedge::Placement;
use selvedge_llama::deployment::Layout;
use selvedge_llama::folder::shipped;
use serde_json::json;

use crate::body::BodyLimit;
use crate::listen::Connections;
use crate::service::Limits;
use crate::template::Template;

/// Serves a language model over HTTP, in the shape of OpenAI's interface.
#[derive(Clone, Debug, Parser)]
#[command(name = "serve")]
pub struct Arguments {
    /// The address to listen on; port 0 takes a free one
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:8080")]
    pub listen: SocketAddr,
    /// A directory with the model files as Hugging Face lays them out
    #[arg(long, value_name = "DIR", default_value_os_t = shipped())]
    pub model: PathBuf,
    /// The model's name in requests; else that of its directory, and `digits-llama` for the one that comes with the repository
    #[arg(long)]
    pub name: Option<String>,
    /// The way in which messages become prompts: digits or plain; else digits for the model that comes with the
    /// repository
    #[arg(long)]
    pub template: Option<Template>,
    /// How many stages the layers are cut into
    #[arg(long, value_name = "P", default_value_t = 1)]
    pub pipeline: usize,
    /// How many ranks share every layer
    #[arg(long, value_name = "T", default_value_t = 1)]
    pub tensor: usize,
    /// The place of stages and ranks: thread or process
    #[arg(long, default_value_t = Placement::Process)]
    pub placement: Placement,
    /// Keep every stage and rank to a core of its own
    #[arg(long)]
    pub pin: bool,
    /// Texts that are continued at the same time
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = at_least_one)]
    pub slots: usize,
    /// The longest prompt and answer together; else what the model was made for
    #[arg(long, value_name = "N")]
    pub positions: Option<usize>,
    /// Requests that may wait; what comes beyond is answered 429
    #[arg(long, value_name = "N", default_value_t = 64)]
    pub queue: usize,
    /// Tokens of one step at most; longer prompts are cut
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = at_least_one)]
    pub step_tokens: usize,
    /// How many milliseconds a step of several texts should take: prompts beside others are cut to fit; 0 cuts by tokens alone
    #[arg(long, value_name = "MS", default_value_t = 1000)]
    pub step_goal: u64,
    /// Steps under way at the same time; else one for every stage
    #[arg(long, value_name = "N")]
    pub inflight: Option<usize>,
    /// How many seconds a request may wait
    #[arg(long, value_name = "S", default_value_t = 60)]
    pub wait: u64,
    /// How many seconds a step may take before the model is given up and rebuilt
    #[arg(long, value_name = "S", default_value_t = 30)]
    pub step_time: u64,
    /// How many seconds an answer may take from its first step on; it then ends with the text so far, as if it had reached
    /// its length
    #[arg(long, value_name = "S", default_value_t = 600)]
    pub answer_time: u64,
    /// Bytes of a request's body at most
    #[arg(long, value_name = "N", default_value_t = 1 << 20)]
    pub body: usize,
    /// Connections at the same time
    #[arg(long, value_name = "N", default_value_t = 4096, value_parser = at_least_one)]
    pub connections: usize,
    /// How many seconds requests get to end when the service is told to
    #[arg(long, value_name = "S", default_value_t = 20)]
    pub grace: u64,
}

fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("must be at least 1".into()),
        Ok(number) => Ok(number),
        Err(_) => Err("not a whole number".into()),
    }
}

impl Arguments {
    /// Whether the model is the one that comes with the repository.
    pub fn is_shipped(&self) -> bool {
        self.model == shipped()
    }

    /// Returns the model's name in requests.
    pub fn name(&self) -> String {
        let own = || match self.is_shipped() {
            true => "digits-llama".to_owned(),
            false => self
                .model
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned(),
        };
        self.name.clone().unwrap_or_else(own)
    }

    /// Returns the template that turns messages into prompts.
    pub fn template(&self) -> Template {
        let usual = if self.is_shipped() {
            Template::Digits
        } else {
            Template::Plain
        };
        self.template.unwrap_or(usual)
    }

    /// Returns the layout of the model.
    pub fn layout(&self) -> Layout {
        Layout {
            pipeline: self.pipeline,
            tensor: self.tensor,
            placement: self.placement,
            slots: self.slots,
            positions: self.positions,
            pinned: self.pin,
            ..Layout::default()
        }
    }

    /// Returns the text to print when the service is ready, with an example of a request.
    pub fn greeting(&self, address: &str) -> String {
        let name = self.name();
        let text = match self.template() {
            Template::Digits => "Draw a 3.",
            Template::Plain => "Once upon a time",
        };
        let body = json!({"model": name, "stream": true, "messages": [{"role": "user", "content": text}]});
        let body = body.to_string().replace('\'', r"'\''");
        format!(
            "{name} listens on http://{address}, for example:\n\
             curl http://{address}/v1/chat/completions -d '{body}'"
        )
    }

    /// Returns the limits of the service.
    pub fn limits(&self) -> Limits {
        Limits {
            slots: self.slots,
            queue: self.queue,
            step_tokens: self.step_tokens,
            step_goal: (self.step_goal > 0).then(|| Duration::from_millis(self.step_goal)),
            inflight: self.inflight.unwrap_or(self.pipeline),
            wait: Duration::from_secs(self.wait),
            step_time: Duration::from_secs(self.step_time),
            answer_time: Duration::from_secs(self.answer_time),
            body: BodyLimit {
                bytes: self.body,
                ..BodyLimit::default()
            },
        }
    }

    /// Returns the limits of connections.
    pub fn connections(&self) -> Connections {
        Connections {
            most: self.connections,
            ..Connections::default()
        }
    }

    /// Returns the time that requests get to end.
    pub fn grace(&self) -> Duration {
        Duration::from_secs(self.grace)
    }
}
