"""A batch of small grey images for a model of larger coloured ones."""

from __future__ import annotations

from torch.nn import functional

from attnbench.nn.data import Split


def fitted(batch: Split, image_shape: tuple[int, int, int]) -> Split:
    """The batch with images of `image_shape` (channels, rows, cols); the labels stay.

    A single channel is repeated for every channel of the model; rows and columns are interpolated bilinearly
    (corners not aligned), so that 28 x 28 pixels become 224 x 224 by a factor of 8. Values stay normalised by the
    data set's own mean and deviation. A batch that fits already is returned as it is.
    Raises: ValueError for images of several channels, but not as many as the model's.
    """
    images = batch.images
    channels, *size = image_shape
    if images.shape[1] not in (1, channels):
        raise ValueError(
            f"images of {images.shape[1]} channels do not fit a model of {channels}; pass grey ones, or as many "
            "channels as the model has."
        )
    if list(images.shape[2:]) != size:
        images = functional.interpolate(images, size=size, mode="bilinear", align_corners=False)
    return Split(images.expand(-1, channels, -1, -1).contiguous(), batch.labels)
