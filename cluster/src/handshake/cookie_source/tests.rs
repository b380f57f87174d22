use std::path::PathBuf;
use std::{fs, process};

use super::*;

const DIGITS: &str = "00112233445566778899aabbccddeeff0123456789abcdefFEDCBA9876543210";

/// A file that is removed with the value.
struct TestFile(PathBuf);

impl TestFile {
    fn new(name: &str, content: &str) -> Self {
        let path = env::temp_dir().join(format!("selvedge-cookie-{}-{name}", process::id()));
        fs::write(&path, content).unwrap();
        let file = TestFile(path);
        file.permit(0o600);
        file
    }

    #[cfg(unix)]
    fn permit(&self, mode: u32) {
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(&self.0, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[cfg(not(unix))]
    fn permit(&self, _: u32) {}

    fn read(&self) -> Result<Cookie, CookieError> {
        CookieSource::File(self.0.clone()).read(&mut io::empty())
    }
}

impl Drop for TestFile {
    fn drop(&mut self) {
        fs::remove_file(&self.0).unwrap();
    }
}

fn from_stdin(bytes: &[u8]) -> Result<Cookie, CookieError> {
    CookieSource::Stdin.read(&mut &bytes[..])
}

fn text_of(cookie: &Cookie) -> String {
    String::from_utf8(cookie.text().as_ref().to_vec()).unwrap()
}

#[test]
fn jnet_16_a_cookie_comes_from_the_program_a_file_or_the_first_line_of_the_input() {
    let expected = DIGITS.to_lowercase() + "\n";
    let given = Cookie::parse(DIGITS).unwrap();
    let file = TestFile::new("good", &format!("{DIGITS}\r\nsomething else"));
    for source in [
        CookieSource::Given(given),
        CookieSource::File(file.0.clone()),
        CookieSource::Stdin,
    ] {
        let cookie = source.read(&mut DIGITS.as_bytes()).unwrap();
        assert_eq!(text_of(&cookie), expected, "{source:?}");
        assert!(!format!("{source:?}").contains("0011"), "{source:?}");
    }
}

#[test]
fn jnet_16_a_variable_is_taken_from_the_environment() {
    // The environment of a test is not the test's to change, so this reads a variable that is no cookie.
    let read = |name: &str| {
        CookieSource::Variable(name.to_owned())
            .read(&mut io::empty())
            .unwrap_err()
    };
    let error = read("PATH");
    assert!(
        error.to_string().starts_with("the value of `PATH` is no cookie"),
        "{error}"
    );
    assert!(
        !error.to_string().contains("/bin"),
        "the value stays hidden: {error}"
    );
    let error = read("SELVEDGE_NO_SUCH_VARIABLE");
    assert!(matches!(error, CookieError::Unset { variable } if variable == "SELVEDGE_NO_SUCH_VARIABLE"));
}

#[test]
fn jnet_16_nothing_behind_the_first_line_is_taken_from_the_input() {
    let bytes = format!("{DIGITS}\nthe program's own input");
    let mut input = bytes.as_bytes();
    CookieSource::Stdin.read(&mut input).unwrap();
    assert_eq!(input, b"the program's own input");
}

#[test]
fn jnet_16_an_input_that_is_no_cookie_is_refused_and_not_shown() {
    assert!(matches!(from_stdin(b"").unwrap_err(), CookieError::Ended));
    let long = [b'0'; 100_000];
    for bytes in [&b"\n"[..], b"secret", &DIGITS.as_bytes()[1..], b"\xff\n", &long] {
        let error = from_stdin(bytes).unwrap_err();
        assert!(matches!(error, CookieError::Malformed { .. }), "{error}");
        assert!(!format!("{error} {error:?}").contains("secret"));
    }
    struct Broken;
    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
    }
    let error = CookieSource::Stdin.read(&mut Broken).unwrap_err();
    assert!(matches!(error, CookieError::Unreadable { .. }), "{error}");
}

#[test]
fn jnet_16_a_file_is_refused_if_it_is_no_file_or_cannot_be_read() {
    let read = |path: PathBuf| CookieSource::File(path).read(&mut io::empty()).unwrap_err();
    assert!(matches!(read(env::temp_dir()), CookieError::NotAFile { .. }));
    let missing = read(env::temp_dir().join("selvedge-no-such-file"));
    assert!(matches!(missing, CookieError::Unreadable { .. }), "{missing}");
    let error = TestFile::new("wrong", "secret").read().unwrap_err();
    assert!(matches!(error, CookieError::Malformed { .. }), "{error}");
    assert!(!format!("{error} {error:?}").contains("secret"), "{error}");
}

#[cfg(unix)]
#[test]
fn jnet_16_a_file_that_others_may_read_is_refused() {
    let file = TestFile::new("shared", DIGITS);
    for mode in [0o640, 0o604, 0o644, 0o620, 0o666] {
        file.permit(mode);
        let error = file.read().unwrap_err();
        assert!(
            matches!(error, CookieError::Exposed { mode: found, .. } if found == mode),
            "{error}"
        );
        assert!(error.to_string().contains("chmod 600"), "{error}");
    }
    for mode in [0o600, 0o400, 0o700] {
        file.permit(mode);
        file.read().unwrap();
    }
}

#[test]
fn jnet_11_random_cookies_differ() {
    let [one, other] = [(), ()].map(|()| text_of(&Cookie::random().unwrap()));
    assert_ne!(one, other);
    assert_eq!(one.trim_end().len(), 64);
    assert!(Cookie::parse(&one).is_some());
}

#[test]
fn jnet_12_a_cookie_is_read_again_from_its_text_and_never_shown() {
    let cookie = Cookie::random().unwrap();
    let text = cookie.text();
    let again = from_stdin(text.as_ref()).unwrap();
    assert_eq!(text_of(&again), text_of(&cookie));
    assert_eq!(format!("{cookie:?} {text:?}"), "Cookie(..) CookieText(..)");
}
