//! Load on a server: many virtual devices, and what is measured of them. The commands of `hearken-dev` stand beside it.

pub mod load;
