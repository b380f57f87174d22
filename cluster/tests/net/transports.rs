//! Promises of single transports.

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use selvedge_cluster::net::{Tcp, Transport};

use crate::support::run;

/// The local addresses and the inodes of the sockets that listen, as the system has them in its table.
#[cfg(target_os = "linux")]
fn listening() -> Vec<(String, String)> {
    let table = std::fs::read_to_string("/proc/self/net/tcp").unwrap();
    let rows = table
        .lines()
        .map(|row| row.split_whitespace().collect::<Vec<_>>());
    let listening = rows.filter(|row| row.get(3) == Some(&"0A"));
    listening
        .map(|row| (row[1].to_owned(), row[9].to_owned()))
        .collect()
}

#[test]
#[cfg(target_os = "linux")]
fn jnet_02_a_listener_binds_one_interface_and_a_port_of_the_system() {
    run(async {
        let (one, other) = (
            Tcp::loopback().listen().await.unwrap(),
            Tcp::loopback().listen().await.unwrap(),
        );
        let address: SocketAddr = one.connect_at().parse().unwrap();
        assert_eq!(address.ip(), IpAddr::V4(Ipv4Addr::LOCALHOST));
        assert_ne!(one.connect_at(), other.connect_at());
        let port = format!(":{:04X}", address.port());
        let (places, inodes): (Vec<_>, Vec<_>) = listening()
            .into_iter()
            .filter(|(place, _)| place.ends_with(&port))
            .unzip();
        assert_eq!(
            places,
            [format!("0100007F{port}")],
            "one socket, on the loopback interface"
        );
        drop((one, other));
        // Another test may listen at the port by now, and a child that another test starts has the socket up to its `exec`.
        while listening().iter().any(|(_, inode)| inodes.contains(inode)) {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    });
}

#[test]
fn a_listener_on_every_interface_is_refused() {
    run(async {
        let Err(refused) = Tcp::on(Ipv4Addr::UNSPECIFIED.into()).listen().await else {
            panic!("it listens everywhere");
        };
        assert_eq!(refused.kind(), ErrorKind::InvalidInput);
        assert!(refused.to_string().contains("name the address"), "{refused}");
    });
}

#[cfg(target_os = "linux")]
mod unix_sockets {
    use std::fs;
    use std::io::{BufRead, BufReader, ErrorKind};
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    use std::path::PathBuf;
    use std::process::{Child, Command, Stdio};

    use selvedge_cluster::net::{Transport, Uds};

    use crate::support::run;

    #[test]
    fn jtran_09_sockets_lie_in_a_directory_that_nobody_else_may_enter() {
        run(async {
            let transport = Uds::new().unwrap();
            let directory = transport.directory().to_owned();
            assert_eq!(fs::metadata(&directory).unwrap().mode() & 0o777, 0o700);
            let (one, other) = (
                transport.listen().await.unwrap(),
                transport.listen().await.unwrap(),
            );
            assert_eq!(fs::read_dir(&directory).unwrap().count(), 2);
            drop(one);
            assert_eq!(fs::read_dir(&directory).unwrap().count(), 1);
            drop(transport);
            assert!(directory.exists(), "a listener lives");
            drop(other);
            assert!(!directory.exists(), "nothing is left");
        });
    }

    #[test]
    fn jtran_09_a_directory_that_others_may_enter_is_refused() {
        let own = Uds::new().unwrap();
        let shared = own.directory().join("shared");
        fs::create_dir(&shared).unwrap();
        fs::set_permissions(&shared, fs::Permissions::from_mode(0o755)).unwrap();
        let refused = Uds::within(&shared).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::PermissionDenied);
        assert!(refused.to_string().contains("mode 755"), "{refused}");
        fs::set_permissions(&shared, fs::Permissions::from_mode(0o700)).unwrap();
        drop(Uds::within(&shared).unwrap());
        assert!(shared.exists(), "the directory belongs to somebody else");
    }

    #[test]
    fn jtran_09_a_path_that_is_too_long_for_a_socket_is_refused() {
        let own = Uds::new().unwrap();
        let long = own.directory().join("x".repeat(100));
        let refused = Uds::within(&long).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidInput);
        assert!(refused.to_string().contains("107"), "{refused}");
        assert!(!long.exists());
    }

    /// In a child: uses a directory until it is killed, and says which.
    fn use_directory(within: &str) {
        let transport = match within {
            "" => Uds::new().unwrap(),
            path => Uds::within(path).unwrap(),
        };
        println!("\nuses {}", transport.directory().display());
        let _ = std::io::stdin().read_line(&mut String::new());
    }

    const WITHIN: &str = "SELVEDGE_UDS_WITHIN";

    /// A process with this directory, or one of its own among those of `home`, and its path.
    fn user_of(within: &str, home: &Uds) -> (Child, PathBuf) {
        let test = std::thread::current().name().unwrap().to_owned();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([&*test, "--exact", "--nocapture"])
            .env(WITHIN, within)
            .env("TMPDIR", home.directory())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap())
            .lines()
            .map(Result::unwrap);
        let directory = lines.find_map(|line| line.strip_prefix("uses ").map(PathBuf::from));
        (child, directory.expect("the child says which directory it uses"))
    }

    fn kill((mut child, _): (Child, PathBuf)) {
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn jtran_09_the_directory_of_a_killed_process_is_removed_by_the_next_one_once_nobody_uses_it() {
        if let Ok(within) = std::env::var(WITHIN) {
            return use_directory(&within);
        }
        let home = Uds::new().unwrap();
        let owner = user_of("", &home);
        let directory = owner.1.clone();
        let other = user_of(directory.to_str().unwrap(), &home);
        assert_eq!(other.1, directory);
        kill(owner);
        let second = user_of("", &home);
        assert!(directory.exists(), "a process uses it");
        kill(other);
        let third = user_of("", &home);
        assert!(!directory.exists(), "nobody uses it");
        assert!(second.1.exists() && third.1.exists(), "they live");
        kill(second);
        kill(third);
    }
}
