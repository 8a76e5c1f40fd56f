//! Implementations of the llm port.
