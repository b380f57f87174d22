//! The trials of the command `load`: one load, an overload with its verdict, or clients that go away.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper::Method;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::load::arguments::Arguments;
use crate::load::client::Client;
use crate::load::drive::{Load, Run, drive};
use crate::load::plot;
use crate::load::report::Report;
use crate::load::request::Ask;
use crate::load::server::{Samples, Server, kill, model, workers};

/// The numbers of clients that are tried to find the peak of a service.
const CLIENTS: [usize; 3] = [8, 16, 32];
/// The fraction of the peak that an overloaded service must still serve.
const KEPT: f64 = 0.9;
/// The growth of memory that is allowed under overload, in MiB.
const GROWTH: f64 = 64.0;
/// The time that a service may take to end all work for clients that have gone away.
const QUIET: Duration = Duration::from_secs(30);
/// The number of clients that go away at the same time.
const LEAVING: usize = 64;

/// The result of a trial.
pub struct Verdict {
    /// The text for users.
    pub text: String,
    /// The JSON for programs.
    pub value: Value,
    /// True if the service met all requirements.
    pub good: bool,
}

struct Trial<'a> {
    arguments: &'a Arguments,
    client: Arc<Client>,
    ask: Arc<Ask>,
}

/// Runs the trial that the arguments ask for.
///
/// # Errors
/// There is no service, or it ends too early.
pub async fn run(arguments: &Arguments) -> io::Result<Verdict> {
    let server = match &arguments.address {
        Some(_) => None,
        None => Some(Server::start(&arguments.serve).await?),
    };
    let address = server
        .as_ref()
        .map(|it| it.address.clone())
        .or(arguments.address.clone());
    let client = Arc::new(Client::new(address.unwrap_or_default()));
    let ask = Arc::new(Ask {
        model: model(&client).await?,
        prompt: arguments.prompt.clone(),
        max_tokens: arguments.max_tokens,
    });
    let trial = Trial {
        arguments,
        client,
        ask,
    };
    let mut verdict = match arguments {
        Arguments {
            leave: Some(clients), ..
        } => trial.leave(*clients).await?,
        Arguments { overload: true, .. } => trial.overload().await?,
        _ => trial.plain().await?,
    };
    if let Some(server) = server {
        let ended = server.end().await?;
        verdict.good &= ended;
        verdict.text.push_str(if ended {
            "\nended        by itself when told to"
        } else {
            "\nended        badly"
        });
    }
    Ok(verdict)
}

impl Trial<'_> {
    fn time(&self) -> Duration {
        Duration::from_secs(self.arguments.seconds)
    }

    async fn plain(&self) -> io::Result<Verdict> {
        let load = match self.arguments.rate {
            Some(rate) => Load::Rate(rate),
            None => Load::Clients(self.arguments.clients.unwrap_or(8)),
        };
        let run = self.loaded(load, self.time()).await?;
        let report = Report::of(&run);
        Ok(Verdict {
            text: report.to_string(),
            value: report.to_json(),
            good: report.whole > 0,
        })
    }

    /// Runs a load, with a kill half-way and a picture if the arguments ask for them.
    async fn loaded(&self, load: Load, time: Duration) -> io::Result<Run> {
        let victim = match self.arguments.kill {
            true => workers(&self.client).await?.first().copied(),
            false => None,
        };
        let killer = tokio::spawn(async move {
            sleep(time / 2).await;
            victim.into_iter().for_each(kill);
        });
        let run = drive(&self.client, &self.ask, load, time).await;
        killer.abort();
        if let Some(path) = &self.arguments.plot {
            let title = format!("{load:?} for {} s", time.as_secs());
            std::fs::write(path, plot::svg(&run, &title))?;
        }
        Ok(run)
    }

    async fn overload(&self) -> io::Result<Verdict> {
        let part = (self.time() / 6).max(Duration::from_secs(3));
        drive(&self.client, &self.ask, Load::Clients(8), Duration::from_secs(2)).await;
        let mut peak: Option<(usize, Report)> = None;
        for clients in CLIENTS {
            let report = Report::of(&drive(&self.client, &self.ask, Load::Clients(clients), part).await);
            let best = peak.as_ref().map_or(0.0, |(_, best)| best.tokens_per_second);
            if report.tokens_per_second > best {
                peak = Some((clients, report));
            }
        }
        let (clients, peak) = peak.ok_or_else(|| io::Error::other("the service answered nothing"))?;
        self.client.close_idle();
        let before = self.quiet().await?;
        let rate = 2.0 * peak.requests_per_second;
        let run = self.loaded(Load::Rate(rate), self.time()).await?;
        self.client.close_idle();
        let after = self.quiet().await?;
        Ok(self.judge((clients, &peak), &Report::of(&run), &before, &after))
    }

    fn judge(
        &self,
        (clients, peak): (usize, &Report),
        report: &Report,
        before: &Samples,
        after: &Samples,
    ) -> Verdict {
        let share = report.tokens_per_second / peak.tokens_per_second;
        let (memory, then) = (before.memory(), after.memory());
        let rebuilds = after.get("selvedge_rebuilds_total") - before.get("selvedge_rebuilds_total");
        let rebuild = after.get("selvedge_rebuild_seconds_sum") - before.get("selvedge_rebuild_seconds_sum");
        // Requests in flight on a killed worker fail with an error that says so.
        let lost = report.lost();
        let failures = report.failures() - if self.arguments.kill { lost } else { 0 };
        let killed = f64::from(u8::from(self.arguments.kill));
        let good = failures == 0 && share >= KEPT && then - memory <= GROWTH && rebuilds == killed;
        let (peak_rate, peak_tokens) = (peak.requests_per_second, peak.tokens_per_second);
        let text = format!(
            "peak         {peak_rate:.1} requests and {peak_tokens:.0} tokens a second, of {clients} clients\n\
             {report}\n\
             served       {share:.2} of the peak\n\
             memory       {memory:.1} MiB before, {then:.1} MiB after\n\
             descriptors  {} before, {} after\n\
             failures     {failures} other than 429, and {lost} under way when a worker was killed\n\
             rebuilds     {rebuilds}, in {rebuild:.2} s\n\
             verdict      {}",
            before.get("process_open_fds"),
            after.get("process_open_fds"),
            if good {
                "as it must be"
            } else {
                "not as it must be"
            },
        );
        let value = json!({
            "peak": peak.to_json(), "overload": report.to_json(), "served_share": share,
            "memory_mib": [memory, then], "failures": failures, "lost_by_kill": lost,
            "rebuilds": rebuilds, "rebuild_seconds": rebuild, "good": good,
        });
        Verdict { text, value, good }
    }

    /// Runs clients that read one piece of their answer and go away.
    async fn leave(&self, clients: usize) -> io::Result<Verdict> {
        let (mut tasks, mut left, mut refused) = (JoinSet::new(), 0, 0);
        for number in 0..clients {
            if tasks.len() >= LEAVING {
                count(tasks.join_next().await, &mut left, &mut refused);
            }
            let (client, ask) = (Arc::clone(&self.client), Arc::clone(&self.ask));
            tasks.spawn(async move { leave(&client, &ask, number as u64).await });
        }
        while let Some(ended) = tasks.join_next().await {
            count(Some(ended), &mut left, &mut refused);
        }
        let since = Instant::now();
        let samples = self.quiet().await?;
        let quiet = since.elapsed();
        sleep(Duration::from_secs(1)).await;
        let later = Samples::read(&self.client).await?;
        let name = |name: &str| format!("selvedge_{name}{{batcher=\"texts\"}}");
        let (steps, after) = (samples.get(&name("steps_total")), later.get(&name("steps_total")));
        let cancelled = later.get(&name("cancelled_total"));
        let running = later.get(&name("running")) + later.get(&name("queued"));
        // If no answer had begun, nobody left, and the trial shows nothing.
        let good = left > 0 && steps == after && running == 0.0;
        let text = format!(
            "left         {left} in the middle of their answers, {refused} were refused\n\
             cancelled    {cancelled}, all gone after {quiet:.2?}\n\
             steps        {steps} when all had gone, {after} a second later\n\
             verdict      {}",
            match (good, left) {
                (true, _) => "no work is left behind",
                (false, 0) => "nothing is shown: no answer began",
                (false, _) => "work is left behind",
            },
        );
        let value = json!({
            "left": left, "refused": refused, "cancelled": cancelled,
            "steps": [steps, after], "running": running, "good": good,
        });
        Ok(Verdict { text, value, good })
    }

    /// Waits until no request runs or waits.
    async fn quiet(&self) -> io::Result<Samples> {
        let limit = Instant::now() + QUIET;
        loop {
            let samples = Samples::read(&self.client).await?;
            let held = |name: &str| samples.get(&format!("selvedge_{name}{{batcher=\"texts\"}}"));
            if held("running") + held("queued") == 0.0 || Instant::now() > limit {
                return Ok(samples);
            }
            sleep(Duration::from_millis(20)).await;
        }
    }
}

/// Sends a request, reads one piece and goes away; returns whether the answer had begun.
async fn leave(client: &Client, ask: &Ask, number: u64) -> io::Result<bool> {
    let (path, body) = ask.body(number);
    let mut answer = client.send(Method::POST, path, body).await?;
    let began = answer.head.status().as_u16() == 200;
    answer.piece().await?;
    Ok(began)
}

fn count(
    ended: Option<Result<io::Result<bool>, tokio::task::JoinError>>,
    left: &mut usize,
    refused: &mut usize,
) {
    match ended {
        Some(Ok(Ok(true))) => *left += 1,
        Some(_) => *refused += 1,
        None => {}
    }
}
