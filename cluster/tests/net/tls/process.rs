//! Another process, whose secrets nobody reads in the tables of the system.

#![cfg(target_os = "linux")]

use std::io::{ErrorKind, Write};
use std::process::{Child, Command, Stdio};

use selvedge_cluster::handshake::{Cookie, CookieSource, Identity, Role};
use selvedge_cluster::net::{Credentials, Listener, PeerNames, Tcp, Tls, dial};
use tokio::io::AsyncReadExt;

use super::Lab;
use super::files::Files;
use crate::support::{at, first_arrival, identity, run, welcome};

const CONNECT_AT: &str = "SELVEDGE_TLS_CONNECT_AT";
const FILES: &str = "SELVEDGE_TLS_FILES";

fn with_cookie(role: Role, cookie: Cookie) -> Identity {
    Identity {
        cookie,
        ..identity(role)
    }
}

/// In the child: dials, and does nothing more until it is killed.
fn dial_and_wait(connect_at: &str) {
    let files = std::path::PathBuf::from(std::env::var_os(FILES).unwrap());
    let cookie = CookieSource::Stdin.read(&mut std::io::stdin()).unwrap();
    let [chain, key, authority] = ["chain", "key", "authority"].map(|name| files.join(name));
    let credentials = Credentials::read(chain, key, authority).unwrap();
    run(async {
        let transport = Tls::over(Tcp::loopback(), &credentials, PeerNames::Dialed).unwrap();
        let worker = with_cookie(Role::Worker, cookie);
        let _link = dial(&transport, &at(connect_at), &worker).await.unwrap();
        std::future::pending::<()>().await;
    });
}

/// What every process of this user may read of another one.
fn tables(child: &Child) -> Vec<u8> {
    let read = |name| std::fs::read(format!("/proc/{}/{name}", child.id())).unwrap();
    [read("cmdline"), read("environ")].concat()
}

#[test]
fn jnet_12_no_secret_is_in_the_command_line_or_the_environment_of_a_process() {
    if let Ok(connect_at) = std::env::var(CONNECT_AT) {
        return dial_and_wait(&connect_at);
    }
    let test = std::thread::current().name().unwrap().to_owned();
    let lab = Lab::new();
    let signed = lab.sign(|_| ());
    let files = Files::new("process", &lab, &signed);
    let cookie = Cookie::random().unwrap();
    let text = cookie.text();
    run(async {
        let transport = lab.transport(Tcp::loopback(), PeerNames::Dialed);
        let head = with_cookie(Role::Head, cookie);
        let mut listener = Listener::bind(&transport, head).await.unwrap();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([&*test, "--exact"])
            .env(CONNECT_AT, listener.connect_at())
            .env(FILES, files.path(""))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(text.as_ref()).unwrap();
        let mut link = first_arrival(&mut listener)
            .await
            .welcome(&welcome())
            .await
            .unwrap();

        let tables = tables(&child);
        let has = |secret: &[u8]| tables.windows(secret.len()).any(|window| window == secret);
        assert!(
            has(b"--exact") && has(listener.connect_at().as_bytes()),
            "the tables are those of the child"
        );
        assert!(!has(text.as_ref().trim_ascii()), "the cookie is seen");
        for line in signed.key.lines().filter(|line| !line.starts_with('-')) {
            assert!(!has(line.as_bytes()), "the key is seen");
        }

        child.kill().unwrap();
        let ended = link.halves.reader.read(&mut [0]).await.unwrap_err();
        let is_lost = matches!(
            ended.kind(),
            ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset
        );
        assert!(is_lost, "{ended}");
        child.wait().unwrap();
    });
}
