//! The files: rows of minutes, hours and days, each kind in pieces, of which the oldest goes when there are too many.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::counts::Counts;
use super::row::{Row, TimeSpan, header};

/// The files of one kind of row: the one that is written, and older ones.
const PIECES: u64 = 5;

/// Others may not read who calls what.
const MODE: u32 = 0o640;

/// The part of the whole size that rows of a span may take, in eighths.
fn share(span: TimeSpan) -> u64 {
    match span {
        TimeSpan::Minute => 4,
        TimeSpan::Hour => 3,
        TimeSpan::Day => 1,
    }
}

/// The folder with the files. One process at a time writes there.
pub struct Archive {
    reader: ArchiveReader,
    size: u64,
    /// Held as long as this process writes.
    _lock: File,
}

/// Reads the files, also while they are written.
#[derive(Clone)]
pub struct ArchiveReader {
    folder: PathBuf,
}

impl Archive {
    /// Opens a folder, which is made if it is not there.
    ///
    /// # Errors
    /// If it cannot be written, or another process does.
    pub fn open(folder: &Path, size: u64) -> io::Result<Self> {
        // Routes and consumers are for this user and its group.
        DirBuilder::new().recursive(true).mode(0o750).create(folder)?;
        let lock = OpenOptions::new().create(true).truncate(false).write(true).mode(MODE).open(folder.join("lock"))?;
        lock.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => io::Error::other("another gateway writes there; give each its own folder"),
            TryLockError::Error(error) => error,
        })?;
        Ok(Archive { reader: ArchiveReader { folder: folder.to_owned() }, size, _lock: lock })
    }

    /// A reader of the files.
    pub fn reader(&self) -> ArchiveReader {
        self.reader.clone()
    }

    /// Writes rows behind those that there are. A failure is logged; the rows are lost then, and nothing else.
    pub fn write(&mut self, span: TimeSpan, rows: &[Row]) {
        if rows.is_empty() {
            return;
        }
        if let Err(error) = self.try_write(span, rows) {
            tracing::error!("analytics of a {} cannot be written: {error}", span.name());
        }
    }

    fn try_write(&mut self, span: TimeSpan, rows: &[Row]) -> io::Result<()> {
        let mut text = String::new();
        rows.iter().for_each(|row| row.write(&mut text));
        let pieces = self.reader.pieces(span)?;
        let most = self.size * share(span) / 8 / PIECES;
        let last = pieces
            .last()
            .filter(|(_, path)| fs::metadata(path).is_ok_and(|known| known.len() + text.len() as u64 <= most));
        let path = match last {
            Some((_, path)) => path.clone(),
            None => {
                text.insert_str(0, &header());
                let number = pieces.last().map_or(1, |(number, _)| number + 1);
                self.reader.folder.join(format!("{}-{number:08}.csv", span.name()))
            }
        };
        // A line that a crash cut is ended, so that the next one can be read.
        if last.is_some() && !ends_whole(&path)? {
            text.insert(0, '\n');
        }
        OpenOptions::new().create(true).append(true).mode(MODE).open(path)?.write_all(text.as_bytes())?;
        let surplus = self.reader.pieces(span)?.len().saturating_sub(PIECES as usize);
        for (_, path) in pieces.into_iter().take(surplus) {
            fs::remove_file(path)?;
        }
        Ok(())
    }

    /// Makes hours of minutes and days of hours, of those that are over and not written yet.
    pub fn roll(&mut self, now: u64) {
        for (from, to) in [(TimeSpan::Minute, TimeSpan::Hour), (TimeSpan::Hour, TimeSpan::Day)] {
            let end = to.begin(now);
            // Mostly nothing is to do, and no file is read.
            let done = match self.reader.last(to) {
                Some(last) => last + to.seconds(),
                None => 0,
            };
            if done >= end || self.reader.last(from).is_none_or(|last| last < done) {
                continue;
            }
            let mut sums: BTreeMap<(u64, String, String), Counts> = BTreeMap::new();
            self.reader.read(from, done, end, |row| {
                sums.entry((to.begin(row.time), row.route, row.consumer)).or_default().add(&row.counts);
            });
            let rows: Vec<Row> = sums
                .into_iter()
                .map(|((time, route, consumer), counts)| Row { time, route, consumer, counts })
                .collect();
            self.write(to, &rows);
        }
    }
}

impl ArchiveReader {
    /// The files of a kind with their numbers, the oldest first.
    fn pieces(&self, span: TimeSpan) -> io::Result<Vec<(u64, PathBuf)>> {
        let mut pieces = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let path = entry?.path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let number = name.strip_prefix(span.name()).and_then(|rest| rest.strip_prefix('-'));
            let number = number.and_then(|rest| rest.strip_suffix(".csv")).and_then(|number| number.parse().ok());
            pieces.extend(number.map(|number| (number, path)));
        }
        pieces.sort();
        Ok(pieces)
    }

    /// The time of the last row of a kind.
    fn last(&self, span: TimeSpan) -> Option<u64> {
        let pieces = self.pieces(span).ok()?;
        pieces.iter().rev().find_map(|(_, path)| last_row(path)).map(|row| row.time)
    }

    /// Gives the rows of a time, in the order in which they were written.
    pub fn read(&self, span: TimeSpan, from: u64, to: u64, mut take: impl FnMut(Row)) {
        for (_, path) in self.pieces(span).unwrap_or_default() {
            // One that was removed just now is as old as what is not asked for.
            let Ok(file) = File::open(path) else { continue };
            let mut lines = BufReader::new(file);
            let mut line = Vec::new();
            while lines.read_until(b'\n', &mut line).is_ok_and(|count| count > 0) {
                let row = line.strip_suffix(b"\n").and_then(|line| std::str::from_utf8(line).ok()).and_then(Row::read);
                row.into_iter().filter(|row| (from..to).contains(&row.time)).for_each(&mut take);
                line.clear();
            }
        }
    }
}

fn ends_whole(path: &Path) -> io::Result<bool> {
    let end = tail(path, 1)?;
    Ok(end.is_empty() || end == b"\n")
}

/// The last row of a file that can be read.
fn last_row(path: &Path) -> Option<Row> {
    let end = tail(path, 64 << 10).ok()?;
    let text = String::from_utf8_lossy(&end);
    let whole = &text[..text.rfind('\n')?];
    whole.lines().rev().find_map(Row::read)
}

/// The last bytes of a file.
fn tail(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    use std::io::{Read, Seek, SeekFrom};
    let mut file = File::open(path)?;
    let size = file.metadata()?.len();
    file.seek(SeekFrom::Start(size.saturating_sub(most)))?;
    let mut end = Vec::new();
    file.take(most).read_to_end(&mut end)?;
    Ok(end)
}

#[cfg(test)]
mod tests {
    use super::super::archive::*;

    fn folder(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("crocodile-pear-archive-{name}-{}", std::process::id()))
    }

    fn row(time: u64, route: &str) -> Row {
        let counts = Counts { requests: 1, ..Counts::default() };
        Row { time, route: route.to_owned(), consumer: String::new(), counts }
    }

    fn times(archive: &Archive, span: TimeSpan) -> Vec<(u64, u64)> {
        let mut times = Vec::new();
        archive.reader.read(span, 0, u64::MAX, |row| times.push((row.time, row.counts.requests)));
        times
    }

    #[test]
    fn minutes_become_hours_and_hours_days_once() {
        let folder = folder("roll");
        let mut archive = Archive::open(&folder, 1 << 20).expect("a folder");
        let day = 20_000 * 86_400;
        for minute in 0..26 * 60 {
            archive.write(TimeSpan::Minute, &[row(day + minute * 60, "GET /a")]);
            if minute % 7 == 0 {
                archive.roll(day + minute * 60);
            }
        }
        archive.roll(day + 26 * 3600);
        archive.roll(day + 26 * 3600 + 60);
        let hours: Vec<_> = (0..26).map(|hour| (day + hour * 3600, 60)).collect();
        assert_eq!(times(&archive, TimeSpan::Hour), hours);
        assert_eq!(times(&archive, TimeSpan::Day), [(day, 24 * 60)]);
        fs::remove_dir_all(folder).expect("removed");
    }

    #[test]
    fn nobody_else_may_read_the_files() {
        use std::os::unix::fs::PermissionsExt;
        let folder = folder("mode");
        let mut archive = Archive::open(&folder, 1 << 20).expect("a folder");
        TimeSpan::ALL.iter().for_each(|span| archive.write(*span, &[row(60, "a")]));
        let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
        assert_eq!(mode(&folder) & 0o027, 0);
        for entry in fs::read_dir(&folder).expect("a folder") {
            let path = entry.expect("there").path();
            assert_eq!(mode(&path) & 0o137, 0, "{}", path.display());
        }
        fs::remove_dir_all(folder).expect("removed");
    }

    #[test]
    fn the_files_are_bounded_and_the_oldest_rows_go() {
        let folder = folder("bound");
        let size = 64 << 10;
        let mut archive = Archive::open(&folder, size).expect("a folder");
        for minute in 0..5000 {
            archive.write(TimeSpan::Minute, &[row(minute * 60, "GET /a/rather/long/route/{id}")]);
            if minute % 100 == 0 {
                let all = fs::read_dir(&folder)
                    .expect("a folder")
                    .map(|entry| entry.expect("there").metadata().expect("known").len());
                assert!(all.sum::<u64>() <= size);
            }
        }
        let left = times(&archive, TimeSpan::Minute);
        assert_eq!(left.last(), Some(&(4999 * 60, 1)));
        assert!(left.len() > 250 && left.len() < 2000, "{}", left.len());
        fs::remove_dir_all(folder).expect("removed");
    }

    #[test]
    fn a_line_that_was_cut_costs_itself_only() {
        let folder = folder("cut");
        let mut archive = Archive::open(&folder, 1 << 20).expect("a folder");
        archive.write(TimeSpan::Minute, &[row(60, "a")]);
        let path = folder.join("minute-00000001.csv");
        let whole = fs::read_to_string(&path).expect("there");
        fs::write(&path, format!("{whole}120,\"a\",\"\",1,0")).expect("written");
        archive.write(TimeSpan::Minute, &[row(180, "a")]);
        assert_eq!(times(&archive, TimeSpan::Minute), [(60, 1), (180, 1)]);
        assert!(Archive::open(&folder, 1 << 20).is_err(), "one process at a time");
        fs::remove_dir_all(folder).expect("removed");
    }
}
