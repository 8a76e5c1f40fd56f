//! The speech service itself: recognition and synthesis over the speech wires.
