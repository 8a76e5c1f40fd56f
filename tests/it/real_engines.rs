//! Recorded human speech through the real server and its real engines, as a person would meet
//! them: `hearken serve` as a process, its engines as its children. Needs a binary with engines
//! and the models (`scripts/test` provides both); elsewhere each test says so and passes.
