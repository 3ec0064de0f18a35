//go:build tools

// Package tools names the programs that the test set-up builds, so that go.mod keeps them.
package tools

import (
	_ "k8s.io/kubernetes/cmd/kube-apiserver"
	_ "k8s.io/kubernetes/cmd/kubectl"
)
