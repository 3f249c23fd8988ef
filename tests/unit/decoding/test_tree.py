"""The tree of tokens, by hand."""

from __future__ import annotations

import torch

from pacer.decoding.tree import TokenTree


def filled(lengths: list[int], beams: int = 2) -> TokenTree:
    tree = TokenTree(rows=len(lengths), beams=beams, layers=1, heads=1, device=torch.device("cpu"))
    with tree.filling(slice(0, len(lengths)), torch.tensor(lengths)):
        states = torch.randn(len(lengths), 1, max(lengths), 4)
        tree.update(states, -states, 0)
    return tree


def nodes(tree: TokenTree, row: int) -> list[list[int]]:
    """What each beam of a row descends from."""
    return [beam.nonzero()[:, 0].tolist() for beam in tree.ancestors[row]]


def branched(tree: TokenTree, parents: list[list[int]]) -> list[int]:
    used = tree.branch(slice(0, len(parents)), torch.tensor(parents)).tolist()
    tree.used = max(used)
    return used


def test_beams_take_their_parents_nodes_and_one_of_their_own() -> None:
    tree = filled([3, 1])
    assert nodes(tree, 0) == [[0, 1, 2]] * 2 and nodes(tree, 1) == [[0]] * 2  # the prefix once for all beams
    assert branched(tree, [[0, 0], [0, 0]]) == [5, 3]
    assert nodes(tree, 0) == [[0, 1, 2, 3], [0, 1, 2, 4]] and nodes(tree, 1) == [[0, 1], [0, 2]]
    branched(tree, [[1, 0], [0, 1]])
    assert nodes(tree, 0) == [[0, 1, 2, 4, 5], [0, 1, 2, 3, 6]]


def test_a_node_without_descendants_is_used_again() -> None:
    tree = filled([3])
    branched(tree, [[0, 0]])
    assert branched(tree, [[1, 1]]) == [6]  # node 3 is free
    assert nodes(tree, 0) == [[0, 1, 2, 3, 4], [0, 1, 2, 4, 5]]


def test_states_lie_at_their_nodes_and_survive_growth() -> None:
    tree = filled([3, 2])
    known = tree.keys[0].clone()
    stored = {}
    for step in range(20):
        branched(tree, [[0, 1], [1, 0]])
        new = torch.full((2, 1, 2, 4), float(step + 1)) + torch.arange(2)[:, None] / 4
        with tree.stepping(2) as mask:
            keys, values = tree.update(new, -new, 0)
        assert torch.equal(mask[:, 0] == 0, tree.ancestors[:, :, : tree.width])
        assert keys.shape[2] == tree.width == mask.shape[-1] and torch.equal(values, -keys)
        for row in range(2):
            for beam in range(2):
                stored[row, int(tree.slots[row, beam])] = new[row, 0, beam]
    assert tree.keys[0].shape[2] > known.shape[2]
    assert torch.equal(tree.keys[0][0, :, :3], known[0, :, :3])
    for (row, node), state in stored.items():
        assert torch.equal(tree.keys[0][row, 0, node], state)


def test_a_new_record_has_nothing_of_the_last() -> None:
    tree = filled([3, 3])
    branched(tree, [[0, 0], [0, 0]])
    with tree.filling(slice(1, 2), torch.tensor([2])):
        tree.update(torch.ones(1, 1, 2, 4), torch.ones(1, 1, 2, 4), 0)
    assert nodes(tree, 0) == [[0, 1, 2, 3], [0, 1, 2, 4]] and nodes(tree, 1) == [[0, 1]] * 2


def test_rows_move_whole() -> None:
    tree = filled([3, 1])
    branched(tree, [[0, 0], [0, 0]])
    tree.move([1], [0])
    assert nodes(tree, 0) == nodes(tree, 1) == [[0, 1], [0, 2]]
    assert torch.equal(tree.keys[0][0], tree.keys[0][1]) and torch.equal(tree.slots[0], tree.slots[1])
