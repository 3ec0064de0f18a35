"""The shapes of Kubernetes objects that we read and write, and pure helpers over them.

Lean on purpose: what no rule looks at is not decoded (libraries.md 1). Nothing here does any work on the network.
"""
