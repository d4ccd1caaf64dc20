"""Codecs for payloads under their public address. Defined in `perdure.sdk.codecs`; nothing else lives here."""

from perdure.sdk.codecs import AesGcm, Chain, PayloadCodec, Zstd

__all__ = ["AesGcm", "Chain", "PayloadCodec", "Zstd"]
