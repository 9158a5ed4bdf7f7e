"""Conversion of fitted models to ONNX, for predictions without Python."""

from ._convert import to_onnx
from ._registration import register

__all__ = ["register", "to_onnx"]
