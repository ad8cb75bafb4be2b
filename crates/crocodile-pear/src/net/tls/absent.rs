//! A build without TLS: what needs it is refused when the configuration is compiled.

mod spec;

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use self::spec::{TlsFault, TlsField};
pub use self::spec::{TlsSettings, TlsSpec, TlsVersion};
use super::connect_error::ConnectFault;

use super::protocol::Offer;
use crate::config::files::Files;
use crate::config::problem::Problems;
use crate::error::Error;
use crate::runtime::socket::Socket;

/// No build without TLS has one.
pub(crate) enum Tls {}

/// No build without TLS has one.
pub(crate) enum TlsConnection {}

impl Tls {
    /// # Errors
    /// Always.
    pub(crate) fn new(_: &TlsSettings, _: &str, _: &[&[u8]]) -> Result<Self, TlsFault> {
        Err(TlsField::Name
            .fault("`https` needs the feature `tls` of the crate crocodile-pear, which this build is without"))
    }

    pub(crate) async fn connect(&self, _: Socket, _: Offer) -> Result<Box<TlsConnection>, ConnectFault> {
        match *self {}
    }
}

impl TlsSpec {
    pub(crate) fn compile(&self, host: &str, files: Files<'_>, problems: &mut Problems) -> Option<TlsSettings> {
        self.settle(files, |settings| Tls::new(settings, host, &[]).map(drop), problems)
    }
}

impl TlsConnection {
    pub(crate) fn socket(&self) -> &Socket {
        match *self {}
    }

    pub(crate) fn chosen(&self) -> Option<&[u8]> {
        match *self {}
    }

    pub(crate) fn break_off(&mut self) {
        match *self {}
    }
}

impl AsyncRead for TlsConnection {
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, _: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match *self {}
    }
}

impl AsyncWrite for TlsConnection {
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

/// `None`: no error is one of TLS.
pub fn refusal(_: &io::Error) -> Option<Error> {
    None
}
