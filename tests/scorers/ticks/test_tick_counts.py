"""Laws of the counts behind ticks."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gapwatch.scorers.ticks.tick_counts import joint_groups, numbered


@given(st.lists(st.one_of(st.integers(0, 9), st.integers(0, 5_000), st.integers(0, 2**62)), max_size=60))
def test_keys_are_numbered_in_ascending_order_whether_they_are_counted_or_sorted(keys: list[int]) -> None:
    distinct, position = numbered(np.array(keys, np.int64))

    assert distinct.tolist() == sorted(set(keys))
    assert distinct[position].tolist() == keys


@given(st.lists(st.integers(0, 3_000), min_size=1, max_size=60))
def test_items_of_one_record_group_are_one_joint_group(groups: list[int]) -> None:
    joint = joint_groups(np.array(groups, np.int64), {"all": None})

    assert joint.size == len(set(groups))
    assert joint.facets["all"].group[joint.of_item].tolist() == groups
