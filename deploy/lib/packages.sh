# shellcheck shell=bash
# The Debian packages hugepool needs, and their installation. The only list of
# them: deploy/quickstart.sh, tests/run.sh, tests/vm/run.sh and tests/bench/run.sh
# read it here.

# To build what is shipped. deploy/bazel/third_party says what each library is
# for; python3 and the C library's headers come with bazel-bootstrap.
# shellcheck disable=SC2034  # read through a nameref
packages_build=(
  bazel-bootstrap
  bazel-rules-java
  bazel-rules-proto
  g++
  protobuf-compiler
  protobuf-compiler-grpc
  libabsl-dev
  libcli11-dev
  libgrpc++-dev
  libhwloc-dev
  libnuma-dev
  libprotobuf-dev
  libsystemd-dev
  libyaml-cpp-dev
  nlohmann-json3-dev
)

# To build and run the tests and the benches, beside those above.
# shellcheck disable=SC2034
packages_test=(
  clang
  g++-aarch64-linux-gnu
  googletest
  libclang-rt-14-dev
  lld
  llvm
  libbenchmark-dev
  libgmock-dev
  libgtest-dev
  liburing-dev
  qemu-user
  strace
)

# To run tests in emulated machines (tests/vm), beside those above.
# shellcheck disable=SC2034
packages_vm=(
  e2fsprogs
  mmdebstrap
  qemu-system-x86
)

# packages_missing PACKAGE...: prints those that are not installed.
packages_missing() {
  local name status
  for name in "$@"; do
    # shellcheck disable=SC2016  # dpkg-query expands it
    status=$(dpkg-query -W -f '${Status}' "$name" 2>/dev/null) || status=
    [[ $status == "install ok installed" ]] || printf '%s\n' "$name"
  done
}

# packages_install LIST...: installs what is missing of the named lists
# (packages_build, packages_test, packages_vm). Touches neither apt nor the network where
# nothing is missing. Sets packages_installed to how many were. Fails with a
# message where it cannot.
packages_install() {
  local list names=() missing=()
  for list in "$@"; do
    local -n packages_list=$list
    names+=("${packages_list[@]}")
  done
  packages_installed=0
  if ! command -v dpkg-query >/dev/null; then
    echo "  not a Debian system: make sure yourself of: ${names[*]}"
    return 0
  fi
  mapfile -t missing < <(packages_missing "${names[@]}")
  if ((${#missing[@]} == 0)); then
    echo "  all ${#names[@]} packages are there"
    return 0
  fi
  if ((EUID != 0)); then
    echo "missing packages, and only root can install them:" >&2
    echo "  apt-get install ${missing[*]}" >&2
    return 1
  fi
  echo "  installing ${#missing[@]} of ${#names[@]} packages: ${missing[*]}"
  packages_apt "${missing[@]}" || return
  # shellcheck disable=SC2034  # for the caller
  packages_installed=${#missing[@]}
}

# A line every 40 of apt's: a fresh machine gets several hundred packages.
packages_apt() {
  export DEBIAN_FRONTEND=noninteractive
  local log
  log=$(mktemp -t hugepool-apt.XXXXXX)
  if ! { apt-get -q update && apt-get -q -y --no-install-recommends \
    -o DPkg::Lock::Timeout=300 install "$@"; } </dev/null 2>&1 |
    tee "$log" | awk '/^(Get|Setting up)/ && ++n % 40 == 0 {
      print "    " substr($0, 1, 70); fflush() }'; then
    tail -n 20 "$log" >&2
    echo "apt-get could not install: $*" >&2
    rm -f "$log"
    return 1
  fi
  rm -f "$log"
}
