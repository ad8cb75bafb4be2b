//! Source D's table: a large JSON answer streamed without compression and with each, beside nginx.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use clap::Args;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

use crate::client::Connection;
use crate::process::Process;
use crate::report::{Sheet, Style, say};
use crate::{Result, peers, product};

/// The upstream repeats so many bytes of rows: more than any window, so that no coding sees them twice.
const BLOCK: usize = 32 << 20;

/// How the upstream writes, and the client reads.
const CHUNK: usize = 64 << 10;

/// The size that source D streamed, in MB.
const FULL: u64 = 1_125;

/// The bytes that a line of 1 Gbit/s carries in a second.
const LINE: f64 = 125e6;

/// Small requests whose slowest hundredth is told, and the pause between them.
const SMALL: usize = 1_000;
const PAUSE: Duration = Duration::from_millis(5);

const HEADINGS: [&str; 11] = [
    "rows",
    "coding",
    "seconds",
    "MB/s",
    "size %",
    "CPU s",
    "MB/s a core",
    "peak MiB",
    "1 Gbit/s: s",
    "p99 ms",
    "beside it",
];

/// The requests, and the configurations of the gateway for them.
const CODINGS: [(&str, &str, &str); 8] = [
    ("none", "identity", "off"),
    ("gzip 1", "gzip", "{ codings: [gzip], gzip: 1 }"),
    ("gzip 2", "gzip", "{ codings: [gzip], gzip: 2 }"),
    ("gzip 6", "gzip", "{ codings: [gzip], gzip: 6 }"),
    ("br 1", "br", "{ codings: [br], br: 1 }"),
    ("br 4", "br", "{ codings: [br], br: 4 }"),
    ("zstd 1", "zstd", "{ codings: [zstd], zstd: 1 }"),
    ("zstd 3", "zstd", "{ codings: [zstd], zstd: 3 }"),
];

#[derive(Args)]
pub struct Options {
    /// The gateway's binary, if not the one built beside this bench
    #[arg(long)]
    binary: Option<PathBuf>,
    /// How many MB of rows
    #[arg(long, default_value_t = 200)]
    megabytes: u64,
    /// Stream as much as source D: 1,125 MB
    #[arg(long)]
    full: bool,
    /// Print the table as Markdown
    #[arg(long)]
    markdown: bool,
}

pub async fn run(options: Options) -> Result<()> {
    let binary = product::find(options.binary)?;
    let size = 1_000_000 * if options.full { FULL } else { options.megabytes };
    // Each on a thread of its own: who sends rows answers late, and that is not the gateway's doing.
    let (rows, items) = (upstream(size)?, upstream(size)?);
    let mut sheet = Sheet::new(2, HEADINGS);
    for (name, asked, told) in CODINGS {
        let gateway = product::start(&binary, "compression", |listen| product::rows(listen, rows, items, told))?;
        sheet.add(measure(&gateway, "crocodile-pear", name, asked, size).await?);
    }
    for level in ["off", "1", "6"] {
        let Ok(nginx) = peers::gzip(rows, items, level) else { continue };
        let (name, asked) =
            if level == "off" { ("none".to_owned(), "identity") } else { (format!("gzip {level}"), "gzip") };
        sheet.add(measure(&nginx, "nginx", &name, asked, size).await?);
    }
    sheet.print(Style::choose(options.markdown))?;
    say("")?;
    Ok(say(&format!(
        "{} MB of JSON rows over one connection, read as fast as they come; CPU of the gateway alone. Then read at \
         1 Gbit/s. p99 of {SMALL} small requests, alone and beside such downloads.",
        size / 1_000_000
    ))?)
}

async fn measure(gateway: &Process, who: &str, name: &str, asked: &str, size: u64) -> Result<[String; 11]> {
    let (before, begun) = (gateway.cpu()?, Instant::now());
    let received = download(gateway.address, asked, f64::INFINITY).await?;
    let (took, cpu) = (begun.elapsed(), gateway.cpu()? - before);
    let peak = gateway.peak()?;
    let begun = Instant::now();
    download(gateway.address, asked, LINE).await?;
    let (line, alone) = (begun.elapsed(), small(gateway.address).await?);
    let beside = beside(gateway.address, asked).await?;
    let speed = |time: Duration| size as f64 / 1e6 / time.as_secs_f64().max(0.01);
    Ok([
        who.to_owned(),
        name.to_owned(),
        format!("{:.2}", took.as_secs_f64()),
        format!("{:.0}", speed(took)),
        format!("{:.1}", 100.0 * received as f64 / size as f64),
        format!("{:.2}", cpu.as_secs_f64()),
        format!("{:.0}", speed(cpu)),
        format!("{:.1}", peak as f64 / f64::from(1 << 20)),
        format!("{:.2}", line.as_secs_f64()),
        format!("{:.2}", alone.as_secs_f64() * 1e3),
        format!("{:.2}", beside.as_secs_f64() * 1e3),
    ])
}

/// How many bytes come, with their heads and chunk sizes: those are one in ten thousand. `most` are read in a second.
async fn download(address: SocketAddr, asked: &str, most: f64) -> Result<u64> {
    let mut stream = TcpStream::connect(address).await?;
    let request =
        format!("GET /rows HTTP/1.1\r\nHost: {address}\r\nAccept-Encoding: {asked}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut buffer = vec![0; CHUNK];
    let (mut received, mut head, begun) = (0, true, Instant::now());
    loop {
        let count = stream.read(&mut buffer).await?;
        if std::mem::take(&mut head) && !buffer.starts_with(b"HTTP/1.1 200") {
            return Err(String::from_utf8_lossy(&buffer[..count]).into());
        }
        match count {
            0 => return Ok(received),
            count => received += count as u64,
        }
        let due = Duration::from_secs_f64(received as f64 / most);
        // The runtime's clock counts in milliseconds.
        if due > begun.elapsed() + Duration::from_millis(2) {
            tokio::time::sleep(due - begun.elapsed()).await;
        }
    }
}

/// The longest time of ninety-nine in a hundred small requests, one at a time.
async fn small(address: SocketAddr) -> Result<Duration> {
    let request = format!("GET /proxy HTTP/1.1\r\nHost: {address}\r\n\r\n");
    let mut connection = Connection::open(address).await?;
    let mut took = Vec::with_capacity(SMALL);
    for _ in 0..SMALL {
        tokio::time::sleep(PAUSE).await;
        let begun = Instant::now();
        let answer = connection.exchange(request.as_bytes()).await?;
        took.push(begun.elapsed());
        if answer.status != 200 {
            return Err(format!("a small request was answered with {}", answer.status).into());
        }
    }
    took.sort_unstable();
    Ok(took[SMALL * 99 / 100])
}

/// The same while another client downloads, on a thread of its own, as fast as it can.
async fn beside(address: SocketAddr, asked: &str) -> Result<Duration> {
    let (asked, stop) = (asked.to_owned(), Arc::new(Notify::new()));
    let stopped = stop.clone();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let downloads = std::thread::Builder::new().name("download".into()).spawn(move || {
        runtime.block_on(async {
            let for_ever = async {
                loop {
                    download(address, &asked, f64::INFINITY).await?;
                }
            };
            tokio::select! {
                () = stopped.notified() => Result::Ok(()),
                failed = for_ever => failed,
            }
        })
    })?;
    let took = small(address).await;
    stop.notify_one();
    downloads.join().map_err(|_| "the download panicked")??;
    took
}

/// Serves rows to whoever connects, on a thread of its own, until the process ends.
fn upstream(size: u64) -> Result<SocketAddr> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    let block = Bytes::from(rows(BLOCK));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    std::thread::Builder::new().name("upstream".into()).spawn(move || {
        runtime.block_on(async {
            let listener = TcpListener::from_std(listener)?;
            // A failed accept ends the upstream, and with it the run: nothing here is worth a second try.
            while let Ok((stream, _)) = listener.accept().await {
                let block = block.clone();
                tokio::spawn(async move { serve(stream, &block, size).await });
            }
            std::io::Result::Ok(())
        })
    })?;
    Ok(address)
}

async fn serve(mut stream: TcpStream, block: &Bytes, size: u64) -> std::io::Result<()> {
    let mut request = [0; 4096];
    let mut count = stream.read(&mut request).await?;
    // Small requests share a connection.
    while request[..count].starts_with(b"GET /item") {
        let answer = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 8\r\n\r\n{\"id\":1}";
        stream.write_all(answer).await?;
        count = stream.read(&mut request).await?;
    }
    if count == 0 {
        return Ok(());
    }
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {size}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await?;
    let mut left = size;
    while left > 0 {
        let block = &block[..block.len().min(usize::try_from(left).unwrap_or(usize::MAX))];
        stream.write_all(block).await?;
        left -= block.len() as u64;
    }
    stream.shutdown().await
}

/// JSON rows, one a line, with what rows have: numbers, names, dates, a key that is noise.
fn rows(size: usize) -> Vec<u8> {
    const NAMES: [&str; 8] = ["Ada", "Alan", "Barbara", "Donald", "Edsger", "Frances", "Grace", "Joe"];
    const CITIES: [&str; 4] = ["Copenhagen", "Goteborg", "Lund", "Malmo"];
    let (mut text, mut id) = (String::with_capacity(size + 256), 0u64);
    while text.len() < size {
        id += 1;
        let key = mix(id);
        let (name, city) = (NAMES[(key % 8) as usize], CITIES[(key / 8 % 4) as usize]);
        let (month, day, hour) = (key % 12 + 1, key / 12 % 28 + 1, key / 5 % 24);
        // Writing to a String does not fail.
        let _ = writeln!(
            text,
            r#"{{"id":{id},"key":"{key:016x}","name":"{name}","city":"{city}","amount":{}.{:02},"created":"2015-{month:02}-{day:02}T{hour:02}:00:00.000Z","active":{},"note":null}}"#,
            key % 100_000,
            key / 7 % 100,
            key.is_multiple_of(3),
        );
    }
    text.truncate(size);
    text.into_bytes()
}

/// splitmix64.
fn mix(seed: u64) -> u64 {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    state = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    state = (state ^ (state >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    state ^ (state >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn all_rows_come() {
        let address = upstream(5_000_000).expect("a free port");
        let begun = Instant::now();
        let received = download(address, "identity", 50e6).await.expect("rows");
        assert!(begun.elapsed() > Duration::from_millis(90), "50 MB a second at most");
        assert!((5_000_000..5_000_500).contains(&received), "{received}");
        assert_eq!(rows(1000).len(), 1000);
    }
}
