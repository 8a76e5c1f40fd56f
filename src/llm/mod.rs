//! The embedded language model, served over the OpenAI HTTP API on a loopback port.
