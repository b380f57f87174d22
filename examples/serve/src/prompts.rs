//! The conversion of prompts to tokens, checked, and away from the threads that serve connections.
//!
//! A tokenizer takes long for a long text. So a short text is converted at once, and a long one on a thread where it may
//! take its time. Few long texts are converted at the same time, and few wait; the next one is refused.

use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Duration;

use tokio::sync::{Semaphore, TryAcquireError};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::error::Error;
use crate::vocabulary::Vocabulary;

/// The longest request, in bytes, whose prompt is converted at once.
const SHORT: usize = 4096;

/// The time after which a client that was refused may come again.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Converts texts to tokens that the model knows, and that may fit in its positions.
#[derive(Clone)]
pub struct Encoder {
    vocabulary: Arc<dyn Vocabulary>,
    positions: u32,
}

impl Encoder {
    /// Creates the encoder of a model with this number of positions.
    pub fn new(vocabulary: Arc<dyn Vocabulary>, positions: u32) -> Encoder {
        Encoder {
            vocabulary,
            positions,
        }
    }

    /// Returns the number of tokens of the model: all token ids are smaller.
    pub fn size(&self) -> u32 {
        self.vocabulary.size()
    }

    /// Returns the tokens of the text of a field.
    ///
    /// # Errors
    /// [`Error::PromptTooLong`] if the text has more bytes than the longest tokens could stand for in all positions;
    /// [`Error::Field`] if the text has no tokens, has one that the model does not know, or the tokenizer refuses it.
    pub fn encode(&self, param: &'static str, text: &str) -> Result<Vec<u32>, Error> {
        let longest = self.vocabulary.longest_token().max(1);
        let most = longest.saturating_mul(self.positions as usize);
        if text.len() > most {
            return Err(Error::PromptTooLong {
                param,
                bytes: text.len(),
                positions: self.positions,
                most,
            });
        }
        let tokens = self.vocabulary.encode(text);
        let tokens = tokens.map_err(|cause| Error::field(param, cause))?;
        if tokens.is_empty() {
            return Err(Error::field(param, "is empty"));
        }
        // A tokenizer may have tokens that were added after the model was made. A step with one would fail for all of
        // its texts.
        let size = self.size();
        match tokens.iter().find(|token| **token >= size) {
            Some(token) => Err(Error::field(
                param,
                format!("has a text that is token {token}; the model has {size} tokens, from 0"),
            )),
            None => Ok(tokens),
        }
    }
}

/// The limits of the long prompts that are converted at the same time.
#[derive(Clone, Copy, Debug)]
pub struct PromptLimits {
    /// The most that are converted at the same time.
    pub at_once: usize,
    /// The most that wait for it.
    pub waiting: usize,
    /// The longest wait.
    pub wait: Duration,
}

impl PromptLimits {
    /// Returns the limits for this queue: half of the cores convert, because the model needs the others.
    pub fn of_queue(waiting: usize, wait: Duration) -> PromptLimits {
        let cores = available_parallelism().map_or(1, usize::from);
        PromptLimits {
            at_once: (cores / 2).max(1),
            waiting,
            wait,
        }
    }
}

/// The prompts that are being converted.
pub struct Prompts {
    encoder: Encoder,
    wait: Duration,
    /// Places for long prompts that are being converted or wait.
    places: Semaphore,
    /// Turns for long prompts that are being converted.
    turns: Arc<Semaphore>,
}

impl Prompts {
    /// Creates the place where prompts are converted.
    pub fn new(encoder: Encoder, limits: PromptLimits) -> Prompts {
        let places = limits.at_once.saturating_add(limits.waiting);
        Prompts {
            encoder,
            wait: limits.wait,
            places: Semaphore::new(places.min(Semaphore::MAX_PERMITS)),
            turns: Arc::new(Semaphore::new(limits.at_once.min(Semaphore::MAX_PERMITS))),
        }
    }

    /// Converts the prompt of a request of this length. A long one waits for its turn.
    ///
    /// # Errors
    /// The errors of `convert`; [`Error::Overloaded`] if too many prompts wait; [`Error::Expired`] if the turn does not
    /// come in time; [`Error::ShuttingDown`] after [`close`](Self::close); [`Error::Failed`] if `convert` panics.
    pub async fn convert(
        &self,
        bytes: usize,
        convert: impl FnOnce(&Encoder) -> Result<Vec<u32>, Error> + Send + 'static,
    ) -> Result<Vec<u32>, Error> {
        if bytes <= SHORT {
            return convert(&self.encoder);
        }
        let _place = self.places.try_acquire().map_err(|error| match error {
            TryAcquireError::NoPermits => Error::Overloaded {
                retry_after: RETRY_AFTER,
            },
            TryAcquireError::Closed => Error::ShuttingDown,
        })?;
        let turn = timeout(self.wait, Arc::clone(&self.turns).acquire_owned()).await;
        let turn = turn
            .map_err(|_| Error::Expired)?
            .map_err(|_| Error::ShuttingDown)?;
        let encoder = self.encoder.clone();
        let converted = spawn_blocking(move || {
            // The turn ends with the work, also if the client is gone.
            let _turn = turn;
            convert(&encoder)
        });
        converted.await.unwrap_or_else(|error| {
            Err(Error::Failed {
                cause: error.to_string(),
            })
        })
    }

    /// Answers the prompts that wait, and all later long ones, with [`Error::ShuttingDown`].
    pub fn close(&self) {
        self.places.close();
        self.turns.close();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::mpsc;

    use futures_util::FutureExt;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(30);

    type Convert = Box<dyn FnOnce(&Encoder) -> Result<Vec<u32>, Error> + Send>;

    /// A vocabulary whose tokens are bytes. The model does not know the upper half.
    struct Bytes;

    impl Vocabulary for Bytes {
        fn encode(&self, text: &str) -> Result<Vec<u32>, String> {
            Ok(text.bytes().map(u32::from).collect())
        }

        fn decode(&self, _: &[u32]) -> String {
            String::new()
        }

        fn is_end(&self, _: u32) -> bool {
            false
        }

        fn size(&self) -> u32 {
            128
        }

        fn longest_token(&self) -> usize {
            2
        }
    }

    #[test]
    fn texts_that_the_model_cannot_take_are_refused() {
        let encoder = Encoder::new(Arc::new(Bytes), 4);
        assert_eq!(encoder.encode("prompt", "ab").unwrap(), [97, 98]);
        assert!(
            encoder.encode("prompt", "12345678").is_ok(),
            "eight bytes may fit"
        );
        let long = encoder.encode("prompt", "123456789").unwrap_err();
        assert!(matches!(long, Error::PromptTooLong { most: 8, .. }), "{long}");
        let unknown = encoder.encode("prompt", "aä").unwrap_err().to_string();
        assert!(unknown.contains("token 195"), "{unknown}");
        let empty = encoder.encode("prompt", "").unwrap_err();
        assert_eq!(empty, Error::field("prompt", "is empty"));
    }

    /// The only thread of the test serves a short prompt while a long one is converted.
    #[tokio::test]
    async fn long_prompts_hold_up_nobody_and_few_wait() {
        let limits = PromptLimits {
            at_once: 1,
            waiting: 1,
            wait: PATIENCE,
        };
        let prompts = Arc::new(Prompts::new(Encoder::new(Arc::new(Bytes), 4), limits));
        let long = |convert: Convert| {
            let prompts = Arc::clone(&prompts);
            async move { prompts.convert(SHORT + 1, convert).await }
        };
        let (begun, begins) = tokio::sync::oneshot::channel();
        let (release, released) = mpsc::channel();
        let first = tokio::spawn(long(Box::new(move |_| {
            begun.send(()).unwrap();
            released.recv_timeout(PATIENCE).unwrap();
            Ok(vec![1])
        })));
        begins.await.unwrap();
        let mut second = Box::pin(long(Box::new(|_| Ok(vec![2]))));
        assert!(second.as_mut().now_or_never().is_none(), "it waits");
        let third = long(Box::new(|_| Ok(vec![3]))).await;
        assert!(matches!(third, Err(Error::Overloaded { .. })), "{third:?}");
        let short = prompts.convert(SHORT, |encoder| encoder.encode("prompt", "a"));
        assert_eq!(short.await.unwrap(), [97]);
        release.send(()).unwrap();
        assert_eq!(first.await.unwrap().unwrap(), [1]);
        assert_eq!(second.await.unwrap(), [2]);
        assert_eq!(long(Box::new(|_| Ok(vec![4]))).await.unwrap(), [4]);
    }

    #[tokio::test]
    async fn a_long_prompt_does_not_wait_for_ever_and_a_panic_fails_it_alone() {
        let limits = PromptLimits {
            at_once: 1,
            waiting: 1,
            wait: Duration::ZERO,
        };
        let prompts = Prompts::new(Encoder::new(Arc::new(Bytes), 4), limits);
        let failed = prompts.convert(SHORT + 1, |_| panic!("no such letter")).await;
        assert!(matches!(failed, Err(Error::Failed { .. })), "{failed:?}");
        let (begun, begins) = tokio::sync::oneshot::channel();
        let (_release, released) = mpsc::channel::<()>();
        let first = prompts.convert(SHORT + 1, move |_| {
            begun.send(()).unwrap();
            let _ = released.recv_timeout(PATIENCE);
            Ok(vec![1])
        });
        let mut first = Box::pin(first);
        assert!(first.as_mut().now_or_never().is_none());
        begins.await.unwrap();
        let late = prompts.convert(SHORT + 1, |_| Ok(vec![2])).await;
        assert_eq!(late, Err(Error::Expired));
    }

    #[tokio::test]
    async fn who_waits_is_answered_when_the_service_ends() {
        let limits = PromptLimits {
            at_once: 0,
            waiting: 1,
            wait: PATIENCE,
        };
        let prompts = Prompts::new(Encoder::new(Arc::new(Bytes), 4), limits);
        let mut waits = Box::pin(prompts.convert(SHORT + 1, |_| Ok(vec![1])));
        assert!(waits.as_mut().now_or_never().is_none());
        prompts.close();
        assert_eq!(waits.await, Err(Error::ShuttingDown));
        let late = prompts.convert(SHORT + 1, |_| Ok(vec![2])).await;
        assert_eq!(late, Err(Error::ShuttingDown));
    }
}
