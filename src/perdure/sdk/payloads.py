"""Payload conversion by type hints: JSON, one payload per argument and result.

The door to the files behind it: `converter` (values to payloads and back), `signature` (a whole call), `encodable` (what is wrong with a
value that has no JSON form), `readers` (how a hint is read) and `records` (types written field by field).
"""

from perdure.sdk.converter import CONVERTER, Converter
from perdure.sdk.signature import Signature

__all__ = ["CONVERTER", "Converter", "Signature"]
