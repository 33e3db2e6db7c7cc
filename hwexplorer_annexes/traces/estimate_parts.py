"""Names of the house that this annex uses."""

from hwexplorer.extend import causes as causes_module
from hwexplorer.extend import demand, runtime, runtime_choice
from hwexplorer.extend import execute as execute_module
from hwexplorer.extend import text as text_module

CAUSES = causes_module.CAUSES
LAUNCH = causes_module.LAUNCH
causes = causes_module.causes
OpClass = demand.OpClass
BOUNDS = execute_module.BOUNDS
execute = execute_module.execute
percent = text_module.percent
quantity = text_module.quantity
AUTO = runtime.AUTO
find_runtime = runtime_choice.find_runtime
