//! The gateways that are measured side by side.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};

use clap::ValueEnum;

use crate::Result;
use crate::process::{Folder, Process, free_address};
use crate::product;
use crate::table::Shape;

/// What the report says of nginx, so that its row can be judged.
pub const NGINX: &str = "nginx: worker_processes 2, reuseport, upstream keepalive 256 over HTTP/1.1, \
                         keepalive_requests 1000000, access_log off";

/// One for each core of the machine that the design's tables come from.
const WORKERS: usize = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Peer {
    CrocodilePear,
    Nginx,
}

impl Peer {
    pub fn name(self) -> &'static str {
        match self {
            Self::CrocodilePear => "crocodile-pear",
            Self::Nginx => "nginx",
        }
    }

    pub fn can(self, shape: Shape) -> bool {
        match self {
            Self::CrocodilePear => true,
            Self::Nginx => shape == Shape::Proxy,
        }
    }

    /// Why it cannot take part, if so.
    pub fn missing(self) -> Option<&'static str> {
        let quiet = |program| Command::new(program).arg("-v").stderr(Stdio::null()).status();
        match self {
            Self::Nginx if quiet("nginx").is_err() => Some("not installed"),
            _ => None,
        }
    }

    pub fn start(self, binary: &Path, upstream: SocketAddr) -> Result<Process> {
        match self {
            Self::CrocodilePear => product::start(binary, "product", |listen| product::shapes(listen, upstream)),
            Self::Nginx => nginx(upstream),
        }
    }
}

fn nginx(upstream: SocketAddr) -> Result<Process> {
    let folder = Folder::new("nginx")?;
    let address = free_address()?;
    let file = folder.write("nginx.conf", &settings(address, upstream, folder.path()))?;
    let mut command = Command::new("nginx");
    command.arg("-p").arg(folder.path()).arg("-e").arg(folder.path().join("error.log")).arg("-c").arg(file);
    Process::start(command, address, folder).map_err(|error| format!("nginx: {error}").into())
}

/// As one would set it up to be fast: a worker for each core, kept connections on both sides, no log.
fn settings(listen: SocketAddr, upstream: SocketAddr, folder: &Path) -> String {
    let folder = folder.display();
    format!(
        "\
daemon off;
worker_processes {WORKERS};
pid {folder}/nginx.pid;
events {{ worker_connections 4096; }}
http {{
  access_log off;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  keepalive_requests 1000000;
  upstream up {{ server {upstream}; keepalive 256; keepalive_requests 1000000; }}
  server {{
    listen {listen} reuseport;
    location = /proxy {{
      proxy_pass http://up/item;
      proxy_http_version 1.1;
      proxy_set_header Connection '';
    }}
  }}
}}
"
    )
}
