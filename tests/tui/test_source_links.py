"""Addresses in texts are links that terminals open."""

import pytest

from hwexplorer.export.terminal import paint
from hwexplorer.text.links import split_links

ADDRESSES = {
    "table 2 (arXiv 2605.23918), 1 W": "https://arxiv.org/abs/2605.23918",
    "Keckler, doi:10.1109/MM.2011.89: 5.5 pJ": "https://doi.org/10.1109/MM.2011.89",
    "idle: glennklockwood.com/garden/processors/A100.": "https://glennklockwood.com/garden/processors/A100",
    "resnet18.onnx layer4.2.conv3 torch.nn 0.5": "",
}


@pytest.mark.parametrize(("text", "address"), ADDRESSES.items())
def test_an_address_in_a_text_is_a_link_and_the_text_stays(text: str, address: str) -> None:
    parts = list(split_links(text))
    assert "".join(part for part, _ in parts) == text
    assert [link for _, link in parts if link] == [address] * bool(address)
    assert (f";{address}\x1b\\" in paint(text)) == bool(address)
