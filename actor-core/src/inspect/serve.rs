//! The process that is asked.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::sleep;

use super::table::InspectTable;
use super::topic::InspectTopic;
use super::wire::{InspectQuestion, InspectReply, NotAsked, VERSION};
use crate::boxed::{boxed_run, boxed_task};
use crate::platform::inspect_socket::{InspectCaller, InspectListener, InspectStream};

/// Makes the table of a topic, with so many rows at most.
pub(crate) type Answers = Arc<dyn Fn(InspectTopic, usize) -> InspectTable + Send + Sync>;

/// The conversations that may be open at a time.
const OPEN_MAX: usize = 4;
/// The time that a conversation may last.
const CONVERSATION_TIMEOUT: Duration = Duration::from_secs(5);
/// The pause after a shortage of descriptors. The system tells nobody when one is free again.
const PAUSE: Duration = Duration::from_millis(100);
/// The rows that an answer may have.
const ROWS_MAX: usize = 10_000;
/// The stack of the thread that answers.
const STACK_BYTES: usize = 256 << 10;

/// Answers questions as long as the tokio runtime of the calling thread lives. A process that cannot listen is one into which nobody can
/// look; it works all the same.
pub(crate) fn serve(answers: Answers) {
    if let Ok(listener) = InspectListener::bind() {
        tokio::spawn(boxed_task(listen(listener, answers)));
    }
}

async fn listen(listener: InspectListener, answers: Answers) {
    let open = Arc::new(Semaphore::new(OPEN_MAX));
    loop {
        let Ok(permit) = Arc::clone(&open).acquire_owned().await else {
            return;
        };
        let InspectCaller { stream, is_allowed } = match listener.accept().await {
            Ok(Some(caller)) => caller,
            Ok(None) => continue,
            Err(_) => {
                sleep(PAUSE).await;
                continue;
            }
        };
        if is_allowed {
            begin(stream, Arc::clone(&answers), permit);
        } else {
            // The buffer of a new socket has room for a head, so this does not wait.
            let _ = InspectReply::Stranger.send(&stream, Instant::now() + CONVERSATION_TIMEOUT);
        }
    }
}

/// Answers on a thread of its own. If there is none to be had, the asker sees the end of the conversation.
fn begin(stream: InspectStream, answers: Answers, permit: OwnedSemaphorePermit) {
    let converse = move || {
        converse(&stream, &answers);
        drop(stream);
        drop(permit);
    };
    let thread = thread::Builder::new().name("selvedge-inspect".to_owned());
    let _ = thread.stack_size(STACK_BYTES).spawn(boxed_run(converse));
}

fn converse(stream: &InspectStream, answers: &Answers) {
    let deadline = Instant::now() + CONVERSATION_TIMEOUT;
    let reply = match InspectQuestion::receive(stream, deadline) {
        Ok(Ok(InspectQuestion { topic, rows_max })) => {
            let rows_max = usize::try_from(rows_max).unwrap_or(usize::MAX);
            InspectReply::Table(answers(topic, rows_max.min(ROWS_MAX)))
        }
        Ok(Err(NotAsked::OtherVersion)) => InspectReply::OtherVersion(VERSION.to_owned()),
        Ok(Err(NotAsked::Garbled)) | Err(_) => return,
    };
    // An asker that has gone needs no answer.
    let _ = reply.send(stream, deadline);
}
