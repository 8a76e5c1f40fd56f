//! Implementations of the tts port.
