//! How the system resolves names: `resolv.conf` and `hosts`, read again when they change.

use std::collections::HashMap;
use std::fs::{self, Metadata};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use hickory_resolver::TokioResolver;
use hickory_resolver::config::{
    ConnectionConfig, LookupIpStrategy, NameServerConfig, ResolveHosts, ResolverConfig, ResolverOpts,
};
use hickory_resolver::net::runtime::TokioRuntimeProvider;

/// The port of name servers (RFC 1035, 4.2).
pub(super) const PORT: u16 = 53;

const HOSTS: &str = "/etc/hosts";
const CONFIG: &str = "/etc/resolv.conf";

/// How often the files are looked at. A file that has changed is read when it has stayed as it is for this time.
pub(super) const LOOK: Duration = Duration::from_millis(500);

/// How long a name server may take before it is asked again, or the next one.
const WITHIN: Duration = Duration::from_secs(1);

/// Whom names are asked of.
pub(super) struct SystemResolver {
    pub(super) hosts: Hosts,
    /// Why there is none, if there is none.
    pub(super) resolver: Result<TokioResolver, String>,
    /// Whether the system names no DNS server.
    pub(super) guessed: bool,
}

impl SystemResolver {
    /// The files as they are now. Without name servers, those of the system are asked.
    pub(super) fn read(servers: &[SocketAddr]) -> Self {
        let hosts = fs::read(HOSTS).map(|bytes| Hosts::parse(&String::from_utf8_lossy(&bytes))).unwrap_or_default();
        let (config, options, guessed) = match servers {
            [] => system(),
            servers => {
                let config = ResolverConfig::from_parts(None, vec![], servers.iter().map(name_server).collect());
                // Calls wait for the first answer: there must be time for a second attempt.
                let mut options = ResolverOpts::default();
                options.timeout = WITHIN;
                (config, options, false)
            }
        };
        SystemResolver { hosts, resolver: build(config, options), guessed }
    }
}

fn build(config: ResolverConfig, mut options: ResolverOpts) -> Result<TokioResolver, String> {
    // The answers are kept by us, with their expiry, and so are hosts.
    options.cache_size = 0;
    options.use_hosts_file = ResolveHosts::Never;
    options.ip_strategy = LookupIpStrategy::Ipv4AndIpv6;
    let mut builder = TokioResolver::builder_with_config(config, TokioRuntimeProvider::default());
    *builder.options_mut() = options;
    builder.build().map_err(|error| error.to_string())
}

/// The settings of `resolv.conf`. Where it names no server, libc asks this machine, and so does this.
fn system() -> (ResolverConfig, ResolverOpts, bool) {
    #[cfg(not(target_vendor = "apple"))]
    let read = fs::read(CONFIG).ok().and_then(|bytes| hickory_resolver::system_conf::parse_resolv_conf(bytes).ok());
    #[cfg(target_vendor = "apple")]
    let read = hickory_resolver::system_conf::read_system_conf().ok();
    match read {
        Some((config, options)) => (config, options, false),
        None => {
            let here = name_server(&SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), PORT));
            (ResolverConfig::from_parts(None, vec![], vec![here]), ResolverOpts::default(), true)
        }
    }
}

/// Over UDP; over TCP if the answer is too long (RFC 7766).
fn name_server(server: &SocketAddr) -> NameServerConfig {
    let mut connections = vec![ConnectionConfig::udp(), ConnectionConfig::tcp()];
    connections.iter_mut().for_each(|connection| connection.port = server.port());
    NameServerConfig::new(server.ip(), true, connections)
}

/// The marks of the files, which differ when one of them has been written or replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ResolverStamp([Option<FileStamp>; 2]);

/// The device, the number, the size and the time of a file.
type FileStamp = (u64, u64, u64, i64, i64);

impl ResolverStamp {
    pub(super) fn now() -> Self {
        ResolverStamp([HOSTS, CONFIG].map(|file| Self::of(Path::new(file))))
    }

    fn of(file: &Path) -> Option<FileStamp> {
        let known = |data: Metadata| (data.dev(), data.ino(), data.size(), data.mtime(), data.mtime_nsec());
        fs::metadata(file).ok().map(known)
    }
}

/// The names that need no DNS: those in a file `hosts`, and `localhost` (RFC 6761, 6.3).
#[derive(Debug, Default)]
pub(super) struct Hosts(HashMap<String, Vec<IpAddr>>);

impl Hosts {
    /// Reads the file. Lines that are not of its form are left out, as libc does.
    pub(super) fn parse(text: &str) -> Self {
        let mut hosts: HashMap<String, Vec<IpAddr>> = HashMap::new();
        for line in text.lines() {
            let mut words = line.split('#').next().unwrap_or_default().split_whitespace();
            let Some(address) = words.next().and_then(|word| word.parse().ok()) else { continue };
            words.for_each(|name| hosts.entry(plain(name)).or_default().push(address));
        }
        Hosts(hosts)
    }

    /// The addresses of a name that needs no DNS.
    pub(super) fn find(&self, name: &str) -> Option<Vec<IpAddr>> {
        let name = plain(name);
        let written = self.0.get(&name).cloned();
        let local = name == "localhost" || name.ends_with(".localhost");
        written.or_else(|| local.then(|| vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]))
    }
}

/// A name as it is compared.
fn plain(name: &str) -> String {
    name.trim_end_matches('.').to_ascii_lowercase()
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn names_of_the_file_and_localhost_need_no_dns() {
        let hosts = Hosts::parse("127.0.0.1 one Two # three\n\n::1 one\n# 10.0.0.1 four\n10.0.0.999 five\nsix\n");
        let find = |name| hosts.find(name).map(|all| all.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!(find("one"), Some(vec!["127.0.0.1".to_owned(), "::1".to_owned()]));
        assert_eq!(find("TWO."), Some(vec!["127.0.0.1".to_owned()]));
        for name in ["three", "four", "five", "six", "localhost.example"] {
            assert_eq!(find(name), None, "{name}");
        }
        for name in ["localhost", "Localhost.", "shop.localhost"] {
            assert_eq!(find(name), Some(vec!["127.0.0.1".to_owned(), "::1".to_owned()]), "{name}");
        }
        assert_eq!(Hosts::parse("10.0.0.7 localhost").find("localhost"), Some(vec![IpAddr::from([10, 0, 0, 7])]));
    }
}
