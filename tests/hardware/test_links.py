"""Collectives over links: never quicker than the wires, slower for more messages, and the quicker of two ways."""

import numpy as np
import pytest

from hardware.demand import Floats
from hardware.device_catalog import load_device
from hardware.map_demand import link_seconds

SENT = np.array([0.0, 1e3, 1e5, 1e7, 1e9])


def seconds(messages: float, stated: float = 0.0, by_library: bool = False, peers: float = 0.0) -> Floats:
    links = np.stack([SENT, *(np.full(len(SENT), each) for each in (messages, stated, peers))])
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
    assumed, found = device.arch.constants, seconds(2)
    assert found[0] == pytest.approx(2 * device.link_latency_s)
    assert found[-1] < SENT[-1] / (device.link_bandwidth * assumed.link_words_reached)


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


def test_library_exchanges_few_words_with_each_device_and_blocks_beyond() -> None:
    """nccl-tests, all-to-all of 8, 128 and 512 kB by two H100: 6.8, 14.0 and 14.4 us (AIConfigurator)."""
    device = load_device("h100_sxm")
    sent = np.array([4.0, 64.0, 256.0]) * 1024
    links = np.stack([sent, *(np.full(3, each) for each in (2.0, 0.0, 1.0))])
    exchanged = link_seconds(links, device, True) + device.kernel_start_s
    np.testing.assert_allclose(exchanged, [6.8e-6, 14.0e-6, 14.4e-6], rtol=0.2)
    links[3] = 0.0  # a ring sends them in words
    assert (link_seconds(links, device, True)[1:] + device.kernel_start_s < exchanged[1:]).all()


def test_first_blocks_of_a_ring_are_waited_for_once() -> None:
    """nccl-tests, all-reduce of 32 MB on two and eight H100 (AIConfigurator)."""
    device = load_device("h100_sxm")
    for devices, measured_s in ((4, 175.7e-6), (8, 199.8e-6)):
        links = np.array([[33554432 * 2 * (devices - 1) / devices], [2.0 * (devices - 1)], [0.0], [0.0]])
        start_s = device.kernel_start_s + 2 * 33554432 / device.memory_bandwidth
        assert link_seconds(links, device, True)[0] + start_s == pytest.approx(measured_s, rel=0.2)


def test_kernels_of_engines_exchange_tokens_as_measured() -> None:
    """TensorRT-LLM to peers on GB200 (AIConfigurator), NVLinkTwoSided but OneSided in 1192 us: microseconds of a few
    tokens, which wait for each round, and of many, which two devices exchange with a part of their threads."""
    device = load_device("gb200")
    for peers, sent, measured_us in (
        (1.0, 7168.0, 10.5), (3.0, 21504.0, 11.4), (7.0, 50176.0, 14.5),
        (1.0, 4.698e8, 2780.0), (3.0, 7.135e8, 1192.0), (15.0, 2.843e9, 6790.0), (63.0, 7.01e9, 14926.0),
    ):  # fmt: skip
        links = np.array([[sent], [np.log2(peers + 1) + 1], [0.0], [peers]])
        seconds = link_seconds(links, device)[0] + device.kernel_start_s
        assert seconds * 1e6 == pytest.approx(measured_us, rel=0.25), peers


def test_collectives_over_pcie_agree_with_nccl_tests() -> None:
    """Devices, bytes, microseconds: voipmonitor/rtx6kpro (hardware, optimization/nccl-tuning), haohervchb/sglang-V100
    pull request 2, NVIDIA/nccl issue 1530, tinygrad/open-gpu-kernel-modules issue 17. Own kernels call the library."""
    rows = (
        ("rtx_pro_6000", 8, 256, 24.6), ("rtx_pro_6000_server", 8, 32768, 26.2),
        ("rtx_pro_6000_server", 8, 131072, 32.1), ("rtx_pro_6000", 8, 33554432, 1464.0),
        ("v100_pcie_32gb", 4, 4096, 19.4), ("v100_pcie_32gb", 4, 393216, 83.5),
        ("rtx_4090", 8, 8, 42.0), ("rtx_4090", 2, 8, 11.9),
    )  # fmt: skip
    for name, devices, moved, measured_us in rows:
        device = load_device(name)
        links = np.array([[moved * 2 * (devices - 1) / devices], [2.0 * (devices - 1)], [0.0], [0.0]])
        seconds = link_seconds(links, device)[0] + device.kernel_start_s
        assert seconds * 1e6 == pytest.approx(measured_us, rel=0.25), name
        assert link_seconds(links, device, True)[0] == pytest.approx(link_seconds(links, device)[0])
