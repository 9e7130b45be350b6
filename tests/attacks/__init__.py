"""Suite: change. A real gateway process under attack; long floods are marked release.

Attacks on a real gateway process: what it must withstand, seen from outside.

Here belongs what a stranger, a rival key or a broken client does over the wire, and what the
machine does to the process (a full disk, a dead engine, a signal): one file per bound or promise,
named for it (``test_slow_readers.py``, ``test_tenancy.py``). What a single part decides is tested
beside that part; what a gateway says to well-behaved clients is tested in ``tests/gateway``.

``serve`` (``conftest.py``) starts ``vivace serve`` with any tables, keys and script, as often as
the test needs, and gives its ways in and what it costs::

    def test_a_stranger_gets_nothing(serve: Serving) -> None:
        server = serve(owners=["alice"], tables={"limits": {"lanes": 2}})
        with server.http() as stranger:
            assert stranger.get("/v1/models").status_code == 401
        assert server.open_files < 30

=====================================  ==========================================================
``server.http("alice")``               an ``httpx.Client`` with alice's key; without a name, none
``server.socket("alice")``             ``tests.support.socket.Socket``; ``receive_buffer=4096`` for
                                       a client that soon takes no more
``server.raw(b"GET / HT")``            a TCP socket that has said so
``server.resident, .open_files``       bytes of memory, number of descriptors
``server.metric(name, owner, **labels)``  a figure of ``/metrics``
``server.log``, ``server.faults``      what it wrote, and what of that is errors
``server.process``                     the ``Popen``, to signal or kill
=====================================  ==========================================================

``plugs.py`` has clients that keep to no protocol. What depends on a deadline is tried on a gateway
in this process whose clock goes when the test says so (``test_deadlines.py``).

An attack asserts three things where they apply: the attacker is answered as documented, nobody
else notices (another key's turn, ``/healthz`` in time), and what the attack took is given back.
Keep each under five seconds, and judge by answers and figures, never by how long they took.
"""
