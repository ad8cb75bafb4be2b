//! The servers that are compared: the same API on the same table, over as many connections.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::ValueEnum;

use crate::process::{Folder, Process, free_address};
use crate::{Result, product};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Server {
    CrocodilePear,
    Fastify,
    Go,
}

pub struct Running {
    pub server: Server,
    pub process: Process,
    /// Where its metrics are, if it has some.
    pub admin: Option<std::net::SocketAddr>,
}

/// Where Go is, if not in PATH.
const GO: [&str; 2] = ["go", "/usr/local/go/bin/go"];

const FASTIFY: [(&str, &str); 2] = [
    ("package.json", include_str!("../../items/fastify/package.json")),
    ("server.js", include_str!("../../items/fastify/server.js")),
];

const PGX: [(&str, &str); 3] = [
    ("go.mod", include_str!("../../items/go/go.mod")),
    ("go.sum", include_str!("../../items/go/go.sum")),
    ("main.go", include_str!("../../items/go/main.go")),
];

impl Server {
    pub const ALL: [Self; 3] = [Self::CrocodilePear, Self::Fastify, Self::Go];

    pub fn name(self) -> &'static str {
        match self {
            Self::CrocodilePear => "crocodile-pear",
            Self::Fastify => "fastify + pg",
            Self::Go => "Go + pgx",
        }
    }

    /// The program to start: built beside the bench, where it stays for the next run.
    pub fn prepare(self, binary: &Path) -> Result<PathBuf> {
        match self {
            Self::CrocodilePear => Ok(binary.to_owned()),
            Self::Fastify => {
                let folder = place("fastify", &FASTIFY)?;
                let mut install = Command::new("npm");
                install.args(["install", "--no-audit", "--no-fund", "--omit=dev"]);
                build(install, &folder, "npm", "Node.js 20 with npm")?;
                Ok(folder.join("server.js"))
            }
            Self::Go => {
                let folder = place("go", &PGX)?;
                let go = GO.into_iter().find(|go| Command::new(go).arg("version").output().is_ok());
                let mut command = Command::new(go.ok_or("install Go 1.24 or later")?);
                command.args(["build", "-o", "items", "."]);
                build(command, &folder, "go", "Go 1.24 or later")?;
                Ok(folder.join("items"))
            }
        }
    }

    pub fn start(self, program: &Path, url: &str, connections: u32) -> Result<Running> {
        let address = free_address()?;
        let folder = Folder::new(&format!("items-{}", self as u8))?;
        if self == Self::CrocodilePear {
            let admin = free_address()?;
            let process = product::start(program, "items", |listen| product::items(listen, admin, url, connections))?;
            return Ok(Running { server: self, process, admin: Some(admin) });
        }
        let mut command = match self {
            Self::Fastify => Command::new("node"),
            _ => Command::new(program),
        };
        if self == Self::Fastify {
            command.arg(program).env("NODE_ENV", "production");
        }
        command.env("DATABASE_URL", url).env("CONNECTIONS", connections.to_string());
        command.env("PORT", address.port().to_string());
        let process = Process::start(command, address, folder).map_err(|error| format!("{}: {error}", self.name()))?;
        Ok(Running { server: self, process, admin: None })
    }
}

fn place(name: &str, files: &[(&str, &str)]) -> Result<PathBuf> {
    let folder = std::env::current_exe()?.with_file_name("items").join(name);
    fs::create_dir_all(&folder)?;
    for (file, text) in files {
        fs::write(folder.join(file), text)?;
    }
    Ok(folder)
}

fn build(mut command: Command, folder: &Path, program: &str, wanted: &str) -> Result<()> {
    let told = command.current_dir(folder).stdin(Stdio::null()).output();
    let told = told.map_err(|error| format!("{program}: {error}; install {wanted}"))?;
    match told.status.success() {
        true => Ok(()),
        false => Err(format!("{program}: {}", String::from_utf8_lossy(&told.stderr).trim_end()).into()),
    }
}
