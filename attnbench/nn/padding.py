"""Images with a border, so that a grid of patches divides as a pyramid needs it."""

from __future__ import annotations

from torch import Tensor, nn

Size = tuple[int, int]


class Padded(nn.Module):
    """A backbone for images of `padded_size` that takes images of `image_size` and puts zeros around them."""

    def __init__(self, backbone: nn.Module, image_size: Size, padded_size: Size):
        super().__init__()
        missing = [whole - part for whole, part in zip(padded_size, image_size, strict=True)]
        if min(missing) < 0:
            raise ValueError(f"images of {image_size} do not fit into {padded_size}; padded_size must not be smaller.")
        (top, bottom), (left, right) = ((side // 2, side - side // 2) for side in missing)
        self.image_size = image_size
        self.border = (left, right, top, bottom)
        self.backbone = backbone

    def forward(self, images: Tensor) -> Tensor:
        """Images (B, channels, rows, cols) to logits. Raises: ValueError for images of another size."""
        require_size(images, self.image_size)
        return self.backbone(nn.functional.pad(images, self.border))

    def get_classifier(self) -> nn.Module:
        return self.backbone.get_classifier()


def require_size(images: Tensor, size: Size) -> None:
    """Raises: ValueError for images (B, channels, rows, cols) of another size."""
    if images.shape[2:] != size:
        raise ValueError(
            f"the backbone was built for images of {size}, but got {tuple(images.shape[2:])}; resize the images, or "
            "build it for their size."
        )


def padded(backbone: nn.Module, image_size: Size, padded_size: Size) -> nn.Module:
    """The backbone itself where no border is needed, else inside `Padded`."""
    return backbone if image_size == padded_size else Padded(backbone, image_size, padded_size)


def patch_grid(size: Size, patch_size: Size) -> Size:
    """Rows and columns of patches. Raises: ValueError where patches would leave pixels out."""
    if any(side % patch for side, patch in zip(size, patch_size, strict=True)):
        raise ValueError(f"{size} pixels do not split into patches of {patch_size}; pad the images to a multiple.")
    return size[0] // patch_size[0], size[1] // patch_size[1]
