from __future__ import annotations

from typing import Any

import orjson
import pytest

from gapwatch.scorers.slices.wrong_clocks import WrongClock, wrong_clocks


def host_of(**record: Any) -> str:
    (found,) = wrong_clocks("shop", "ahead", [orjson.dumps({"trace_id": "t-1", **record})], 1)
    return found.host


@pytest.mark.parametrize(
    ("attributes", "host"),
    [
        ({"host.name": "web-7", "k8s.pod.name": "shop-1"}, "host.name=web-7"),
        ({"k8s.pod.name": "shop-1", "service": "shop"}, "k8s.pod.name=shop-1"),
        ({"service": "shop"}, "service=shop"),
        ({"host.name": 7, "host": ""}, "release=r2"),
        ("none", "release=r2"),
        (None, "release=r2"),
    ],
)
def test_the_narrowest_attribute_names_the_host_else_the_release(attributes: Any, host: str) -> None:
    assert host_of(attributes=attributes, release="r2") == host


def test_attributes_of_spans_name_the_host_where_those_of_the_trace_do_not() -> None:
    assert host_of(spans=[{}, {"attributes": {"hostname": "web-8"}}]) == "hostname=web-8"


def test_hosts_are_counted_the_most_frequent_first_and_records_that_were_not_read_have_no_name() -> None:
    records = [orjson.dumps({"trace_id": f"t-{i}", "attributes": {"host": f"web-{i % 3 // 2}"}}) for i in range(6)]

    assert wrong_clocks("shop", "behind", [*records, b"{", None], 10) == [
        WrongClock("shop", "behind", "host=web-0", "t-0", 4),
        WrongClock("shop", "behind", "", "", 4),
        WrongClock("shop", "behind", "host=web-1", "t-2", 2),
    ]
