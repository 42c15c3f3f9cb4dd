# shellcheck shell=bash
# What a guest boots from: a disk with Debian and its kernel, which is made once
# and kept, and a disk with what is tested, which is made anew for each run.
# $root is set by tests/vm/run.sh.

# udev is not among them: the kernel makes the device files.
image_packages=(linux-image-cloud-amd64 systemd systemd-sysv)

# Mounted by the unit, read only; what is written goes to /tmp and /run.
image_unit='[Unit]
Description=Tests of hugepool
Requires=basic.target
After=basic.target

[Service]
Type=oneshot
ExecStartPre=/bin/mount -o ro /dev/nvme0n2 /opt
ExecStart=/opt/guest.sh
ExecStopPost=/bin/systemctl poweroff --force
TimeoutStartSec=infinity
StandardOutput=file:/dev/ttyS1
StandardError=inherit
'

# What a test never looks at.
image_leave_out=(./dev ./boot ./usr/lib/modules ./usr/share/doc
  ./usr/share/locale ./usr/share/man ./usr/share/i18n ./usr/share/zoneinfo
  ./var/cache ./var/lib/apt)

# Sets image_disk and image_kernel, after making them where they are missing.
# Fails with $reason set.
image_base() {
  local codename key dir status=0
  # shellcheck disable=SC1091
  codename=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
  key=$(sha256sum "${BASH_SOURCE[0]}")
  dir=${XDG_CACHE_HOME:-$HOME/.cache}/hugepool-vm
  image_disk=$dir/$codename-${key:0:16}.ext4
  image_kernel=$dir/$codename-${key:0:16}.vmlinuz
  if [[ -e $image_disk ]]; then
    touch "$image_disk" "$image_kernel" 2>/dev/null || true
    return 0
  fi
  if ((EUID != 0)); then
    reason="only root can make the guest's disk; it would be kept in $dir"
    return 1
  fi
  mkdir -p "$dir"
  # Two runs at a time make it once.
  exec 8>"$dir/lock"
  flock 8
  if [[ ! -e $image_disk ]]; then
    echo "  making the guest's disk (kept in $dir)"
    # Those of other versions of this file, once nobody uses them.
    find "$dir" -type f -mtime +30 -delete
    image_make "$codename" || status=1
  fi
  exec 8>&-
  return "$status"
}

# The machine's own sources of Debian, one line each: no mirror is named here.
image_sources() { # CODENAME
  apt-get indextargets 'Created-By: Packages' \
    --format '$(ORIGIN) $(CODENAME) $(REPO_URI) $(RELEASE) $(COMPONENT)' |
    awk -v suite="$1" '$1 == "Debian" && index($2, suite) == 1 {
      print "deb", $3, $4, $5 }' | sort -u
}

image_make() { # CODENAME
  local tree=$work/tree sources leave=() path
  mapfile -t sources < <(image_sources "$1")
  if ((${#sources[@]} == 0)); then
    apt-get -q update >/dev/null 2>&1 || true
    mapfile -t sources < <(image_sources "$1")
  fi
  local packages="${image_packages[*]}"
  if ((${#sources[@]} == 0)) ||
    ! foreground mmdebstrap --quiet --variant=minbase \
      --include="${packages// /,}" "$1" "$work/tree.tar" "${sources[@]}" \
      >"$work/mmdebstrap.log" 2>&1; then
    tail -n 20 "$work/mmdebstrap.log" 2>/dev/null || true
    reason="mmdebstrap could not make a Debian $1 of this machine's apt sources"
    return 1
  fi
  for path in "${image_leave_out[@]}"; do leave+=(--exclude="$path/*"); done
  mkdir "$tree"
  # Without a journal: it is only ever written in a snapshot. The disk goes to
  # its place last: where it is, all is.
  if ! { tar xf "$work/tree.tar" -C "$tree" "${leave[@]}" &&
    printf '%s' "$image_unit" \
      >"$tree/etc/systemd/system/hugepool-test.service" &&
    tar xf "$work/tree.tar" -C "$work" --wildcards './boot/vmlinuz-*' &&
    mke2fs -q -t ext4 -O ^has_journal -d "$tree" "$image_disk.new" 512M \
      >/dev/null &&
    mv "$work"/boot/vmlinuz-* "$image_kernel" &&
    mv "$image_disk.new" "$image_disk"; }; then
    reason="the guest's disk could not be made"
    return 1
  fi
  rm -rf "$tree" "$work/tree.tar"
}

# image_payload TREE DISK: programs in TREE, with the libraries that the guest
# does not have, as a disk.
image_payload() {
  local tree=$1 program library
  mkdir -p "$tree/lib"
  while read -r program; do
    ldd "$program"
  done < <(find "$tree" -type f -perm -u+x ! -name '*.sh') |
    awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | sort -u >"$work/libraries"
  while read -r library; do
    # debugfs says where a path ends that is not there, on standard error.
    debugfs -R "stat $(readlink -m "$library")" "$image_disk" 2>/dev/null |
      grep -q Type: || cp -L "$library" "$tree/lib/"
  done <"$work/libraries"
  local mib
  mib=$(du -sm "$tree" | cut -f 1)
  mke2fs -q -t ext4 -d "$tree" "$2" $((mib * 5 / 4 + 32))M >/dev/null
}
