//! Tests of accepted and refused answers. Not for the transport of the bytes.

use proptest::prelude::*;

use super::*;

/// Builds a WAV file with a `data` chunk of this declared size, and `extra` chunks before it.
pub(in crate::tts) fn file(
    channels: u16,
    rate_hz: u32,
    data: u32,
    extra: &[u8],
    samples: &[i16],
) -> Vec<u8> {
    let mut file = b"RIFF\0\0\0\0WAVEfmt \x10\0\0\0\x01\0".to_vec();
    file.extend(channels.to_le_bytes());
    file.extend(rate_hz.to_le_bytes());
    file.extend([0; 4]);
    file.extend([0, 0, 16, 0]);
    file.extend_from_slice(extra);
    file.extend(b"data");
    file.extend(data.to_le_bytes());
    file.extend(samples.iter().flat_map(|s| s.to_le_bytes()));
    file
}

/// Builds three frames of MP3 with these bytes in their headers.
pub(in crate::tts) fn mp3(second: u8, third: u8, length: usize) -> Vec<u8> {
    let mut frame = vec![0xff, second, third, 0];
    frame.resize(length, 0x55);
    frame.repeat(3)
}

/// Agreed format.
const RAW: SampleFormat = SampleFormat { rate_hz: 24_000, stereo: false };

/// Returns the samples and their rate, for bytes split into pieces of this size.
fn played(bytes: &[u8], size: usize) -> Result<(Vec<i16>, u32), Unplayable> {
    let mut sound = Sound::new(RAW);
    let mut all = Vec::new();
    let mut rate = 0;
    let mut add = |pieces: Vec<Pcm>| {
        for pcm in pieces {
            all.extend_from_slice(&pcm.samples);
            rate = pcm.sample_rate_hz;
        }
    };
    for piece in bytes.chunks(size) {
        add(sound.take(piece)?);
    }
    add(sound.finish()?);
    Ok((all, rate))
}

#[test]
fn the_samples_of_a_wav_file_are_played_at_its_rate() {
    let speech: Vec<i16> = (0..500).map(|n| n * 60 - 15_000).collect();
    let list = b"LIST\x03\0\0\0abc\0";
    for size in [1, 7, 44, 10_000] {
        let plain = file(1, 16_000, 1_000, b"", &speech);
        assert_eq!(played(&plain, size).unwrap(), (speech.clone(), 16_000), "{size}");
        let endless = file(1, 22_050, u32::MAX, list, &speech);
        assert_eq!(played(&endless, size).unwrap(), (speech.clone(), 22_050), "{size}");
        let mut with_more = file(1, 8_000, 1_000, list, &speech);
        with_more.extend(b"LIST\x04\0\0\0abcd");
        assert_eq!(played(&with_more, size).unwrap(), (speech.clone(), 8_000), "{size}");
        let both: Vec<i16> = speech.iter().flat_map(|s| [*s, *s]).collect();
        let stereo = file(2, 44_100, 2_000, b"", &both);
        assert_eq!(played(&stereo, size).unwrap(), (speech.clone(), 44_100), "{size}");
    }
}

#[test]
fn consecutive_files_are_one_sound() {
    let speech: Vec<i16> = (0..500).map(|n| n * 60 - 15_000).collect();
    let twice = [speech.clone(), speech.clone()].concat();
    let list = b"LIST\x04\0\0\0abcd".as_slice();
    let told = file(1, 16_000, 1_000, b"", &speech);
    let endless = file(1, 16_000, u32::MAX, b"", &speech);
    let raw: Vec<u8> = speech.iter().flat_map(|s| s.to_le_bytes()).collect();
    for size in [1, 7, 44, 10_000] {
        for parts in [[&told[..], &told], [&endless, &endless], [&endless, &told], [&told, &raw]] {
            assert_eq!(played(&parts.concat(), size).unwrap(), (twice.clone(), 16_000), "{size}");
        }
        let apart = [&told, list, &told].concat();
        assert_eq!(played(&apart, size).unwrap(), (twice.clone(), 16_000), "{size}");
        let mut slower = Sound::new(RAW);
        let rates =
            slower.take(&[told.clone(), file(1, 8_000, 1_000, b"", &speech)].concat()).unwrap();
        assert_eq!(rates.iter().map(|pcm| pcm.sample_rate_hz).collect::<Vec<_>>(), [16_000, 8_000]);
    }
}

#[test]
fn many_tiny_files_are_one_piece_while_the_rate_stays() {
    let tiny = |rate_hz| file(1, rate_hz, 2, b"", &[5]).repeat(1_000);
    let mut sound = Sound::new(RAW);
    let all = [tiny(16_000), tiny(8_000), tiny(16_000)].concat();
    let pieces = [sound.take(&all).unwrap(), sound.finish().unwrap()].concat();
    let lengths = |pcm: &Pcm| (pcm.sample_rate_hz, pcm.samples.len());
    let lengths: Vec<_> = pieces.iter().map(lengths).collect();
    assert_eq!(lengths, [(16_000, 1_000), (8_000, 1_000), (16_000, 1_000)]);
}

#[test]
fn other_formats_are_detected_by_their_first_bytes() {
    let mut aac = vec![0xff, 0xf1, 0x50, 0x80, 0x0a, 0x00, 0xfc];
    aac.resize(80, 1);
    for (bytes, name) in [
        (b"OggS\0\x02\0\0\0\0\0\0\0\0".to_vec(), "Ogg"),
        (b"fLaC\0\0\0\x22\x10\0\x10\0\0\0".to_vec(), "FLAC"),
        (b"ID3\x04\0\0\0\0\0\x23TSSE".to_vec(), "MP3"),
        (mp3(0xfb, 0x90, 417), "MP3"),
        (mp3(0xf3, 0x84, 192), "MP3"),
        (aac.repeat(3), "AAC"),
        (b"\x1a\x45\xdf\xa3\x9f\x42\x86\x81\x01\x42\xf7\x81".to_vec(), "WebM"),
        (b"\0\0\0\x20ftypM4A \0\0\0\0".to_vec(), "MP4"),
        (b"#!AMR\n\x3c\x91\x17\x16\xbe\x66".to_vec(), "AMR"),
        ([vec![0; 700], mp3(0xfb, 0x90, 417)].concat(), "MP3"),
        (mp3(0xfd, 0x84, 384), "MP2"),
        ([&[0x47, 0x40, 0, 0x10][..], &[0xaa; 184]].concat().repeat(4), "MPEG-TS"),
        ([&[0x56, 0xe0, 0x61][..], &[0xaa; 0x61]].concat().repeat(4), "AAC in LATM"),
        (b"RIFX\0\0\0\0WAVEfmt ".to_vec(), "RIFX"),
        (b"RIFF\0\0\0\0AVI LIST".to_vec(), "RIFF without WAVE"),
        (b"\x1f\x8b\x08\0\0\0\0\0\0\x03\xed\xc1".to_vec(), "gzip"),
        (b"{\"error\":{\"message\":\"no such voice\"}}".to_vec(), "text"),
        (b"{\"error\": 1}".to_vec(), "text"),
        (b"<html><head><title>502 Bad Gateway</title></head></html>".to_vec(), "text"),
        (b"The service is temporarily unavailable.".to_vec(), "text"),
    ] {
        for size in [1, 5, 10_000] {
            assert_eq!(played(&bytes, size), Err(Unplayable::Format(name)), "{size}");
        }
    }
    let eight_bits = file(1, 16_000, 4, b"", &[0; 4]);
    let eight_bits: Vec<u8> =
        eight_bits.iter().enumerate().map(|(n, b)| if n == 34 { 8 } else { *b }).collect();
    assert!(matches!(played(&eight_bits, 9), Err(Unplayable::Wav(_))));
    assert!(matches!(played(&file(1, 500, 4, b"", &[0; 4]), 9), Err(Unplayable::Wav(_))));
    let endless = b"RIFF\0\0\0\0WAVELIST\0\0\0\x40".repeat(2);
    assert!(matches!(played(&endless, 9), Err(Unplayable::Wav(_))));
}

/// Builds a WAV file of 16 kHz in the extensible format, with this encoding.
fn extensible(encoding: u8, samples: &[i16]) -> Vec<u8> {
    let mut file =
        b"RIFF\0\0\0\0WAVEfmt \x28\0\0\0\xfe\xff\x01\0\x80\x3e\0\0\0\x7d\0\0\x02\0\x10\0".to_vec();
    file.extend(b"\x16\0\x10\0\x04\0\0\0");
    file.push(encoding);
    file.extend(b"\0\0\0\0\0\x10\0\x80\0\0\xaa\0\x38\x9b\x71data\xff\xff\xff\xff");
    file.extend(samples.iter().flat_map(|s| s.to_le_bytes()));
    file
}

#[test]
fn text_of_any_script_is_never_played() {
    let utf16 = |text: &str| -> Vec<u8> {
        "\u{feff}".encode_utf16().chain(text.encode_utf16()).flat_map(u16::to_le_bytes).collect()
    };
    let mut gbk = br#"{"code":3001,"message":""#.to_vec();
    gbk.extend([0xce, 0xc4, 0xb1, 0xbe].repeat(20));
    for bytes in [
        r#"{"code":3001,"message":"文本内容包含敏感词，无法合成语音。"}"#.into(),
        "服务暂时不可用，请稍后再试。".into(),
        "服务暂时不可用，请稍后再试。".repeat(100).into_bytes(),
        "Внутренняя ошибка сервера.".into(),
        "\u{feff}{\"error\":{\"message\":\"The model is overloaded\"}}".into(),
        "\r\n\r\n{\"error\":\"overloaded\"}".into(),
        "Internal Server Error".into(),
        "null".into(),
        b"HTTP/1.1 500 X\r\n\r\n\xff\x00\x80\x11".to_vec(),
        utf16("{\"error\":{\"message\":\"The model is overloaded\"}}"),
        utf16("Not found"),
        gbk,
    ] {
        for size in [1, 5, 10_000] {
            let shown = String::from_utf8_lossy(&bytes);
            assert_eq!(played(&bytes, size), Err(Unplayable::Format(TEXT)), "{size}: {shown}");
        }
    }
}

#[test]
fn sounds_that_start_like_another_format_are_played() {
    let wave = |period: i16, step: i16| -> Vec<i16> {
        (0..3_000).map(|n| (n % period - period / 2) * step).collect()
    };
    let square = |half: i16, height: i16| -> Vec<i16> {
        (0..3_000).map(|n| if n / half % 2 == 0 { height } else { -height }).collect()
    };
    let after = |first: &[i16]| [first, &wave(60, 3)].concat();
    for sound in [
        vec![0; 3_000],
        vec![-1; 3_000],
        // Both bytes of each sample are letters.
        vec![20_000; 3_000],
        vec![0x4747; 3_000],
        square(30, 20_000),
        square(1_000, 20_000),
        // Sound that was converted from 8 bits.
        square(60, 0x40 * 0x101),
        wave(60, 3),
        wave(60, 1_000),
        wave(600, 100),
        after(&[0; 900]),
        after(&[-257, 40, 50, 60, 70]),
        after(&[-2, 0x4100]),
        after(&[-1_025, 0x6490]),
        after(&[0x227b, 0x3c3c]),
        after(&[0x4947]),
        vec![0x207b, 0x2022, 5],
    ] {
        let bytes: Vec<u8> = sound.iter().flat_map(|s| s.to_le_bytes()).collect();
        for size in [1, 3, 480, 10_000] {
            assert_eq!(played(&bytes, size), Ok((sound.clone(), 24_000)), "{:?}", &sound[..3]);
        }
    }
}

#[test]
fn text_after_samples_is_not_played() {
    let speech: Vec<i16> = (0..500).map(|n| n * 60 - 15_000).collect();
    let raw: Vec<u8> = speech.iter().flat_map(|s| s.to_le_bytes()).collect();
    for error in [
        r#"{"error":{"message":"overloaded"}}"#,
        r#"{"错误":"余额不足，请充值"}"#,
        "<html><body>502</body>",
    ] {
        for begun in [raw.clone(), file(1, 16_000, u32::MAX, b"", &speech)] {
            let mut sound = Sound::new(RAW);
            assert_eq!(sound.take(&begun).unwrap()[0].samples[..], speech);
            assert_eq!(sound.take(error.as_bytes()), Err(Unplayable::Format(TEXT)), "{error}");
        }
        let told = [file(1, 16_000, 1_000, b"", &speech), error.into()].concat();
        assert_eq!(played(&told, 10_000), Ok((speech.clone(), 16_000)), "{error}");
    }
    // Pieces of sound may start in the same way.
    for piece in
        [&b"{\"\x10\x20ab"[..], b"{", b"<a", b"[[[[[[[[[[[[[[[[[[[[[[", b"{\"code\":12345678\0\0"]
    {
        let mut sound = Sound::new(RAW);
        sound.take(&raw).unwrap();
        assert!(sound.take(piece).is_ok(), "{piece:?}");
    }
}

#[test]
fn only_a_wav_file_is_played_under_another_content_type() {
    let under = |bytes: &[u8]| -> Result<usize, Unplayable> {
        let mut sound = Sound::new(RAW).only_wav("audio/opus");
        let begun = sound.take(bytes)?;
        Ok([begun, sound.finish()?].concat().len())
    };
    let kind = Err(Unplayable::Kind("audio/opus".into()));
    for bytes in [&[0; 3_000][..], &[7, 1, 9], b"{\"error\":\"overloaded\"}", &[0x9c; 500]] {
        assert_eq!(under(bytes), kind, "{bytes:?}");
    }
    assert_eq!(
        under(&[&b"\xff\xfb\x90\x64"[..], &[0x9c; 900]].concat()),
        Err(Unplayable::Format("MP3"))
    );
    assert_eq!(under(&file(1, 16_000, u32::MAX, b"", &[5; 100])), Ok(1));
    assert_eq!(under(b""), Ok(0));
}

#[test]
fn wav_files_of_any_rate_and_with_any_chunks_are_played() {
    let speech: Vec<i16> = (0..500).map(|n| n * 60 - 15_000).collect();
    let twice: Vec<i16> = speech.iter().flat_map(|s| [*s, *s]).collect();
    let twice_stereo: Vec<i16> = twice.iter().flat_map(|s| [*s, *s]).collect();
    let junk = [&b"JUNK\x70\x11\x01\0"[..], &[0; 70_000]].concat();
    let unknown = [&b"C2PA\x70\x11\x01\0"[..], &[0x9c; 70_000]].concat();
    for size in [997, 100_000] {
        let fast = file(1, 96_000, 2_000, b"", &twice);
        assert_eq!(played(&fast, size), Ok((speech.clone(), 48_000)), "{size}");
        let fast = file(2, 88_200, 4_000, b"", &twice_stereo);
        assert_eq!(played(&fast, size), Ok((speech.clone(), 44_100)), "{size}");
        let padded = file(1, 16_000, 1_000, &junk, &speech);
        assert_eq!(played(&padded, size), Ok((speech.clone(), 16_000)), "{size}");
        let signed = [file(1, 16_000, 1_000, b"", &speech), unknown.clone()].concat();
        assert_eq!(played(&signed, size), Ok((speech.clone(), 16_000)), "{size}");
        assert_eq!(played(&extensible(1, &speech), size), Ok((speech.clone(), 16_000)), "{size}");
        assert!(matches!(played(&extensible(6, &speech), size), Err(Unplayable::Wav(_))));
    }
    let many = file(1, 16_000, 1_000, &b"JUNK\0\0\0\0".repeat(100), &speech);
    assert!(matches!(played(&many, 100_000), Err(Unplayable::Wav(_))));
}

proptest! {
    #[test]
    fn raw_samples_are_the_same_however_they_are_split(
        samples in prop::collection::vec(any::<i16>(), 0..3_000),
        odd in any::<bool>(),
        size in 1_usize..5_000,
        looks_like in prop::sample::select(vec![0_i16, -1, -1_025, -3_585, 0x4952]),
    ) {
        let mut samples = samples;
        samples.insert(0, looks_like);
        // Two samples alone may be letters.
        samples.push(0);
        let mut bytes: Vec<u8> = samples.iter().flat_map(|s| s.to_le_bytes()).collect();
        bytes.extend(odd.then_some(7));
        prop_assert_eq!(played(&bytes, size), Ok((samples, 24_000)));
    }

    #[test]
    fn a_header_is_read_at_any_place(
        before in prop::collection::vec(any::<i16>(), 40..100),
        behind in prop::collection::vec(any::<i16>(), 0..100),
        size in 1_usize..200,
    ) {
        let mut bytes: Vec<u8> = before.iter().flat_map(|s| s.to_le_bytes()).collect();
        bytes.extend(file(1, 24_000, u32::MAX, b"", &behind));
        let both = [before, behind].concat();
        prop_assert_eq!(played(&bytes, size), Ok((both, 24_000)));
    }

    #[test]
    fn no_bytes_cause_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), wav in any::<bool>()) {
        let head: &[u8] = if wav { b"RIFF\0\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0\x80\x3e\0\0" } else { b"" };
        drop(played(&[head, &bytes].concat(), 7));
    }
}
