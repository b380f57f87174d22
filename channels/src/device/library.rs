//! Shared libraries and the functions in them.
#![allow(unsafe_code)] // loads libraries, and trusts the declared types of their functions

use std::env;
use std::error::Error as _;

/// The reason why a library cannot be used.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unavailable {
    /// None of the candidate files can be loaded.
    #[error("{library} cannot be loaded: {}", tried.join("; "))]
    NotFound {
        /// The description of the library.
        library: &'static str,
        /// The files that were tried, each with the message of the system.
        tried: Vec<String>,
    },
    /// The library lacks a required function: it is too old, or another library.
    #[error("{path} has no function `{symbol}`: it is too old, or not {library}")]
    NoSymbol {
        /// The description of the library.
        library: &'static str,
        /// The file of the library.
        path: String,
        /// The name of the function.
        symbol: &'static str,
    },
    /// A function of the library reported a failure.
    #[error("`{call}` of {path} says {code}{}{name}", if name.is_empty() { "" } else { ", " })]
    Failed {
        /// The name of the function.
        call: &'static str,
        /// The file of the library.
        path: String,
        /// The code that it returned.
        code: i32,
        /// The name of the code; empty if the library gives none.
        name: String,
    },
}

crate::debug_is_report!(Unavailable);

/// A loaded library.
#[derive(Debug)]
pub struct Library {
    kind: &'static str,
    library: libloading::Library,
    path: String,
}

impl Library {
    /// Loads the first of the candidate files that can be loaded. If the environment variable `variable` is set, the
    /// file that it names is the only candidate, else the candidates are `names`.
    ///
    /// # Errors
    /// [`Unavailable::NotFound`] with the files that were tried.
    pub fn open(kind: &'static str, variable: &str, names: &[&str]) -> Result<Self, Unavailable> {
        let chosen = env::var(variable).ok().filter(|path| !path.is_empty());
        let names: Vec<&str> = chosen
            .as_deref()
            .map_or_else(|| names.to_vec(), |path| vec![path]);
        let mut tried = Vec::new();
        for name in names {
            // SAFETY: loading runs the initialisers of the library that the machine's owner installed under this name,
            // as linking to it would.
            match unsafe { libloading::Library::new(name) } {
                Ok(library) => {
                    let path = name.to_owned();
                    return Ok(Library { kind, library, path });
                }
                Err(error) => {
                    // The message of the system is the source of `libloading`'s error.
                    let said = error
                        .source()
                        .map_or_else(|| error.to_string(), ToString::to_string);
                    tried.push(if said.contains(name) {
                        said
                    } else {
                        format!("{name}: {said}")
                    });
                }
            }
        }
        Err(Unavailable::NotFound { library: kind, tried })
    }

    /// The file of the library.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Looks up a function by name.
    ///
    /// # Errors
    /// [`Unavailable::NoSymbol`].
    ///
    /// # Safety
    /// `F` is a pointer type for the function that the library has under this name. The pointer is not called after the
    /// library is closed.
    pub unsafe fn function<F: Copy>(&self, symbol: &'static str) -> Result<F, Unavailable> {
        // SAFETY: the caller's promise.
        let found = unsafe { self.library.get::<F>(symbol.as_bytes()) };
        found
            .map(|function| *function)
            .map_err(|_| Unavailable::NoSymbol {
                library: self.kind,
                path: self.path.clone(),
                symbol,
            })
    }

    /// Checks that the library has all these functions.
    ///
    /// # Errors
    /// [`Unavailable::NoSymbol`] for the first missing function.
    pub fn has(&self, symbols: &[&'static str]) -> Result<(), Unavailable> {
        symbols.iter().try_for_each(|symbol| {
            // SAFETY: the pointer is not called.
            unsafe { self.function::<*const ()>(symbol) }.map(drop)
        })
    }

    /// The error for a function of the library that has returned a failure.
    pub fn failed(&self, call: &'static str, code: i32, name: String) -> Unavailable {
        Unavailable::Failed {
            call,
            path: self.path.clone(),
            code,
            name,
        }
    }
}
