//! Recorder of sessions to files while they run (`serve --record DIR`), in the format of
//! [`hearken_proto::recording`]. Not for reading them.
//!
//! - Sessions never wait for the disk: frames go through a bounded queue, and are parsed only by
//!   the writer. Frames that find it full are dropped and counted, with one warning per connection.
//! - Files are readable by their owner only, and contain no tokens, such as those for cameras'
//!   pictures, nor the `Client-Id`, with which a token can be requested.
//! - Recordings of a device can be deleted, also while they are written.
//! - All recordings of the folder together have a limit, beyond which the oldest are deleted. Those
//!   in progress are not: if they reach the limit by themselves, they end, with one warning.
//! - One thread writes all files; it ends when the recorder is dropped. A file is closed one or two
//!   seconds after its sink was dropped: no message announces that, because the queue may be full.

mod frames;
mod pending_header;
mod space;

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, BufWriter, Read as _, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use hearken_base::private_files;
use hearken_dialogue::metrics;
use hearken_ports::{RecordedFrame, RecordingSink};
use hearken_proto::recording::{Header, Recording};
use time::OffsetDateTime;
use time::macros::format_description;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use self::frames::TimedFrame;
use self::pending_header::PendingHeader;
use self::space::Space;

/// Capacity of the queue to the disk, in frames: about eight seconds of 20 devices in full conversation.
const QUEUE_FRAMES: usize = 8_192;
/// The same in bytes: several times what these frames take.
const QUEUE_BYTES: usize = 16 << 20;
/// Maximum length of the header of a file that is read to find its device, in bytes.
const MAX_HEADER_BYTES: u64 = 64 << 10;
/// Extension of the files' names.
const EXTENSION: &str = ".jsonl";
/// Idle time after which files are flushed, and interval at which files without a sink are closed.
const FLUSH_AFTER: Duration = Duration::from_secs(1);

/// Properties of a connection for the header of its recording.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordingMeta {
    /// `Device-Id` of the handshake, if any.
    pub device_id: Option<String>,
    /// Version of the binary framing in the handshake; a hello may correct it.
    pub framing: u32,
}

/// Recorder that writes one file per connection into a folder.
pub struct Recorder {
    directory: PathBuf,
    queue: SyncSender<WriterMessage>,
    /// Free bytes of the queue.
    room: Arc<Semaphore>,
    next: AtomicU64,
    /// Recordings whose files are not created yet.
    unopened: Mutex<Vec<Unopened>>,
    writer: Option<JoinHandle<()>>,
}

/// Recording whose file is not created yet.
struct Unopened {
    device_id: Option<String>,
    is_deleted: Weak<AtomicBool>,
}

/// Message to the writing thread. The room of a frame is its part of the queue's bytes.
enum WriterMessage {
    Open { id: u64, file: NewFile, sink: Weak<()> },
    Frame { id: u64, frame: TimedFrame, _room: OwnedSemaphorePermit },
    Delete { device_id: String, deleted: oneshot::Sender<io::Result<usize>> },
    End,
}

/// File to create.
struct NewFile {
    path: PathBuf,
    header: Box<Header>,
    /// True if the device was deleted in the meantime.
    is_deleted: Arc<AtomicBool>,
}

impl Recorder {
    /// Starts the writing thread. Creates the folder if it is missing. All recordings in it may take
    /// `max_bytes`.
    ///
    /// # Errors
    /// The folder cannot be created, or no thread can be started.
    pub fn new(directory: impl Into<PathBuf>, max_bytes: u64) -> io::Result<Self> {
        let directory = directory.into();
        private_files::create_folder(&directory)?;
        private_files::tighten_folder(&directory, |name| name.ends_with(EXTENSION));
        let (queue, lines) = sync_channel(QUEUE_FRAMES);
        let mut writing = Writer::new(directory.clone(), max_bytes);
        let write = move || writing.run(&lines);
        let writer = std::thread::Builder::new().name("recorder".into()).spawn(write)?;
        Ok(Self {
            directory,
            queue,
            room: Arc::new(Semaphore::new(QUEUE_BYTES)),
            next: AtomicU64::new(1),
            unopened: Mutex::default(),
            writer: Some(writer),
        })
    }

    /// Deletes the recordings of a device, also those in progress. Returns the number of files.
    ///
    /// # Errors
    /// The folder cannot be read, or a file cannot be deleted; the others are.
    pub async fn delete(&self, device_id: &str) -> io::Result<usize> {
        for recording in self.unopened().iter() {
            if recording.device_id.as_deref() == Some(device_id)
                && let Some(is_deleted) = recording.is_deleted.upgrade()
            {
                is_deleted.store(true, Ordering::Release);
            }
        }
        let (done, deleted) = oneshot::channel();
        let order = WriterMessage::Delete { device_id: device_id.to_owned(), deleted: done };
        let queue = self.queue.clone();
        // The queue may be full.
        let sent = tokio::task::spawn_blocking(move || queue.send(order).is_ok()).await;
        let ended = || io::Error::other("the recorder has ended");
        if !sent.map_err(io::Error::other)? {
            return Err(ended());
        }
        deleted.await.map_err(|_| ended())?
    }

    fn unopened(&self) -> MutexGuard<'_, Vec<Unopened>> {
        self.unopened.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Creates the sink of one connection, which starts now.
    pub fn sink(&self, meta: RecordingMeta) -> Box<dyn RecordingSink> {
        Box::new(self.new_sink(meta))
    }

    fn new_sink(&self, meta: RecordingMeta) -> FileSink {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let path = self.directory.join(file_name(meta.device_id.as_deref(), id));
        let is_deleted = Arc::new(AtomicBool::new(false));
        let mut unopened = self.unopened();
        unopened.retain(|recording| recording.is_deleted.strong_count() > 0);
        let device_id = meta.device_id.clone();
        unopened.push(Unopened { device_id, is_deleted: Arc::downgrade(&is_deleted) });
        drop(unopened);
        let header =
            Header { device_id: meta.device_id, framing: meta.framing, ..Header::default() };
        let file = NewFile { path, header: Box::new(header), is_deleted };
        FileSink {
            id,
            queue: Some(self.queue.clone()),
            room: Arc::clone(&self.room),
            begin: None,
            opening: Some(PendingHeader::new(file)),
            alive: Arc::default(),
            lossy: false,
        }
    }
}

impl Drop for Recorder {
    /// Waits until everything is written to the disk. Sinks that still exist stop recording.
    fn drop(&mut self) {
        // Fails only if the thread has already ended.
        self.queue.send(WriterMessage::End).ok();
        if let Some(writer) = self.writer.take()
            && writer.join().is_err()
        {
            tracing::error!("the recorder's thread panicked; recordings may be incomplete");
        }
    }
}

/// Builds a file name from time and device: `20260131T235959Z-020000000001-7.jsonl`.
fn file_name(device_id: Option<&str>, id: u64) -> String {
    let format = format_description!("[year][month][day]T[hour][minute][second]Z");
    let time = OffsetDateTime::now_utc().format(&format).unwrap_or_else(|_| "unknown".into());
    format!("{time}-{}-{id}{EXTENSION}", device_part(device_id))
}

/// Returns the part of a file's name that depends on the device; several devices may have the same.
fn device_part(device_id: Option<&str>) -> String {
    let letters = device_id.unwrap_or_default().chars().filter(char::is_ascii_alphanumeric);
    let part: String = letters.take(32).collect();
    if part.is_empty() { "unnamed".into() } else { part }
}

/// Returns true if a file is a recording of this device.
fn is_of(path: &Path, device_id: &str) -> io::Result<bool> {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let mut parts = name.strip_suffix(EXTENSION).unwrap_or_default().split('-').skip(1);
    if parts.next().is_none_or(|part| part != device_part(Some(device_id))) {
        return Ok(false);
    }
    let mut line = String::new();
    let mut file = BufReader::new(File::open(path)?.take(MAX_HEADER_BYTES));
    if let Err(error) = file.read_line(&mut line) {
        return if error.kind() == io::ErrorKind::InvalidData { Ok(false) } else { Err(error) };
    }
    let found = Recording::parse(&line).ok().and_then(|recording| recording.header.device_id);
    Ok(found.as_deref() == Some(device_id))
}

struct FileSink {
    id: u64,
    queue: Option<SyncSender<WriterMessage>>,
    room: Arc<Semaphore>,
    begin: Option<Instant>,
    opening: Option<PendingHeader>,
    /// The writer closes the file once this is dropped.
    alive: Arc<()>,
    lossy: bool,
}

impl FileSink {
    /// Opens the file with the current header.
    fn open(&mut self) {
        let Some(PendingHeader { file, held, .. }) = self.opening.take() else { return };
        let sink = Arc::downgrade(&self.alive);
        self.put(|id| WriterMessage::Open { id, file, sink });
        for frame in held {
            self.write(frame);
        }
    }

    fn write(&mut self, frame: TimedFrame) {
        let bytes = u32::try_from(frame.size()).unwrap_or(u32::MAX);
        match Arc::clone(&self.room).try_acquire_many_owned(bytes) {
            Ok(room) => self.put(|id| WriterMessage::Frame { id, frame, _room: room }),
            Err(_) => self.lose(),
        }
    }

    fn put(&mut self, line: impl FnOnce(u64) -> WriterMessage) {
        let Some(queue) = &self.queue else { return };
        match queue.try_send(line(self.id)) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => self.lose(),
            Err(TrySendError::Disconnected(_)) => self.queue = None,
        }
    }

    /// Counts a frame that found the queue full.
    fn lose(&mut self) {
        metrics::recording_frame_dropped();
        if !self.lossy {
            self.lossy = true;
            tracing::warn!(recording = self.id, "the disk is too slow: frames are missing");
        }
    }
}

impl RecordingSink for FileSink {
    fn frame(&mut self, frame: RecordedFrame) {
        let at = self.begin.get_or_insert_with(Instant::now).elapsed();
        let Some(opening) = &mut self.opening else {
            return self.write(TimedFrame::new(at, frame));
        };
        let is_known = opening.learn(&frame);
        let frame = TimedFrame::new(at, frame);
        let left = if is_known { Some(frame) } else { opening.hold(frame) };
        if let Some(frame) = left {
            self.open();
            self.write(frame);
        }
    }
}

impl Drop for FileSink {
    /// Writes what was not written before. A connection without any message leaves no file.
    fn drop(&mut self) {
        if self.begin.is_some() {
            self.open();
        }
    }
}

struct OpenFile {
    path: PathBuf,
    file: BufWriter<File>,
    /// Number of bytes written so far.
    bytes: u64,
    sink: Weak<()>,
}

impl OpenFile {
    /// Writes a line. Returns false if that failed.
    fn write(&mut self, line: &str, space: &mut Space) -> bool {
        let added = u64::try_from(line.len()).unwrap_or(u64::MAX);
        space.add(self.bytes, added);
        self.bytes += added;
        log_failure(&self.path, self.file.write_all(line.as_bytes()))
    }

    fn flush(&mut self) -> bool {
        log_failure(&self.path, self.file.flush())
    }
}

/// State of the writing thread.
struct Writer {
    directory: PathBuf,
    files: HashMap<u64, OpenFile>,
    space: Space,
    /// True while recordings cannot be within their limit.
    is_full: bool,
}

impl Writer {
    fn new(directory: PathBuf, max_bytes: u64) -> Self {
        let space = Space::new(max_bytes);
        Self { directory, files: HashMap::new(), space, is_full: false }
    }

    fn run(&mut self, lines: &Receiver<WriterMessage>) {
        self.make_room();
        let mut looked = Instant::now();
        while self.take(lines) {
            if looked.elapsed() >= FLUSH_AFTER {
                looked = Instant::now();
                if !self.close_left(lines) {
                    break;
                }
            }
        }
        self.files.values_mut().for_each(|file| {
            file.flush();
        });
    }

    /// Processes one message. Returns false at the end.
    fn take(&mut self, lines: &Receiver<WriterMessage>) -> bool {
        match lines.recv_timeout(FLUSH_AFTER) {
            Ok(line) => return self.write(line),
            Err(RecvTimeoutError::Disconnected) => return false,
            Err(RecvTimeoutError::Timeout) => self.files.retain(|_, file| file.flush()),
        }
        true
    }

    /// Closes the files whose sinks were dropped. Their last frames may still be in the queue:
    /// first writes as many messages as the queue can hold. Returns false at the end.
    fn close_left(&mut self, lines: &Receiver<WriterMessage>) -> bool {
        let left = |file: &OpenFile| file.sink.strong_count() == 0;
        let left: Vec<_> = self.files.iter().filter(|f| left(f.1)).map(|f| *f.0).collect();
        if left.is_empty() {
            return true;
        }
        let goes_on = lines.try_iter().take(QUEUE_FRAMES).all(|line| self.write(line));
        for mut file in left.iter().filter_map(|id| self.files.remove(id)) {
            file.flush();
        }
        goes_on
    }

    /// Processes one message. A file that fails is logged once and abandoned. Returns false at the
    /// end.
    fn write(&mut self, line: WriterMessage) -> bool {
        match line {
            WriterMessage::Open { id, file, sink } => self.open(id, file, sink),
            WriterMessage::Frame { id, frame, .. } => self.append(id, frame),
            WriterMessage::Delete { device_id, deleted } => {
                // Without a receiver, the request was given up.
                deleted.send(self.delete(&device_id)).ok();
            }
            WriterMessage::End => return false,
        }
        true
    }

    fn open(&mut self, id: u64, file: NewFile, sink: Weak<()>) {
        let NewFile { path, header, is_deleted } = file;
        if is_deleted.load(Ordering::Acquire) {
            return;
        }
        // Recordings that ended at the limit make room for this one.
        if self.space.is_exceeded() && !self.make_room() {
            return;
        }
        match private_files::create_new(&path) {
            Ok(file) => {
                let mut open = OpenFile { path, file: BufWriter::new(file), bytes: 0, sink };
                if open.write(&header.to_line(), &mut self.space) {
                    self.files.insert(id, open);
                }
            }
            Err(e) => {
                log_failure(&path, Err(e));
            }
        }
    }

    fn append(&mut self, id: u64, frame: TimedFrame) {
        let Some(open) = self.files.get_mut(&id) else { return };
        let Some(frame) = frame.parse() else {
            metrics::recording_frame_dropped();
            tracing::debug!(recording = id, "left out a text that takes too much memory");
            return;
        };
        if !open.write(&frame.to_line(), &mut self.space) {
            self.files.remove(&id);
        }
        if self.space.is_exceeded() {
            self.make_room();
        }
    }

    /// Deletes the oldest recordings beyond the limit. Ends those in progress if they alone are
    /// beyond it, and returns false.
    fn make_room(&mut self) -> bool {
        // The sizes on the disk count: another instance may record into the same folder.
        self.files.retain(|_, file| file.flush());
        let in_progress: HashSet<PathBuf> = self.files.values().map(|f| f.path.clone()).collect();
        let freed = self.space.free(&self.directory, &in_progress).unwrap_or_else(|error| {
            tracing::error!(folder = %self.directory.display(), %error, "cannot count recordings");
            !self.space.is_exceeded()
        });
        if !freed {
            if !self.is_full {
                tracing::warn!(
                    "the recordings in progress take all of `server.max_recordings_mib`: they end here"
                );
            }
            self.files.clear();
        }
        self.is_full = !freed;
        freed
    }

    /// Deletes the files of a device; what follows of a recording in progress is not written.
    fn delete(&mut self, device_id: &str) -> io::Result<usize> {
        // The device is in the header, which may not be on the disk yet.
        self.files.retain(|_, file| file.flush());
        let mut deleted = 0;
        let mut failed = Ok(());
        for entry in std::fs::read_dir(&self.directory)? {
            let path = entry?.path();
            let removed = is_of(&path, device_id).and_then(|is_its_own| {
                if is_its_own {
                    self.files.retain(|_, file| file.path != path);
                    std::fs::remove_file(&path)?;
                }
                Ok(usize::from(is_its_own))
            });
            match removed {
                Ok(files) => deleted += files,
                Err(error) => {
                    tracing::error!(file = %path.display(), %error, "cannot delete a recording");
                    failed = Err(error);
                }
            }
        }
        self.space.count(&self.directory)?;
        failed.map(|()| deleted)
    }
}

/// Logs an error. Returns true if there was none.
fn log_failure(path: &Path, result: io::Result<()>) -> bool {
    if let Err(e) = &result {
        tracing::error!(file = %path.display(), "cannot write a recording: {e}");
    }
    result.is_ok()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use bytes::Bytes;
    use hearken_proto::device::AudioParams;
    use hearken_proto::recording::{Content, Recording};

    use super::*;

    /// Limit that the recordings of a test do not reach.
    const LIMIT: u64 = 1 << 30;

    fn meta(device_id: Option<&str>) -> RecordingMeta {
        RecordingMeta { device_id: device_id.map(str::to_owned), framing: 3 }
    }

    #[test]
    fn each_connection_becomes_a_file_that_reads_back() {
        let folder = tempfile::tempdir().unwrap();
        let recorder = Recorder::new(folder.path().join("new"), LIMIT).unwrap();
        let mut sink = recorder.sink(meta(Some("02:00:00:00:00:0A")));
        recorder.sink(meta(Some("../../etc"))).frame(frame());
        drop(recorder.sink(meta(Some("of nothing"))));
        sink.frame(RecordedFrame::UpText("{\"type\":\"hello\"}".into()));
        sink.frame(RecordedFrame::DownAudio(Bytes::from_static(&[1, 2])));
        sink.frame(RecordedFrame::UpText("oops".into()));
        sink.frame(RecordedFrame::DownText("{\"type\":\"hello\"}".into()));
        // A sink that outlives the recorder does not delay its end.
        drop(recorder);
        drop(sink);
        let mut files: Vec<_> = fs::read_dir(folder.path().join("new"))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        files.sort();
        assert_eq!(files.len(), 2, "a connection without a message leaves none");
        let name = files[0].file_name().unwrap().to_str().unwrap();
        assert!(name.ends_with("Z-02000000000A-1.jsonl"), "{name}");
        let recording = Recording::parse(&fs::read_to_string(&files[0]).unwrap()).unwrap();
        assert_eq!(recording.header.framing, 3, "the hello does not say otherwise");
        let contents: Vec<_> = recording.frames.iter().map(|f| f.content.clone()).collect();
        let wanted = [
            Content::up("{\"type\":\"hello\"}"),
            Content::DownAudio(Bytes::from_static(&[1, 2])),
            Content::UpText("oops".into()),
            Content::down("{\"type\":\"hello\"}"),
        ];
        assert_eq!(contents, wanted);
        assert_eq!(recording.frames[0].at, Duration::ZERO);
    }

    #[test]
    fn the_header_contains_the_parameters_of_both_hellos() {
        let folder = tempfile::tempdir().unwrap();
        let recorder = Recorder::new(folder.path(), LIMIT).unwrap();
        let mut sink = recorder.sink(meta(None));
        sink.frame(RecordedFrame::UpAudio(Bytes::from_static(&[1])));
        let up = r#"{"type":"hello","version":2,"audio_params":{"frame_duration":20}}"#;
        sink.frame(RecordedFrame::UpText(up.into()));
        let down = r#"{"type":"hello","audio_params":{"sample_rate":16000,"frame_duration":60}}"#;
        sink.frame(RecordedFrame::DownText(down.into()));
        sink.frame(RecordedFrame::DownAudio(Bytes::from_static(&[2])));
        drop((sink, recorder));
        let file = fs::read_dir(folder.path()).unwrap().next().unwrap().unwrap().path();
        let recording = Recording::parse(&fs::read_to_string(file).unwrap()).unwrap();
        let header = &recording.header;
        assert_eq!((header.framing, header.uplink.frame_duration), (2, 20));
        assert_eq!(header.downlink, AudioParams::opus(16_000, 60));
        assert_eq!(recording.frames.len(), 4, "no frame before the hellos is lost");
    }

    #[test]
    fn a_file_is_closed_even_if_the_queue_was_full_at_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let (queue, lines) = sync_channel(3);
        let recorder = Recorder::new(folder.path(), LIMIT).unwrap();
        let mut writer = Writer::new(folder.path().to_owned(), LIMIT);
        let mut sink = recorder.new_sink(meta(None));
        sink.queue = Some(queue);
        sink.open();
        assert!(writer.take(&lines) && writer.close_left(&lines));
        assert_eq!(writer.files.len(), 1, "its sink still exists");
        for packet in 1..=5 {
            sink.frame(RecordedFrame::DownAudio(Bytes::copy_from_slice(&[packet])));
        }
        assert!(sink.lossy);
        drop(sink);
        assert!(writer.close_left(&lines));
        assert!(writer.files.is_empty());
        let file = fs::read_dir(folder.path()).unwrap().next().unwrap().unwrap().path();
        let recording = Recording::parse(&fs::read_to_string(file).unwrap()).unwrap();
        assert_eq!(recording.frames.len(), 3, "queued frames are written");
    }

    /// Names of the devices with recordings in a folder, sorted.
    fn devices_in(folder: &Path) -> Vec<String> {
        let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let device = |path: PathBuf| {
            let text = fs::read_to_string(path).unwrap();
            Recording::parse(&text).unwrap().header.device_id.unwrap_or_default()
        };
        let mut devices: Vec<String> = files.map(device).collect();
        devices.sort();
        devices
    }

    /// Waits until the writer has created the files of all recordings that were begun: of a deleted
    /// device, it creates none.
    async fn all_are_created(recorder: &Recorder) {
        assert_eq!(recorder.delete("of nobody").await.unwrap(), 0);
    }

    fn frame() -> RecordedFrame {
        RecordedFrame::DownAudio(Bytes::from_static(&[1]))
    }

    #[tokio::test]
    async fn the_recordings_of_a_deleted_device_are_deleted_and_no_others() {
        let folder = tempfile::tempdir().unwrap();
        let recorder = Recorder::new(folder.path(), LIMIT).unwrap();
        let like = "aa:bb-cc";
        let long = "x".repeat(40);
        let longer = format!("{long}y");
        for device in ["aa:bb:cc", like, "aabbcc", long.as_str(), longer.as_str(), "::", "-"] {
            recorder.sink(meta(Some(device))).frame(frame());
        }
        recorder.sink(meta(None)).frame(frame());
        fs::write(folder.path().join("notes-aabbcc-1.txt"), "kept").unwrap();
        all_are_created(&recorder).await;
        assert_eq!(recorder.delete("aa:bb:cc").await.unwrap(), 1);
        assert_eq!(recorder.delete("aa:bb:cc").await.unwrap(), 0, "there are none left");
        assert_eq!(recorder.delete(&long).await.unwrap(), 1);
        assert_eq!(recorder.delete("::").await.unwrap(), 1);
        assert_eq!(recorder.delete("..").await.unwrap(), 0);
        drop(recorder);
        fs::remove_file(folder.path().join("notes-aabbcc-1.txt")).unwrap();
        assert_eq!(devices_in(folder.path()), ["", "-", like, "aabbcc", longer.as_str()]);
    }

    #[tokio::test]
    async fn recordings_in_progress_of_a_deleted_device_end() {
        let folder = tempfile::tempdir().unwrap();
        let recorder = Recorder::new(folder.path(), LIMIT).unwrap();
        let mut open = recorder.new_sink(meta(Some("a")));
        open.frame(frame());
        open.open();
        let mut not_open = recorder.new_sink(meta(Some("a")));
        not_open.frame(frame());
        let mut other = recorder.new_sink(meta(Some("b")));
        other.frame(frame());
        all_are_created(&recorder).await;
        assert_eq!(recorder.delete("a").await.unwrap(), 1);
        for sink in [&mut open, &mut not_open, &mut other] {
            sink.frame(frame());
        }
        // The device connects again.
        let mut again = recorder.new_sink(meta(Some("a")));
        again.frame(frame());
        drop((open, not_open, other, again));
        assert_eq!(recorder.delete("of nobody").await.unwrap(), 0);
        let mut last = recorder.new_sink(meta(Some("c")));
        last.frame(frame());
        assert_eq!(recorder.unopened().len(), 1, "the files of the others were created");
        drop((last, recorder));
        assert_eq!(devices_in(folder.path()), ["a", "b", "c"]);
    }

    #[test]
    fn recordings_in_progress_end_at_the_limit_and_make_room_for_later_ones() {
        const MAX_BYTES: u64 = 40_960;
        let folder = tempfile::tempdir().unwrap();
        let (queue, lines) = sync_channel(64);
        let recorder = Recorder::new(folder.path(), LIMIT).unwrap();
        let mut writer = Writer::new(folder.path().to_owned(), MAX_BYTES);
        let mut record = |device: &str| {
            let mut sink = recorder.new_sink(meta(Some(device)));
            sink.queue = Some(queue.clone());
            sink.open();
            for _ in 0..100 {
                sink.frame(RecordedFrame::UpText("x".repeat(1_000)));
                assert!(lines.try_iter().all(|line| writer.write(line)));
            }
            let files = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap());
            let bytes: u64 = files.map(|file| file.metadata().unwrap().len()).sum();
            assert!((30_000..MAX_BYTES + 2_000).contains(&bytes), "{device}: {bytes}");
            assert!(writer.is_full && writer.files.is_empty(), "{device}");
            sink
        };
        let first = record("a");
        let second = record("b");
        assert_eq!(devices_in(folder.path()), ["b"], "the earlier one is the oldest");
        drop((first, second));
    }

    #[test]
    fn a_folder_that_cannot_be_created_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(Recorder::new(file.join("below"), LIMIT).is_err());
    }
}
