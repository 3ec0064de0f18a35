//go:build tools

// Package tools names the programs that the test set-up builds, so that go.mod keeps them.
package tools

import (
	_ "go.etcd.io/etcd/etcdctl/v3"
	_ "go.etcd.io/etcd/server/v3"
)
