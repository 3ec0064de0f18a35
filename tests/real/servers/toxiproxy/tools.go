//go:build tools

// Package tools names the programs that the test set-up builds, so that go.mod keeps them.
package tools

import (
	_ "github.com/Shopify/toxiproxy/v2/cmd/server"
)
