//! Shared libraries and the functions in them.
#![allow(unsafe_code)] // loads libraries, and takes their functions at their word

use std::env;
use std::error::Error as _;

/// Why something of a library cannot be used.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unavailable {
    /// None of the files that it may be in can be loaded.
    #[error("{library} cannot be loaded: {}", tried.join("; "))]
    NotFound {
        /// Which library.
        library: &'static str,
        /// What was tried, and what the system said.
        tried: Vec<String>,
    },
    /// A library without a function that is needed: it is too old, or something else.
    #[error("{path} has no function `{symbol}`: it is too old, or not {library}")]
    NoSymbol {
        /// Which library.
        library: &'static str,
        /// Where it was found.
        path: String,
        /// The function.
        symbol: &'static str,
    },
    /// A function said that it failed.
    #[error("`{call}` of {path} says {code}{}{name}", if name.is_empty() { "" } else { ", " })]
    Failed {
        /// The function.
        call: &'static str,
        /// Where it was found.
        path: String,
        /// The number it returned.
        code: i32,
        /// What that number is called; empty where the library does not say.
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
    /// The first of these files that can be loaded: the one that `variable` names, and no other where it does; else by name.
    ///
    /// # Errors
    /// [`Unavailable::NotFound`] with what was tried.
    pub fn open(kind: &'static str, variable: &str, names: &[&str]) -> Result<Self, Unavailable> {
        let chosen = env::var(variable).ok().filter(|path| !path.is_empty());
        let names: Vec<&str> = chosen
            .as_deref()
            .map_or_else(|| names.to_vec(), |path| vec![path]);
        let mut tried = Vec::new();
        for name in names {
            // SAFETY: runs the initialisers of what the machine's owner has put under this name, as linking it would.
            match unsafe { libloading::Library::new(name) } {
                Ok(library) => {
                    let path = name.to_owned();
                    return Ok(Library { kind, library, path });
                }
                Err(error) => {
                    // What the system said is behind what was tried.
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

    /// Where it was found.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// A function by name.
    ///
    /// # Errors
    /// [`Unavailable::NoSymbol`].
    ///
    /// # Safety
    /// `F` is the type of a pointer to the function that this library has under that name, and is not called after the library
    /// was closed.
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

    /// Whether it has all these functions.
    ///
    /// # Errors
    /// [`Unavailable::NoSymbol`] for the first that it has not.
    pub fn has(&self, symbols: &[&'static str]) -> Result<(), Unavailable> {
        symbols.iter().try_for_each(|symbol| {
            // SAFETY: the address is not called.
            unsafe { self.function::<*const ()>(symbol) }.map(drop)
        })
    }

    /// A failure, where a function returned a number that is not 0.
    ///
    /// # Errors
    /// [`Unavailable::Failed`].
    pub fn check(
        &self,
        call: &'static str,
        code: i32,
        name: impl FnOnce() -> String,
    ) -> Result<(), Unavailable> {
        if code == 0 {
            return Ok(());
        }
        Err(Unavailable::Failed {
            call,
            path: self.path.clone(),
            code,
            name: name(),
        })
    }
}
