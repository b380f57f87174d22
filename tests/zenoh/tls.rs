//! Links under TLS through a router, which cannot read what it passes on.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use selvedge::hosts::{
    CredentialTexts, Issuer, LinkTransport, PeerNames, Tls, Zenoh, ZenohSettings, init_worker,
};
use selvedge::prelude::*;

use crate::played::cookie;
use crate::{Behind, ROUTER, start};

/// The variable by which a worker learns where its credentials are. Without it, its links are not under TLS.
const CREDENTIALS: &str = "SELVEDGE_TEST_CREDENTIALS";
/// The text that must not be seen.
const MARKER: &str = "selvedge-marker-of-the-payload";

#[remote]
fn echo(text: String) -> String {
    text
}

/// The program of the workers.
#[test]
#[ignore = "a part of the test below"]
fn a_worker() {
    let Ok(endpoint) = std::env::var(ROUTER) else {
        return;
    };
    let zenoh = Zenoh::open(&ZenohSettings::routers([endpoint])).unwrap();
    let error = match std::env::var(CREDENTIALS) {
        Ok(path) => {
            let texts = CredentialTexts::read(&mut File::open(path).unwrap()).unwrap();
            init_worker(cookie(), under_tls(zenoh, &texts))
        }
        Err(_) => init_worker(cookie(), zenoh),
    };
    panic!("{}", error.unwrap_err());
}

fn under_tls(zenoh: Zenoh, texts: &CredentialTexts) -> Tls {
    Tls::over(zenoh, &texts.credentials().unwrap(), PeerNames::Any).unwrap()
}

/// The file of the credentials of a worker, which the drop removes.
struct Credentials(PathBuf);

impl Credentials {
    fn save(texts: &CredentialTexts) -> Self {
        let name = format!("selvedge-zenoh-credentials-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let mut options = OpenOptions::new();
        let mut file = options
            .create_new(true)
            .write(true)
            .mode(0o600)
            .open(&path)
            .unwrap();
        file.write_all(texts.to_bytes().as_ref()).unwrap();
        Credentials(path)
    }
}

impl Drop for Credentials {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

type Record = Arc<Mutex<Vec<u8>>>;

/// Passes connections on to the router, and records what goes either way. Its threads end with the connections, or the process.
fn recorded(router: SocketAddr) -> (String, Record) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("tcp/{}", listener.local_addr().unwrap());
    let record = Record::default();
    let of_threads = Arc::clone(&record);
    std::thread::spawn(move || {
        for near in listener.incoming().map_while(Result::ok) {
            let far = TcpStream::connect(router).unwrap();
            let ends = [(&near, &far), (&far, &near)]
                .map(|(from, to)| [from, to].map(|end| end.try_clone().unwrap()));
            for [from, to] in ends {
                let record = Arc::clone(&of_threads);
                std::thread::spawn(move || pass_on(from, to, &record));
            }
        }
    });
    (endpoint, record)
}

fn pass_on(mut from: TcpStream, mut to: TcpStream, record: &Record) {
    let mut bytes = vec![0; 64 << 10];
    while let Ok(length @ 1..) = from.read(&mut bytes) {
        record.lock().unwrap().extend_from_slice(&bytes[..length]);
        if to.write_all(&bytes[..length]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(std::net::Shutdown::Both);
}

/// The bytes between a worker and the router while a text goes to the worker and back.
fn seen(is_under_tls: bool) -> Vec<u8> {
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap();
    drop(free);
    let router = start(&format!("tcp/{address}"));
    let (endpoint, record) = recorded(address);
    let zenoh = Zenoh::open(&ZenohSettings::routers(router.endpoints())).unwrap();
    let issuer = Issuer::new().unwrap();
    let texts = || issuer.issue().unwrap();
    let file = Credentials::save(&texts());
    let (transport, variables) = match is_under_tls {
        true => {
            let path = file.0.to_str().unwrap().to_owned();
            (
                LinkTransport::own(under_tls(zenoh, &texts())),
                vec![(CREDENTIALS, path)],
            )
        }
        false => (LinkTransport::own(zenoh), Vec::new()),
    };
    let runtime = Runtime::new().hello_timeout(Duration::from_secs(60));
    let manager = Behind {
        program: "tls::a_worker",
        endpoint,
        transport,
        hosts: &["b"],
        variables,
    };
    let workers = runtime.add(manager).unwrap();
    let text = MARKER.repeat(1000);
    let echoed = runtime.call(echo::remote(text.clone()).on(&workers[0])).wait();
    assert_eq!(echoed.unwrap(), text);
    drop(runtime);
    record.lock().unwrap().clone()
}

#[test]
fn what_is_said_under_tls_is_not_seen_by_the_router() {
    let has_marker = |bytes: &[u8]| {
        let mut places = bytes.windows(MARKER.len());
        places.any(|place| place == MARKER.as_bytes())
    };
    assert!(has_marker(&seen(false)), "the record has everything");
    let under_tls = seen(true);
    assert!(under_tls.len() > MARKER.len() * 1000);
    assert!(!has_marker(&under_tls));
}
