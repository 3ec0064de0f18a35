#!/bin/sh
# Removes Beehive from this host. Settings, identity and backups stay: /etc/beehive and /var/lib/beehive.
set -eu
say() { echo "beehive: $*"; }
die() { echo "beehive: $*" >&2; exit "${2:-1}"; }

root='' purge=0
while [ $# -gt 0 ]; do
    case $1 in
        --root) [ $# -ge 2 ] || die "--root needs a value." 2; root=${2%/}; shift 2 ;;
        --purge) purge=1; shift ;;
        *) die "$1 is not an option. uninstall.sh [--purge: the settings and the identity, too] [--root DIR]" 2 ;;
    esac
done
[ "$(id -u)" = 0 ] || die "run this as root."

live=0
[ -n "$root" ] || [ ! -d /run/systemd/system ] || live=1
if [ "$live" = 1 ]; then
    busy=$(systemctl list-units --plain --no-legend --state=active,activating 'beehive-tool@*' | cut -d' ' -f1)
    [ -z "$busy" ] || die "$busy upgrades this host just now. Wait for it, then run this again." 3
    for unit in beehive-edge.service beehive-recover.service; do systemctl disable --now --quiet "$unit" 2>/dev/null || true; done
fi
for unit in beehive-edge.service beehive-recover.service beehive-tool@.service; do rm -f "$root/etc/systemd/system/$unit"; done
[ "$live" = 0 ] || systemctl daemon-reload
for name in beehive kubectl-beehive kubectl-nuj; do
    link=$root/usr/local/bin/$name
    [ "$(readlink "$link" 2>/dev/null)" != /usr/local/lib/beehive/current/beehive ] || rm -f "$link"
done
rm -rf "$root/usr/local/lib/beehive"
if [ "$purge" = 1 ]; then rm -rf "$root/etc/beehive"; fi
say "removed. Kept: $root/var/lib/beehive, with the backups$([ "$purge" = 1 ] || echo "; $root/etc/beehive, with the settings")"
