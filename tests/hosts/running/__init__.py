"""Test hosts: Debian under systemd, on an ext4 file system of their own, with a power plug to pull."""
