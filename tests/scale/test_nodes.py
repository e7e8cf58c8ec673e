"""A cluster of two nodes, of which one is lost in mid-search."""

import pytest

pytest.importorskip("ray")

from tailwise import ErmMcts, domains, scale


@pytest.mark.slow
def test_a_lost_machine_leaves_no_trace_but_a_note():
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    nodes = [cluster.add_node(num_cpus=1)]

    def progress(iterations, seconds):
        if iterations and nodes:
            cluster.remove_node(nodes.pop(), allow_graceful=False)

    try:
        search = ErmMcts(domains.make("grid-mdp"), 0.1, seed=5)
        found = scale.plan(search, 2_000_000, trees=4, address=cluster.address, report_every=0.02, progress=progress)
        local = search.fresh(5).plan(iterations=2_000_000, threads=4)
    finally:
        cluster.shutdown()
    assert not nodes
    assert [(row.visits, row.erm) for row in found.rows] == [(row.visits, row.erm) for row in local.rows]
    assert found.notes[0].startswith("workers lost on the way: 1")
