"""Nodes and constants of an ONNX graph, added to the container of a skl2onnx converter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Graph", "Operand"]

Operand = str | float | NDArray[Any]  # the name of a result, or a constant
OLDEST_OPSET = 13  # from which on ReduceSum takes axes as an input
AXES_AS_INPUT = 18  # from which on all reductions do


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

    def split(self, operand: str, sizes: list[int]) -> list[str]:
        """Split columns into parts of given sizes."""
        names = [self._scope.get_unique_variable_name("part") for _ in sizes]
        self._add("Split", (operand, np.array(sizes)), names, "", {"axis": 1})
        return names

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

    def integer(self, operand: str) -> str:
        """Convert to integers."""
        from onnx import TensorProto

        return self("Cast", operand, to=TensorProto.INT64)

    def reduce(self, kind: str, operand: str, *, axis: int = 1, keepdims: bool = True) -> str:
        """Reduce an axis to length 1, for example by "ReduceSum", or drop it."""
        kept = int(keepdims)
        if kind == "ReduceSum" or self._container.target_opset >= AXES_AS_INPUT:
            return self(kind, operand, np.array([axis]), keepdims=kept)
        return self(kind, operand, axes=[axis], keepdims=kept)

    def product(self, left: Operand, right: Operand, *offset: Operand) -> str:
        """Compute ``left @ right + offset`` of matrices.

        onnxruntime would round a number that multiplies the result of MatMul to single precision.
        """
        return self("Gemm", left, right, *offset)

    def for_each_row(
        self, operand: str, width: int, build: Callable[[Graph, str], str], n_results: int
    ) -> str:
        """Apply a function to the rows one by one, and stack its results.

        ``build(graph, row)`` adds the nodes of the function for a row of this width to a graph of
        their own, and returns the name of the result, a vector.
        """
        from onnx import TensorProto, helper

        inner = _RowGraph(self._scope, self._container)
        row = str(self._scope.get_unique_variable_name("row"))
        result = build(inner, row)
        body = helper.make_graph(
            inner.nodes,
            "row",
            [helper.make_tensor_value_info(row, TensorProto.DOUBLE, [width])],
            [helper.make_tensor_value_info(result, TensorProto.DOUBLE, [n_results])],
        )
        return self("Scan", operand, body=body, num_scan_inputs=1)

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
        self._add_node(kind, inputs, outputs, op_domain=domain, name=name, **attributes)

    def _add_node(self, kind: str, inputs: list[str], outputs: list[str], **options: Any) -> None:
        """Add a node with the options of `add_node` of a container."""
        self._container.add_node(kind, inputs, outputs, **options)


class _RowGraph(Graph):
    """Builder of the graph that is applied to each row; its constants are those of the model."""

    def __init__(self, scope: Any, container: Any) -> None:
        super().__init__(scope, container)
        self.nodes: list[Any] = []

    def _add_node(self, kind: str, inputs: list[str], outputs: list[str], **options: Any) -> None:
        from onnx import helper

        domain = options.pop("op_domain")
        self.nodes.append(helper.make_node(kind, inputs, outputs, domain=domain, **options))
