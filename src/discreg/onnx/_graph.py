"""Nodes and constants of an ONNX graph, added to the container of a skl2onnx converter."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Operand = str | float | NDArray[Any]  # the name of a result, or a constant
OLDEST_OPSET = 20  # from which on strings are compared with regular expressions


class Graph:
    """Builder of nodes. Numbers are computed in double precision.

    Parameters
    ----------
    scope, container : objects
        Those of the converter.
    """

    def __init__(self, scope: Any, container: Any) -> None:
        self._scope, self._container = scope, container
        if container.target_opset < OLDEST_OPSET:
            raise ValueError(
                f"Models of discreg need an opset of at least {OLDEST_OPSET}, but target_opset is "
                f"{container.target_opset}."
            )

    def __call__(self, kind: str, *operands: Operand, domain: str = "", **attributes: Any) -> str:
        """Add a node with one output and return the name of the output."""
        name = self._scope.get_unique_variable_name(kind.lower())
        self._add(kind, operands, [name], domain, attributes)
        return str(name)

    def output(self, operand: str, variable: Any) -> None:
        """Make a result the value of an output variable of the operator."""
        from skl2onnx.common.data_types import StringTensorType, guess_proto_type

        if isinstance(variable.type, StringTensorType):
            self._add("Identity", (operand,), [variable.full_name], "", {})
        else:
            to = guess_proto_type(variable.type)
            self._add("Cast", (operand,), [variable.full_name], "", {"to": to})

    def double(self, operand: str) -> str:
        """Convert numbers to double precision."""
        from onnx import TensorProto

        return self("Cast", operand, to=TensorProto.DOUBLE)

    def reduce(self, kind: str, operand: str) -> str:
        """Reduce the columns to one, for example by "ReduceSum"."""
        return self(kind, operand, np.array([1]))

    def product(self, left: Operand, right: Operand, *offset: Operand) -> str:
        """Compute ``left @ right + offset`` of matrices.

        onnxruntime would round a number that multiplies the result of MatMul to single precision.
        """
        return self("Gemm", left, right, *offset)

    def full_match(self, texts: str, pattern: str) -> str:
        """Return which strings match a regular expression of RE2."""
        return self("RegexFullMatch", texts, pattern=pattern, op_version=OLDEST_OPSET)

    def constant(self, value: float | NDArray[Any]) -> str:
        """Add a constant: an array of its own type, or a number in double precision."""
        from onnx import TensorProto, numpy_helper

        array = np.asarray(value)
        if array.dtype.kind == "f":
            array = array.astype(np.float64, copy=False)
        name = str(self._scope.get_unique_variable_name("constant"))
        if array.dtype.kind in "OU":
            texts = [str(each).encode() for each in array]
            self._container.add_initializer(name, TensorProto.STRING, [len(texts)], texts)
        else:
            tensor = numpy_helper.from_array(np.ascontiguousarray(array))
            self._container.add_initializer(name, tensor.data_type, array.shape, tensor)
        return name

    def _add(
        self,
        kind: str,
        operands: tuple[Operand, ...],
        outputs: list[str],
        domain: str,
        attributes: dict[str, Any],
    ) -> None:
        inputs = [each if isinstance(each, str) else self.constant(each) for each in operands]
        name = self._scope.get_unique_operator_name(kind)
        self._container.add_node(kind, inputs, outputs, op_domain=domain, name=name, **attributes)
