//! Source D's table: a large JSON answer streamed without compression and with each, beside nginx.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use bytes::Bytes;
use clap::Args;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::process::Process;
use crate::report::{Sheet, Style, say};
use crate::{Result, peers, product};

/// The upstream repeats so many bytes of rows: more than any window, so that no coding sees them twice.
const BLOCK: usize = 32 << 20;

/// How the upstream writes, and the client reads.
const CHUNK: usize = 64 << 10;

/// What source D streamed, in MB.
const FULL: u64 = 1_125;

const HEADINGS: [&str; 8] = ["rows", "coding", "seconds", "MB/s", "size %", "CPU s", "MB/s a core", "peak MiB"];

/// What is asked for, and how the gateway is told to make it.
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
    /// As many as source D: 1,125 MB
    #[arg(long)]
    full: bool,
    /// Print the table as Markdown
    #[arg(long)]
    markdown: bool,
}

pub async fn run(options: Options) -> Result<()> {
    let binary = product::find(options.binary)?;
    let size = 1_000_000 * if options.full { FULL } else { options.megabytes };
    let upstream = upstream(size)?;
    let mut sheet = Sheet::new(2, HEADINGS);
    for (name, asked, told) in CODINGS {
        let gateway = product::start(&binary, "compression", |listen| product::rows(listen, upstream, told))?;
        sheet.add(measure(&gateway, "crocodile-pear", name, asked, size).await?);
    }
    for level in ["off", "1", "6"] {
        let Ok(nginx) = peers::gzip(upstream, level) else { continue };
        let (name, asked) =
            if level == "off" { ("none".to_owned(), "identity") } else { (format!("gzip {level}"), "gzip") };
        sheet.add(measure(&nginx, "nginx", &name, asked, size).await?);
    }
    sheet.print(Style::choose(options.markdown))?;
    say("")?;
    Ok(say(&format!(
        "{} MB of JSON rows over one connection, read as fast as they come; CPU of the gateway alone.",
        size / 1_000_000
    ))?)
}

async fn measure(gateway: &Process, who: &str, name: &str, asked: &str, size: u64) -> Result<[String; 8]> {
    let (before, begun) = (gateway.cpu()?, Instant::now());
    let received = download(gateway.address, asked).await?;
    let (took, cpu) = (begun.elapsed(), gateway.cpu()? - before);
    let speed = |time: Duration| size as f64 / 1e6 / time.as_secs_f64().max(0.01);
    Ok([
        who.to_owned(),
        name.to_owned(),
        format!("{:.2}", took.as_secs_f64()),
        format!("{:.0}", speed(took)),
        format!("{:.1}", 100.0 * received as f64 / size as f64),
        format!("{:.2}", cpu.as_secs_f64()),
        format!("{:.0}", speed(cpu)),
        format!("{:.1}", gateway.peak()? as f64 / f64::from(1 << 20)),
    ])
}

/// How many bytes come, with their heads and chunk sizes: those are one in ten thousand.
async fn download(address: SocketAddr, asked: &str) -> Result<u64> {
    let mut stream = TcpStream::connect(address).await?;
    let request =
        format!("GET /rows HTTP/1.1\r\nHost: {address}\r\nAccept-Encoding: {asked}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut buffer = vec![0; CHUNK];
    let (mut received, mut head) = (0, true);
    loop {
        let count = stream.read(&mut buffer).await?;
        if std::mem::take(&mut head) && !buffer.starts_with(b"HTTP/1.1 200") {
            return Err(String::from_utf8_lossy(&buffer[..count]).into());
        }
        match count {
            0 => return Ok(received),
            count => received += count as u64,
        }
    }
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
            // A failed accept ends the upstream, and with it the run: nothing here is worth a second try.
            while let Ok((stream, _)) = TcpListener::accept(&TcpListener::from_std(listener.try_clone()?)?).await {
                let _ = serve(stream, &block, size).await;
            }
            std::io::Result::Ok(())
        })
    })?;
    Ok(address)
}

async fn serve(mut stream: TcpStream, block: &Bytes, size: u64) -> std::io::Result<()> {
    let mut request = [0; 4096];
    if stream.read(&mut request).await? == 0 {
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
        let received = download(address, "identity").await.expect("rows");
        assert!((5_000_000..5_000_500).contains(&received), "{received}");
        assert_eq!(rows(1000).len(), 1000);
    }
}
