//! Caches that people put in front of a gateway, each a process with a folder of its own.

use std::fmt::Write as _;
use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::front::Answer;
use crate::ports::free_address;
use crate::{PATIENCE, scratch, within};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Product {
    Nginx,
    Varnish,
    TrafficServer,
}

impl Product {
    pub const ALL: [Product; 3] = [Self::Nginx, Self::Varnish, Self::TrafficServer];

    pub fn name(self) -> &'static str {
        match self {
            Self::Nginx => "nginx",
            Self::Varnish => "Varnish",
            Self::TrafficServer => "Traffic Server",
        }
    }

    /// Its program, where Debian puts it if not on the path.
    fn program(self) -> Option<&'static str> {
        let (names, version): ([&str; 2], &str) = match self {
            Self::Nginx => (["nginx", "/usr/sbin/nginx"], "-v"),
            Self::Varnish => (["varnishd", "/usr/sbin/varnishd"], "-V"),
            Self::TrafficServer => (["traffic_server", "/usr/bin/traffic_server"], "--version"),
        };
        let runs = |name: &&str| Command::new(name).arg(version).output().is_ok_and(|told| told.status.success());
        names.into_iter().find(runs)
    }

    /// Whether the answer came from its memory, without a call of the gateway.
    pub fn hit(self, answer: &Answer) -> bool {
        match self {
            Self::Nginx | Self::Varnish => answer.field("x-front") == "HIT",
            // The second letter is the result of the lookup: a fresh copy on disk (H) or in memory (R), or a stale copy (S) that the
            // gateway has confirmed (sN).
            Self::TrafficServer => {
                let via = answer.field("via").rsplit('[').next().unwrap_or_default();
                ["cH", "cR", "cSsN"].iter().any(|found| via.starts_with(found))
            }
        }
    }
}

/// A cache that runs. It is gone with this.
pub struct Cache {
    pub product: Product,
    pub address: SocketAddr,
    child: Child,
    folder: PathBuf,
}

impl Cache {
    /// Starts it before the gateway; nothing, where it is not installed.
    pub fn start(product: Product, gateway: SocketAddr) -> Option<Self> {
        let program = product.program()?;
        let address = free_address();
        let folder = scratch(format!("downstream-{}", address.port()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        let mut command = Command::new(program);
        match product {
            Product::Nginx => nginx(&mut command, address, gateway, &folder),
            Product::Varnish => varnish(&mut command, address, gateway, &folder),
            Product::TrafficServer => traffic_server(&mut command, address, gateway, &folder),
        }
        let log = fs::File::create(folder.join("said")).unwrap();
        let child = command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap();
        let mut cache = Cache { product, address, child, folder };
        let ready = || TcpStream::connect(address).is_ok().then_some(()).or(cache.child.try_wait().ok()?.map(drop));
        within(PATIENCE, ready);
        assert!(TcpStream::connect(address).is_ok(), "{} does not start: {}", product.name(), cache.said());
        Some(cache)
    }

    /// The lines that the cache wrote to its log.
    pub fn said(&self) -> String {
        fs::read_to_string(self.folder.join("said")).unwrap_or_default()
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        // Varnish's own child ends with it when it is asked to end.
        let _ = Command::new("sh").args(["-c", &format!("kill {}", self.child.id())]).status();
        if within(PATIENCE / 30, || self.child.try_wait().ok().flatten()).is_none() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Keeps what the answers allow, asks again with their validators, and adds the client's address.
fn nginx(command: &mut Command, listen: SocketAddr, gateway: SocketAddr, folder: &Path) {
    let mut paths = String::new();
    for name in ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"] {
        writeln!(paths, "  {name}_temp_path {}/{name};", folder.display()).unwrap();
    }
    let folder_text = folder.display();
    let text = format!(
        "daemon off;\nworker_processes 1;\npid {folder_text}/pid;\nevents {{ worker_connections 512; }}\nhttp {{\n  access_log off;\n{paths}\
         \x20 proxy_cache_path {folder_text}/kept levels=1:2 keys_zone=kept:32m;\n\
         \x20 upstream gateway {{ server {gateway}; keepalive 16; }}\n\
         \x20 server {{\n    listen {listen};\n    location / {{\n      proxy_pass http://gateway;\n      proxy_http_version 1.1;\n\
         \x20     proxy_set_header Connection '';\n      proxy_set_header Host $http_host;\n\
         \x20     proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;\n      proxy_cache kept;\n\
         \x20     proxy_cache_revalidate on;\n      add_header x-front $upstream_cache_status always;\n    }}\n  }}\n}}\n"
    );
    let file = folder.join("nginx.conf");
    fs::write(&file, text).unwrap();
    command.arg("-p").arg(folder).arg("-e").arg(folder.join("said")).arg("-c").arg(file);
}

/// Looks up requests with cookies and credentials, too: what the answers say must be enough.
fn varnish(command: &mut Command, listen: SocketAddr, gateway: SocketAddr, folder: &Path) {
    let (host, port) = (gateway.ip(), gateway.port());
    let text = format!(
        "vcl 4.1;\nbackend gateway {{ .host = \"{host}\"; .port = \"{port}\"; }}\n\
         sub vcl_recv {{ if (req.method == \"GET\" || req.method == \"HEAD\") {{ return (hash); }} }}\n\
         sub vcl_deliver {{ if (obj.hits > 0) {{ set resp.http.x-front = \"HIT\"; }} }}\n"
    );
    let file = folder.join("gateway.vcl");
    fs::write(&file, text).unwrap();
    command.args(["-F", "-j", "none", "-a", &listen.to_string(), "-s", "malloc,64m"]);
    command.arg("-f").arg(file).arg("-n").arg(folder.join("work"));
    // What says nothing of its life has none. Clients rest while others are asked: after 5 s it would close their connections.
    for setting in ["default_ttl=0", "default_grace=0", "default_keep=60", "timeout_idle=600"] {
        command.args(["-p", setting]);
    }
}

fn traffic_server(command: &mut Command, listen: SocketAddr, gateway: SocketAddr, folder: &Path) {
    for name in ["etc", "cache", "log", "run"] {
        fs::create_dir_all(folder.join(name)).unwrap();
    }
    let settings = format!(
        "CONFIG proxy.config.http.server_ports STRING {}:ip-in={}\n\
         CONFIG proxy.config.url_remap.pristine_host_hdr INT 1\n\
         CONFIG proxy.config.http.cache.http INT 1\n\
         CONFIG proxy.config.http.cache.heuristic_min_lifetime INT 0\n\
         CONFIG proxy.config.http.cache.heuristic_lm_factor FLOAT 0\n\
         CONFIG proxy.config.http.cache.cache_responses_to_cookies INT 1\n\
         CONFIG proxy.config.http.insert_response_via_str INT 2\n\
         CONFIG proxy.config.http.insert_squid_x_forwarded_for INT 1\n\
         CONFIG proxy.config.exec_thread.autoconfig INT 0\n\
         CONFIG proxy.config.exec_thread.limit INT 1\n\
         CONFIG proxy.config.admin.user_id STRING #-1\n",
        listen.port(),
        listen.ip()
    );
    let etc = folder.join("etc");
    let write = |name: &str, text: &str| fs::write(etc.join(name), text).unwrap();
    write("records.config", &settings);
    write("storage.config", &format!("{} 64M\n", folder.join("cache").display()));
    write("remap.config", &format!("map / http://{gateway}/\n"));
    write("ip_allow.yaml", "ip_allow:\n  - apply: in\n    ip_addrs: 0/0\n    action: allow\n    methods: ALL\n");
    let mut roots =
        "prefix: /usr\nexec_prefix: /usr\nbindir: /usr/bin\nsbindir: /usr/sbin\nincludedir: /usr/include\nlibdir: \
                     /usr/lib\nlibexecdir: /usr/lib/trafficserver/modules\n"
            .to_owned();
    for (name, place) in [
        ("sysconfdir", "etc"),
        ("datadir", "cache"),
        ("cachedir", "cache"),
        ("localstatedir", "run"),
        ("runtimedir", "run"),
        ("logdir", "log"),
    ] {
        writeln!(roots, "{name}: {}", folder.join(place).display()).unwrap();
    }
    fs::write(folder.join("runroot.yaml"), roots).unwrap();
    command.arg(format!("--run-root={}", folder.display()));
}
