//! The workers of one call of `Runtime::add`: who is to start, who is starting, who has joined.

use std::collections::VecDeque;
use std::num::{NonZeroU16, NonZeroUsize};
use std::sync::Arc;
use std::time::Duration;

use selvedge_cluster::handshake::Cookie;
use selvedge_cluster::manager::{
    Count, HostName, MachineSpec, SshOptions, UserName, WorkerCommand, WorkerConfig,
};

use super::add::AddError;
use super::dial_in::DialIn;
use super::dialing::Dialing;
use super::guests::Guests;
use super::launcher::{CommandLauncher, GuestLauncher};
use super::link_transport::LinkTransport;
use super::managing::Managing;
use super::tunnelling::Tunnelling;
use crate::home::handles::{StartingWorker, Worker};
use crate::runtime::Runtime;
use crate::spawn_error::SpawnError;
use crate::topology::Names;

/// The time that workers get to end if one of them could not be added.
const END_GRACE: Duration = Duration::from_secs(2);

/// The cores of a machine that are believed: a worker says how many there are.
const CORES_MAX: NonZeroUsize = NonZeroUsize::new(1024).unwrap();

/// The workers of one call.
pub(super) struct Adding<'a> {
    runtime: &'a Runtime,
    cookie: Cookie,
    transport: LinkTransport,
    managing: &'a Arc<Managing>,
    /// The place where workers without a command dial in.
    door: Option<DialIn>,
    hosts: Vec<HostQueue>,
    /// The workers that are starting, the oldest first.
    starting: VecDeque<(WorkerOrder, StartingWorker)>,
    joined: Vec<Worker>,
    /// The number of workers that have not dialled in.
    missing: usize,
    failed: Option<AddError>,
}

/// The workers on one machine that wait for their start.
struct HostQueue {
    /// The machine; `None` for all that are started without `ssh`.
    machine: Option<MachineName>,
    /// The number of workers that may start at a time.
    most: usize,
    /// The number of workers that are starting.
    starting: usize,
    waiting: VecDeque<WorkerOrder>,
}

/// A worker to start: one of those with a configuration.
#[derive(Clone)]
struct WorkerOrder {
    recipe: Arc<Recipe>,
    /// The place among them, from 1.
    number: u16,
}

/// The part of a configuration by which its workers are started.
struct Recipe {
    name: String,
    /// `None` for workers that dial in.
    command: Option<WorkerCommand>,
    ssh: Option<(SshOptions, MachineSpec)>,
    names: Names,
    count: Count,
    /// The place of the configuration in the manager's order.
    config: usize,
}

impl<'a> Adding<'a> {
    pub(super) fn new(
        runtime: &'a Runtime,
        cookie: Cookie,
        transport: LinkTransport,
        managing: &'a Arc<Managing>,
        door: Option<DialIn>,
    ) -> Self {
        Adding {
            runtime,
            cookie,
            transport,
            managing,
            door,
            hosts: Vec::new(),
            starting: VecDeque::new(),
            joined: Vec::new(),
            missing: 0,
            failed: None,
        }
    }

    /// Begins to start the first worker of a configuration, as soon as its host may start another one.
    pub(super) fn begin(&mut self, config: WorkerConfig) {
        if self.failed.is_some() {
            return;
        }
        let name = config.ident.clone().unwrap_or_else(|| "worker".to_owned());
        if config.command.is_none() && self.door.is_none() {
            self.failed = Some(AddError::NoCommand { worker: name });
            return;
        }
        let has = match (&config.ssh, &config.machine) {
            (Some(_), None) => Some("a way to use `ssh` and no machine"),
            (None, Some(_)) => Some("a machine and no way to use `ssh`"),
            (Some(_), Some(_)) | (None, None) => None,
        };
        if let Some(has) = has {
            self.failed = Some(AddError::HalfSsh { worker: name, has });
            return;
        }
        let has_tunnel = config.ssh.as_ref().is_some_and(|ssh| ssh.tunnel);
        if has_tunnel && !self.transport.has_ports() {
            let (worker, transport) = (name, self.transport.to_string());
            self.failed = Some(AddError::NoTunnel { worker, transport });
            return;
        }
        let recipe = Recipe {
            name,
            command: config.command.clone(),
            ssh: config.ssh.clone().zip(config.machine.clone()),
            names: Names {
                ident: config.ident.clone(),
                connect_idents: config.connect_idents.clone(),
            },
            count: config.count,
            config: self.managing.keep(config),
        };
        let order = WorkerOrder {
            recipe: Arc::new(recipe),
            number: 1,
        };
        self.enqueue(order);
        self.start();
    }

    /// Waits until all workers have joined, or one has failed.
    ///
    /// # Errors
    /// The first error. All workers are ended then.
    pub(super) fn finish(mut self, launched: Result<(), AddError>) -> Result<Vec<Worker>, AddError> {
        if let Err(error) = launched {
            self.failed.get_or_insert(error);
        }
        while self.failed.is_none()
            && let Some((order, starting)) = self.starting.pop_front()
        {
            match starting.wait() {
                Ok(worker) => self.note_join(&order, worker),
                // The others have the same time, so those that come are heard of soon.
                Err(SpawnError::NoHello { .. }) if order.recipe.command.is_none() => self.missing += 1,
                Err(error) => self.failed = Some(error.into()),
            }
        }
        let not_all_came = self.not_all_came();
        let Some(error) = self.failed.or(not_all_came) else {
            self.joined.sort_by_key(Worker::process);
            return Ok(self.joined);
        };
        // A worker whose handle is dropped ends.
        drop(self.starting);
        for worker in self.joined {
            drop(worker.end(END_GRACE));
        }
        Err(error)
    }

    /// The error, if some of the workers that dial in have not.
    fn not_all_came(&self) -> Option<AddError> {
        let door = self.door.as_ref().filter(|_| self.missing > 0)?;
        Some(AddError::NotAllCame {
            at: door.address(),
            expected: self.joined.len() + self.missing,
            came: self.joined.iter().map(Worker::process_name).collect(),
            waited: door.wait(),
            refused: door.door().refused(),
        })
    }

    /// A worker has joined: the others of its configuration can start, and one in its place.
    fn note_join(&mut self, order: &WorkerOrder, worker: Worker) {
        if let Some(host) = self.host(&order.recipe) {
            host.starting -= 1;
        }
        order.others(worker.cores()).for_each(|order| self.enqueue(order));
        self.joined.push(worker);
        self.start();
    }

    /// Starts all workers that may start.
    fn start(&mut self) {
        for host in &mut self.hosts {
            while self.failed.is_none() && host.starting < host.most {
                let Some(order) = host.waiting.pop_front() else {
                    break;
                };
                let started = match (&order.recipe.command, &self.door) {
                    (None, Some(door)) => order.wait_for(self.runtime, door, self.managing),
                    _ => order.start(self.runtime, &self.cookie, &self.transport, self.managing),
                };
                match started {
                    Ok(starting) => {
                        host.starting += 1;
                        self.starting.push_back((order, starting));
                    }
                    Err(error) => self.failed = Some(error),
                }
            }
        }
    }

    /// Puts a worker last in the queue of its machine.
    fn enqueue(&mut self, order: WorkerOrder) {
        match self.host(&order.recipe) {
            Some(host) => host.waiting.push_back(order),
            None => self.hosts.push(HostQueue {
                machine: order.recipe.machine(),
                most: order.recipe.most(),
                starting: 0,
                waiting: VecDeque::from([order]),
            }),
        }
    }

    /// The queue of the machine of a configuration.
    fn host(&mut self, recipe: &Recipe) -> Option<&mut HostQueue> {
        let machine = recipe.machine();
        self.hosts.iter_mut().find(|host| host.machine == machine)
    }
}

impl Recipe {
    fn machine(&self) -> Option<MachineName> {
        let (_, machine) = self.ssh.as_ref()?;
        Some((machine.host.clone(), machine.port, machine.user.clone()))
    }

    /// The number of workers on the machine that may start at a time.
    fn most(&self) -> usize {
        self.ssh
            .as_ref()
            .map_or(usize::MAX, |(ssh, _)| ssh.max_parallel.get())
    }
}

impl WorkerOrder {
    /// The workers to start beside the first one, once that has said how many cores there are.
    fn others(&self, cores: NonZeroUsize) -> impl Iterator<Item = WorkerOrder> + use<> {
        let count = if self.number == 1 {
            self.recipe.count.on(cores.min(CORES_MAX)).get()
        } else {
            1
        };
        let recipe = Arc::clone(&self.recipe);
        (2..=count).map(move |number| WorkerOrder {
            recipe: Arc::clone(&recipe),
            number,
        })
    }

    fn name(&self) -> String {
        let Recipe { name, count, .. } = &*self.recipe;
        match *count == Count::ONE {
            true => name.clone(),
            false => format!("{name} {}", self.number),
        }
    }

    /// The command of this worker.
    ///
    /// # Errors
    /// [`AddError::NoCommand`].
    fn command(&self) -> Result<WorkerCommand, AddError> {
        let no_command = || AddError::NoCommand { worker: self.name() };
        let mut command = self.recipe.command.clone().ok_or_else(no_command)?;
        let machine = self.recipe.ssh.as_ref().map(|(_, machine)| machine);
        let bind = command.bind.or_else(|| machine?.bind.clone());
        command.bind = bind.map(|bind| bind.of_worker(self.number));
        Ok(command)
    }

    /// Waits for a worker that dials in.
    fn wait_for(
        &self,
        runtime: &Runtime,
        door: &DialIn,
        managing: &Arc<Managing>,
    ) -> Result<StartingWorker, AddError> {
        let launcher = GuestLauncher {
            guests: Guests::expected(Arc::clone(door.door()), self.recipe.names.clone()),
            wait: door.wait(),
            seat: Some(managing.seat(self.recipe.config)),
        };
        Ok(runtime.begin_worker(&self.name(), Vec::new(), Arc::new(launcher))?)
    }

    fn start(
        &self,
        runtime: &Runtime,
        cookie: &Cookie,
        transport: &LinkTransport,
        managing: &Arc<Managing>,
    ) -> Result<StartingWorker, AddError> {
        let (name, mut command, ssh) = (self.name(), self.command()?, self.recipe.ssh.as_ref());
        command.links = transport.of_command();
        let line = match ssh {
            Some((ssh, machine)) => ssh.launch(machine, &command),
            None => command.local(),
        };
        let line = line.map_err(|error| AddError::Command {
            worker: name.clone(),
            error,
        })?;
        // Over there, directory and variables are part of the command.
        let here = ssh.is_none().then_some((command.directory, command.environment));
        let (directory, environment) = here.unwrap_or_default();
        let launcher = CommandLauncher {
            line,
            directory,
            environment: environment.into_iter().collect(),
            dialing: Box::new(Dialing {
                cookie: cookie.clone(),
                transport: transport.clone(),
                names: self.recipe.names.clone(),
                tunnelling: ssh
                    .filter(|(ssh, _)| ssh.tunnel)
                    .map(|(ssh, machine)| Tunnelling {
                        ssh: ssh.clone(),
                        machine: machine.clone(),
                    }),
            }),
            seat: managing.seat(self.recipe.config),
            place: ssh.map(|(_, machine)| machine.host.as_str().to_owned()),
        };
        Ok(runtime.begin_worker(&name, Vec::new(), Arc::new(launcher))?)
    }
}

/// A machine, as `ssh` finds it.
type MachineName = (HostName, Option<NonZeroU16>, Option<UserName>);
