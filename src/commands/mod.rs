//! One file per subcommand: arguments, calling one thing, printing. No behaviour.
