use super::*;
use crate::peer::{Incarnation, Peer, ProcessId};

pub(super) const NOW: Duration = Duration::ZERO;

pub(super) fn identity(role: Role, nonce: u8) -> Identity {
    Identity {
        hello: Hello {
            nonce: [nonce; 32],
            ..Hello::new("lab", "one", 7, role)
        },
        cookie: Cookie::new([5; 32]),
        binding: Vec::new(),
    }
}

fn welcome() -> Welcome {
    let peer = Peer {
        process: ProcessId::new(u32::MAX).unwrap(),
        incarnation: Incarnation(u32::MAX),
    };
    Welcome {
        you: peer,
        me: peer,
        note: vec![7; NOTE_BYTES_MAX],
    }
}

fn write(step: Option<Step>) -> Vec<u8> {
    match step {
        Some(Step::Write(bytes)) => bytes,
        other => panic!("{other:?}"),
    }
}

/// The errors of the listener and of the dialer, if they have any.
fn meet(dialer: Identity, listener: Identity) -> (Option<HandshakeError>, Option<HandshakeError>) {
    let (mut dialer, hello) = Handshake::dial(NOW, dialer).unwrap();
    let mut listener = Handshake::listen(NOW, listener);
    let answer = match listener.receive(NOW, &mut &hello[..]) {
        Ok(step) => write(step),
        Err(error) => return (Some(error), None),
    };
    let proof = match dialer.receive(NOW, &mut &answer[..]) {
        Ok(step) => write(step),
        Err(error) => return (None, Some(error)),
    };
    if let Err(error) = listener.receive(NOW, &mut &proof[..]) {
        return (Some(error), None);
    }
    let bytes = listener.welcome(&welcome()).unwrap();
    (None, dialer.receive(NOW, &mut &bytes[..]).err())
}

#[test]
fn jnet_13_both_sides_prove_that_they_know_the_cookie() {
    let (dialer, listener) = (identity(Role::Worker, 1), identity(Role::Head, 2));
    assert_eq!(meet(dialer.clone(), listener.clone()), (None, None));
    let stranger = Identity {
        cookie: Cookie::new([6; 32]),
        ..dialer.clone()
    };
    let wrong = Some(HandshakeError::WrongCookie);
    assert_eq!(meet(stranger, listener.clone()), (wrong.clone(), None));
    let elsewhere = Identity {
        binding: vec![1],
        ..dialer
    };
    assert_eq!(
        meet(elsewhere, listener),
        (wrong, None),
        "HELLO-5: another TLS link"
    );
}

/// HELLO-2: a listener that has no cookie cannot welcome anybody, not even with the dialer's own proof.
#[test]
fn a_listener_without_the_cookie_is_refused() {
    let (mut dialer, hello) = Handshake::dial(NOW, identity(Role::Worker, 1)).unwrap();
    assert_eq!(
        dialer.receive(NOW, &mut &hello[..]),
        Err(HandshakeError::Itself),
        "its own hello"
    );
    let (mut dialer, hello) = Handshake::dial(NOW, identity(Role::Worker, 1)).unwrap();
    let mut impostor = Handshake::listen(
        NOW,
        Identity {
            cookie: Cookie::new([6; 32]),
            ..identity(Role::Head, 2)
        },
    );
    let answer = write(impostor.receive(NOW, &mut &hello[..]).unwrap());
    let proof = write(dialer.receive(NOW, &mut &answer[..]).unwrap());
    let frame = Decoder::<Vec<u8>>::new(FrameLimits::HANDSHAKE).decode(&mut &proof[..]);
    let Ok(Message::Proof(proof)) = postcard::from_bytes(&frame.unwrap().unwrap().head) else {
        panic!("no proof");
    };
    let (forged, _) = encode(&Message::Welcome(Vec::new(), proof)).unwrap();
    assert_eq!(
        dialer.receive(NOW, &mut &forged[..]),
        Err(HandshakeError::WrongCookie)
    );
}

/// HELLO-1: a listener that has refused a dialer cannot be led to welcome it.
#[test]
fn who_was_refused_is_not_welcomed_and_who_was_authenticated_is_once() {
    let stranger = Identity {
        cookie: Cookie::new([6; 32]),
        ..identity(Role::Worker, 1)
    };
    let mut elsewhere = identity(Role::Worker, 1);
    elsewhere.hello.cluster = "x".into();
    // In place of its proof, the last one says its hello again.
    for (dialer, repeats) in [
        (stranger, false),
        (elsewhere, false),
        (identity(Role::Worker, 1), true),
    ] {
        let (mut dialer, hello) = Handshake::dial(NOW, dialer).unwrap();
        let mut listener = Handshake::listen(NOW, identity(Role::Head, 2));
        assert!(listener.welcome(&welcome()).is_err());
        let answer = write(listener.receive(NOW, &mut &hello[..]).unwrap());
        assert!(listener.welcome(&welcome()).is_err());
        let proof = write(dialer.receive(NOW, &mut &answer[..]).unwrap());
        let second = if repeats { hello } else { proof };
        assert!(listener.receive(NOW, &mut &second[..]).is_err());
        assert_eq!(listener.welcome(&welcome()), Err(HandshakeError::Unexpected));
    }
    let (mut dialer, hello) = Handshake::dial(NOW, identity(Role::Worker, 1)).unwrap();
    let mut listener = Handshake::listen(NOW, identity(Role::Head, 2));
    let answer = write(listener.receive(NOW, &mut &hello[..]).unwrap());
    let proof = write(dialer.receive(NOW, &mut &answer[..]).unwrap());
    listener.receive(NOW, &mut &proof[..]).unwrap();
    assert!(listener.welcome(&welcome()).is_ok());
    assert_eq!(listener.welcome(&welcome()), Err(HandshakeError::Unexpected));
}

#[test]
fn another_cluster_build_or_protocol_is_refused_by_name() {
    let (dialer, listener) = (identity(Role::Worker, 1), identity(Role::Head, 2));
    let refused = |change: fn(&mut Hello)| {
        let mut dialer = dialer.clone();
        change(&mut dialer.hello);
        meet(dialer, listener.clone()).0.unwrap()
    };
    assert!(matches!(
        refused(|it| it.cluster = "x".into()),
        HandshakeError::Cluster { .. }
    ));
    assert!(matches!(
        refused(|it| it.build = "two".into()),
        HandshakeError::Build { .. }
    ));
    assert!(matches!(
        refused(|it| it.registry = 8),
        HandshakeError::Build { .. }
    ));
    let protocol = HandshakeError::Protocol { ours: 1, theirs: 9 };
    assert_eq!(refused(|it| it.protocol = 9), protocol);
    assert!(refused(|it| it.build = "two".into()).to_string().contains("two"));
}

/// HELLO-3 and HELLO-4.
#[test]
fn a_silent_or_noisy_stranger_is_cut_off() {
    let mut listener = Handshake::listen(NOW, identity(Role::Head, 2));
    let (_, hello) = Handshake::dial(NOW, identity(Role::Worker, 1)).unwrap();
    assert_eq!(listener.deadline(), TIME_MAX);
    assert_eq!(
        listener.receive(TIME_MAX, &mut &hello[..]),
        Err(HandshakeError::TooLate)
    );
    assert!(listener.welcome(&welcome()).is_err(), "nobody was authenticated");

    let mut long = identity(Role::Worker, 1);
    long.hello.cluster = "x".repeat(5000);
    assert!(matches!(
        Handshake::dial(NOW, long),
        Err(HandshakeError::Frame(_))
    ));
}

/// HELLO-3: a hello that fills the limit leaves no room for a proof.
#[test]
fn more_than_4_kib_are_not_read_of_a_stranger() {
    let mut hello = identity(Role::Worker, 1).hello;
    hello.cluster = "x".repeat(3950);
    let bytes = |message: &Message| {
        let frame = frame(Service::HANDSHAKE, postcard::to_stdvec(message).unwrap());
        frame.prefix(&FrameLimits::HANDSHAKE).unwrap()
    };
    let mut listener = Handshake::listen(NOW, identity(Role::Head, 2));
    let hello = bytes(&Message::Hello(hello));
    assert!(matches!(
        listener.receive(NOW, &mut &hello[..]),
        Ok(Some(Step::Write(_)))
    ));
    let proof = bytes(&Message::Proof([0; 32]));
    assert_eq!(
        listener.receive(NOW, &mut &proof[..]),
        Err(HandshakeError::TooMuch)
    );
}

/// HELLO-3: the longest hello leaves room for the second message, a proof or a welcome.
#[test]
fn the_longest_hello_is_no_obstacle() {
    let named = |role, nonce, length| {
        let mut identity = identity(role, nonce);
        identity.hello.cluster = "x".repeat(length);
        identity
    };
    let fits = |length: &usize| Handshake::dial(NOW, named(Role::Worker, 1, *length)).is_ok();
    let longest = (3000..BYTES_MAX).take_while(fits).last().unwrap();
    assert!(longest > 3500, "{longest}");
    let (dialer, listener) = (named(Role::Worker, 1, longest), named(Role::Head, 2, longest));
    assert_eq!(meet(dialer, listener), (None, None));
}

#[test]
fn a_note_that_is_too_long_is_refused_where_it_is_written() {
    let (dialer, listener) = (identity(Role::Worker, 1), identity(Role::Head, 2));
    let (mut dialer, hello) = Handshake::dial(NOW, dialer).unwrap();
    let mut listener = Handshake::listen(NOW, listener);
    let answer = write(listener.receive(NOW, &mut &hello[..]).unwrap());
    let proof = write(dialer.receive(NOW, &mut &answer[..]).unwrap());
    listener.receive(NOW, &mut &proof[..]).unwrap();
    let mut long = welcome();
    long.note.push(7);
    let refused = Err(HandshakeError::LongNote(NOTE_BYTES_MAX + 1));
    assert_eq!(listener.welcome(&long), refused);
    let bytes = listener.welcome(&welcome()).unwrap();
    let step = dialer.receive(NOW, &mut &bytes[..]).unwrap();
    assert!(matches!(step, Some(Step::Welcomed(_, found)) if found == welcome()));
}

#[test]
fn a_cookie_is_not_printed() {
    assert_eq!(format!("{:?}", Cookie::new([77; 32])), "Cookie(..)");
}
