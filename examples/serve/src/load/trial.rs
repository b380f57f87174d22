//! What the command `load` is asked for: one load, an overload with its verdict, or clients who go away.

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

/// How many clients are tried to find the most that a service does.
const CLIENTS: [usize; 3] = [8, 16, 32];
/// The share of the peak that an overloaded service must still serve.
const KEPT: f64 = 0.9;
/// How much the memory may grow under overload, in MiB.
const GROWTH: f64 = 64.0;
/// How long a service may need until nothing is left of clients who went away.
const QUIET: Duration = Duration::from_secs(30);
/// How many clients go away at the same time.
const LEAVING: usize = 64;

/// What came of a trial.
pub struct Verdict {
    /// For people.
    pub text: String,
    /// For programs.
    pub value: Value,
    /// Whether all was as it must be.
    pub good: bool,
}

struct Trial<'a> {
    arguments: &'a Arguments,
    client: Arc<Client>,
    ask: Arc<Ask>,
}

/// Does what was asked for.
///
/// # Errors
/// Where there is no service, or it ends before its time.
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
            good: true,
        })
    }

    /// A run with a kill half-way and a picture, where they were asked for.
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
        // Requests that were under way when a worker was killed are told so.
        let lost: usize = ["503", "200, then model_lost"]
            .iter()
            .filter_map(|it| report.ends.get(*it))
            .sum();
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

    /// Clients who read one piece of their answer and go.
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
        let good = steps == after && running == 0.0;
        let text = format!(
            "left         {left} in the middle of their answers, {refused} were refused\n\
             cancelled    {cancelled}, all gone after {quiet:.2?}\n\
             steps        {steps} when all had gone, {after} a second later\n\
             verdict      {}",
            if good {
                "no work is left behind"
            } else {
                "work is left behind"
            },
        );
        let value = json!({
            "left": left, "refused": refused, "cancelled": cancelled,
            "steps": [steps, after], "running": running, "good": good,
        });
        Ok(Verdict { text, value, good })
    }

    /// Waits until nothing runs or waits.
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

/// Whether the client got a piece before it went.
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
