"""Real servers for the tests: built once per machine, started on loopback, ended by their own process handles.

``build`` makes the programs, ``processes`` keeps one of them running, ``etcd``, ``apiserver`` and ``registry`` know
their servers, ``images`` makes what the registry serves, ``standins`` what an image holds, ``leftovers`` looks at the
end whether anything stayed. Tests use them through the fixtures of ``tests/real/conftest.py``.
"""
