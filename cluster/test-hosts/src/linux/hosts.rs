//! The hosts of a test, and their network.

use std::fmt;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use super::host::{Host, name};
use super::host_thread::HostThread;
use super::init::Init;
use super::interface::{address, plug_in};
use super::switch::{Faults, LineId, Switch, Traffic};
use crate::HostsError;

/// The largest number of hosts: the table of lines grows by its square.
const HOSTS_MAX: usize = 200;
/// The variable with which a missing right is an error: the machine is meant to have test hosts.
const ENV_REQUIRE: &str = "REQUIRE_HOSTS";

/// Several hosts on this machine, and the network between them. Dropping it ends them all, and so does the death of this process,
/// however it dies.
pub struct Hosts {
    hosts: Vec<Host>,
    switch: Arc<Switch>,
}

impl Hosts {
    /// Makes so many hosts, all connected and without faults.
    ///
    /// # Errors
    /// [`HostsError::LeftOut`]: this machine cannot have hosts, or this user may not. [`HostsError::Count`]: there are too many.
    /// [`HostsError::Failed`]: a shortage.
    pub fn new(count: usize) -> Result<Self, HostsError> {
        if !(1..=HOSTS_MAX).contains(&count) {
            return Err(HostsError::Count {
                wanted: count,
                most: HOSTS_MAX,
            });
        }
        let (mut settled, mut cables) = (Vec::new(), Vec::new());
        for number in 0..count {
            let (host, cable) = settle(number)?;
            settled.push(host);
            cables.push(cable);
        }
        let switch = Switch::start(cables).map_err(HostsError::of("the switch"))?;
        let switch = Arc::new(switch);
        let hosts = settled.into_iter().enumerate();
        let hosts = hosts.map(|(number, settled)| Host::new(number, settled, Arc::clone(&switch)));
        Ok(Hosts {
            hosts: hosts.collect(),
            switch,
        })
    }

    /// Makes hosts, or prints the line `left out: <why>` past the capture of tests and returns `None`, so that the test ends there.
    /// With the environment variable `REQUIRE_HOSTS` nothing is left out.
    ///
    /// # Errors
    /// Those of [`new`](Self::new) but [`HostsError::LeftOut`], and that one too if hosts are required.
    pub fn or_left_out(count: usize) -> Result<Option<Self>, HostsError> {
        match Hosts::new(count) {
            Err(HostsError::LeftOut(why)) if std::env::var_os(ENV_REQUIRE).is_none() => {
                // Whoever has closed standard error does not want to know.
                let _ = io::stderr().write_all(format!("\nleft out: {why}\n").as_bytes());
                Ok(None)
            }
            made => made.map(Some),
        }
    }

    /// The host with this number, counted from 0.
    ///
    /// # Panics
    /// There are not so many hosts.
    #[allow(clippy::indexing_slicing, reason = "a test knows how many hosts it has made")]
    pub fn host(&self, number: usize) -> &Host {
        &self.hosts[number]
    }

    /// All hosts.
    pub fn all(&self) -> &[Host] {
        &self.hosts
    }

    /// Puts a host behind another one, its gateway. What it sends to other hosts arrives at the gateway, and nothing of theirs arrives at it
    /// but through the gateway, whose kernel passes packets on ([`Host::forward`]) as its filters say. Hosts behind one gateway reach
    /// each other directly. The traffic of a line is that of each step.
    pub fn put_behind(&self, host: &Host, gateway: &Host) {
        let (host, gateway) = (host.number(), gateway.number());
        self.switch.with(|network| network.put_behind(host, gateway));
    }

    /// Cuts both directions between two hosts. When it returns, no packet arrives any more, also none that was under way; nobody
    /// is told.
    pub fn cut(&self, one: &Host, other: &Host) {
        self.cut_one_way(one, other);
        self.cut_one_way(other, one);
    }

    /// Cuts one direction: what `from` sends does not reach `to`.
    pub fn cut_one_way(&self, from: &Host, to: &Host) {
        self.switch.with(|network| network.set_cut(line(from, to), true));
    }

    /// Heals both directions between two hosts.
    pub fn heal(&self, one: &Host, other: &Host) {
        for line in [line(one, other), line(other, one)] {
            self.switch.with(|network| network.set_cut(line, false));
        }
    }

    /// Heals all cuts.
    pub fn heal_all(&self) {
        self.switch.with(|network| network.heal_all());
    }

    /// Sets the faults of all lines, for packets that are sent from now on.
    pub fn faults(&self, faults: Faults) {
        self.switch.with(|network| network.set_all_faults(faults));
    }

    /// Sets the faults of one direction, for packets that are sent from now on.
    pub fn faults_one_way(&self, from: &Host, to: &Host, faults: Faults) {
        self.switch
            .with(|network| network.set_faults(line(from, to), faults));
    }

    /// What one host has sent to another, and what became of it.
    pub fn traffic(&self, from: &Host, to: &Host) -> Traffic {
        self.switch.with(|network| network.traffic(line(from, to)))
    }

    /// Waits until the traffic from one host to another fulfils a condition, and returns it.
    ///
    /// # Errors
    /// `TimedOut` if that does not happen within two minutes; the text has the traffic.
    pub fn wait_for(
        &self,
        from: &Host,
        to: &Host,
        is_met: impl FnMut(&Traffic) -> bool,
    ) -> io::Result<Traffic> {
        self.switch.wait_for(line(from, to), is_met)
    }
}

impl fmt::Debug for Hosts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.hosts).finish()
    }
}

fn line(from: &Host, to: &Host) -> LineId {
    LineId {
        from: from.number(),
        to: to.number(),
    }
}

/// Makes the namespaces, the interface and the init of a host. Returns its end of the network too.
fn settle(number: usize) -> Result<((HostThread, Init), OwnedFd), HostsError> {
    let thread = HostThread::settle(&name(number))?;
    let of_thread = |error| HostsError::of("the thread of a host")(error);
    let cable = thread
        .perform(move || plug_in(address(number)))
        .map_err(of_thread)??;
    let init = thread.perform(Init::start).map_err(of_thread)?;
    let init = init.map_err(HostsError::of("the init of a host"))?;
    Ok(((thread, init), cable))
}
