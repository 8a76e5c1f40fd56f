//! The file format of a recorded session: JSON lines, the first a header, each further one a
//! WebSocket frame with its direction and time. Not for reading or writing files.
