"""Stand-alone AutoFormer and PiT networks of a subnet, with parameters of their own."""

from __future__ import annotations

import torch
from timm.layers import Mlp, trunc_normal_
from torch import Tensor, nn

from attnbench.nn.backbones import seeded
from attnbench.space.subnet import AutoFormerSubnet, PiTSubnet, Subnet
from attnbench.space.subnet_cost import Frame

# Raised when the networks compute something else or start from other weights: rows of both must not mix.
NETWORKS_VERSION = 1


def build_subnet(subnet: Subnet, frame: Frame, seed: int) -> nn.Module:
    """A network on the CPU with fresh weights; images (B, channels, size, size) to logits (B, classes).

    Raises: ValueError for a frame that the family cannot have.
    """
    return seeded(seed, lambda: network(subnet, frame))


def network(subnet: Subnet, frame: Frame) -> nn.Module:
    """As `build_subnet`, with weights from torch's global generator, on the default device, "meta" included."""
    if isinstance(subnet, AutoFormerSubnet):
        return AutoFormer(subnet, frame)
    if isinstance(subnet, PiTSubnet):
        return PiT(subnet, frame)
    raise TypeError(f"expected an AutoFormer or PiT subnet, got {type(subnet).__name__}.")


class AutoFormer(nn.Module):
    """A pre-norm ViT with learned positions, relative positions in every attention, and one class token.

    With `pooling="mean"` the class token takes part in the attention, and the head sees the mean of the patches.
    Source: AutoFormer, Chen et al. 2021, section 3, and its released code.
    """

    def __init__(self, subnet: AutoFormerSubnet, frame: Frame):
        super().__init__()
        width, side = subnet.embed_dim, frame.side
        self.pooling = frame.pooling
        self.patches = Patches(width, frame)
        self.class_token = nn.Parameter(torch.zeros(1, 1, width))
        self.positions = nn.Parameter(torch.zeros(1, side * side + 1, width))
        places = None if frame.max_distance is None else relative_places(side, frame.max_distance)
        self.register_buffer("places", places, persistent=False)
        self.blocks = nn.ModuleList(
            Block(width, heads, subnet.head_dim, hidden, eps=1e-5, max_distance=frame.max_distance)
            for heads, hidden in zip(subnet.heads, subnet.hidden_dims, strict=True)
        )
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, frame.n_classes)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                draw(module.weight)
                nn.init.zeros_(module.bias)
        for table in (self.class_token, self.positions):
            draw(table)

    def get_classifier(self) -> nn.Module:
        return self.head

    def forward(self, images: Tensor) -> Tensor:
        x = self.tokens(images)
        for block in self.blocks:
            x = block(x, self.places)
        return self.classify(x)

    def tokens(self, images: Tensor) -> Tensor:
        """What the first block gets: the class token and the patches, with their positions (B, N, width)."""
        x = self.patches(images).flatten(2).transpose(1, 2)
        return torch.cat((self.class_token.expand(len(x), -1, -1), x), dim=1) + self.positions

    def classify(self, x: Tensor) -> Tensor:
        """Logits (B, classes) from what the last block gives."""
        x = self.norm(x)
        return self.head(x[:, 1:].mean(dim=1) if self.pooling == "mean" else x[:, 0])


class PiT(nn.Module):
    """Three stages of a pre-norm ViT with pooling between them; the class token is classified.

    Source: PiT, Heo et al. 2021, and its released code.
    """

    def __init__(self, subnet: PiTSubnet, frame: Frame):
        super().__init__()
        if frame.max_distance is not None or frame.pooling != "class":
            raise ValueError(
                "PiT has no relative positions and classifies its class token; "
                f'expected a frame with max_distance=None and pooling="class", got {frame}.'
            )
        widths = subnet.widths
        self.patches = Patches(widths[0], frame)
        self.class_token = nn.Parameter(torch.zeros(1, 1, widths[0]))
        self.positions = nn.Parameter(torch.zeros(1, widths[0], frame.side, frame.side))
        self.pools = nn.ModuleList(Pool(widths[i], widths[i + 1]) for i in range(len(widths) - 1))
        self.stages = nn.ModuleList(
            nn.ModuleList(
                Block(width, heads, subnet.base_dim, int(width * subnet.mlp_ratio), eps=1e-6) for _ in range(depth)
            )
            for width, heads, depth in zip(widths, subnet.heads, subnet.depths, strict=True)
        )
        self.norm = nn.LayerNorm(widths[-1], eps=1e-6)
        self.head = nn.Linear(widths[-1], frame.n_classes)
        for table in (self.class_token, self.positions):
            draw(table)

    def get_classifier(self) -> nn.Module:
        return self.head

    def forward(self, images: Tensor) -> Tensor:
        x = self.patches(images) + self.positions
        class_token = self.class_token.expand(len(x), -1, -1)
        for number, stage in enumerate(self.stages):
            if number:
                x, class_token = self.pools[number - 1](x, class_token)
            tokens = torch.cat((class_token, x.flatten(2).transpose(1, 2)), dim=1)
            for block in stage:
                tokens = block(tokens)
            class_token, x = tokens[:, :1], tokens[:, 1:].transpose(1, 2).unflatten(2, x.shape[2:])
        return self.head(self.norm(class_token[:, 0]))


class Patches(nn.Module):
    """Images to their patches' embeddings (B, width, side, side)."""

    def __init__(self, width: int, frame: Frame):
        super().__init__()
        self.image_shape = (frame.n_channels, frame.image_size, frame.image_size)
        self.proj = nn.Conv2d(frame.n_channels, width, frame.patch_size, frame.stride)

    def forward(self, images: Tensor) -> Tensor:
        if images.shape[1:] != self.image_shape:
            raise ValueError(f"expected images (B, {self.image_shape}), got {tuple(images.shape)}; resize them.")
        return self.proj(images)


class Pool(nn.Module):
    """Half the resolution and another width: depthwise 3x3 for patches, linear for the class token."""

    def __init__(self, width: int, next_width: int):
        super().__init__()
        self.conv = nn.Conv2d(width, next_width, 3, stride=2, padding=1, groups=width)
        self.fc = nn.Linear(width, next_width)

    def forward(self, x: Tensor, class_token: Tensor) -> tuple[Tensor, Tensor]:
        return self.conv(x), self.fc(class_token)


class Block(nn.Module):
    """Attention and MLP, each after a norm and around a residual."""

    def __init__(
        self, width: int, n_heads: int, head_dim: int, hidden: int, *, eps: float, max_distance: int | None = None
    ):
        super().__init__()
        self.norm1 = nn.LayerNorm(width, eps=eps)
        self.attn = RelativeAttention(width, n_heads, head_dim, max_distance)
        self.norm2 = nn.LayerNorm(width, eps=eps)
        self.mlp = Mlp(width, hidden)

    def forward(self, x: Tensor, places: Tensor | None = None) -> Tensor:
        x = x + self.attn(self.norm1(x), places)
        return x + self.mlp(self.norm2(x))


class RelativeAttention(nn.Module):
    """Softmax attention with q, k and v as three matrices, so that a prefix of each has one role.

    With `max_distance`, query n meets key m as k[m] + r_k[n, m] and takes v[m] + r_v[n, m]; r is the sum of a vertical
    and a horizontal table's row, shared by all heads. Without, it is plain attention.
    """

    def __init__(self, width: int, n_heads: int, head_dim: int, max_distance: int | None):
        super().__init__()
        self.n_heads, self.scale = n_heads, head_dim**-0.5
        self.q, self.k, self.v = (nn.Linear(width, n_heads * head_dim) for _ in range(3))
        self.proj = nn.Linear(n_heads * head_dim, width)
        self.relative = max_distance is not None
        if max_distance is not None:
            # (vertical and horizontal, distances and the class token, head width)
            shape = (2, 2 * max_distance + 2, head_dim)
            self.key_tables, self.value_tables = (nn.Parameter(torch.zeros(shape)) for _ in range(2))
            draw(self.key_tables)
            draw(self.value_tables)

    def forward(self, x: Tensor, places: Tensor | None = None) -> Tensor:
        batch, n_tokens, _ = x.shape
        # (B heads, N, head width): few large products cost micro nets a tenth less than many-dimensional ones.
        q, k, v = (
            part(x).unflatten(2, (self.n_heads, -1)).transpose(1, 2).flatten(0, 1) for part in (self.q, self.k, self.v)
        )
        q = q * self.scale
        if self.relative:
            logits = torch.baddbmm(per_token(q, looked_up(self.key_tables, places).mT), q, k.mT)
            attention = logits.softmax(dim=-1)
            out = torch.baddbmm(per_token(attention, looked_up(self.value_tables, places)), attention, v)
        else:
            out = (q @ k.mT).softmax(dim=-1) @ v
        return self.proj(out.view(batch, self.n_heads, n_tokens, -1).transpose(1, 2).flatten(2))


def per_token(x: Tensor, matrices: Tensor) -> Tensor:
    """(B, N, a) and a matrix for each token (N, a, c) to (B, N, c)."""
    return torch.bmm(x.transpose(0, 1), matrices).transpose(0, 1)


def draw(weight: Tensor) -> None:
    """Fills a parameter as the released code does."""
    if not weight.is_meta:  # nothing to fill, and torch would take a millisecond to say so
        trunc_normal_(weight, std=0.02)


def looked_up(tables: Tensor, places: Tensor | None) -> Tensor:
    """Relative embeddings (N, N, head width) of every query and key."""
    if places is None:
        raise ValueError("relative attention needs the tokens' places; pass relative_places(side, max_distance).")
    return tables[0][places[0]] + tables[1][places[1]]


def relative_places(side: int, max_distance: int) -> Tensor:
    """Rows of the vertical and of the horizontal table (2, N, N) for query n and key m; N is a class token and patches.

    Row 0 is any pair with the class token; others are the key's distance from the query, clipped, from 1.
    """
    along = torch.arange(side)
    row, column = along.repeat_interleave(side), along.repeat(side)
    places = torch.zeros(2, side * side + 1, side * side + 1, dtype=torch.long)
    for table, place in zip(places, (row, column), strict=True):
        distance = place[None, :] - place[:, None]
        table[1:, 1:] = distance.clamp(-max_distance, max_distance) + max_distance + 1
    return places
