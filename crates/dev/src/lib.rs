//! Load on a server: many virtual devices, and their measurements. The commands of `hearken-dev`
//! are in the binary.

pub mod load;
