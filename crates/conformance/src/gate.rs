//! A way through which a server is reached, and which can be closed: an outage of the server, as its clients see it.

use std::io;
use std::net::SocketAddr;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::AbortHandle;

/// A way to a server. Dropping it closes it for good.
#[derive(Debug)]
pub struct Gate {
    address: SocketAddr,
    is_open: watch::Sender<bool>,
    accepting: AbortHandle,
}

impl Gate {
    /// An open way to `server`, on an address of its own.
    ///
    /// # Errors
    /// When no address can be had.
    pub async fn before(server: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let (is_open, watched) = watch::channel(true);
        let accepting = tokio::spawn(accept(listener, server, watched)).abort_handle();
        Ok(Self {
            address,
            is_open,
            accepting,
        })
    }

    /// Where clients connect to.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends all connections; those that come are ended at once.
    pub fn close(&self) {
        self.is_open.send_replace(false);
    }

    /// Lets clients through again.
    pub fn open(&self) {
        self.is_open.send_replace(true);
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.close();
        self.accepting.abort();
    }
}

async fn accept(listener: TcpListener, server: SocketAddr, is_open: watch::Receiver<bool>) {
    while let Ok((client, _)) = listener.accept().await {
        if *is_open.borrow() {
            // Owned by the connection: it ends with client, server or gate.
            tokio::spawn(carry(client, server, is_open.clone()));
        }
    }
}

async fn carry(mut client: TcpStream, server: SocketAddr, mut is_open: watch::Receiver<bool>) {
    let Ok(mut server) = TcpStream::connect(server).await else {
        return;
    };
    // Small answers must not wait for each other.
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    tokio::select! {
        biased;
        _ = is_open.wait_for(|is_open| !is_open) => {}
        _ = tokio::io::copy_bidirectional(&mut client, &mut server) => {}
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[tokio::test]
    async fn a_closed_gate_ends_what_is_open_and_lets_nobody_through() {
        let server = TcpListener::bind(("127.0.0.1", 0)).await.expect("an address");
        let gate = Gate::before(server.local_addr().expect("an address")).await.expect("a gate");
        let greet = async {
            let (mut stream, _) = server.accept().await.expect("a client");
            stream.write_all(b"hello").await.expect("the client listens");
            stream
        };
        let mut client = TcpStream::connect(gate.address()).await.expect("the gate is open");
        let _held = greet.await;
        let mut heard = [0; 5];
        client.read_exact(&mut heard).await.expect("the server speaks");
        assert_eq!(&heard, b"hello");

        gate.close();
        assert_eq!(client.read(&mut heard).await.unwrap_or(0), 0, "the connection is over");
        let mut late = TcpStream::connect(gate.address()).await.expect("the listener is there");
        assert_eq!(late.read(&mut heard).await.unwrap_or(0), 0, "nobody is let through");

        gate.open();
        let _client = TcpStream::connect(gate.address()).await.expect("the gate is open");
        server.accept().await.expect("it is let through");
    }
}
