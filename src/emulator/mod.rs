//! A firmware-faithful virtual device.
