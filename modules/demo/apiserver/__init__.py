"""A small Kubernetes API server in memory: what Beehive and kubectl use of the real one, and no more.

Start it with ``python -m modules.demo.apiserver`` or, inside a program, with ``server.Server``. It is held to
kube-apiserver by one class of tests that both pass (``tests/contracts/kubernetes.py``). Absent on purpose: other
versions of the custom resource and their conversion, admission call-outs, authorisation, field ownership of server-side
apply, protobuf, persistence.
"""
