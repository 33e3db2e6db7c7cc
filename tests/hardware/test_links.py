"""Collectives over links: never quicker than the wires, slower for more messages, and the quicker of two ways."""

from __future__ import annotations

import numpy as np
import pytest

from hardware.demand import Floats
from hardware.device_catalog import load_device
from hardware.map_demand import link_seconds

SENT = np.array([0.0, 1e3, 1e5, 1e7, 1e9])


def seconds(messages: float, stated: float = 0.0, by_library: bool = False) -> Floats:
    links = np.stack([SENT, np.full(len(SENT), messages), np.full(len(SENT), stated)])
    return link_seconds(links, load_device("h100_sxm"), by_library)


def test_more_bytes_and_more_messages_take_longer() -> None:
    one, few, many = (seconds(messages) for messages in (1, 2, 14))
    assert (one < few).all()
    assert (few < many).all()
    assert (np.diff(many) > 0).all()
    assert (many >= SENT / load_device("h100_sxm").link_bandwidth).all()


def test_words_are_sent_where_little_is_and_blocks_where_much_is() -> None:
    """A block waits for its own, so a few bytes in words take their latency and little more; of much, words with flags
    would take as much longer as they reach less of the speed."""
    device = load_device("h100_sxm")
    assumed, found = device.arch.data.assumed, seconds(2)
    assert found[0] == pytest.approx(2 * device.link_latency_s)
    assert found[-1] < SENT[-1] / (device.link_bandwidth * assumed("link_words_reached"))


def test_a_stated_speed_replaces_that_of_the_device() -> None:
    speed = load_device("h100_sxm").link_bandwidth
    np.testing.assert_allclose(seconds(2, speed), seconds(2), rtol=1e-12)
    assert (seconds(2, speed / 8)[1:] > seconds(2)[1:]).all()


def test_nccl_takes_its_published_latency_where_the_kernels_of_engines_take_a_fraction() -> None:
    """nccl-tests of 1 kB on eight H100 take 15.7 us (AIConfigurator), the kernels of engines 3.2 to 4.7; of much, both
    are bound by the links."""
    start_s = load_device("h100_sxm").kernel_start_s
    library, own = seconds(14, by_library=True) + start_s, seconds(14) + start_s
    assert library[1] == pytest.approx(15.7e-6, rel=0.35)
    assert own[1] == pytest.approx(4e-6, rel=0.35)
    assert (library[:-1] > own[:-1]).all()
    assert library[-1] == pytest.approx(own[-1], rel=0.05)


def test_no_message_takes_no_time_by_a_library() -> None:
    assert seconds(0, by_library=True)[0] == 0.0
