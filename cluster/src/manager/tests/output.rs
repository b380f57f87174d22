use proptest::prelude::*;

use crate::manager::{
    LINE_BYTES_MAX, Lines, START_UP_LINES_MAX, StartUp, StartUpError, StartUpEvent, WorkerPlace,
};

/// All that is said of an output that comes in these pieces and then ends.
fn heard<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> (Vec<String>, Result<String, StartUpError>) {
    let (mut start_up, mut texts) = (StartUp::default(), Vec::new());
    for mut piece in pieces {
        loop {
            match start_up.receive(&mut piece) {
                Ok(Some(StartUpEvent::Text(text))) => texts.push(text),
                Ok(Some(StartUpEvent::Announced(address))) => return (texts, Ok(address.to_string())),
                Ok(None) => break,
                Err(error) => return (texts, Err(error)),
            }
        }
        assert!(piece.is_empty());
    }
    let (last, error) = start_up.finish();
    if let Some(StartUpEvent::Text(text)) = last {
        texts.push(text);
    }
    (texts, Err(error))
}

fn lines<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<(String, bool)> {
    let (mut lines, mut found) = (Lines::default(), Vec::new());
    for mut piece in pieces {
        while let Some(line) = lines.receive(&mut piece) {
            found.push((line.text, line.is_continuation));
        }
        assert!(piece.is_empty());
    }
    found.extend(lines.finish().map(|line| (line.text, line.is_continuation)));
    found
}

#[test]
fn jmgr_14_the_first_line_that_announces_an_address_is_the_one() {
    let output = b"Linux gpu0 6.1\n\nselvedge-worker 1.2.3.4:1\nsays: selvedge-worker#1 1.2.3.4:1\n\
        \nselvedge-worker#1 10.0.0.7:4711\r\nselvedge-worker#1 10.0.0.8:1\n";
    let (texts, address) = heard([&output[..]]);
    assert_eq!(address, Ok("10.0.0.7:4711".to_owned()));
    assert_eq!(texts.len(), 3, "{texts:?}");
    let mut rest = &output[..];
    let mut start_up = StartUp::default();
    while !matches!(
        start_up.receive(&mut rest).unwrap().unwrap(),
        StartUpEvent::Announced(_)
    ) {}
    assert_eq!(rest, b"selvedge-worker#1 10.0.0.8:1\n");
}

#[test]
fn jmgr_14_text_without_an_end_of_line_does_not_hide_the_announcement() {
    let address = WorkerPlace::Address("[fe80::1%eth0]:9".parse().unwrap());
    let output = format!("loading ...{}", address.announcement());
    assert_eq!(heard([output.as_bytes()]).1, Ok("[fe80::1%eth0]:9".to_owned()));
}

#[test]
fn jtran_07_a_place_of_the_users_own_transport_is_any_line_of_text() {
    for place in [
        "x",
        "at the third shelf",
        "/run/broker/7",
        "1.2.3.4:5",
        &"é".repeat(512),
    ] {
        let output = WorkerPlace::own(place).unwrap().announcement();
        let mut start_up = StartUp::default();
        let event = start_up.receive(&mut output.as_bytes()).unwrap();
        let own = WorkerPlace::Own(place.to_owned());
        assert_eq!(event, Some(StartUpEvent::Announced(own)));
    }
    for place in ["", " x", "x ", "a\nb", "\u{1b}[2J", &"x".repeat(1025)] {
        assert!(WorkerPlace::own(place).is_err(), "{place}");
    }
    let (_, refused) = heard([&b"selvedge-worker#1 at \n"[..]]);
    assert!(
        matches!(refused, Err(StartUpError::Unreadable { .. })),
        "{refused:?}"
    );
}

#[test]
fn jmgr_14_a_thousand_other_lines_are_tolerated() {
    let announcement = b"selvedge-worker#1 gpu0:4711\n";
    for filling in ["text\n", "\n", "\u{1b}\0\n"] {
        let tolerated = filling.repeat(START_UP_LINES_MAX);
        let (texts, address) = heard([tolerated.as_bytes(), announcement]);
        assert_eq!(address, Ok("gpu0:4711".to_owned()));
        assert_eq!(texts.len(), if filling == "\n" { 0 } else { START_UP_LINES_MAX });
        let beyond = filling.repeat(START_UP_LINES_MAX + 1);
        let (_, address) = heard([beyond.as_bytes(), announcement]);
        assert!(
            matches!(address, Err(StartUpError::TooManyLines { .. })),
            "{address:?}"
        );
    }
    // One line without an end is as many as it has pieces.
    let endless = vec![b'x'; (START_UP_LINES_MAX + 2) * LINE_BYTES_MAX];
    assert!(matches!(
        heard([&endless[..]]).1,
        Err(StartUpError::TooManyLines { .. })
    ));
}

#[test]
fn jmgr_14_a_piece_of_a_long_line_is_no_announcement() {
    let long = "x".repeat(LINE_BYTES_MAX) + "selvedge-worker#1 gpu0:4711\n";
    let (texts, address) = heard([long.as_bytes()]);
    assert_eq!(texts.len(), 2);
    assert!(matches!(address, Err(StartUpError::Ended { .. })), "{address:?}");
    // The same text in a line of its own is one.
    let short = "x".repeat(LINE_BYTES_MAX) + "\nselvedge-worker#1 gpu0:4711\n";
    assert_eq!(heard([short.as_bytes()]).1, Ok("gpu0:4711".to_owned()));
}

#[test]
fn jmgr_14_an_announcement_of_another_build_is_told_at_once() {
    for line in [
        "2 gpu0:4711",
        "1 gpu0:0",
        "1 gpu0",
        "1 -oProxyCommand=x:1",
        "1 gpu0:1 x",
        "",
        "1  gpu0:1",
    ] {
        let output = format!("selvedge-worker#{line}\n");
        let (_, address) = heard([output.as_bytes()]);
        let line = output.trim_end().to_owned();
        assert_eq!(address, Err(StartUpError::Unreadable { line }));
    }
}

#[test]
fn jmgr_14_an_output_that_ends_is_an_error_with_its_last_line() {
    let (texts, address) = heard([&b"bash: /opt/train: No such file\n\n"[..], b"logout"]);
    assert_eq!(
        texts,
        [
            "From worker startup: bash: /opt/train: No such file",
            "From worker startup: logout"
        ]
    );
    let last = "logout".to_owned();
    assert_eq!(address, Err(StartUpError::Ended { last }));
    let unfinished = heard([&b"selvedge-worker#1 gpu0:4711"[..]]).1;
    assert!(
        matches!(unfinished, Err(StartUpError::Ended { .. })),
        "a line without its end may be half an address"
    );
}

#[test]
fn jmgr_20_other_lines_are_shown_as_those_of_a_startup() {
    let (texts, _) = heard([&b"Welcome to gpu0\n\x1b[2J\xff\0\tx\nselvedge-worker#1 gpu0:1\n"[..]]);
    let expected = [
        "From worker startup: Welcome to gpu0",
        "From worker startup: \\u{1b}[2J\u{fffd}\\0\tx",
    ];
    assert_eq!(texts, expected);
}

#[test]
fn jclust_11_a_long_line_comes_in_pieces_of_whole_characters() {
    for before in ["", "a", "ab", "abc"] {
        for character in ["x", "é", "€", "🦀"] {
            let text = before.to_owned() + &character.repeat(LINE_BYTES_MAX);
            let pieces = lines([text.as_bytes(), b"\nnext\n"]);
            let (last, pieces) = pieces.split_last().unwrap();
            assert_eq!(last, &("next".to_owned(), false));
            let continued: Vec<bool> = pieces.iter().map(|(_, continued)| *continued).collect();
            assert!(!continued[0] && continued[1..].iter().all(|it| *it));
            assert!(pieces.iter().all(|(piece, _)| piece.len() <= LINE_BYTES_MAX));
            assert_eq!(pieces.iter().map(|(piece, _)| &**piece).collect::<String>(), text);
        }
    }
    let full = "x".repeat(LINE_BYTES_MAX);
    assert_eq!(
        lines([full.as_bytes(), b"\n"]),
        [(full.clone(), false)],
        "a full line is not cut"
    );
}

proptest! {
    #[test]
    fn jclust_11_any_bytes_become_printable_lines_however_they_are_cut(
        bytes in proptest::collection::vec(prop_oneof![3 => any::<u8>(), 1 => Just(b'\n'), 1 => Just(b'x')], 0..300),
        stretch in prop_oneof![3 => Just(0), 1 => 0..2 * LINE_BYTES_MAX],
        lengths in 1..7_usize,
    ) {
        let mut bytes = bytes;
        bytes.extend(std::iter::repeat_n(0xe2, stretch));
        let whole = lines([&bytes[..]]);
        prop_assert_eq!(&whole, &lines(bytes.chunks(lengths)));
        for (text, _) in &whole {
            prop_assert!(!text.chars().any(|it| it.is_control() && it != '\t'));
        }
        let ends = bytes.iter().filter(|byte| **byte == b'\n').count();
        let begun = usize::from(bytes.last().is_some_and(|byte| *byte != b'\n'));
        prop_assert_eq!(whole.iter().filter(|(_, continued)| !continued).count(), ends + begun);
    }

    #[test]
    fn jmgr_14_the_address_is_found_however_the_bytes_are_cut(
        before in proptest::collection::vec(any::<u8>(), 0..200),
        lengths in 1..50_usize,
    ) {
        let announcement = b"\nselvedge-worker#1 10.0.0.7:4711\n";
        let bytes = [&before[..], announcement].concat();
        let whole = heard([&bytes[..]]);
        prop_assert_eq!(&whole.1, &Ok("10.0.0.7:4711".to_owned()));
        prop_assert_eq!(whole, heard(bytes.chunks(lengths)));
    }
}
