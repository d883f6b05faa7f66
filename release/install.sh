#!/bin/sh
# Installs Fermata: downloads the release for this platform, verifies its checksum, and puts the binary into a folder of the user.
#
#   curl -fsSL https://github.com/fermata-chat/fermata/releases/latest/download/install.sh | sh
#
# FERMATA_VERSION   the version to install, such as 0.1.0 (default: the newest)
# FERMATA_INSTALL   the folder for the binary (default: ~/.local/bin)
# FERMATA_RELEASES  where releases are, if you have a mirror of them
set -eu

releases=${FERMATA_RELEASES:-https://github.com/fermata-chat/fermata/releases}
folder=${FERMATA_INSTALL:-$HOME/.local/bin}

fail() {
  echo "install: $*" >&2
  exit 1
}

# The whole script is one function, so that a download that was cut off does nothing.
main() {
  case "$(uname -s)-$(uname -m)" in
    Linux-x86_64 | Linux-amd64) target=x86_64-unknown-linux-gnu ;;
    Linux-aarch64 | Linux-arm64) target=aarch64-unknown-linux-gnu ;;
    Darwin-arm64) target=aarch64-apple-darwin ;;
    Darwin-x86_64) target=x86_64-apple-darwin ;;
    *) fail "there is no release for $(uname -s) on $(uname -m): build it with cargo install fermata-server" ;;
  esac
  if [ -n "${FERMATA_VERSION:-}" ]; then
    from=$releases/download/v${FERMATA_VERSION#v}
  else
    from=$releases/latest/download
  fi
  command -v curl >/dev/null || fail 'curl is missing'
  temporary=$(mktemp -d)
  trap 'rm -rf "$temporary"' EXIT
  cd "$temporary"

  # A release lists its archives with their checksums.
  curl -fsSL "$from/SHA256SUMS" -o SHA256SUMS || fail "$from/SHA256SUMS cannot be downloaded"
  line=$(grep -- "-$target.tar.gz\$" SHA256SUMS) || fail "this release has no archive for $target"
  archive=${line##* }
  echo "install: downloading $archive"
  curl -fsSL "$from/$archive" -o "$archive" || fail "$from/$archive cannot be downloaded"
  if command -v sha256sum >/dev/null; then
    found=$(sha256sum "$archive")
  else
    found=$(shasum -a 256 "$archive")
  fi
  [ "${found%% *}" = "${line%% *}" ] || fail "$archive is not the file that was released: its SHA-256 is ${found%% *}, and SHA256SUMS has ${line%% *}"

  tar -xzf "$archive"
  mkdir -p "$folder"
  # A rename replaces the binary even while it runs.
  cp "${archive%.tar.gz}/fermata" "$folder/.fermata.new"
  chmod 755 "$folder/.fermata.new"
  mv -f "$folder/.fermata.new" "$folder/fermata"
  "$folder/fermata" --version >/dev/null || fail "$folder/fermata does not run here"
  echo "install: $("$folder/fermata" --version) is in $folder"
  case ":$PATH:" in
    *":$folder:"*) echo 'install: start it with: fermata' ;;
    *) echo "install: $folder is not in your PATH; start it with: $folder/fermata" ;;
  esac
}

main
