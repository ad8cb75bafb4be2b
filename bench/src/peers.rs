//! The gateways that are measured side by side.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use clap::ValueEnum;

use crate::Result;
use crate::asked::Shape;
use crate::process::{Folder, Process, free_address};
use crate::product;

/// Where Debian puts it; not on everybody's PATH.
const NGINX: [&str; 2] = ["nginx", "/usr/sbin/nginx"];

/// A worker for each core of the machine that the design's tables come from.
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
        match self {
            Self::Nginx if installed().is_none() => Some("not installed"),
            _ => None,
        }
    }

    /// The report's note on the peer, so that its row can be judged.
    pub fn describe(self) -> Option<String> {
        match self {
            Self::CrocodilePear => None,
            Self::Nginx => installed().map(|(_, version)| {
                format!(
                    "{version}: worker_processes {WORKERS}, reuseport, upstream keepalive 256 over HTTP/1.1, \
                     keepalive_requests 1000000, access_log off"
                )
            }),
        }
    }

    pub fn start(self, binary: &Path, upstream: SocketAddr) -> Result<Process> {
        match self {
            Self::CrocodilePear => product::start(binary, "product", |listen| product::shapes(listen, upstream)),
            Self::Nginx => nginx(upstream),
        }
    }
}

/// The program and the version it tells, if there is one.
fn installed() -> Option<(&'static str, String)> {
    NGINX.into_iter().find_map(|program| {
        let told = Command::new(program).arg("-v").output().ok()?;
        let told = String::from_utf8_lossy(&told.stderr).trim().to_owned();
        Some((program, told.trim_start_matches("nginx version: ").to_owned()))
    })
}

fn nginx(upstream: SocketAddr) -> Result<Process> {
    run(|listen, folder| settings(listen, upstream, folder))
}

/// nginx that compresses what it hands on, at this level or `off`.
pub fn gzip(rows: SocketAddr, items: SocketAddr, level: &str) -> Result<Process> {
    run(|listen, folder| {
        let told = match level {
            "off" => "gzip off;".to_owned(),
            level => format!("gzip on; gzip_comp_level {level}; gzip_types application/json; gzip_proxied any;"),
        };
        let rows = format!(
            "location = /rows {{ proxy_pass http://{rows}/rows; proxy_http_version 1.1; proxy_max_temp_file_size 0; }}"
        );
        let shapes = settings(listen, items, folder);
        shapes.replacen("    location = /proxy", &format!("    {told}\n    {rows}\n    location = /proxy"), 1)
    })
}

fn run(told: impl FnOnce(SocketAddr, &Path) -> String) -> Result<Process> {
    let (program, _) = installed().ok_or("nginx is not installed")?;
    let folder = Folder::new("nginx")?;
    let address = free_address()?;
    let file = folder.write("nginx.conf", &told(address, folder.path()))?;
    let mut command = Command::new(program);
    command.arg("-p").arg(folder.path()).arg("-e").arg(folder.path().join("error.log")).arg("-c").arg(file);
    Process::start(command, address, folder).map_err(|error| format!("nginx: {error}").into())
}

/// The settings of a fast setup: a worker for each core, kept connections on both sides, no log.
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
