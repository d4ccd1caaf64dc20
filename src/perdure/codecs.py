"""Codecs for payloads under their public address. Defined in `perdure.sdk`; nothing else lives here."""

from perdure.sdk.codecs import AesGcm, Chain, PayloadCodec, Zstd
from perdure.sdk.encoding import decoded

__all__ = ["AesGcm", "Chain", "PayloadCodec", "Zstd", "decoded"]
