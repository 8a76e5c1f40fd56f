//! Implementations of the asr port.
