//! An HTTP client for one service that keeps its connections.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::{Method, Request, Response, header};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// The time that connecting may take.
const CONNECT: Duration = Duration::from_secs(10);

/// A client.
pub struct Client {
    address: String,
    idle: Mutex<Vec<Connection>>,
    repeated: AtomicU64,
}

/// A connection, closed when it is dropped: hyper would close a connection with an unread answer only when more of the
/// answer arrives.
struct Connection {
    sender: SendRequest<Full<Bytes>>,
    task: JoinHandle<hyper::Result<()>>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// An answer with an unread body. Dropping it closes its connection.
pub struct Answer {
    /// The status and the headers.
    pub head: Response<()>,
    body: Incoming,
    connection: Connection,
}

impl Client {
    /// Creates a client of a service at `host:port`.
    pub fn new(address: impl Into<String>) -> Client {
        Client {
            address: address.into(),
            idle: Mutex::default(),
            repeated: AtomicU64::new(0),
        }
    }

    /// Returns the number of requests that were sent a second time.
    pub fn repeated(&self) -> u64 {
        // Relaxed, here and below: a figure, which orders nothing.
        self.repeated.load(Ordering::Relaxed)
    }

    /// Sends a request and returns the answer, with its head read. If a kept connection breaks before the answer, the
    /// request is sent again on a new one, and [counted](Self::repeated).
    ///
    /// # Errors
    /// The error of the connection.
    pub async fn send(&self, method: Method, path: &str, body: impl Into<Bytes>) -> io::Result<Answer> {
        let body: Bytes = body.into();
        if let Some(connection) = self.kept() {
            // The service may just have closed the kept connection.
            if let Ok(answer) = self.send_on(connection, method.clone(), path, body.clone()).await {
                return Ok(answer);
            }
            self.repeated.fetch_add(1, Ordering::Relaxed);
        }
        let connection = self.connect().await?;
        self.send_on(connection, method, path, body).await
    }

    /// Posts an object and reads the whole answer: its status and its text.
    ///
    /// # Errors
    /// The error of the connection.
    pub async fn post(&self, path: &str, body: impl Into<Bytes>) -> io::Result<(u16, String)> {
        self.whole(Method::POST, path, body.into()).await
    }

    /// Gets a page: its status and its text.
    ///
    /// # Errors
    /// The error of the connection.
    pub async fn get(&self, path: &str) -> io::Result<(u16, String)> {
        self.whole(Method::GET, path, Bytes::new()).await
    }

    async fn whole(&self, method: Method, path: &str, body: Bytes) -> io::Result<(u16, String)> {
        let mut answer = self.send(method, path, body).await?;
        let mut text = Vec::new();
        while let Some(piece) = answer.piece().await? {
            text.extend_from_slice(&piece);
        }
        let status = answer.head.status().as_u16();
        self.keep(answer);
        Ok((status, String::from_utf8_lossy(&text).into_owned()))
    }

    /// Keeps the connection of an answer that was read to its end for the next request.
    pub fn keep(&self, answer: Answer) {
        self.idle.lock().push(answer.connection);
    }

    /// Closes the idle connections.
    pub fn close_idle(&self) {
        self.idle.lock().clear();
    }

    fn kept(&self) -> Option<Connection> {
        let mut idle = self.idle.lock();
        std::iter::from_fn(|| idle.pop()).find(|connection| connection.sender.is_ready())
    }

    async fn connect(&self) -> io::Result<Connection> {
        let stream = timeout(CONNECT, TcpStream::connect(&self.address)).await??;
        stream.set_nodelay(true)?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream))
            .await
            .map_err(io::Error::other)?;
        let task = tokio::spawn(connection);
        Ok(Connection { sender, task })
    }

    async fn send_on(
        &self,
        mut connection: Connection,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> io::Result<Answer> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, &self.address)
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::new(body))
            .map_err(io::Error::other)?;
        let response = connection
            .sender
            .send_request(request)
            .await
            .map_err(io::Error::other)?;
        let (head, body) = response.into_parts();
        Ok(Answer {
            head: Response::from_parts(head, ()),
            body,
            connection,
        })
    }
}

impl Answer {
    /// Returns the next piece of the body; `None` at its end.
    ///
    /// # Errors
    /// The body breaks off.
    pub async fn piece(&mut self) -> io::Result<Option<Bytes>> {
        while let Some(frame) = self.body.frame().await {
            if let Ok(data) = frame.map_err(io::Error::other)?.into_data() {
                return Ok(Some(data));
            }
        }
        Ok(None)
    }

    /// Returns a header as text.
    pub fn header(&self, name: header::HeaderName) -> Option<&str> {
        self.head.headers().get(name)?.to_str().ok()
    }
}
