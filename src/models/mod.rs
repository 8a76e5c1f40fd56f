//! The model catalogue: what can be had, from where, and whether it is whole.
