"""The settings of a transformer: `config.json` beside the weights, and the `[model]` table of a recipe.

What it shares with other families is in `model_base.py`. Every axis of variation is one field: GPT-2, Llama, Qwen 3,
BERT, Marian, T5 and the transformer of 2017 are values of these fields. What cannot work is rejected here, with the
reason and a fix, before a tensor exists.
"""

from collections.abc import Callable
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from clearhead.config.model_base import MOST_POSITIONS, MOST_TOKENS, WIDEST, AnyModelConfig, Family
from clearhead.config.settings import Settings
from clearhead.errors import ConfigError

Similarity = Literal["scaled_dot", "dot", "cosine", "additive", "gaussian", "distance"]
Projections = Literal["linear", "relu", "none"]
Positions = Literal["learned", "sinusoidal", "rotary", "alibi", "relative", "none"]
Norm = Literal["layer", "rms", "whole", "none"]
Placement = Literal["pre", "post", "both"]
FeedForward = Literal["relu", "gelu", "gelu_tanh", "silu", "relu2", "swiglu", "geglu", "geglu_tanh"]

GATED = ("swiglu", "geglu", "geglu_tanh")


class RotaryScaling(Settings):
    """How rotary angles are stretched to reach further than the length they were trained on."""

    section: ClassVar[str] = "model.rotary_scaling"
    kind: Literal["linear", "llama3"] = Field(description="stretch every frequency, or only the slow ones")
    factor: float = Field(gt=0, description="how many times further the positions reach")
    low: float = Field(
        1.0,
        gt=0,
        description="llama3: frequencies with fewer turns than this in the original context are stretched",
    )
    high: float = Field(4.0, gt=0, description="llama3: frequencies with more turns than this are unchanged")
    original_context: int = Field(
        8192, gt=0, le=MOST_POSITIONS, description="llama3: the context the angles were trained on"
    )

    @model_validator(mode="after")
    def _check(self) -> "RotaryScaling":
        if self.high <= self.low:
            raise ConfigError(
                f"model.rotary_scaling.high = {self.high} must be greater than low = {self.low}.\n"
                "Llama 3 uses 4 and 1."
            )
        return self


class ModelConfig(AnyModelConfig):
    """One transformer of the notes, as settings."""

    family: Family = Field("transformer", description="what the blocks are made of")

    encoder_d: int | None = Field(None, gt=0, le=WIDEST, description="width of the encoder; d if omitted")

    h: int = Field(4, gt=0, le=1024, description="attention heads")
    h_kv: int | None = Field(
        None,
        gt=0,
        le=1024,
        description="heads of keys and values, shared by groups of query heads; h if omitted",
    )
    d_k: int | None = Field(
        None, gt=0, le=WIDEST, description="width of a head's queries and keys; d / h if omitted"
    )
    d_v: int | None = Field(None, gt=0, le=WIDEST, description="width of a head's values; d_k if omitted")
    kept_heads: dict[str, tuple[Annotated[int, Field(ge=0, le=1024)], ...]] = Field(
        default_factory=dict,
        description="heads kept in pruned attention sublayers, such as {'decoder.2.cross': (0, 3)}; all in the others",
    )
    kept_units: dict[str, Annotated[int, Field(gt=0, le=8 * WIDEST)]] = Field(
        default_factory=dict,
        description="units kept in pruned feed-forward sublayers, such as {'decoder.2.ffn': 300}; all in the others",
    )
    window: int | None = Field(
        None,
        gt=0,
        le=MOST_POSITIONS,
        description="attend only to tokens nearer than this; no limit if omitted",
    )

    similarity: Similarity = Field("scaled_dot", description="how a query is compared with a key")
    scale: float | None = Field(
        None,
        gt=0,
        description="factor of the similarity; if omitted, 1/√d_k for scaled_dot and 1 for the others",
    )
    projections: Projections = Field("linear", description="how tokens become queries, keys and values")
    query_key_norm: bool = Field(False, description="rms norm of queries and keys, before rotation")
    attention_bias: str = Field(
        "", pattern="^q?k?v?o?$", description="which of W_q W_k W_v W_o have a bias: 'qkvo', 'qkv', ''"
    )

    positions: Positions = Field("rotary", description="how the model knows the order of tokens")
    position_offset: int = Field(
        0, ge=0, le=MOST_POSITIONS, description="rows of a learned table before the first position"
    )
    rotary_base: float = Field(10_000.0, gt=1, description="base of the rotary frequencies")
    rotary_scaling: RotaryScaling | None = Field(
        None, description="how rotary angles are stretched; not at all if omitted"
    )
    relative_buckets: int = Field(32, gt=3, le=WIDEST, description="rows of the table of relative positions")
    relative_distance: int = Field(
        128, gt=1, le=MOST_POSITIONS, description="distance beyond which all positions share a bucket"
    )
    sinusoid_layout: Literal["interleaved", "halves"] = Field(
        "interleaved", description="sines and cosines in turn, or all sines first"
    )

    norm: Norm = Field("rms", description="how token vectors are normalised")
    encoder_norm: Norm | None = Field(None, description="norm of the encoder; norm if omitted")
    norm_epsilon: float = Field(1e-5, gt=0, description="added to the variance for stability")
    norm_bias: bool = Field(True, description="shift β of the layer norm")
    norm_placement: Placement = Field("pre", description="norm before or after each sublayer, or both")
    embedding_norm: bool = Field(False, description="norm after the embeddings")
    final_norm: bool | None = Field(
        None, description="norm at the end of a stack; if omitted, unless norm_placement is post"
    )

    feedforward: FeedForward = Field("gelu", description="activation of the feed-forward; the glu are gated")
    d_ff: int | None = Field(
        None, gt=0, le=8 * WIDEST, description="width of the feed-forward; if omitted, 4 d, or 8/3 d if gated"
    )
    encoder_d_ff: int | None = Field(
        None,
        gt=0,
        le=8 * WIDEST,
        description="width of the encoder's feed-forward; as the decoder's if omitted",
    )
    feedforward_bias: bool = Field(False, description="biases of the feed-forward")

    convolution: int | None = Field(
        None,
        gt=1,
        le=1024,
        description="width of a convolution over the embeddings, before the first block; none if omitted",
    )
    token_types: int = Field(0, ge=0, le=MOST_TOKENS, description="number of segment embeddings; 0 for none")

    head_transform: bool = Field(False, description="dense layer, gelu and norm before the head, as in BERT")

    attention_dropout: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="fraction of attention weights dropped in training; on a CPU it prevents the fused kernel",
    )
    zero_outputs: bool = Field(
        False, description="W_o and W_2 start at zero, so that a block starts as the identity"
    )

    # What follows from the settings.

    @property
    def width_encoder(self) -> int:
        """Width of the encoder's token vectors."""
        return self.encoder_d or self.d

    @property
    def width_k(self) -> int:
        """Width of a head's queries and keys."""
        return self.d_k or (self.d if self.projections == "none" else self.d // self.h)

    @property
    def width_v(self) -> int:
        """Width of a head's values."""
        return self.d_v or self.width_k

    def width_ff(self, d: int, is_encoder: bool = False) -> int:
        """Width inside the feed-forward of a stack of width d; the encoder of a translator may have its own."""
        stated = (self.encoder_d_ff if is_encoder else None) or self.d_ff
        return stated or (round(d * 8 / 3 / 8) * 8 or 8 if self.feedforward in GATED else 4 * d)

    @property
    def groups(self) -> int:
        """Heads of keys and values."""
        return self.h_kv or self.h

    @property
    def norm_encoder(self) -> Norm:
        """The norm of the encoder."""
        return self.encoder_norm or self.norm

    @property
    def has_final_norm(self) -> bool:
        """Whether a stack ends with a norm."""
        return self.norm_placement != "post" if self.final_norm is None else self.final_norm

    @property
    def cross_similarity(self) -> Similarity:
        """The similarity of cross-attention: distance between two texts is undefined, so it falls back."""
        return "scaled_dot" if self.similarity == "distance" else self.similarity

    @property
    def has_position_table(self) -> bool:
        """Whether nothing longer than the context can be read."""
        return self.positions == "learned"

    @property
    def reads_types(self) -> bool:
        """Whether it has a vector for the first and the second of two texts, as BERT has."""
        return self.shape == "encoder" and self.token_types > 1

    @property
    def is_post_norm(self) -> bool:
        """Whether the stream is normalised after each addition, which makes training unstable."""
        return self.norm_placement == "post"

    @property
    def trait(self) -> str:
        """Its heads."""
        return f"{self.h} head{'' if self.h == 1 else 's'}"

    def attentions(self) -> list[str]:
        """The names of all attention sublayers, such as 'decoder.2.cross'."""
        names = []
        if self.shape != "decoder":
            names += [f"encoder.{i}.self" for i in range(self.encoder_blocks)]
        if self.shape != "encoder":
            kinds = ["self", "cross"] if self.shape == "encoder-decoder" else ["self"]
            names += [f"decoder.{i}.{kind}" for i in range(self.decoder_blocks) for kind in kinds]
        return names

    def heads(self, attention: str) -> tuple[int, ...]:
        """The numbers of the heads in one attention sublayer."""
        return self.kept_heads.get(attention, tuple(range(self.h)))

    def feedforwards(self) -> list[str]:
        """The names of all feed-forward sublayers, such as 'decoder.2.ffn'."""
        return [name.removesuffix("self") + "ffn" for name in self.attentions() if name.endswith("self")]

    def units(self, feedforward: str) -> int:
        """How many units one feed-forward sublayer has."""
        is_encoder = feedforward.startswith("encoder.")
        width = self.width_ff(self.width_encoder if is_encoder else self.d, is_encoder)
        return self.kept_units.get(feedforward, width)

    def encoder_alone(self) -> Self:
        """The settings of a translator's encoder, as a model of its own."""
        return self.replace(
            shape="encoder",
            d=self.width_encoder,
            d_k=self.width_k,
            d_ff=self.width_ff(self.width_encoder, is_encoder=True),
            encoder_d=None,
            encoder_d_ff=None,
            vocabulary=self.vocabulary_encoder,
            source_vocabulary=None,
            norm=self.norm_encoder,
            encoder_norm=None,
            kept_heads={name: kept for name, kept in self.kept_heads.items() if name.startswith("encoder.")},
            kept_units={name: kept for name, kept in self.kept_units.items() if name.startswith("encoder.")},
        )

    # What cannot work.

    def _checks(self) -> list[Callable[[], None]]:
        own = [self._check_heads, self._check_positions, self._check_similarity, self._check_norms]
        return [*own, *super()._checks()]

    def _check_heads(self) -> None:
        if self.d_k is None and self.projections != "none" and self.d % self.h:
            below, above = self.d // self.h * self.h, (self.d // self.h + 1) * self.h
            near = f"{below} or {above}" if below else f"{above}"
            raise ConfigError(
                f"model.d = {self.d} does not split into model.h = {self.h} heads.\n"
                f"Use a multiple of {self.h}, such as {near}, or set model.d_k."
            )
        if self.h % self.groups:
            raise ConfigError(
                f"model.h = {self.h} query heads do not share model.h_kv = {self.groups} heads of keys "
                f"evenly.\nUse an h_kv that divides {self.h}."
            )
        known = {"kept_heads": self.attentions(), "kept_units": self.feedforwards()}
        for key, names in known.items():
            if unknown := [name for name in getattr(self, key) if name not in names]:
                raise ConfigError(
                    f"model.{key} names {unknown[0]}, which this model does not have.\nIt has: {', '.join(names)}."
                )
        for name, kept in self.kept_heads.items():
            if list(kept) != sorted(set(kept)) or max(kept, default=0) >= self.h:
                raise ConfigError(
                    f"model.kept_heads['{name}'] = {list(kept)} must be different heads from 0 to {self.h - 1}, in "
                    "order; an empty list for none."
                )
        whole = self.model_copy(update={"kept_units": {}})
        for name, count in self.kept_units.items():
            if count > whole.units(name):
                raise ConfigError(
                    f"model.kept_units['{name}'] = {count}, but the feed-forward has {whole.units(name)} units.\n"
                    "Keep fewer."
                )

    def _check_positions(self) -> None:
        if self.positions == "learned" and self.context is None:
            raise ConfigError(
                "model.positions = 'learned' needs one vector per position.\nSet model.context."
            )
        if self.positions == "rotary" and self.width_k % 2:
            raise ConfigError(
                f"model.positions = 'rotary' rotates pairs of numbers, but a head has d_k = {self.width_k}, "
                f"which is odd.\nUse an even model.d_k, such as {self.width_k + 1}, or use other positions."
            )
        widths = {self.d, self.width_encoder} if self.shape == "encoder-decoder" else {self.width_top}
        if self.positions == "sinusoidal" and any(d % 2 for d in widths):
            raise ConfigError(
                "model.positions = 'sinusoidal' needs sines and cosines in pairs, so an even width.\n"
                f"Change model.d = {self.d} (or encoder_d) to an even number."
            )
        if self.positions == "relative" and (
            self.relative_buckets % 4 or self.relative_distance <= self.relative_buckets // 2
        ):
            raise ConfigError(
                f"model.relative_buckets = {self.relative_buckets} must be a multiple of 4, and "
                f"relative_distance = {self.relative_distance} larger than half of it.\nT5 uses 32 and 128."
            )
        if self.position_offset and self.positions != "learned":
            raise ConfigError(
                f"model.position_offset = {self.position_offset} shifts a learned table, but positions = "
                f"'{self.positions}'.\nUse positions = 'learned', or omit the offset."
            )
        if self.rotary_scaling and self.positions != "rotary":
            raise ConfigError(
                f"model.rotary_scaling needs positions = 'rotary', not '{self.positions}'.\n"
                "Omit it, or use rotary."
            )

    def _check_similarity(self) -> None:
        if self.similarity == "distance" and self.positions == "rotary":
            raise ConfigError(
                "model.similarity = 'distance' has no queries and keys that rotary positions could rotate.\n"
                "Use positions = 'none'; the similarity itself depends on the distance."
            )
        if self.similarity == "distance" and self.query_key_norm:
            raise ConfigError(
                "model.similarity = 'distance' has no queries and keys to normalise.\nOmit query_key_norm."
            )
        if self.projections == "none":
            wrong = [
                f"{key} = {value}"
                for key, value, right in (
                    ("h", self.h, 1),
                    ("h_kv", self.groups, 1),
                    ("d_k", self.width_k, self.d),
                    ("d_v", self.width_v, self.d),
                    ("encoder_d", self.width_encoder, self.d),
                    ("attention_bias", self.attention_bias, ""),
                )
                if value != right
            ]
            if wrong:
                raise ConfigError(
                    "model.projections = 'none' means q = k = v = x: one head as wide as x, and no "
                    f"matrices.\nChange {', '.join(wrong)}: set h = 1 and omit h_kv, d_k, d_v, encoder_d "
                    "and attention_bias."
                )

    def _check_norms(self) -> None:
        if self.norm == "whole" and self.shape != "encoder":
            fix = (
                "set encoder_norm = 'whole' and norm = 'layer'"
                if self.shape == "encoder-decoder"
                else "use norm = 'layer'"
            )
            raise ConfigError(
                "model.norm = 'whole' takes mean and variance over all tokens of the sequence, so a causal "
                f"stack would see the future.\nFor this shape {fix}."
            )
        if self.encoder_norm and self.shape == "decoder":
            raise ConfigError(
                f"model.encoder_norm = '{self.encoder_norm}', but shape = 'decoder' has no encoder.\nOmit it."
            )

    def _check_top(self) -> None:
        if self.shape == "encoder" and self.encoder_d not in (None, self.d):
            raise ConfigError(
                f"model.encoder_d = {self.encoder_d} differs from d = {self.d}, but shape = 'encoder' has "
                "only one stack.\nGive its width as d and omit encoder_d."
            )
        if self.encoder_d_ff and self.shape != "encoder-decoder":
            raise ConfigError(
                f"model.encoder_d_ff = {self.encoder_d_ff} is for shape = 'encoder-decoder'.\nUse d_ff."
            )
        super()._check_top()
