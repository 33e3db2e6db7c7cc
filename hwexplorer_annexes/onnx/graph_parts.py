"""Names of the house that this annex uses."""

from hwexplorer.extend import model_errors, operator_graph, size_expressions, workload
from hwexplorer.extend import poly as poly_module

UnreadableError = model_errors.UnreadableError
Ref = operator_graph.Ref
Scope = operator_graph.Scope
Poly = poly_module.Poly
Size = poly_module.Size
check_size = poly_module.check_size
dim = poly_module.dim
is_negative = poly_module.is_negative
poly = poly_module.poly
product = poly_module.product
expression = size_expressions.expression
INPUT = workload.INPUT
