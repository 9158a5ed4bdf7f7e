"""Conversion of fitted models to ONNX, for predictions without Python."""

from ._convert import register, to_onnx

__all__ = ["register", "to_onnx"]
