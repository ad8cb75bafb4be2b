//! A build without TLS: what needs it is refused when the configuration is compiled.

mod spec;

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use self::spec::{Part, Unfit};
pub use self::spec::{TlsSettings, TlsSpec, TlsVersion};
use super::fault::ConnectFault;
use super::files::Files;
use super::protocol::Offer;
use crate::error::Error;
use crate::problem::Problems;
use crate::socket::Socket;

/// No build without TLS has one.
pub(super) enum Tls {}

/// No build without TLS has one.
pub(super) enum Stream {}

impl Tls {
    /// # Errors
    /// Always.
    pub(super) fn new(_: &TlsSettings, _: &str, _: &[&[u8]]) -> Result<Self, Unfit> {
        Err(Part::Name
            .unfit("`https` needs the feature `tls` of the crate crocodile-pear, which this build is without"))
    }

    pub(super) async fn connect(&self, _: Socket, _: Offer) -> Result<Box<Stream>, ConnectFault> {
        match *self {}
    }
}

impl TlsSpec {
    pub(super) fn compile(&self, host: &str, files: Files<'_>, problems: &mut Problems) -> Option<TlsSettings> {
        self.settle(files, |settings| Tls::new(settings, host, &[]).map(drop), problems)
    }
}

impl Stream {
    pub(super) fn socket(&self) -> &Socket {
        match *self {}
    }

    pub(super) fn chosen(&self) -> Option<&[u8]> {
        match *self {}
    }

    pub(super) fn break_off(&mut self) {
        match *self {}
    }
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, _: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match *self {}
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, _: &[u8]) -> Poll<io::Result<usize>> {
        match *self {}
    }

    fn poll_write_vectored(self: Pin<&mut Self>, _: &mut Context<'_>, _: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        match *self {}
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        match *self {}
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        match *self {}
    }
}

/// None is an error of TLS.
pub fn refusal(_: &io::Error) -> Option<Error> {
    None
}
