#!/bin/sh
# Installs Beehive on this host, or brings it to this version. Safe to run again: what is right already stays.
set -eu
called_in=$PWD
cd "$(dirname "$0")"

usage() {
    cat <<'TEXT'
sudo ./install.sh [--cloud URL --token-file FILE [--node NAME] [--hub HOST:PORT]] [--no-start] [--root DIR]

  --cloud URL        join this cloud: https://cloud.example:10002
  --hub HOST:PORT    where the agent keeps its session; default: the same host, port 10000
  --token-file FILE  file with the join token; or set BEEHIVE_JOIN_TOKEN
  --token TOKEN      the token itself; every process of this host can read it there, so prefer --token-file
  --node NAME        name of this host's Node object; default: the host's name
  --no-start         install, but start nothing
  --root DIR         install below DIR, for images; implies --no-start
TEXT
}
say() { echo "beehive: $*"; }
die() { echo "beehive: $*" >&2; exit 1; }
bad() { echo "beehive: $*" >&2; usage >&2; exit 2; }

cloud='' hub='' token_file='' node='' root='' start=1
while [ $# -gt 0 ]; do
    case $1 in
        --no-start) start=0; shift; continue ;;
        -h | --help) usage; exit 0 ;;
        --cloud | --hub | --token | --token-file | --node | --root) [ $# -ge 2 ] || bad "$1 needs a value." ;;
        *) bad "$1 is not an option." ;;
    esac
    case $1 in
        --cloud) cloud=$2 ;;
        --hub) hub=$2 ;;
        --token) BEEHIVE_JOIN_TOKEN=$2; export BEEHIVE_JOIN_TOKEN
            echo "beehive: --token shows in the list of processes; prefer --token-file." >&2 ;;
        --token-file) token_file=$2 ;;
        --node) node=$2 ;;
        --root) root=${2%/}; start=0 ;;
    esac
    shift 2
done
case $token_file in '' | /*) ;; *) token_file=$called_in/$token_file ;; esac
[ -z "$token_file" ] || { [ -f "$token_file" ] && [ -r "$token_file" ]; } || bad "$token_file cannot be read."
[ -z "$cloud" ] || [ -n "$token_file" ] || [ -n "${BEEHIVE_JOIN_TOKEN:-}" ] || bad "--cloud needs --token-file FILE."
[ -z "$cloud" ] || [ -z "$root" ] || bad "--cloud and --root do not go together: a host joins by itself."
[ -n "$cloud" ] || [ -z "$hub$token_file$node" ] || bad "--hub, --token-file and --node go with --cloud URL."
host='\[[0-9a-fA-F:]*\]\|[A-Za-z0-9.-][A-Za-z0-9.-]*'
if [ -n "$cloud" ]; then
    name=$(printf '%s\n' "$cloud" | sed -n "s#^https://\\($host\\)\\(:[0-9]\\{1,5\\}\\)\\{0,1\\}/*\$#\\1#p")
    [ -n "$name" ] || bad "$cloud is not like https://cloud.example:10002."
    hub=${hub:-$name:10000}
    printf '%s\n' "$hub" | grep -q "^\\($host\\):[0-9]\\{1,5\\}\$" || bad "$hub is not like cloud.example:10000."
fi

version=$(cat VERSION) arch=$(cat ARCH) floor=$(cat GLIBC)
[ "$(id -u)" = 0 ] || die "run this as root: sudo ./install.sh"
[ "$(uname -m)" = "$arch" ] || die "this is Beehive for $arch, and this host is $(uname -m). Get the other tarball."
if [ -z "$root" ]; then
    libc=$( (getconf GNU_LIBC_VERSION || ldd --version) 2>/dev/null | sed -n '1s/.* \([0-9][0-9.]*\)$/\1/p')
    [ -n "$libc" ] || die "this host has no GNU C library that can be asked; Beehive needs glibc $floor or newer."
    oldest=$(printf '%s\n%s\n' "$libc" "$floor" | sort -t. -k1,1n -k2,2n | head -n1)
    [ "$oldest" = "$floor" ] || die "this host has glibc $libc; this build needs $floor or newer. Build it on an older Linux."
fi
live=0
[ "$start" = 0 ] || [ ! -d /run/systemd/system ] || live=1
if [ "$live" = 1 ]; then
    busy=$(systemctl list-units --plain --no-legend --state=active,activating 'beehive-tool@*' | cut -d' ' -f1)
    if [ -n "$busy" ]; then
        echo "beehive: $busy upgrades this host just now. Wait for it, then run this again. Nothing was changed." >&2
        exit 3
    fi
fi
sha256sum --quiet -c SHA256SUMS || die "this tarball is damaged; fetch it again. Nothing was changed."

lib=$root/usr/local/lib/beehive bin=$root/usr/local/bin units=$root/etc/systemd/system
was=$(readlink "$lib/current" 2>/dev/null || true)
for name in beehive kubectl-beehive kubectl-nuj; do
    if { [ -e "$bin/$name" ] || [ -L "$bin/$name" ]; } && [ "$(readlink "$bin/$name")" != /usr/local/lib/beehive/current/beehive ]; then
        die "$bin/$name is not of Beehive's making. Move it away, then run this again. Nothing was changed."
    fi
done

# ---- the program: beside the old one, then by one rename ---------------------------------------------------------
install -d -m 755 "$lib" "$bin" "$units"
rm -rf "$lib/.new"
cp -R beehive "$lib/.new"
chown -R 0:0 "$lib/.new"
chmod -R go-w,a+rX "$lib/.new"
sync -f "$lib" 2>/dev/null || sync
changed=1
if [ "$was" = "$version" ] && diff -rq "$lib/.new" "$lib/$version" >/dev/null 2>&1; then
    rm -rf "$lib/.new"
    changed=0
else
    rm -rf "$lib/.old"
    [ ! -e "$lib/$version" ] || mv "$lib/$version" "$lib/.old"
    mv "$lib/.new" "$lib/$version"
    ln -sfn "$version" "$lib/.current"
    mv -T "$lib/.current" "$lib/current"
    rm -rf "$lib/.old"
fi
if [ "$(readlink "$lib/tool" 2>/dev/null)" != "$version" ]; then # who installs by hand trusts it
    ln -sfn "$version" "$lib/.tool"
    mv -T "$lib/.tool" "$lib/tool"
fi
for old in "$lib"/*/; do
    old=${old%/}
    [ ! -L "$old" ] || continue
    case ${old##*/} in "$version" | "$was") ;; *) rm -rf "$old" ;; esac
done
cmp -s uninstall.sh "$lib/uninstall.sh" || install -m 755 uninstall.sh "$lib/uninstall.sh"
for name in beehive kubectl-beehive kubectl-nuj; do
    [ -L "$bin/$name" ] || ln -s /usr/local/lib/beehive/current/beehive "$bin/$name"
done

# ---- settings: never over those that are there -------------------------------------------------------------------
install -d -m 700 "$root/etc/beehive" "$root/var/lib/beehive"
settings=$root/etc/beehive/edge.yaml
umask 077
[ -e "$settings" ] || cp edge.yaml "$settings"
if [ -n "$hub" ] && grep -q '"cloud\.example:10000"' "$settings"; then # nobody has said which cloud
    sed "s,\"cloud\.example:10000\",\"$hub\"," "$settings" >"$settings.new"
    mv "$settings.new" "$settings"
fi
umask 022
for unit in units/*; do
    if ! cmp -s "$unit" "$units/$(basename "$unit")"; then
        install -m 644 "$unit" "$units/"
        changed=1
    fi
done
if [ "$changed" = 1 ]; then say "version $version is installed${was:+, it was $was}"; else say "version $version was installed already"; fi

# ---- joining and starting ----------------------------------------------------------------------------------------
joined=0
if [ -z "$root" ]; then
    identity=$("$bin/beehive" config show /etc/beehive/edge.yaml | sed -n '/^edgehub:/,/^[^ ]/s/^  identity: *//p')
    [ ! -e "$identity/node.pem" ] || joined=1 # a try that failed leaves its key, for the next
fi
if [ -n "$cloud" ] && [ "$joined" = 1 ]; then
    say "this host has joined already; its identity is in $identity. To join anew, move that away"
elif [ -n "$cloud" ]; then
    "$bin/beehive" edge join --cloud "$cloud" --config /etc/beehive/edge.yaml ${token_file:+--token-file "$token_file"} \
        ${node:+--node "$node"} || die "the program is installed, but this host has not joined. Run this again."
    joined=1
fi
if [ "$live" = 0 ]; then
    say "nothing was started. Start it with: systemctl enable --now beehive-recover beehive-edge"
    exit 0
fi
systemctl daemon-reload
systemctl enable --quiet beehive-recover.service beehive-edge.service
if [ "$changed" = 1 ]; then systemctl restart beehive-edge.service; else systemctl start beehive-edge.service; fi
say "the agent runs: systemctl status beehive-edge"
if [ "$joined" = 0 ]; then say "this host has joined no cloud yet: ./install.sh --cloud URL --token-file FILE"; fi
