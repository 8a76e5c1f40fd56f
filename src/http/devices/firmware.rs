//! Firmware images: selection of the newest one for a board, by the firmware's own rules, and the
//! download. Not for access control: images are public.

use std::cmp::Ordering;
use std::path::Path;

use actix_files::NamedFile;
use actix_web::{HttpRequest, HttpResponse, web};
use hearken_proto::fault::Fault;

use crate::http::AccessControl;
use crate::http::fault::answer;
use crate::http::lasting_access::LastingAccess;

/// File extension of an image.
const EXTENSION: &str = ".bin";

/// Parses a version as firmware does: each part between dots by `std::stoi`, which skips leading
/// blanks, takes a sign and digits, ignores the rest, and throws if there is no number
/// (78/xiaozhi-esp32, `main/ota.cc`, `ParseVersion`). Returns `None` if it would throw and the
/// device would restart.
fn as_firmware_reads(version: &str) -> Option<Vec<i32>> {
    // `getline` ignores an empty part after a trailing dot.
    let parts = version.strip_suffix('.').unwrap_or(version).split('.');
    parts
        .map(|part| {
            let part = part.trim_start_matches([' ', '\t', '\n', '\r', '\x0b', '\x0c']);
            let sign = usize::from(part.starts_with(['+', '-']));
            let digits = part[sign..].bytes().take_while(u8::is_ascii_digit).count();
            part[..sign + digits].parse().ok()
        })
        .collect()
}

/// Returns true if firmware can parse this version without throwing.
pub(crate) fn is_readable(version: &str) -> bool {
    as_firmware_reads(version).is_some()
}

/// Compares versions by their numbers from the left; of two with equal numbers, the longer is
/// greater (`main/ota.cc`, `IsNewVersionAvailable`). An unreadable version is less than any
/// readable one.
fn compare(a: &str, b: &str) -> Ordering {
    as_firmware_reads(a).cmp(&as_firmware_reads(b))
}

/// Parses board and version from an image's file name; `None` if one of them is invalid. Versions
/// of images consist of numbers and dots only.
fn parts_of(file: &str) -> Option<(&str, &str)> {
    let (board, version) = file.strip_suffix(EXTENSION)?.rsplit_once('_')?;
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let numbers = version
        .split('.')
        .all(|part| part.bytes().all(|b| b.is_ascii_digit()) && part.parse::<i32>().is_ok());
    let fits = !board.is_empty() && !board.starts_with('.') && board.chars().all(plain) && numbers;
    fits.then_some((board, version))
}

/// Image for a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Image {
    /// File name in the folder, safe for use in a URL.
    pub(crate) file: String,
    /// Version of the image.
    pub(crate) version: String,
}

/// Returns the newest of these images for this board, if it is newer than the device's version.
fn newest(files: impl Iterator<Item = String>, board: &str, has: &str) -> Option<Image> {
    let images = files.filter_map(|file| {
        let (of, version) = parts_of(&file)?;
        let version = version.to_owned();
        of.eq_ignore_ascii_case(board).then_some(Image { file, version })
    });
    images
        .filter(|image| is_readable(has) && compare(&image.version, has) == Ordering::Greater)
        .max_by(|a, b| compare(&a.version, &b.version))
}

/// Returns the newest image for a device. Reads the folder each time, so that new files are offered
/// at once. `None` if there is no newer image, or the folder cannot be read.
pub(crate) async fn update_for(folder: &Path, board: &str, has: &str) -> Option<Image> {
    if folder.as_os_str().is_empty() || board.is_empty() {
        return None;
    }
    let reading = folder.to_owned();
    let read = move || -> std::io::Result<Vec<String>> {
        let names = std::fs::read_dir(reading)?.map(|e| Ok(e?.file_name().into_string().ok()));
        Ok(names.collect::<std::io::Result<Vec<_>>>()?.into_iter().flatten().collect())
    };
    match tokio::task::spawn_blocking(read).await {
        Ok(Ok(files)) => newest(files.into_iter(), board, has),
        Ok(Err(error)) => {
            let folder = folder.display();
            tracing::warn!(%error, %folder, "cannot read the folder `ota.firmware_dir`");
            None
        }
        Err(_) => None,
    }
}

/// Sends an image, or the requested ranges of it (`GET /xiaozhi/ota/firmware/{file}`).
pub(crate) async fn download(
    request: HttpRequest,
    file: web::Path<String>,
    access: web::Data<AccessControl>,
) -> HttpResponse {
    let folder = &access.ota.firmware_dir;
    let none = || answer(Fault::NotFound, "no such firmware");
    if folder.as_os_str().is_empty() || parts_of(&file).is_none() {
        return none();
    }
    match NamedFile::open_async(folder.join(file.as_str())).await {
        Ok(image) if image.metadata().is_file() => {
            LastingAccess::unending().named_file(image.use_last_modified(true), &request)
        }
        _ => none(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn offered(files: &[&str], board: &str, has: &str) -> Option<String> {
        newest(files.iter().map(|f| (*f).to_owned()), board, has).map(|image| image.version)
    }

    #[test]
    fn the_newest_image_of_the_board_is_offered_if_it_is_newer() {
        let files = [
            "lamp_1.0.0.bin",
            "lamp_1.10.0.bin",
            "lamp_1.9.9.bin",
            "lamp_x_9.0.0.bin",
            "lamp_9.0.0-rc1.bin",
            "lamp_99999999999.bin",
            "lamp_.bin",
            "lamp_9.bin.part",
            "lamp_9..1.bin",
            "_9.0.bin",
            "lamp9.bin",
            "../lamp_9.0.0.bin",
        ];
        let is = |has: &str, version: Option<&str>| {
            assert_eq!(offered(&files, "lamp", has).as_deref(), version, "{has}");
        };
        is("1.0.0", Some("1.10.0"));
        is("1.9.10", Some("1.10.0"));
        is("1.10", Some("1.10.0"));
        is("1.10.0", None);
        is("1.10.0.1", None);
        is("2", None);
        is("1.0.0-beta", Some("1.10.0"));
        is("v1", None);
        is("", None);
        assert_eq!(offered(&files, "LAMP", "1.0.0").as_deref(), Some("1.10.0"));
        assert_eq!(offered(&files, "lamp_x", "1.0.0").as_deref(), Some("9.0.0"));
        assert_eq!(offered(&files, "la", "1.0.0"), None);
    }

    #[test]
    fn versions_are_read_as_firmware_reads_them() {
        for (text, read) in [
            ("1.2.3", Some(vec![1, 2, 3])),
            ("1.2.", Some(vec![1, 2])),
            ("2.0.0-rc1", Some(vec![2, 0, 0])),
            (" 1.+2.-3x", Some(vec![1, 2, -3])),
            ("1..2", None),
            ("", None),
            ("v1.0", None),
            ("1.beta", None),
            ("2147483648", None),
        ] {
            assert_eq!(as_firmware_reads(text), read, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_version_is_compared_without_a_panic(a in ".*", b in ".*") {
            prop_assert_eq!(compare(&a, &b), compare(&b, &a).reverse());
        }

        #[test]
        fn offered_versions_are_greater_and_readable(
            own in proptest::collection::vec(0..40_i32, 1..5),
            files in proptest::collection::vec("[ab]_[0-9]{1,2}(\\.[0-9]{1,11}){0,3}\\.bin", 0..8),
        ) {
            let has = own.iter().map(ToString::to_string).collect::<Vec<_>>().join(".");
            if let Some(image) = newest(files.iter().cloned(), "a", &has) {
                let read = as_firmware_reads(&image.version);
                prop_assert!(read.clone().is_some_and(|version| version > own));
                for (board, version) in files.iter().filter_map(|f| parts_of(f)) {
                    prop_assert!(board != "a" || as_firmware_reads(version) <= read);
                }
            }
        }

        #[test]
        fn no_file_name_leads_out_of_the_folder(file in ".*") {
            if parts_of(&file).is_some() {
                prop_assert!(!file.contains('/') && !file.starts_with('.'));
            }
        }
    }
}
