"""The full sizes of the backbones, for images of 224 x 224 pixels and 1,000 classes.

Depths, which stages are searched, windows and stochastic depth are those of AttnZero's ImageNet configs. But for
CSwin's, the depths are also the published ones.
"""

from __future__ import annotations

from attnbench.nn.cswin import CSwinConfig
from attnbench.nn.pvt import PVTConfig
from attnbench.nn.pvt2 import PVT2Config
from attnbench.nn.swin import SwinConfig
from attnbench.nn.vit import DeepViTConfig


def deit(width: int, n_heads: int, searched: str, drop_path: float) -> DeepViTConfig:
    """DeiT, Touvron et al. 2021."""
    return DeepViTConfig(
        image_size=(224, 224),
        patch_size=(16, 16),
        width=width,
        n_heads=n_heads,
        depth=12,
        mlp_ratio=4.0,
        n_channels=3,
        n_classes=1000,
        searched=searched,
        drop_path=drop_path,
    )


def pvt(depths: tuple[int, ...], drop_path: float) -> PVTConfig:
    """PVT, Wang et al. 2021, without a class token, as AttnZero has it."""
    return PVTConfig(
        image_size=(224, 224),
        padded_size=(224, 224),
        patch_size=(4, 4),
        widths=(64, 128, 320, 512),
        n_heads=(1, 2, 5, 8),
        depths=depths,
        mlp_ratios=(8.0, 8.0, 4.0, 4.0),
        searched="AAAA",
        reductions=(8, 4, 2, 1),
        class_token=False,
        drop_path=drop_path,
        n_channels=3,
        n_classes=1000,
    )


def swin(width: int, n_heads: tuple[int, ...], depths: tuple[int, ...], searched: str, drop_path: float) -> SwinConfig:
    """Swin, Liu et al. 2021; the searched blocks see the whole grid."""
    return SwinConfig(
        image_size=(224, 224),
        padded_size=(224, 224),
        patch_size=(4, 4),
        width=width,
        n_heads=n_heads,
        depths=depths,
        mlp_ratio=4.0,
        searched=searched,
        searched_window=(56, 56),
        window=(7, 7),
        drop_path=drop_path,
        n_channels=3,
        n_classes=1000,
    )


def cswin(width: int, n_heads: int, depths: tuple[int, ...], drop_path: float) -> CSwinConfig:
    """CSwin, Dong et al. 2022; the searched blocks see the whole grid. Its own depths: 1-2-21-1, twice 2-4-32-2."""
    return CSwinConfig(
        image_size=(224, 224),
        padded_size=(224, 224),
        patch_size=4,
        widths=(width, 2 * width, 4 * width, 8 * width),
        n_heads=(n_heads, 2 * n_heads, 4 * n_heads, 8 * n_heads),
        depths=depths,
        mlp_ratio=4.0,
        searched="AABB",
        searched_splits=(56, 28, 14, 7),
        splits=(1, 2, 7, 7),
        drop_path=drop_path,
        n_channels=3,
        n_classes=1000,
    )


FULL: dict[str, DeepViTConfig | PVTConfig | PVT2Config | SwinConfig | CSwinConfig] = {
    "deit-tiny": deit(192, 3, "A", 0.0),
    "deit-small": deit(384, 6, "A", 0.1),
    "deit-base": deit(768, 12, "M4", 0.3),
    "pvt-tiny": pvt((2, 2, 2, 2), 0.1),
    "pvt-small": pvt((3, 4, 6, 3), 0.1),
    "pvt-medium": pvt((3, 4, 18, 3), 0.3),
    "pvt-large": pvt((3, 8, 27, 3), 0.3),
    "pvt2-b0": PVT2Config(
        image_size=(224, 224),
        widths=(32, 64, 160, 256),
        n_heads=(1, 2, 5, 8),
        depths=(2, 2, 2, 2),
        mlp_ratios=(8.0, 8.0, 4.0, 4.0),
        searched="AAAA",
        reductions=(8, 4, 2, 1),
        drop_path=0.1,
        n_channels=3,
        n_classes=1000,
    ),
    "swin-tiny": swin(96, (3, 6, 12, 24), (2, 2, 6, 2), "AAAB", 0.2),
    "swin-small": swin(96, (3, 6, 12, 24), (2, 2, 18, 2), "AABB", 0.3),
    "swin-base": swin(128, (4, 8, 16, 32), (2, 2, 18, 2), "AAM2B", 0.5),
    "cswin-tiny": cswin(64, 2, (2, 4, 18, 1), 0.2),
    "cswin-small": cswin(64, 2, (3, 6, 29, 2), 0.4),
    "cswin-base": cswin(96, 4, (3, 6, 29, 2), 0.5),
}
