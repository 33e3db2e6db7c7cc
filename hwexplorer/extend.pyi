# The face of the house: all that annexes and plug-ins of others import. extend.py loads a name at its first use.

# Models, for readers.
from analysis.model import model_errors as model_errors, reading_budget as reading_budget
from analysis.model.ir import operator_graph as operator_graph, poly as poly, workload as workload
from analysis.model.ir.workload import KINDS as KINDS
from analysis.model.lowering.graph_lowering import lower_graph as lower_graph
from analysis.model.names.targets import Input as Input
from analysis.model.operators import contractions as contractions, cost_rules as cost_rules

# Work in a subprocess under limits.
from analysis.model.process import child_job as child_job

# Estimates, and what is made of them.
from analysis import document as document
from analysis.estimate import causes as causes, estimate as estimate, figures as figures
from analysis.estimate.metrics import METRICS as METRICS
from analysis.estimate.scenario import Scenario as Scenario
from analysis.explore.outcome import Constraint as Constraint
from analysis.explore.grid import Ranking as Ranking, try_each as try_each
from analysis.explore import mission as mission, tuning as tuning

# Measurements, and their predictions.
from analysis.measured import predictions as predictions, tables as tables

# Devices, architectures and runtimes.
from hardware import architecture as architecture, architecture_facts as architecture_facts, demand as demand, device as device, device_catalog as device_catalog, execute as execute, precision as precision, setup as setup, what_if as what_if
from hardware.area import area as area
from hardware.device import Device as Device
from hardware.device_toml import device_toml as device_toml
from hardware.architecture_facts import Efficiency as Efficiency
from hardware.engines import runtime as runtime
from hardware.mapping import common as common
from hardware.setup import Setup as Setup

# Errors, files, numbers and words.
from hardware.base import file_access as file_access, text as text
from hardware.base.errors import RequestError as RequestError
from hardware.base.records import SourcedValue as SourcedValue, exact_value as exact_value
from hardware.base.records import group_by as group_by, memoize as memoize

# Verbs and views.
from hwexplorer import declare as declare, engine as engine, options as options, state as state
from hwexplorer.export import files as files
from hwexplorer.process import output as output
from hwexplorer.views import tree_view as tree_view
