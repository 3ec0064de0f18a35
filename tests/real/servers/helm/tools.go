//go:build tools

// Package tools names the program that the test set-up builds, so that go.mod keeps it.
package tools

import (
	_ "helm.sh/helm/v3/cmd/helm"
)
