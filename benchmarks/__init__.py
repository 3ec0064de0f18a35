"""The product measured beside its peers, in one run and interleaved: `make bench NAME=bus`. No test runs them."""
