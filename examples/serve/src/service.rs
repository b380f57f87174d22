//! The service: its addresses and their handlers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderValue, Method, StatusCode, Uri, Version, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use selvedge::{BoxError, Graph};
use selvedge_batching::{Batcher, Batching, ContinuousBatcher, OnBroken, Stats, SubmitOptions};
use selvedge_llama::step::{Batch, Sampled};
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::body::BodyLimit;
use crate::classify::{self, Image, Scores};
use crate::error::{Error, json_type};
use crate::failure::told;
use crate::fields::Fields;
use crate::generation::{Delivery, Generation};
use crate::mailbox::mailbox;
use crate::metrics::{Metrics, Page};
use crate::process::holdings;
use crate::prompts::{Encoder, PromptLimits, Prompts};
use crate::sequence::Text;
use crate::shape::{Kind, Shape, now};
use crate::supervise::{Build, Built, Crew, supervise};
use crate::template::Template;
use crate::vocabulary::Vocabulary;
use crate::{chat, completion};

/// The graph of a language model.
pub type TextGraph = Graph<Batch, Vec<Sampled>>;
/// A function that builds it.
pub type TextBuild = Arc<dyn Build<Batch, Vec<Sampled>>>;
/// A function that builds the graph of the classifier.
pub type ClassifierBuild = Arc<dyn Build<Vec<Image>, Vec<Scores>>>;

/// The language model of the service.
pub struct Model {
    /// The name of the model in requests.
    pub name: String,
    /// The tokens of the model.
    pub vocabulary: Arc<dyn Vocabulary>,
    /// The template that turns messages into prompts.
    pub template: Template,
    /// The longest prompt and answer together, in positions.
    pub positions: u32,
    /// The function that builds its graph.
    pub build: TextBuild,
    /// The function that builds the graph of the digits' classifier, if it is served too.
    pub classifier: Option<ClassifierBuild>,
}

/// The limits of the service.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The texts in flight at once; the model has a cache for each.
    pub slots: usize,
    /// The requests that may wait.
    pub queue: usize,
    /// The most tokens of a step: longer prompts are cut.
    pub step_tokens: usize,
    /// The time that a step of several texts should take, if it matters: prompts beside other texts are cut to fit.
    pub step_goal: Option<Duration>,
    /// The steps in flight at once.
    pub inflight: usize,
    /// The time that a request may wait.
    pub wait: Duration,
    /// The time that a step may take.
    pub step_time: Duration,
    /// The time that an answer may take from its first step on; it then ends with the text so far.
    pub answer_time: Duration,
    /// The limits of a request's body.
    pub body: BodyLimit,
}

impl Default for Limits {
    /// Returns 8 slots, a queue of 64, steps of 256 tokens that should take 1 s, one step in flight, 60 s to wait, 30 s
    /// a step, and ten minutes an answer.
    fn default() -> Self {
        Limits {
            slots: 8,
            queue: 64,
            step_tokens: 256,
            step_goal: Some(Duration::from_secs(1)),
            inflight: 1,
            wait: Duration::from_secs(60),
            step_time: Duration::from_secs(30),
            answer_time: Duration::from_secs(600),
            body: BodyLimit::default(),
        }
    }
}

/// A running service.
pub struct Service {
    name: String,
    vocabulary: Arc<dyn Vocabulary>,
    prompts: Prompts,
    template: Template,
    positions: u32,
    limits: Limits,
    texts: Arc<ContinuousBatcher<Text>>,
    digits: Option<Arc<Batcher<Image, Scores>>>,
    crew: Arc<Crew>,
    metrics: Arc<Metrics>,
    draining: AtomicBool,
    started: u64,
}

impl Service {
    /// Builds the graphs and begins to supervise them. Call it within a tokio runtime; it blocks during the build.
    ///
    /// # Errors
    /// The error of the first build.
    pub fn start(model: Model, limits: Limits) -> Result<Arc<Service>, BoxError> {
        let metrics = Arc::new(Metrics::default());
        let Built { graph, actors } = model.build.build()?;
        let crew = Crew::new(actors);
        let options = options(&limits)
            .named("texts")
            .max_size(limits.slots)
            .max_cost(limits.step_tokens);
        let options = match limits.step_goal {
            Some(goal) => options.step_goal(goal),
            None => options,
        };
        // A text ends by itself when its time is over, with what it has: the batcher would drop that.
        let options = options
            .max_inflight(limits.inflight)
            .timeout(limits.step_time)
            .max_stay(Duration::MAX);
        let texts = Arc::new(Batcher::continuous(graph, options)?);
        supervise(&texts, Arc::clone(&crew), model.build, Arc::clone(&metrics));

        let digits = match model.classifier {
            Some(build) => Some(classifier(build, &limits, &metrics)?),
            None => None,
        };
        let encoder = Encoder::new(Arc::clone(&model.vocabulary), model.positions);
        let prompts = Prompts::new(encoder, PromptLimits::of_queue(limits.queue, limits.wait));
        Ok(Arc::new(Service {
            name: model.name,
            vocabulary: model.vocabulary,
            prompts,
            template: model.template,
            positions: model.positions,
            limits,
            texts,
            digits,
            crew,
            metrics,
            draining: AtomicBool::new(false),
            started: now(),
        }))
    }

    /// Returns the router of all addresses.
    pub fn router(self: &Arc<Self>) -> Router {
        Router::new()
            .route("/v1/completions", post(completions))
            .route("/v1/chat/completions", post(chats))
            .route("/v1/classify", post(classifications))
            .route("/v1/models", get(models))
            .route("/v1/models/{*name}", get(model))
            .route("/health", get(health))
            .route("/metrics", get(metrics))
            .fallback(nowhere)
            .method_not_allowed_fallback(not_so)
            .layer(middleware::from_fn_with_state(Arc::clone(self), counted))
            .with_state(Arc::clone(self))
    }

    /// Returns the counters of the texts' batcher.
    pub fn stats(&self) -> Stats {
        self.texts.stats()
    }

    /// Returns the worker processes of the language model.
    pub fn pids(&self) -> Vec<u32> {
        self.crew.pids()
    }

    /// Announces to `/health` and to all new requests that the service ends; requests in flight continue.
    pub fn drain(&self) {
        // Relaxed: a flag that orders nothing.
        self.draining.store(true, Ordering::Relaxed);
    }

    /// Answers the requests that are left and ends the graphs with their actors. It blocks, for at most `within`.
    pub fn close(&self, within: Duration) {
        let deadline = Instant::now() + within;
        self.prompts.close();
        self.texts.close(within);
        if let Some(digits) = &self.digits {
            digits.close(deadline.saturating_duration_since(Instant::now()));
        }
        self.crew.dismiss();
    }

    fn submit(&self, kind: Kind, fields: &Fields, prompt: Vec<u32>, since: Instant) -> Result<Answer, Error> {
        let delivery = Delivery::read(fields)?;
        let generation = Generation::read(fields, prompt, self.positions)?;
        let tokens = generation.prompt.len();
        let (sender, receiver) = mailbox();
        let (vocabulary, metrics) = (Arc::clone(&self.vocabulary), Arc::clone(&self.metrics));
        let text = Text::new(generation, vocabulary, metrics, sender, self.limits.answer_time);
        let accepted = self.texts.try_submit(text, SubmitOptions::new());
        let ticket = accepted.map_err(|refused| told(refused.error))?;
        self.metrics.prompt_tokens.add(tokens as u64);
        let shape = Shape::new(kind, &self.name, tokens, delivery.include_usage);
        Ok(Answer {
            receiver,
            ticket,
            ended: None,
            shape,
            delivery,
            metrics: Arc::clone(&self.metrics),
            since,
        })
    }

    /// Returns the names of all models.
    fn names(&self) -> impl Iterator<Item = &str> {
        let digits = self.digits.as_ref().map(|_| classify::MODEL);
        std::iter::once(self.name.as_str()).chain(digits)
    }

    /// Returns the JSON object of a model.
    fn model(&self, name: &str) -> Value {
        json!({"id": name, "object": "model", "created": self.started, "owned_by": "selvedge"})
    }

    fn is_draining(&self) -> bool {
        // Relaxed: a flag that orders nothing.
        self.draining.load(Ordering::Relaxed)
    }

    /// Reads the object in a body, and returns it with the body's length; a request that arrives after the service began
    /// to end is refused.
    async fn fields(&self, request: Request) -> Result<(Fields, usize), Error> {
        let late = self.is_draining();
        let body = self.limits.body.read(request).await?;
        if late {
            return Err(Error::ShuttingDown);
        }
        Ok((Fields::parse(&body)?, body.len()))
    }

    /// Reads the object in a body that asks for the language model.
    async fn asked(&self, request: Request) -> Result<(Arc<Fields>, usize), Error> {
        let (fields, length) = self.fields(request).await?;
        expect_model(fields.string("model")?, &self.name)?;
        Ok((Arc::new(fields), length))
    }
}

fn expect_model(asked: &str, known: &str) -> Result<(), Error> {
    if asked == known {
        return Ok(());
    }
    Err(Error::UnknownModel {
        asked: asked.to_owned(),
        known: known.to_owned(),
    })
}

fn options(limits: &Limits) -> Batching {
    Batching::new()
        .queue(limits.queue)
        .max_wait(limits.wait)
        .on_broken(OnBroken::Keep)
}

fn classifier(
    build: ClassifierBuild,
    limits: &Limits,
    metrics: &Arc<Metrics>,
) -> Result<Arc<Batcher<Image, Scores>>, BoxError> {
    let Built { graph, actors } = build.build()?;
    let options = options(limits)
        .named("digits")
        .max_size(64)
        .timeout(limits.step_time);
    let digits = Arc::new(Batcher::new(graph, options)?);
    supervise(&digits, Crew::new(actors), build, Arc::clone(metrics));
    Ok(digits)
}

type Shared = State<Arc<Service>>;

async fn completions(State(service): Shared, request: Request) -> Result<Response, Error> {
    let since = Instant::now();
    let (fields, length) = service.asked(request).await?;
    let its = Arc::clone(&fields);
    let prompt = move |encoder: &Encoder| completion::prompt(&its, encoder);
    let prompt = service.prompts.convert(length, prompt).await?;
    Ok(service
        .submit(Kind::Completion, &fields, prompt, since)?
        .respond()
        .await)
}

async fn chats(State(service): Shared, request: Request) -> Result<Response, Error> {
    let since = Instant::now();
    let (fields, length) = service.asked(request).await?;
    let (its, template) = (Arc::clone(&fields), service.template);
    let prompt = move |encoder: &Encoder| {
        let prompt = template.prompt(&chat::messages(&its)?)?;
        encoder.encode("messages", &prompt)
    };
    let prompt = service.prompts.convert(length, prompt).await?;
    Ok(service
        .submit(Kind::Chat, &fields, prompt, since)?
        .respond()
        .await)
}

async fn classifications(State(service): Shared, request: Request) -> Result<Response, Error> {
    let Some(digits) = &service.digits else {
        return Err(Error::NoSuchPath(request.uri().path().to_owned()));
    };
    let (fields, _) = service.fields(request).await?;
    if fields.get("model").is_some() {
        expect_model(fields.string("model")?, classify::MODEL)?;
    }
    let image = classify::image(&fields)?;
    let scores = digits.submit(image).await.map_err(told)?;
    Ok(answer(&classify::object(&scores)))
}

async fn models(State(service): Shared) -> Response {
    let all: Vec<_> = service.names().map(|name| service.model(name)).collect();
    answer(&json!({"object": "list", "data": all}))
}

async fn model(State(service): Shared, Path(asked): Path<String>) -> Result<Response, Error> {
    let found = service.names().find(|name| *name == asked);
    let unknown = || Error::UnknownModel {
        asked: asked.clone(),
        known: service.name.clone(),
    };
    Ok(answer(&service.model(found.ok_or_else(unknown)?)))
}

async fn health(State(service): Shared) -> Response {
    let broken = service.texts.broken().is_some()
        || service
            .digits
            .as_ref()
            .is_some_and(|digits| digits.broken().is_some());
    let (status, word) = match (service.is_draining(), broken) {
        (true, _) => (StatusCode::SERVICE_UNAVAILABLE, "draining"),
        (false, true) => (StatusCode::SERVICE_UNAVAILABLE, "rebuilding"),
        (false, false) => (StatusCode::OK, "ok"),
    };
    (
        status,
        answer(&json!({"status": word, "workers": service.pids()})),
    )
        .into_response()
}

async fn metrics(State(service): Shared) -> Response {
    let mut page = Page::default();
    service.metrics.write(&mut page);
    let digits = service.digits.as_ref().map(|digits| ("digits", digits.stats()));
    let batchers: Vec<_> = std::iter::once(("texts", service.texts.stats()))
        .chain(digits)
        .collect();
    crate::figures::batchers(&mut page, &batchers);
    let workers: Vec<_> = service.pids().into_iter().map(holdings).collect();
    crate::figures::processes(&mut page, holdings(std::process::id()), &workers);
    let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    ([(header::CONTENT_TYPE, kind)], page.into_text()).into_response()
}

async fn nowhere(uri: Uri) -> Error {
    Error::NoSuchPath(uri.path().to_owned())
}

async fn not_so(method: Method) -> Error {
    Error::Method(method.to_string())
}

async fn counted(State(service): Shared, request: Request, next: Next) -> Response {
    let path = known(request.uri().path());
    let hosts = request.headers().get_all(header::HOST).iter().count();
    let response = match request.version() {
        Version::HTTP_11 if hosts != 1 => Error::Host(hosts).into_response(),
        _ => next.run(request).await,
    };
    service.metrics.answered(path, response.status().as_u16());
    response
}

/// Returns a path as a label. All unknown paths share one label, so that clients cannot fill the memory with labels.
fn known(path: &str) -> &'static str {
    let paths = [
        "/v1/completions",
        "/v1/chat/completions",
        "/v1/classify",
        "/v1/models",
        "/health",
        "/metrics",
    ];
    let path = match path.starts_with("/v1/models/") {
        true => "/v1/models",
        false => path,
    };
    paths.into_iter().find(|it| *it == path).unwrap_or("other")
}

fn answer(value: &Value) -> Response {
    (json_type(), value.to_string()).into_response()
}
