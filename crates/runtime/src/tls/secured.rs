//! A stream that is plain or encrypted, and one that is cut when its time is over.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsStream;

/// A connection as bytes.
#[derive(Debug)]
pub enum Stream {
    /// As they are.
    Plain(TcpStream),
    /// Encrypted.
    Tls(Box<TlsStream<TcpStream>>),
}

/// A stream that fails once `end` has come, whatever happens on it.
pub struct Secured<S> {
    stream: S,
    end: Pin<Box<dyn Future<Output = &'static str> + Send>>,
    reason: Option<&'static str>,
}

// === impl Secured ===

impl<S> Secured<S> {
    /// `stream`, until `end` says why it is over.
    pub fn new(stream: S, end: impl Future<Output = &'static str> + Send + 'static) -> Self {
        Self {
            stream,
            end: Box::pin(end),
            reason: None,
        }
    }

    /// Whoever waits for the stream waits for the end, too.
    fn poll_end(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        if self.reason.is_none() {
            match self.end.as_mut().poll(context) {
                Poll::Ready(reason) => self.reason = Some(reason),
                Poll::Pending => return Ok(()),
            }
        }
        let reason = self.reason.unwrap_or_default();
        Err(io::Error::new(io::ErrorKind::TimedOut, reason))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Secured<S> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.poll_end(context)?;
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Secured<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_end(context)?;
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

// === impl Stream ===

/// Calls the same of whatever it is.
macro_rules! either {
    ($self:ident, $method:ident, $($argument:expr),*) => {
        match $self.get_mut() {
            Stream::Plain(stream) => Pin::new(stream).$method($($argument),*),
            Stream::Tls(stream) => Pin::new(stream).$method($($argument),*),
        }
    };
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        either!(self, poll_read, context, buffer)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        either!(self, poll_write, context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self, poll_flush, context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self, poll_shutdown, context)
    }
}
