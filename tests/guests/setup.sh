#!/bin/sh
# What makes a Debian tree a guest: runs once while the image is built. $1: the tree, $2: the directory with the key and where the kernel goes.
set -eu
R=$1 OUT=$2
in_tree() { chroot "$R" /usr/bin/env DEBIAN_FRONTEND=noninteractive PATH=/usr/sbin:/usr/bin:/sbin:/bin "$@"; }

# The kernel: its image for QEMU, and the modules that a networking guest can use.
mkdir -p "$R/tmp/kernel"
kernel=$(in_tree apt-cache depends --no-recommends --no-suggests linux-image-amd64 | sed -n 's/^ *Depends: \(linux-image-[^ ]*\)$/\1/p' | head -n 1)
(cd "$R/tmp/kernel" && in_tree sh -c "cd /tmp/kernel && apt-get -qq -o APT::Sandbox::User=root download $kernel" && dpkg-deb -x ./*.deb .)
version=$(cd "$R/tmp/kernel/lib/modules" && echo *)
cp "$R/tmp/kernel/boot/vmlinuz-$version" "$OUT/vmlinuz"
echo "$version" > "$OUT/version"
from=$R/tmp/kernel/lib/modules/$version to=$R/lib/modules/$version
mkdir -p "$to"
cp "$from"/modules.order "$from"/modules.builtin* "$to/"
for part in drivers/infiniband drivers/net/virtio_net drivers/net/net_failover drivers/net/veth drivers/net/dummy drivers/net/ethernet/mellanox \
            drivers/virtio drivers/block/virtio_blk drivers/char/hw_random/virtio-rng drivers/pci fs/ext4 fs/jbd2 fs/mbcache fs/configfs net/core net/ipv4 \
            net/ipv6 net/netfilter net/sched net/rds net/tls net/devlink net/psample net/sunrpc net/8021q crypto lib arch/x86/crypto fs/nls; do
    for file in "$from/kernel/$part" "$from/kernel/$part".ko*; do
        [ -e "$file" ] || continue
        mkdir -p "$to/kernel/$(dirname "$part")"
        cp -r "$file" "$to/kernel/$(dirname "$part")/"
    done
done
rm -rf "$R/tmp/kernel"
in_tree depmod "$version"
mkdir -p "$OUT/modules"
for module in virtio_pci virtio_blk ext4; do
    in_tree modprobe -S "$version" --show-depends "$module"
done | awk '$1 == "insmod" && !seen[$2]++ {print $2}' > "$OUT/modules/order"
while read -r file; do cp "$R$file" "$OUT/modules/"; done < "$OUT/modules/order"

# RDMA's user space is not installed but can be: the roles install it from this repository.
mkdir -p "$R/srv/packages"
in_tree apt-get -qq -y --no-install-recommends --download-only install rdma-core perftest ibverbs-utils ibverbs-providers rdmacm-utils infiniband-diags \
    librdmacm1
mv "$R"/var/cache/apt/archives/*.deb "$R/srv/packages/"
(cd "$R/srv/packages" && for file in *.deb; do
    dpkg-deb -f "$file"
    printf 'Filename: ./%s\nSize: %s\nSHA256: %s\n\n' "$file" "$(stat -c %s "$file")" "$(sha256sum "$file" | cut -d' ' -f1)"
done) > "$R/srv/packages.index"
mv "$R/srv/packages.index" "$R/srv/packages/Packages"
rm -rf "$R"/etc/apt/sources.list "$R"/etc/apt/sources.list.d/* "$R"/var/lib/apt/lists/*
echo 'deb [trusted=yes] file:/srv/packages ./' > "$R/etc/apt/sources.list.d/guest.list"
echo force-unsafe-io > "$R/etc/dpkg/dpkg.cfg.d/guest"
printf 'Acquire::Languages "none";\nAPT::Install-Recommends "false";\n' > "$R/etc/apt/apt.conf.d/90guest"

# Logging in: a key and a host key that were made for this image alone.
mkdir -p "$R/root/.ssh"
chmod 700 "$R/root/.ssh"
cp "$OUT/key.pub" "$R/root/.ssh/authorized_keys"
rm -f "$R"/etc/ssh/ssh_host_*
cp "$OUT/host_key" "$R/etc/ssh/ssh_host_ed25519_key"
cp "$OUT/host_key.pub" "$R/etc/ssh/ssh_host_ed25519_key.pub"
chmod 600 "$R/etc/ssh/ssh_host_ed25519_key" "$R/root/.ssh/authorized_keys"
chown -R 0:0 "$R/root/.ssh" "$R/etc/ssh"
printf 'HostKey /etc/ssh/ssh_host_ed25519_key\nUseDNS no\nPrintLastLog no\n' > "$R/etc/ssh/sshd_config.d/guest.conf"
: > "$R/etc/fstab"
echo 127.0.0.1 localhost > "$R/etc/hosts"
for number in $(seq 1 32); do printf '10.99.0.%d guest-%02d\n' "$number" "$number"; done >> "$R/etc/hosts"
: > "$R/etc/resolv.conf"
rm -f "$R/etc/hostname"
printf 'auto lo\niface lo inet loopback\nsource /etc/network/interfaces.d/*\n' > "$R/etc/network/interfaces"

# The hardware of a guest: which number it is, the way to manage it, and a card whose port speaks RoCE.
cat > "$R/usr/local/sbin/guest-hardware" <<'S'
#!/bin/sh
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
number=1 address=
for word in $(cat /proc/cmdline); do case $word in guest.number=*) number=${word#*=} ;; guest.address=*) address=${word#*=} ;; esac; done
printf 'guest-%02d\n' "$number" > /proc/sys/kernel/hostname
port() { grep -l "^52:54:00:00:$1:" /sys/class/net/*/address 2>/dev/null | sed 's|^/sys/class/net/||; s|/address$||'; }
modprobe virtio_net
[ -d /run/udev ] && udevadm settle
tries=0
while [ -z "$(port 00)" ] || [ -z "$(port 01)" ] || [ -z "$(port 02)" ]; do tries=$((tries + 1)); [ $tries -gt 300 ] && exit 1; sleep 0.1; done
ip link set lo up
ip addr add 10.0.2.15/24 dev "$(port 00)"
ip link set "$(port 00)" up
ip route add default via 10.0.2.2
ip addr add "10.99.0.$number/24" dev "$(port 02)"
ip link set "$(port 02)" up
modprobe rdma_rxe
ip link set "$(port 01)" up
rdma link add rxe0 type rxe netdev "$(port 01)"
if [ -n "$address" ]; then
    ip link set "$(port 01)" mtu 9000
    ip addr add "$address" dev "$(port 01)"
fi
exit 0
S
cat > "$R/usr/local/sbin/guest-init" <<'S'
#!/bin/sh
# The fast flavour: no systemd, sshd alone.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mountpoint -q /dev || mount -t devtmpfs dev /dev
mkdir -p /dev/pts /dev/shm
mount -t devpts devpts /dev/pts
mount -t tmpfs tmpfs /dev/shm
mount -t tmpfs tmpfs /run
mkdir -p /run/sshd /run/lock
/usr/local/sbin/guest-hardware
for module in ib_uverbs ib_umad rdma_ucm; do modprobe $module; done
/usr/sbin/sshd -E /run/sshd.log
echo GUEST_READY > /dev/ttyS0
trap 'echo b > /proc/sysrq-trigger' TERM INT
while :; do sleep 3600 & wait; done
S
chmod 755 "$R/usr/local/sbin/guest-hardware" "$R/usr/local/sbin/guest-init"
cat > "$R/etc/systemd/system/guest-hardware.service" <<'S'
[Unit]
DefaultDependencies=no
After=systemd-remount-fs.service systemd-udev-trigger.service systemd-sysctl.service local-fs.target
Before=network-pre.target ssh.service
Wants=network-pre.target
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/usr/local/sbin/guest-hardware
[Install]
WantedBy=multi-user.target
S
cat > "$R/etc/systemd/system/guest-ready.service" <<'S'
[Unit]
After=ssh.service
[Service]
Type=oneshot
ExecStart=/bin/sh -c 'echo GUEST_READY > /dev/ttyS0'
[Install]
WantedBy=multi-user.target
S
mkdir -p "$R/etc/systemd/system.conf.d" "$R/etc/NetworkManager/conf.d"
printf '[Manager]\nDefaultTimeoutStartSec=600s\nDefaultTimeoutStopSec=20s\nDefaultDeviceTimeoutSec=600s\n' > "$R/etc/systemd/system.conf.d/slow.conf"
# The management ports belong to guest-hardware, whatever manages the one that speaks RoCE.
printf '[keyfile]\nunmanaged-devices=mac:52:54:00:00:00:01;%s\n' "$(for number in $(seq 1 32); do printf 'mac:52:54:00:00:02:%02x;' "$number"; done)" > "$R/etc/NetworkManager/conf.d/management.conf"
in_tree systemctl -q enable guest-hardware.service guest-ready.service ssh.service NetworkManager.service
for unit in apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer fstrim.timer e2scrub_reap.service getty@tty1.service \
            serial-getty@ttyS0.service systemd-timesyncd.service systemd-random-seed.service systemd-update-utmp.service systemd-pstore.service \
            NetworkManager-wait-online.service systemd-networkd-wait-online.service wpa_supplicant.service networking.service \
            dev-mqueue.mount dev-hugepages.mount sys-kernel-debug.mount sys-kernel-tracing.mount systemd-firstboot.service modprobe@drm.service \
            modprobe@fuse.service modprobe@loop.service modprobe@dm_mod.service; do
    in_tree systemctl -q mask "$unit" 2>/dev/null || true
done
in_tree systemctl -q disable systemd-networkd.service 2>/dev/null || true
# The first boot of a machine without an identity enables what the distribution presets, networkd and nftables among it.
mkdir -p "$R/etc/systemd/system-preset"
echo 'disable *' > "$R/etc/systemd/system-preset/00-guest.preset"
# A session of logind for every login costs an emulated guest more than the login.
in_tree pam-auth-update --package --remove systemd 2>/dev/null || true
rm -rf "$R"/var/cache/apt/* "$R"/var/log/*.log "$R"/tmp/* "$R/etc/machine-id"
echo uninitialized > "$R/etc/machine-id"
# A bind mount shows the tree without the /proc and /sys that are mounted in it while it is made.
mkdir -p "$OUT/tree"
mount --bind "$R" "$OUT/tree"
mke2fs -q -t ext4 -d "$OUT/tree" -L guest -O ^has_journal -m 0 "$OUT/root.ext4" 2G
umount "$OUT/tree"
rmdir "$OUT/tree"
